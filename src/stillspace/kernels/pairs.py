"""Differences of two rows, scaled: what a block of pairs of rows comes to."""

from math import isfinite, isnan

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit


@jit
def subtract_pairs(
    A: FloatArray,
    B: FloatArray,
    unit: FloatArray,
    factors: FloatArray,
    missing: float,
    holes: bool,
) -> None:
    """Write `((a − b) · (1/scale)) · factor` over A (D, b), one factor per column.

    A difference with a missing cell on either side is unknown: it sits at 0, the centre of
    differences, unless the other cell is infinite: that stays to be seen. With `holes` NaN is a
    missing cell, too; without, it stays to be seen as well. A pair whose factor is
    zero is a zero row, whatever its cells hold. Every step is element-wise and rounded once, so a
    column depends on its own two rows alone (SPEC 4 a).
    """
    D, width = A.shape
    for d in range(D):
        for i in range(width):
            a, b, factor = A[d, i], B[d, i], factors[i]
            no_a = a == missing or (holes and isnan(a))
            no_b = b == missing or (holes and isnan(b))
            unknown = (no_a and (no_b or isfinite(b))) or (no_b and isfinite(a))
            A[d, i] = 0.0 if unknown or factor == 0.0 else ((a - b) * unit[d]) * factor
