"""Gradients of the robust costs, the curvature of GLAD, and what the classic solvers sum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, prod, sqrt
from typing import Any, ClassVar, cast

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.noise import GaussianNoise, SymmetricGaussian
from stillspace.parts.queries.base import (
    PRIVATE_FLOOR,
    PRIVATE_NEAR,
    ROBUST_FLOOR,
    ROBUST_NEAR,
    UNIT_ROUNDOFF,
    Blockwise,
    Bounded,
    Query,
    Symmetric,
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
        facts = (self.floor, out, np.zeros((*out.shape[:-2], 1)), self.cut, 0.0, self.near)
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
        half = (R * clip_weights(distance, kernels.column_norms(XT), self.floor)) @ XT.T
        out += (half + half.T) / 2.0


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
        weight = clip_weights(distance, size, self.floor, self.cut)
        u = curvature_weights(distance, weight, self.cap)
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
    shape: tuple[int, ...] = field(init=False, compare=False)
    """One number for each entry of each sum."""

    def __post_init__(self) -> None:
        entries = sum([prod(query.shape) for query in self.queries])
        object.__setattr__(self, "shape", (entries,))

    @property
    def norm_bound(self) -> float:
        """The largest of the queries' bounds: the unit in which their sums are added up."""
        return max([query.norm_bound for query in self.queries])

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
        gradient, *others = cast("tuple[Any, ...]", self.queries)
        if type(gradient) is not Glad or [type(q) for q in others] not in _CURVATURES:
            return None
        D, r, floor, cut, cap = gradient.D, gradient.r, gradient.floor, gradient.cut, others[0].cap
        if any((q.D, q.r, q.floor, q.cut, q.cap) != (D, r, floor, cut, cap) for q in others):
            return None
        check_point(point, (D, r))
        direction = out[..., : D * r].reshape(*out.shape[:-1], D, r)
        facts = (floor, direction, out[..., D * r :], cut, cap, gradient.near)
        return kernels.Terms(kernels.NEWTON, point, *facts)


_CURVATURES: tuple[list[type], ...] = ([Curvature], [Curvature, CurvatureMatrix])


class _Unbounded(Blockwise):
    """Terms that no constant bounds: the classic solvers, never private.

    Their sums are flat: the direction, then the sum of distances (n times the cost at the
    point), which a pass has at hand anyway and which tells when to stop.
    """

    __slots__ = ()
    norm_bound: ClassVar[float] = inf
    difference_bound: ClassVar[float] = inf
    D: int

    @property
    def columns(self) -> int:
        """Columns of the direction."""
        return self.D

    @property
    def shape(self) -> tuple[int, ...]:
        """The direction's entries and one more."""
        return (self.D * self.columns + 1,)

    @property
    def term_error(self) -> float:
        """Of no use: there is no bound to exceed."""
        return inf

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        """Return the direction as a matrix, and the cost."""
        return released[:-1].reshape(self.D, self.columns), float(released[-1])


@dataclass(frozen=True, slots=True)
class IrlsPower(_Unbounded):
    """`Σ x (Vᵀx)ᵀ / max(‖Qx‖, floor)`: one power step on the reweighted second moment.

    With a `cut`, over the rows with ‖Qx‖ < cut: a step for the cost `mean(min(‖Qx‖, cut))`. Both
    steps minimise a quadratic above the cost that touches it at V, so neither lets it rise.
    """

    D: int
    r: int
    floor: float = ROBUST_FLOOR
    cut: float = inf
    name: ClassVar[str] = "reweighted power step"

    @property
    def columns(self) -> int:
        return self.r

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        kernels.add_block(self._stock_terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        return self._stock_terms(point, out) if type(self) is IrlsPower else None

    def _stock_terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        direction = out[..., :-1].reshape(*out.shape[:-1], self.D, self.r)
        facts = (self.floor, direction, out[..., -1:], self.cut, 0.0, ROBUST_NEAR)
        return kernels.Terms(kernels.IRLS, point, *facts)


@dataclass(frozen=True, slots=True)
class ReweightedMoment(_Unbounded):
    """`Σ xxᵀ / max(dist(x), floor)`, dist from a basis V (FMS) or a matrix P (REAPER-IRLS).

    With a `cut`, over the rows with dist < cut, as in `IrlsPower`.
    """

    D: int
    floor: float = ROBUST_FLOOR
    cut: float = inf
    name: ClassVar[str] = "reweighted second moment"

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        if point.shape[1] < self.D:
            R, _ = kernels.residual_to_basis(XT, point)
        else:
            R = kernels.residual_to_matrix(XT, point)
        distance = kernels.column_norms(R)
        weight = np.where(distance < self.cut, 1.0 / np.maximum(distance, self.floor), 0.0)
        out[:-1] += ((XT * weight) @ XT.T).ravel()
        out[-1] += np.minimum(distance, self.cut).sum()


def clip_weights(
    distance: FloatArray, size: FloatArray, floor: float, cut: float = np.inf
) -> FloatArray:
    """Return `1/max(distance, floor)`, lowered so that times `distance · size` it is at most 1.

    Zero from the distance `cut` on.
    """
    weight = 1.0 / np.maximum(distance, floor)
    weight = weight / np.maximum(weight * (distance * size), 1.0)
    weight[~(np.isfinite(weight) & (distance < cut))] = 0.0
    return weight


def curvature_weights(distance: FloatArray, weight: FloatArray, cap: float) -> FloatArray:
    """Return `weight · min(cap, distance)`, at most 1."""
    return np.asarray(np.minimum(weight * np.minimum(cap, distance), 1.0))
