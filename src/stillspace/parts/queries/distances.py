"""How far rows lie from a subspace or a centre."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.queries.base import (
    PRIVATE_FLOOR,
    PRIVATE_NEAR,
    Bounded,
    FromScores,
    check_point,
)


@dataclass(frozen=True, slots=True)
class GladCost(FromScores):
    """`Σ ‖Qx‖`: n times the GLAD cost at V. A number in [0, 1] per row, so both bounds are 1."""

    D: int
    r: int
    name: ClassVar[str] = "GLAD cost"
    near: ClassVar[float | None] = PRIVATE_NEAR
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0

    def add_measured(
        self,
        Y: FloatArray,  # noqa: ARG002
        distances: FloatArray,
        point: FloatArray,
        out: FloatArray,
    ) -> None:
        check_point(point, (self.D, self.r))
        out += np.fmin(distances, 1.0).sum()


@dataclass(frozen=True, slots=True)
class DistanceCounts(Bounded):
    """How many rows have ‖Qx‖ in each of a list of public bins; a zero row counts in none.

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

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        check_point(point, (self.D, self.r))
        _, distance = kernels.measured(XT, point, PRIVATE_NEAR)
        bins = np.searchsorted(np.array(self.edges), distance, side="right")
        out += np.bincount(bins[XT.any(axis=0)], minlength=len(self.edges) + 1)


@dataclass(frozen=True, slots=True)
class ScoreCounts(Bounded):
    """How many rows have their scores Vᵀx in each cell of a grid over [−1, 1]^m, m = 1 or 2.

    Rows lie in the unit ball, so their scores lie in the grid; a score beyond it by rounding counts
    in the outermost cell. One cell per row, none for a zero row: a term has norm at most 1, and two
    terms differ by at most √2. As the bits of a score are the row's alone, no other row's presence
    moves it to another cell. With several groups a row is in one cell of one group, that of its
    label, which nothing else decides: the bounds are the same.
    """

    D: int
    m: int
    bins: int
    """Cells along each score."""
    groups: int = 1
    """Maps, one per label; rows without labels (`rows.LabelledRows`) are all in the last one."""
    name: ClassVar[str] = "map of the scores"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """(bins,) or (bins, bins), after the number of groups if there are several."""
        cells = (self.bins,) * self.m
        return cells if self.groups == 1 else (self.groups, *cells)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        check_point(point, (self.D, self.m))
        edges = np.arange(1, self.bins) * (2.0 / self.bins) - 1.0
        cells = np.searchsorted(edges, kernels.scores(XT, point), side="right")
        grid = (self.bins,) * self.m
        flat = np.ravel_multi_index(tuple(cells), grid)
        counts = np.bincount(flat[XT.any(axis=0)], minlength=self.bins**self.m)
        last = out if self.groups == 1 else out[-1]
        last += counts.reshape(grid)


@dataclass(frozen=True, slots=True)
class GeometricMedian(Bounded):
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
        return (self.D,)

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        check_point(point, (self.D,))
        from_point = XT - point[:, None] if point.any() else XT  # the same bits, and no copy
        out += kernels.unit_columns(from_point, self.floor).sum(axis=1)


@dataclass(frozen=True, slots=True)
class MedianCost(Bounded):
    """`Σ min(‖x − m‖/2, 1)`: half the sum of distances. A number in [0, 1]: both bounds are 1."""

    D: int
    name: ClassVar[str] = "mean distance"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        check_point(point, (self.D,))
        out += np.fmin(kernels.column_norms(XT - point[:, None]) / 2.0, 1.0).sum()
