"""Centre and scale once more, without the groups that a look left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.standardiser import LARGEST_SCALE, Standardiser, kappa_of
from stillspace.plans.adaptive import Allowance
from stillspace.rows.maps import Affine


@dataclass(frozen=True, slots=True)
class UnitsAgain:
    """How a fit that found its centre and scale privately finds them again.

    A group of outliers spoils the medians and scales that are released before it is found. So they
    are released again, of the rows outside the groups: the same standardiser, in the same way.
    """

    standardiser: Standardiser
    center: bool
    """Whether the centre is released; otherwise it stays as it is."""
    scale: bool
    """Whether the scale is released."""
    holes: bool
    """Whether NaN is a missing cell."""
    first: FrozenArray | None = None
    """(2, D), centre and scale with which the look sees the rows; None before they are released."""

    def at(self, units: FloatArray) -> UnitsAgain:
        """Return this with the centre and the scale that were released first."""
        return replace(self, first=FrozenArray.of(units))

    def share(self, allowance: Allowance) -> float | None:
        """Return the part of μ² that it takes; None where the public facts say that it is vain."""
        kappa = kappa_of(allowance.mu, allowance.size, self.standardiser.D)
        rule = self.standardiser.rule
        if self.first is None or kappa < rule.least_kappa:
            return None
        return rule.share_of(kappa)

    @property
    def before(self) -> Affine:
        """The row map with which the look sees the rows."""
        assert self.first is not None
        return self._affine(*self.first.array)

    def after(self, found: FloatArray) -> tuple[Affine, npt.NDArray[np.bool_]]:
        """Return the row map with the new centre and scale, and which columns are dropped.

        A column that is not resolved this time is dropped: its first units were the group's.
        """
        assert self.first is not None
        center, scale = self.first.array
        dropped = ~np.isfinite(found[1])
        if self.center:
            center = np.where(dropped, 0.0, found[0])
        if self.scale:
            scale = np.where(dropped, LARGEST_SCALE, found[1])
        return self._affine(center, scale), dropped & self.scale

    def _affine(self, center: FloatArray, scale: FloatArray) -> Affine:
        return Affine.of(center, scale, self.standardiser.missing, holes=self.holes)
