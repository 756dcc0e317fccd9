"""Second moments of rows and of their scores."""

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
        out += XT @ XT.T


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
        return kernels.Terms(kernels.SCORES, point, 0.0, out, np.zeros(1), inf, 0.0, inf)


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
