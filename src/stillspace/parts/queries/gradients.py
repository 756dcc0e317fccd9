"""Gradients of the robust costs: terms that hold one row each to a unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.noise import GaussianNoise, SymmetricGaussian
from stillspace.parts.queries.base import (
    PRIVATE_FLOOR,
    PRIVATE_NEAR,
    UNIT_ROUNDOFF,
    Bounded,
    check_point,
)


@dataclass(frozen=True, slots=True)
class Glad(Bounded):
    """`Σ Qx (Vᵀx)ᵀ / max(‖Qx‖, φ)`: minus n times the gradient of GLAD at V (SPEC 2).

    Norm ≤ ‖Vᵀx‖ ≤ 1, because the first factor is at most a unit vector; two terms may be
    opposite, so their difference is ≤ 2. With a `cut` rows with ‖Qx‖ ≥ cut add nothing
    (docs/newton.md): the bounds stay, and as the bits of ‖Qx‖ are the row's alone, no other row's
    presence decides on which side of the cut it lies.
    """

    D: int
    r: int
    floor: float = PRIVATE_FLOOR
    cut: float = inf
    near: float = PRIVATE_NEAR
    """From this ‖Qx‖² on, a row's distance is that of `‖x‖² − ‖Vᵀx‖²`; below, of its residual."""
    name: ClassVar[str] = "GLAD gradient"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 2.0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.D, self.r)

    @property
    def term_error(self) -> float:
        """Above `near` the weight is that of `‖x‖² − ‖y‖²` instead of ‖Qx‖².

        The two differ by at most `e` (docs/privacy.md, "Two products"): by rounding, and as V is
        orthonormal to 2⁻⁴⁴ in each inner product. A term grows by e/(2 near).
        """
        D, r, u = self.D, self.r, UNIT_ROUNDOFF
        chain = D / 8.0 + 5.0
        e = 1.01 * u * (chain * (1.0 + 2.0 * sqrt(r)) + r + 2.0)
        e += r * (kernels.ORTHONORMAL + 1.01 * D * u)
        return 2.0 * (D + 8) * u + 1.01 * e / (2.0 * self.near)

    @property
    def summand_bound(self) -> float:
        """`w x yᵀ` is added up, and w is at most 1/√near where the row is not a residual."""
        return max(1.0, 1.001 / sqrt(self.near))

    @property
    def job_error(self) -> float:
        """Rounding of `S − V(VᵀS)`, relative to ‖S‖ (docs/privacy.md, "Two products")."""
        root = sqrt(self.r)
        chain = root * (self.D / 8.0 + 5.0) + (self.r + 2.0) * (1.0 + root)
        return 1.01 * UNIT_ROUNDOFF * chain

    def for_rows(self, count: int) -> Glad:
        """Return the query for sums whose rounding counts so many rows: with `near` large enough.

        Rounding inside jobs moves such a sum by up to 2⁻⁴³ · count/√near, which is kept below 2⁻⁹.
        This is a choice of `near` alone: what is charged is computed from it (`Release`).
        """
        near = self.near
        while count > 2.0**34 * sqrt(near) and near < 1.0:
            near *= 4.0
        return self if near == self.near else replace(self, near=near)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        kernels.add_block(self._stock_terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        return self._stock_terms(point, out) if type(self) is Glad else None

    def _stock_terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        check_point(point, (self.D, self.r))
        facts = (self.floor, out, np.zeros(1), self.cut, 0.0, self.near)
        return kernels.Terms(kernels.GLAD, point, *facts)


@dataclass(frozen=True, slots=True)
class Reaper(Bounded):
    """`Σ [(I−P)xxᵀ + xxᵀ(I−P)] / (2 max(‖(I−P)x‖, φ))`: minus n times REAPER's subgradient.

    Norm ≤ ‖u‖‖x‖ ≤ 1 with u the scaled residual. The difference of two terms is ≤ √2 for any
    symmetric P (the proof stands in SPEC 4); with the floor a term is s·T, 0 ≤ s ≤ 1, and
    ‖sT − s'T'‖² is convex in (s, s'), so its maximum lies at a corner, where it is ≤ 2.
    """

    D: int
    r: int
    floor: float = PRIVATE_FLOOR
    off_diagonal_variance: float = 0.5
    name: ClassVar[str] = "REAPER subgradient"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.D, self.D)

    @property
    def noise(self) -> GaussianNoise:
        return SymmetricGaussian(self.D, self.off_diagonal_variance)

    @property
    def term_error(self) -> float:
        """The √2 needs the residual itself, not only its norm.

        A residual is right to (D + 1) u (‖P‖_F + 1), and ‖P‖_F ≤ tr P = r, also where
        eigenvalues may pass 1 (SPEC 9.13); the floor magnifies that by at most 1/φ.
        """
        return 4.0 * (self.D + 2) * (self.r + 1) * UNIT_ROUNDOFF / self.floor

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        check_point(point, (self.D, self.D))
        R = kernels.residual_to_matrix(XT, point)
        distance = kernels.column_norms(R)
        half = (R * kernels.clip_weights(distance, kernels.column_norms(XT), self.floor)) @ XT.T
        out += (half + half.T) / 2.0
