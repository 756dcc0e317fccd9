"""The level of a length: near its logarithm, made of operations that are exact or rounded once.

`log2` of a library may round one way in a vector and another way beside it. The binary exponent
and mantissa of a float are its bits, so a level belongs to its row alone (SPEC 4 a).
"""

from __future__ import annotations

import numpy as np

from stillspace._typing import FloatArray

OCTAVE = 2.0**-12
"""What a level grows by when a length doubles: all levels then lie in (0, 1)."""

TOP = 1100
"""The level of an inverse length `m · 2^e`, ½ ≤ m < 1, is TOP − (e + 2m) octaves; e ≤ 1024."""


def levels(inverses: FloatArray) -> FloatArray:
    """Return the levels of rows with these inverse lengths; 0 for zero rows, whose inverse is 0.

    It grows with the length, linearly in its inverse between powers of two.
    """
    mantissa, exponent = np.frexp(inverses)
    return np.where(inverses > 0.0, (TOP - (exponent + 2.0 * mantissa)) * OCTAVE, 0.0)
