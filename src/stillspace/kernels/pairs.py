"""Differences of two rows, scaled: what a block of pairs of rows comes to."""

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
    differences. A pair whose factor is zero is a zero row, whatever its cells hold. Every step is
    element-wise and rounded once, so a column depends on its own two rows alone (SPEC 4 a).
    """
    D, b = A.shape
    for d in range(D):
        for i in range(b):
            factor = factors[pairs[i]]
            unknown = A[d, i] == missing or B[d, i] == missing or factor == 0.0
            A[d, i] = 0.0 if unknown else ((A[d, i] - B[d, i]) * unit[d]) * factor
