"""A sparse random projection of blocks of rows, compiled."""

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import jit


@jit
def add_projected(XT: FloatArray, target: IntArray, sign: FloatArray, out: FloatArray) -> None:
    """Add `sign[d, t] · XT[d]` to row `target[d, t]` of `out` (m, b), for all d and t in order.

    Each column of `XT` (D, b) is one row of the data: its sums are made of its own cells alone, in
    one order, so they have the same bits at any place and with any neighbours.
    """
    for d in range(XT.shape[0]):
        for t in range(target.shape[1]):
            row, factor = target[d, t], sign[d, t]
            for i in range(XT.shape[1]):
                out[row, i] += factor * XT[d, i]
