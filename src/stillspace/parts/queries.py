"""Queries: sums of row terms, each with its two bounds (SPEC 2 and the table of SPEC 4).

Rows lie in the unit ball. A term is computed from its row and the current point alone, with
element-wise arithmetic, so that its bits do not depend on any other row; only the final addition
of finished terms may be a matrix product. `norm_bound` bounds a term's (Frobenius) norm and
`difference_bound` the difference of two terms; both are infinite for the classic solvers, whose
weights 1/‖Qx‖ no constant bounds, and which are therefore never private.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import ClassVar, Protocol

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.noise import GaussianNoise, IidGaussian, SymmetricGaussian

PRIVATE_FLOOR = 2.0**-26
"""φ of SPEC 2: the public, continuous floor of a residual in private fits."""

ROBUST_FLOOR = 2.0**-50
"""The floor without privacy: at the rounding of a residual of a unit row."""

UNIT_ROUNDOFF = 2.0**-53


class Query(Protocol):
    """A sum of row terms with bounds that are public facts."""

    name: ClassVar[str]
    norm_bound: ClassVar[float]
    difference_bound: ClassVar[float]

    @property
    def D(self) -> int:
        """Number of columns of the rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    @property
    def noise(self) -> GaussianNoise:
        """The law of the noise that hides one term."""

    @property
    def term_error(self) -> float:
        """How far rounding can carry a computed term past its exact bounds (SPEC 4)."""

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the terms of a block of rows, given as columns, to `out`."""

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        """Return what a compiled run of blocks needs to add to `out`, if there is one."""

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        """Return the direction and, where the query carries it along, the cost at the point."""


class _Terms:
    """A query whose blocks are added by `add_block`."""

    __slots__ = ()

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:  # noqa: ARG002
        """Return None: there is no compiled run of blocks."""
        return None


class _Bounded(_Terms):
    """Terms that are scaled or clipped to norm 1 as the last step of their computation."""

    __slots__ = ()
    D: int

    @property
    def term_error(self) -> float:
        """The norms behind the clip are sums of at most D squares, right to (D + 8) u."""
        return 2.0 * (self.D + 8) * UNIT_ROUNDOFF

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        """Return the release as it is."""
        return released, None


LARGEST_POINT = 1e6
"""Points are bases, matrices of H or centres in units of a radius: terms cannot overflow."""


def _check_point(point: FloatArray, shape: tuple[int, ...]) -> None:
    """Refuse a point of another shape or size: compiled kernels do not look."""
    if point.shape != shape:
        msg = f"This query is asked at a point of shape {shape}, got {point.shape}."
        raise ValueError(msg)
    if not np.max(np.abs(point)) <= LARGEST_POINT:
        msg = f"The entries of a point must be finite and at most {LARGEST_POINT:g}."
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Glad(_Bounded):
    """`Σ Qx (Vᵀx)ᵀ / max(‖Qx‖, φ)`: minus n times the gradient of GLAD at V (SPEC 2).

    Norm ≤ ‖Vᵀx‖ ≤ 1, because the first factor is at most a unit vector; two terms may be
    opposite, so their difference is ≤ 2. With a `cut` rows with ‖Qx‖ ≥ cut add nothing (RULE.md,
    "late cut"): the bounds stay, and as the bits of ‖Qx‖ are the row's alone, no other row's
    presence decides on which side of the cut it lies.
    """

    D: int
    r: int
    floor: float = PRIVATE_FLOOR
    cut: float = inf
    name: ClassVar[str] = "GLAD gradient"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 2.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(D, r)."""
        return (self.D, self.r)

    @property
    def noise(self) -> GaussianNoise:
        """Independent on all entries."""
        return IidGaussian((self.D, self.r))

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        kernels.add_block(self._stock_terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        """Return what a compiled run of blocks needs; a subclass may have other terms."""
        return self._stock_terms(point, out) if type(self) is Glad else None

    def _stock_terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        _check_point(point, (self.D, self.r))
        return kernels.Terms(kernels.GLAD, point, self.floor, out, np.zeros(1), self.cut, 0.0)


@dataclass(frozen=True, slots=True)
class Reaper(_Bounded):
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
        """(D, D), symmetric."""
        return (self.D, self.D)

    @property
    def noise(self) -> GaussianNoise:
        """Isotropic on symmetric matrices."""
        return SymmetricGaussian(self.D, self.off_diagonal_variance)

    @property
    def term_error(self) -> float:
        """The √2 needs the residual itself, not only its norm.

        A residual is right to (D + 1) u (‖P‖_F + 1), and ‖P‖_F ≤ tr P = r, also where
        eigenvalues may pass 1 (SPEC 9.13); the floor magnifies that by at most 1/φ.
        """
        return 4.0 * (self.D + 2) * (self.r + 1) * UNIT_ROUNDOFF / self.floor

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        _check_point(point, (self.D, self.D))
        R = kernels.residual_to_matrix(XT, point)
        distance = kernels.column_norms(R)
        half = (R * kernels.clip_weights(distance, kernels.column_norms(XT), self.floor)) @ XT.T
        out += (half + half.T) / 2.0


@dataclass(frozen=True, slots=True)
class SecondMoment(_Bounded):
    """`Σ xxᵀ`. Norm ‖x‖² ≤ 1; ‖xxᵀ − yyᵀ‖² = ‖x‖⁴ + ‖y‖⁴ − 2(x·y)² ≤ 2."""

    D: int
    name: ClassVar[str] = "second moment"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """(D, D), symmetric."""
        return (self.D, self.D)

    @property
    def noise(self) -> GaussianNoise:
        """Isotropic on symmetric matrices."""
        return SymmetricGaussian(self.D)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:  # noqa: ARG002
        """Add the block's terms to `out`; the point does not matter."""
        out += XT @ XT.T


@dataclass(frozen=True, slots=True)
class ScoreMoment(_Bounded):
    """`Σ yyᵀ`, y = Vᵀx: the second moment inside a subspace. Bounds as for `SecondMoment`."""

    D: int
    r: int
    name: ClassVar[str] = "second moment of the scores"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """(r, r), symmetric."""
        return (self.r, self.r)

    @property
    def noise(self) -> GaussianNoise:
        """Isotropic on symmetric matrices."""
        return SymmetricGaussian(self.r)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`; a score vector longer than 1 is cut to 1."""
        kernels.add_block(self._stock_terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        """Return what a compiled run of blocks needs; a subclass may have other terms."""
        return self._stock_terms(point, out) if type(self) is ScoreMoment else None

    def _stock_terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        return kernels.Terms(kernels.SCORES, point, 0.0, out, np.zeros(1), inf, 0.0)


@dataclass(frozen=True, slots=True)
class GladCost(_Bounded):
    """`Σ ‖Qx‖`: n times the GLAD cost at V. A number in [0, 1] a row, so both bounds are 1."""

    D: int
    r: int
    name: ClassVar[str] = "GLAD cost"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """A number."""
        return ()

    @property
    def noise(self) -> GaussianNoise:
        """One normal."""
        return IidGaussian(())

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        _check_point(point, (self.D, self.r))
        R, _ = kernels.residual_to_basis(XT, point)
        out += np.fmin(kernels.column_norms(R), 1.0).sum()


class _Curved(_Bounded):
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
        _check_point(point, (self.D, self.r))
        R, Y = kernels.residual_to_basis(XT, point)
        distance, size = kernels.column_norms(R), kernels.column_norms(Y)
        weight = kernels.clip_weights(distance, size, self.floor, self.cut)
        u = kernels.curvature_weights(distance, weight, self.cap)
        return Y / np.maximum(size, 1.0), np.minimum(size, 1.0), u


@dataclass(frozen=True, slots=True)
class Curvature(_Curved):
    """`Σ u‖y‖²`: n·c times the mean curvature. A number in [0, 1] a row, so both bounds are 1."""

    D: int
    r: int
    cap: float
    cut: float = inf
    floor: float = PRIVATE_FLOOR
    name: ClassVar[str] = "curvature"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """A number."""
        return ()

    @property
    def noise(self) -> GaussianNoise:
        """One normal."""
        return IidGaussian(())

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        _, size, u = self._weighed(XT, point)
        out += (size * size * u).sum()


@dataclass(frozen=True, slots=True)
class CurvatureMatrix(_Curved):
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
    def shape(self) -> tuple[int, ...]:
        """(r, r), symmetric."""
        return (self.r, self.r)

    @property
    def noise(self) -> GaussianNoise:
        """Isotropic on symmetric matrices."""
        return SymmetricGaussian(self.r)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        Y, _, u = self._weighed(XT, point)
        out += (Y * u) @ Y.T


@dataclass(frozen=True, slots=True)
class Joint:
    """Several queries at one point, added in one pass: their sums one after another, flat.

    It has no bounds: each query keeps its own (`stillspace.release.JointRelease`).
    """

    queries: tuple[Query, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each entry of each sum."""
        return (sum(prod(query.shape) for query in self.queries),)

    def split(self, flat: FloatArray) -> list[FloatArray]:
        """Return the sums as views of a flat array, each in its own shape."""
        ends = np.cumsum([prod(query.shape) for query in self.queries])
        parts = zip(np.split(flat, ends[:-1]), self.queries, strict=True)
        return [part.reshape(query.shape) for part, query in parts]

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
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
        _check_point(point, (D, r))
        direction = out[: D * r].reshape(D, r)
        return kernels.Terms(kernels.NEWTON, point, floor, direction, out[D * r :], cut, cap)


_CURVATURES: tuple[list[type], ...] = ([Curvature], [Curvature, CurvatureMatrix])


@dataclass(frozen=True, slots=True)
class GeometricMedian(_Bounded):
    """`Σ (x − m) / max(‖x − m‖, φ)`: unit vectors at most, so the bounds are 1 and 2.

    Rows in units of a public radius (SPEC 5), so that φ is in units of it too.
    """

    D: int
    floor: float = PRIVATE_FLOOR
    name: ClassVar[str] = "geometric median step"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 2.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(D,)."""
        return (self.D,)

    @property
    def noise(self) -> GaussianNoise:
        """Independent on all entries."""
        return IidGaussian((self.D,))

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        _check_point(point, (self.D,))
        out += kernels.unit_columns(XT - point[:, None], self.floor).sum(axis=1)


@dataclass(frozen=True, slots=True)
class MedianCost(_Bounded):
    """`Σ min(‖x − m‖/2, 1)`: half the sum of distances. A number in [0, 1]: both bounds are 1."""

    D: int
    name: ClassVar[str] = "mean distance"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """A number."""
        return ()

    @property
    def noise(self) -> GaussianNoise:
        """One normal."""
        return IidGaussian(())

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        _check_point(point, (self.D,))
        out += np.fmin(kernels.column_norms(XT - point[:, None]) / 2.0, 1.0).sum()


@dataclass(frozen=True, slots=True)
class ScoreSquares(_Bounded):
    """`Σ ((v_jᵀx)²)_j`: n times the variances along the components. Bounds as for `ScoreMoment`.

    Norm ≤ ‖Vᵀx‖² ≤ 1, and two terms have no negative entry: their difference is ≤ √2.
    """

    D: int
    r: int
    name: ClassVar[str] = "variances along the components"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """(r,)."""
        return (self.r,)

    @property
    def noise(self) -> GaussianNoise:
        """Independent on all entries."""
        return IidGaussian((self.r,))

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`; a score vector longer than 1 is cut to 1."""
        _check_point(point, (self.D, self.r))
        Y = kernels.scores(XT, point)
        Y = Y / np.maximum(kernels.column_norms(Y), 1.0)
        out += (Y * Y).sum(axis=1)


@dataclass(frozen=True, slots=True)
class DistanceCounts(_Bounded):
    """How many rows have ‖Qx‖ in each of a public row of bins: one bin a row, none a zero row.

    So a term has norm at most 1 and two terms differ by at most √2. As the bits of ‖Qx‖ are the
    row's alone, no other row's presence moves it to another bin.
    """

    D: int
    r: int
    edges: tuple[float, ...]
    """Ascending inner edges; bin i holds edges[i − 1] ≤ ‖Qx‖ < edges[i]."""
    name: ClassVar[str] = "counts of orthogonal distances"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """One more than there are inner edges."""
        return (len(self.edges) + 1,)

    @property
    def noise(self) -> GaussianNoise:
        """Independent on all entries."""
        return IidGaussian(self.shape)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        _check_point(point, (self.D, self.r))
        R, _ = kernels.residual_to_basis(XT, point)
        bins = np.searchsorted(np.array(self.edges), kernels.column_norms(R), side="right")
        out += np.bincount(bins[XT.any(axis=0)], minlength=len(self.edges) + 1)


class _Unbounded(_Terms):
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
    def noise(self) -> GaussianNoise:
        """Never drawn: no amount of it would hide a term."""
        return IidGaussian(self.shape)

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
        """r."""
        return self.r

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        kernels.add_block(self._stock_terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        """Return what a compiled run of blocks needs; a subclass may have other terms."""
        return self._stock_terms(point, out) if type(self) is IrlsPower else None

    def _stock_terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        direction = out[:-1].reshape(self.D, self.r)
        return kernels.Terms(kernels.IRLS, point, self.floor, direction, out[-1:], self.cut, 0.0)


@dataclass(frozen=True, slots=True)
class ReweightedMoment(_Unbounded):
    """`Σ xxᵀ / max(dist(x), floor)`, dist from a basis V (FMS) or a matrix P (REAPER-IRLS)."""

    D: int
    floor: float = ROBUST_FLOOR
    name: ClassVar[str] = "reweighted second moment"

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`."""
        if point.shape[1] < self.D:
            R, _ = kernels.residual_to_basis(XT, point)
        else:
            R = kernels.residual_to_matrix(XT, point)
        distance = kernels.column_norms(R)
        out[:-1] += ((XT / np.maximum(distance, self.floor)) @ XT.T).ravel()
        out[-1] += distance.sum()
