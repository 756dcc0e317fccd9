"""Counts of cells in bins, column by column."""

from __future__ import annotations

from math import isnan

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import jit


@jit
def count_cells(
    XT: FloatArray,
    columns: IntArray,
    edges: FloatArray,
    missing: float,
    counts: FloatArray,
) -> None:
    """Add 1 to one bin of each counted column, for every row; rows are the columns of XT (D, b).

    `edges` (k, m) is ascending in each row. A cell x of `columns[j]` goes to the bin with as many
    edges at or below x. A missing cell (NaN, or equal to `missing`) goes to the last bin. All
    operations are exact, so the bin depends on the cell alone.
    """
    k, m = edges.shape
    for j in range(k):
        d = columns[j]
        for i in range(XT.shape[1]):
            x = XT[d, i]
            if isnan(x) or x == missing:
                counts[j, -1] += 1.0
                continue
            low, length = 0, m
            while length > 0:
                half = length // 2
                if edges[j, low + half] <= x:
                    low += half + 1
                    length -= half + 1
                else:
                    length = half
            counts[j, low] += 1.0
