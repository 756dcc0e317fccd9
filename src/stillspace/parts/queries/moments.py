"""Second moments of rows and of their scores: of all rows, of near ones, of far ones.

A row is near a subspace if its orthogonal distance ‖Qx‖ is below `cut`, and far otherwise. Queries
that tell the two apart decide this from the same bits of ‖Qx‖, which are the row's alone. So every
row is on one side, and no other row's presence moves it to the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.queries.base import Bounded, FromScores, Symmetric, check_point


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
