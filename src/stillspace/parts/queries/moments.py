"""Second moments of rows and of their scores: of all rows, of near ones, of far ones.

Fourth moments of scores, and counts of angles, tell where on the sphere rows gather. The
scatter inside caps tells whether these rows are like the others.

A row is near a subspace if its orthogonal distance ‖Qx‖ is below `cut`, and far otherwise. Queries
that tell the two apart decide this from the same bits of ‖Qx‖, which are the row's alone. So every
row is on one side, and no other row's presence moves it to the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import cos, inf, pi, sqrt
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.modes import add_pair_products, count_angles
from stillspace.parts.queries.base import (
    UNIT_ROUNDOFF,
    Bounded,
    FromScores,
    Symmetric,
    check_point,
)

BLOCK = 256
"""Rows whose terms are added up at a time; their products fit into the second cache."""

MANY_ROWS = 2**14
"""Rows that are measured at once, and then added up in such blocks."""


@dataclass(frozen=True, slots=True)
class SecondMoment(Symmetric, Bounded):
    """`Σ xxᵀ`. Norm ‖x‖² ≤ 1; ‖xxᵀ − yyᵀ‖² = ‖x‖⁴ + ‖y‖⁴ − 2(x·y)² ≤ 2."""

    D: int
    name: ClassVar[str] = "second moment"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def side(self) -> int:
        return self.D

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:  # noqa: ARG002
        kernels.add_block(kernels.moment_terms(self.D, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:  # noqa: ARG002
        return kernels.moment_terms(self.D, out) if type(self) is SecondMoment else None


@dataclass(frozen=True, slots=True)
class ScoreMoment(Symmetric, Bounded):
    """`Σ yyᵀ`, y = Vᵀx: the second moment inside a subspace. Bounds as for `SecondMoment`."""

    D: int
    r: int
    name: ClassVar[str] = "second moment of the scores"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def side(self) -> int:
        return self.r

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`; a score vector longer than 1 is cut to 1."""
        kernels.add_block(self._stock_terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        return self._stock_terms(point, out) if type(self) is ScoreMoment else None

    def _stock_terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        more = np.zeros((*out.shape[:-2], 1))
        return kernels.Terms(kernels.SCORES, point, 0.0, out, more, inf, 0.0, inf)


@dataclass(frozen=True, slots=True)
class ScoreSquares(FromScores):
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
        return (self.r,)

    def add_measured(
        self,
        Y: FloatArray,
        distances: FloatArray,  # noqa: ARG002
        point: FloatArray,
        out: FloatArray,
    ) -> None:
        """Add the terms; a score vector longer than 1 is cut to 1."""
        check_point(point, (self.D, self.r))
        Y = Y / np.maximum(kernels.column_norms(Y), 1.0)
        out += (Y * Y).sum(axis=1)


class _Split(Bounded):
    """A sum over the rows on one side of the cut, at a basis V (D, r)."""

    __slots__ = ()
    D: int
    r: int
    cut: float

    def _measured(self, XT: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the orthogonal distances and the scores of a block."""
        check_point(point, (self.D, self.r))
        R, Y = kernels.residual_to_basis(XT, point)
        return kernels.column_norms(R), Y


@dataclass(frozen=True, slots=True)
class NearMoment(Symmetric, _Split):
    """`Σ yyᵀ` over the rows with ‖Qx‖ < cut, y = Vᵀx.

    A term is that of `ScoreMoment` or zero, so the bounds are the same: 1 and √2.
    """

    D: int
    r: int
    cut: float
    name: ClassVar[str] = "second moment of the scores of near rows"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def side(self) -> int:
        return self.r

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the block's terms to `out`; a score vector longer than 1 is cut to 1."""
        distance, Y = self._measured(XT, point)
        Y = np.where(distance < self.cut, Y / np.maximum(kernels.column_norms(Y), 1.0), 0.0)
        out += Y @ Y.T


@dataclass(frozen=True, slots=True)
class NearCost(_Split):
    """`Σ ‖Qx‖/cut` over the rows with ‖Qx‖ < cut. A number in [0, 1] per row: both bounds are 1."""

    D: int
    r: int
    cut: float
    name: ClassVar[str] = "distances of near rows"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        distance, _ = self._measured(XT, point)
        near = np.where(distance < self.cut, distance / self.cut, 0.0)
        out += np.fmin(near, 1.0).sum()


@dataclass(frozen=True, slots=True)
class FarMoment(Symmetric, _Split):
    """`Σ xxᵀ` over the rows with ‖Qx‖ ≥ cut: terms of `SecondMoment` or zero, bounds 1 and √2."""

    D: int
    r: int
    cut: float
    name: ClassVar[str] = "second moment of far rows"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def side(self) -> int:
        return self.D

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        distance, _ = self._measured(XT, point)
        far = np.where(distance < self.cut, 0.0, XT)
        out += far @ far.T


def squares(Y: FloatArray) -> FloatArray:
    """Return the products y_i y_j of each column, i ≤ j, those of i < j times √2.

    The inner product of two such columns is the squared inner product of the columns of Y, and
    the norm of one is the squared norm of its column.
    """
    first, second, weights = pairs_of(len(Y))
    return np.asarray(weights[:, None] * Y[first] * Y[second])


@cache
def pairs_of(K: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the pairs i ≤ j of K numbers as two vectors, and their weights: 1, or √2 for i < j."""
    first, second = np.triu_indices(K)
    return first, second, np.where(first == second, 1.0, sqrt(2.0))


@dataclass(frozen=True, slots=True)
class FourthMoment(Symmetric, FromScores):
    """`Σ q qᵀ`, q = squares(y)/‖y‖, y = Vᵀx: fourth moments of the directions of the scores.

    For a unit vector c, `squares(c)ᵀ Σqqᵀ squares(c) = Σ‖y‖²(c·y/‖y‖)⁴`: how many rows lie along
    c. Norm ‖q‖² = ‖y‖² ≤ 1; `‖qqᵀ − ppᵀ‖² = ‖q‖⁴ + ‖p‖⁴ − 2(q·p)² ≤ 2`, as for `SecondMoment`.
    """

    D: int
    r: int
    """Columns of the point V."""
    longest: ClassVar[int] = MANY_ROWS
    name: ClassVar[str] = "fourth moment of the scores"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def side(self) -> int:
        return self.r * (self.r + 1) // 2

    @property
    def term_error(self) -> float:
        """The last clip divides by a norm of that many squares."""
        return 2.0 * (max(self.D, self.side) + 8) * UNIT_ROUNDOFF

    def add_measured(
        self,
        Y: FloatArray,
        distances: FloatArray,  # noqa: ARG002
        point: FloatArray,
        out: FloatArray,
    ) -> None:
        """Add the terms; a vector q longer than 1 is cut to 1."""
        check_point(point, (self.D, self.r))
        add_pair_products(Y, BLOCK, out)


@dataclass(frozen=True, slots=True)
class AngleCounts(FromScores):
    """How much of the rows lies at which angle to each of m directions, in bins of equal width.

    The point (D, m) has the directions as columns, divided by a common number so that its largest
    singular value is at most 1. A row adds |z_a|, z = pointᵀx, to the bin of its angle to the
    direction a. Norm ‖z‖ ≤ 1 (what is longer is cut to 1); entries are ≥ 0, so two terms differ by
    at most √2. As the bits of z are the row's alone, no other row moves it to another bin.
    """

    D: int
    m: int
    bins: int
    """Number of bins from 0 to 180 degrees, for each direction."""
    longest: ClassVar[int] = MANY_ROWS
    name: ClassVar[str] = "angles to directions"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.m, self.bins)

    @property
    def term_error(self) -> float:
        """The clip divides by a norm of m squares, each of a sum of D products."""
        return 2.0 * (max(self.D, self.m) + 8) * UNIT_ROUNDOFF

    def add_measured(
        self,
        Y: FloatArray,
        distances: FloatArray,  # noqa: ARG002
        point: FloatArray,
        out: FloatArray,
    ) -> None:
        """Add the terms: one bin per row and direction."""
        check_point(point, (self.D, self.m))
        edges = np.full((self.m, 1 << (self.bins - 1).bit_length()), np.inf)
        edges[:, : self.bins - 1] = kernels.column_norms(point)[:, None] * _cosines(self.bins)
        count_angles(Y, edges, BLOCK, out)


@dataclass(frozen=True, slots=True)
class CapScatter(Bounded):
    """How far the rows inside caps lie from the span of all axes, in which directions.

    The point (D, 1 + m + s + k) holds a factor w in (0, 1] for each column, and for rows in these
    units: the axes u of the m caps, unit vectors; an orthonormal basis A of their span; and k
    orthonormal directions B across it. A row becomes `z = wx/‖wx‖`. It belongs to the first cap
    with u·z ≥ t. Its squared distance from the span, `q = 1 − ‖Aᵀz‖²`, is at most `1 − t²`, and
    `p = ‖Bᵀz‖²` is the part of q along B. The row adds `(q − p, p)/(1 − t²)` to its cap.

    Both numbers are ≥ 0, and their sum is at most 1 (q and p are cut to that). So the norm of a
    term is at most 1, and two terms, in whatever caps, differ by at most √2. As the bits of z and
    of its scores are the row's alone, no other row moves it into another cap.
    """

    D: int
    cosines: tuple[float, ...]
    """t of each cap, in (0, 1): a zero row is in no cap."""
    s: int
    k: int
    name: ClassVar[str] = "scatter inside caps"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Across B and along B, for each cap."""
        return (len(self.cosines), 2)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the terms: a row counts in the first cap that it is in."""
        m, end = len(self.cosines), len(self.cosines) + self.s
        check_point(point, (self.D, 1 + end + self.k))
        Z = XT * point[:, :1]
        size = kernels.column_norms(Z)
        free = size > 0.0
        Y = kernels.scores(Z, np.ascontiguousarray(point[:, 1:])) / np.where(free, size, 1.0)
        q = 1.0 - kernels.column_norms(Y[m:end]) ** 2
        p = kernels.column_norms(Y[end:]) ** 2
        for j, t in enumerate(self.cosines):
            inside = free & (Y[j] >= t)
            free &= ~inside
            largest = 1.0 - t**2
            far = np.clip(q[inside], 0.0, largest)
            along = np.fmin(p[inside], far)
            out[j, 0] += ((far - along) / largest).sum()
            out[j, 1] += (along / largest).sum()


@cache
def _cosines(bins: int) -> FloatArray:
    """Return the cosines of the inner edges, ascending: from the last bin to the first."""
    return np.array([cos(pi * k / bins) for k in range(bins - 1, 0, -1)])
