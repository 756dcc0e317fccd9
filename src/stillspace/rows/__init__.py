"""Ways to hold rows and to add a query over them."""

from stillspace.rows.memory import BLOCK_ROWS, MemoryRows, RowSum, chain_length

__all__ = ["BLOCK_ROWS", "MemoryRows", "RowSum", "chain_length"]
