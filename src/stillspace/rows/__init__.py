"""Ways to hold rows and to add a query over them."""

from stillspace.rows.layout import chain_length
from stillspace.rows.levels import levels
from stillspace.rows.memory import MemoryRows
from stillspace.rows.pairs import PairedRows, draw_pairs
from stillspace.rows.protocols import OnceAdded, Rows, RowSum
from stillspace.rows.regions import Caps
from stillspace.rows.stored import Scaling

__all__ = [
    "Caps",
    "MemoryRows",
    "OnceAdded",
    "PairedRows",
    "RowSum",
    "Rows",
    "Scaling",
    "chain_length",
    "draw_pairs",
    "levels",
]
