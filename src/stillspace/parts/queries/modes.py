"""Where on the sphere rows gather: fourth moments in a subspace, and angles to given directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import cos, pi, sqrt
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.modes import add_pair_products, count_angles
from stillspace.parts.queries.base import UNIT_ROUNDOFF, FromScores, Symmetric, check_point

BLOCK = 256
"""Rows whose terms are added up at a time; their products fit into the second cache."""

MANY_ROWS = 2**14
"""Rows that are measured at once, and then added up in such blocks."""


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


@cache
def _cosines(bins: int) -> FloatArray:
    """Return the cosines of the inner edges, ascending: from the last bin to the first."""
    return np.array([cos(pi * k / bins) for k in range(bins - 1, 0, -1)])
