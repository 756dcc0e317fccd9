"""Differences of two rows, scaled: what a block of pairs of rows comes to."""

from math import isfinite, isnan

from stillspace._typing import FloatArray
from stillspace.kernels.jit import bare


@bare
def subtract_pairs(
    A: FloatArray,
    B: FloatArray,
    unit: FloatArray,
    factors: FloatArray,
    missing: float,
    holes: bool,
) -> None:
    """Write `((a − b) · (1/scale)) · factor` over A (b, width), one factor per row.

    A difference with a missing cell on either side is unknown: it sits at 0, the centre of
    differences, unless the other cell is infinite: that stays to be seen. With `holes` NaN is a
    missing cell, too; without, it stays to be seen as well. A pair whose factor is
    zero is a zero row, whatever its cells hold. Every step is element-wise and rounded once, so a
    row depends on its own two rows alone (SPEC 4 a).
    """
    for i in range(len(A)):
        factor = factors[i]
        for d in range(len(unit)):
            a, b = A[i, d], B[i, d]
            no_a = a == missing or (holes and isnan(a))
            no_b = b == missing or (holes and isnan(b))
            unknown = (no_a and (no_b or isfinite(b))) or (no_b and isfinite(a))
            A[i, d] = 0.0 if unknown or factor == 0.0 else ((a - b) * unit[d]) * factor
