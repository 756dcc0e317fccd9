"""Ways to hold rows and to add a query over them."""

from stillspace.rows.layout import chain_length
from stillspace.rows.memory import MemoryRows, RowSum
from stillspace.rows.pairs import PairedRows, draw_pairs
from stillspace.rows.stored import Scaling

__all__ = ["MemoryRows", "PairedRows", "RowSum", "Scaling", "chain_length", "draw_pairs"]
