"""Scores and distances of a run of blocks in one compiled call; see `jobs`, which adds terms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.calls import call
from stillspace.kernels.jit import bare
from stillspace.kernels.jobs import (
    Cells,
    Scales,
    Span,
    by_component,
    choose,
    filled,
    loader,
    near_of,
    places_of,
)
from stillspace.kernels.passes import measure
from stillspace.kernels.storage import NORM_WORK, bound_rows


class Measure(NamedTuple):
    """What a query wants to know of each row: its scores at a basis V (D, r), and its distance."""

    V: FloatArray
    near: float | None
    """As in `Terms`; None if distances are not asked for."""


class Measured:
    """Memory for scores (r, b) and distances (b) of so many rows, as compiled code fills it."""

    def __init__(self, wanted: Measure, rows: int) -> None:
        D, r = wanted.V.shape
        self.D, self.rows, self.stride = filled(D), rows, filled(rows)
        self._Y = np.empty((r, self.stride))
        self._distances = np.empty(0 if wanted.near is None else self.stride)
        near = 0.0 if wanted.near is None else near_of(wanted.V, wanted.near)
        self.basis: tuple[Any, ...] = (by_component(wanted.V, self.D), r, near)
        work = np.empty(max(self.D + 64 * (r + 1), NORM_WORK))
        self.targets: tuple[Any, ...] = (self.stride, self._distances, work)
        """What `measure` takes after the place where scores begin."""

    @property
    def scores(self) -> FloatArray:
        """Flat, filled up."""
        return self._Y.reshape(-1)

    def result(self) -> tuple[FloatArray, FloatArray]:
        """Return scores (r, b) and distances (b), or no distances."""
        return self._Y[:, : self.rows], self._distances[: self.rows]


def measured(
    XT: FloatArray, V: FloatArray, near: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return scores (r, b) and, if `near` is given, distances (b) of rows as columns (D, b)."""
    D, b = XT.shape
    found = Measured(Measure(V, near), b)
    X = np.zeros((found.stride, found.D))
    X[:b, :D] = XT.T
    run: Any = measure
    facts = places_of(*X.shape), *X.shape, *found.basis, found.scores, 0
    run(X.reshape(-1), *facts, *found.targets)
    return found.result()


@bare
def _run_measure(
    load: int, source: Any, cells: Cells, factors: Scales, span: Span, rows: IntArray,
    scales: FloatArray, places: IntArray, X: FloatArray, D: int, V: FloatArray, r: int,
    near: float, Y: FloatArray, stride: int, distances: FloatArray, work: FloatArray,
) -> None:  # fmt: skip
    """Load and measure block after block; blocks are a multiple of 8 rows."""
    c, at = cells, span.start
    while at < span.stop:
        b = (min(span.stop - at, span.block) + 7) // 8 * 8
        width = choose(span.chosen, at, span.stop, span.block, b, factors, rows, scales)
        call(load, (source, c.center, c.unit, c.missing, c.kind, rows, scales, b, X, D))
        if factors.bound >= 0.0:
            bound_rows(X, D, b, factors.bound, scales, work)
        measure(X, places, b, D, V, r, near, Y, at - span.start, stride, distances, work)
        at += width


def measure_rows(
    load: Any,
    source: tuple[Any, ...],
    wanted: Measure,
    cells: Cells,
    factors: Scales,
    span: Span,
) -> tuple[FloatArray, FloatArray]:
    """Return the scores (r, b) of stored rows, and their distances (b) if those are wanted."""
    found = Measured(wanted, span.stop - span.start)
    b = filled(min(span.block, found.rows))
    places = places_of(b, found.D)
    memory = np.empty(b, dtype=np.int64), np.empty(b), places, np.empty(found.D * b)
    run: Any = _run_measure
    run(
        loader(load, source), source, cells, factors, span, *memory, found.D, *found.basis,
        found.scores, *found.targets,
    )  # fmt: skip
    return found.result()
