"""Regions of the sphere whose rows are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.kernels import scores


@dataclass(frozen=True, slots=True, eq=False)
class Caps:
    """Spherical caps: a row x is inside if c·x ≥ t for one of the directions c.

    Whether a row is inside is decided by the bits of its own scores, which no other row touches.
    """

    directions: FloatArray
    """(D, m), unit vectors as columns."""
    cosines: FloatArray
    """(m,), positive: a zero row is in no cap."""

    def inside(self, XT: FloatArray) -> npt.NDArray[np.bool_]:
        """Tell which of the rows, given as columns, are inside."""
        return np.asarray(np.any(scores(XT, self.directions) >= self.cosines[:, None], axis=0))
