"""A sparse random projection of blocks of rows, compiled."""

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import bare


@bare
def add_projected(X: FloatArray, target: IntArray, sign: FloatArray, out: FloatArray) -> None:
    """Add `sign[d, t] · X[:, d]` to column `target[d, t]` of `out` (b, m), d and t in order.

    The sums of a row of X (b, D) are made of its own cells alone, in one order, so they have the
    same bits at any place and with any neighbours.
    """
    for i in range(X.shape[0]):
        for d in range(X.shape[1]):
            for t in range(target.shape[1]):
                out[i, target[d, t]] += sign[d, t] * X[i, d]
