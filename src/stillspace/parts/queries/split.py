"""Rows near a subspace and rows far from it: the sums that a private certificate needs.

A row is near if its orthogonal distance ‖Qx‖ is below `cut`, and far otherwise. All three queries
decide this from the same bits of ‖Qx‖, which are the row's alone. So every row is on one side, and
no other row's presence moves it to the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.queries.base import Bounded, Symmetric, check_point


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
