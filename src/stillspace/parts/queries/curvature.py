"""The curvature of GLAD, and a gradient with its curvature in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.queries.base import (
    PRIVATE_FLOOR,
    PRIVATE_NEAR,
    Bounded,
    Query,
    Symmetric,
    check_point,
)
from stillspace.parts.queries.gradients import Glad


class _Curved(Bounded):
    """Curvature of GLAD: terms `u`, 0 ≤ u ≤ 1, times a bounded function of the scores y = Vᵀx.

    `u = min(c, d)/max(d, φ)`, zero from the cut on, d = ‖Qx‖. Then u/c ≈ 1/max(d, c), and the
    second derivative of ‖Qx‖ at V along a direction ΔV ⊥ V is about ‖ΔV y‖²/d.
    """

    __slots__ = ()
    D: int
    r: int
    cap: float
    cut: float
    floor: float

    def _weighed(
        self, XT: FloatArray, point: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the scores and their norms, both clipped to 1, and u."""
        check_point(point, (self.D, self.r))
        Y, distance = kernels.measured(XT, point, PRIVATE_NEAR)
        size = kernels.column_norms(Y)
        weight = kernels.clip_weights(distance, size, self.floor, self.cut)
        u = kernels.curvature_weights(distance, weight, self.cap)
        return Y / np.maximum(size, 1.0), np.minimum(size, 1.0), u


@dataclass(frozen=True, slots=True)
class Curvature(_Curved):
    """`Σ u‖y‖²`: n·c times the mean curvature. A number in [0, 1] per row, so both bounds are 1."""

    D: int
    r: int
    cap: float
    cut: float = inf
    floor: float = PRIVATE_FLOOR
    name: ClassVar[str] = "curvature"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        _, size, u = self._weighed(XT, point)
        out += (size * size * u).sum()


@dataclass(frozen=True, slots=True)
class CurvatureMatrix(Symmetric, _Curved):
    """`Σ u yyᵀ`. Norm u‖y‖² ≤ 1; `‖uyyᵀ − vzzᵀ‖² = u²‖y‖⁴ + v²‖z‖⁴ − 2uv(y·z)² ≤ 2`."""

    D: int
    r: int
    cap: float
    cut: float = inf
    floor: float = PRIVATE_FLOOR
    name: ClassVar[str] = "curvature matrix"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def side(self) -> int:
        return self.r

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        Y, _, u = self._weighed(XT, point)
        out += (Y * u) @ Y.T


@dataclass(frozen=True, slots=True)
class Joint:
    """Several queries at one point, added in one pass: their sums one after another, flat.

    It has no bounds: each query keeps its own (`stillspace.plans.release.JointRelease`).
    """

    queries: tuple[Query, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each entry of each sum."""
        return (sum(prod(query.shape) for query in self.queries),)

    @property
    def norm_bound(self) -> float:
        """The largest of the queries' bounds: the unit in which their sums are added up."""
        return max(query.norm_bound for query in self.queries)

    def split(self, flat: FloatArray) -> list[FloatArray]:
        """Return the sums as views of a flat array, each in its own shape."""
        parts, at = [], 0
        for query in self.queries:
            size = prod(query.shape)
            parts.append(flat[at : at + size].reshape(query.shape))
            at += size
        return parts

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        for query, part in zip(self.queries, self.split(out), strict=True):
            query.add_block(XT, point, part)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        """Return what a compiled run of blocks needs, for a gradient with its curvature.

        Compared by exact type and facts: only what the compiled pass does exactly.
        """
        gradient, *others = self.queries
        if type(gradient) is not Glad or [type(q) for q in others] not in _CURVATURES:
            return None
        D, r, floor, cut = gradient.D, gradient.r, gradient.floor, gradient.cut
        cap = getattr(others[0], "cap", 0.0)
        if any(q != type(q)(D, r, cap, cut, floor) for q in others):  # type: ignore[call-arg]
            return None
        check_point(point, (D, r))
        direction = out[: D * r].reshape(D, r)
        facts = (floor, direction, out[D * r :], cut, cap, gradient.near)
        return kernels.Terms(kernels.NEWTON, point, *facts)


_CURVATURES: tuple[list[type], ...] = ([Curvature], [Curvature, CurvatureMatrix])
