"""Differences of two rows, scaled: what a block of pairs of rows comes to."""

from math import isfinite

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import jit


@jit
def subtract_pairs(
    A: FloatArray,
    B: FloatArray,
    pairs: IntArray,
    unit: FloatArray,
    factors: FloatArray,
    missing: float,
) -> None:
    """Write `((a − b) · (1/scale)) · factor` over A (D, b), columns being `pairs`' rows.

    A difference with a missing cell on either side is unknown: it sits at 0, the centre of
    differences, unless the other cell is not finite: that stays to be seen. A pair whose factor is
    zero is a zero row, whatever its cells hold. Every step is element-wise and rounded once, so a
    column depends on its own two rows alone (SPEC 4 a).
    """
    D, width = A.shape
    for d in range(D):
        for i in range(width):
            a, b, factor = A[d, i], B[d, i], factors[pairs[i]]
            unknown = (a == missing and isfinite(b)) or (b == missing and isfinite(a))
            A[d, i] = 0.0 if unknown or factor == 0.0 else ((a - b) * unit[d]) * factor
