"""A run of blocks in one compiled call: rows are loaded and their terms added without Python.

Two threads that come back to the interpreter for each block spend a third of their time waiting
for each other. How rows are loaded is in `storage`, what a block adds is in `passes`.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from numba import typeof, types

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.calls import address_of, call
from stillspace.kernels.jit import bare, part
from stillspace.kernels.lanes import LANES
from stillspace.kernels.passes import (
    GLAD,
    IRLS,
    MOMENT,
    NEWTON,
    SCORES,
    add_terms,
    finish,
    mirror,
)
from stillspace.kernels.sparse import add_sparse
from stillspace.kernels.storage import AS_STORED, NORM_WORK, bound_rows, load_dense

_FLAT: Any = types.float64[::1]
_WHOLE, _REAL = types.int64, types.float64
_NUMBERS: Any = types.int64[::1]
_ADD = (
    _FLAT, _NUMBERS, _WHOLE, _FLAT, _WHOLE, _WHOLE, _FLAT, _WHOLE, _WHOLE, _WHOLE, _REAL, _REAL,
    _REAL, _REAL, _FLAT, _FLAT, _NUMBERS, _WHOLE, _WHOLE, _WHOLE, _WHOLE,
)  # fmt: skip
_LOAD = (_FLAT, _FLAT, _REAL, _WHOLE, _NUMBERS, _FLAT, _WHOLE, _FLAT, _WHOLE)

ORTHONORMAL = 2.0**-44
"""How far the inner products of a basis may be from 0 and 1 for `d² = ‖x‖² − ‖Vᵀx‖²` to be used."""


class Terms(NamedTuple):
    """Which terms, at which basis V (D, r), and where their sums go: of one job or of several."""

    kind: int
    V: FloatArray
    """Of no columns for the second moment."""
    floor: float
    out: FloatArray
    """(D, r); (r, r) for the moment of the scores; (D, D) for that of the rows. With several jobs,
    the job comes first."""
    more: FloatArray
    """What a pass has at hand besides: the sum of distances (IRLS), the curvature (Newton)."""
    cut: float
    """Rows at this distance or farther add nothing (all but the scores)."""
    cap: float
    """Up to this distance a row's curvature counts in full (Newton)."""
    near: float
    """Squared distances below this are those of computed residuals; see `passes`."""

    def of_job(self, k: int) -> Terms:
        """Return the terms of one of several jobs."""
        return self._replace(out=self.out[k], more=self.more[k])


def moment_terms(D: int, out: FloatArray) -> Terms:
    """Return the terms xxᵀ."""
    return Terms(MOMENT, np.empty((D, 0)), 0.0, out, np.empty((*out.shape[:-2], 0)), inf, 0.0, inf)


class Cells(NamedTuple):
    """How cells are scaled; see `storage`."""

    center: FloatArray
    unit: FloatArray
    missing: float
    kind: int
    """AS_STORED, PLACED or FILLED of `storage`."""


_NO_VALUES: FloatArray = np.empty(0)
_ALL_KEPT: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)


class Scales(NamedTuple):
    """What rows are multiplied by: one number each; or 1; or what their own cells tell."""

    values: FloatArray = _NO_VALUES
    """Of no entries: 1 for each row that is kept, and 0 for the others."""
    kept: npt.NDArray[np.bool_] = _ALL_KEPT
    """Of no entries: all rows."""
    bound: float = -1.0
    """If not negative, rows are put into the unit ball when they are read: `bound_rows`."""


class Span(NamedTuple):
    """Positions start…stop of `chosen`, or of the rows where it is empty, a block at a time."""

    chosen: IntArray
    start: int
    stop: int
    block: int


class Runs(NamedTuple):
    """The jobs of a pass, or some of them: positions of `chosen`, or of the rows; see `Span`."""

    chosen: IntArray
    edges: IntArray
    """(jobs, 2): where each begins, and the position past its end."""
    block: int

    @property
    def longest(self) -> int:
        """Rows in a block, at most."""
        return min(self.block, int((self.edges[:, 1] - self.edges[:, 0]).max(initial=0)))

    def spans(self) -> list[Span]:
        """Return the jobs one by one."""
        return [Span(self.chosen, a, b, self.block) for a, b in self.edges.tolist()]


def filled(size: int, multiple: int = LANES) -> int:
    """Return the smallest multiple that is not below `size`."""
    return -(-size // multiple) * multiple


def row_width(columns: int) -> int:
    """Return the cells between rows of a block: no multiple of eight cache lines.

    The cells of a column would else share a few sets of the first cache.
    """
    width = filled(columns)
    return width + LANES if width % (8 * LANES) == 0 else width


def places_of(rows: int, width: int) -> IntArray:
    """Return where rows begin that lie one after another."""
    return np.arange(0, rows * width, width)


def lines(size: int) -> FloatArray:
    """Return zeros that begin with a cache line: eight of them are then loaded from one line."""
    memory = np.zeros(size + LANES)
    first = -memory.__array_interface__["data"][0] % 64 // 8  # `.ctypes` takes longer
    return memory[first : first + size]


def filled_up(values: FloatArray) -> FloatArray:
    """Return a copy of a vector in memory of a multiple of 8 entries, the last ones 0."""
    memory = np.zeros(filled(len(values)))
    memory[: len(values)] = values
    return memory[: len(values)]


def near_of(V: FloatArray, near: float) -> float:
    """Return `near`, or infinity if the columns of V (D, r) are not orthonormal.

    A point is public or released, so this depends on no row.
    """
    products = V.T @ V
    products.flat[:: V.shape[1] + 1] -= 1.0
    return near if np.abs(products).max(initial=0.0) <= ORTHONORMAL else np.inf


def by_component(V: FloatArray, width: int) -> FloatArray:
    """Return a basis (D, r) as `tiles` take it: (r, D), filled up, flat."""
    memory = lines(V.shape[1] * width)
    memory.reshape(V.shape[1], width)[:, : len(V)] = V.T
    return memory


class SparseAdder:
    """Adds the terms of compressed sparse rows whose cells that are not stored are zeros.

    One run of blocks after another, all of the same block: the same bits as one long run.
    """

    @staticmethod
    def knows(terms: Terms, *, zeros_stay: bool) -> bool:
        """Whether these terms can be added without the cells that are not stored."""
        return zeros_stay and terms.kind != MOMENT

    def __init__(self, terms: Terms, block: int) -> None:
        (columns, self._r), self._adder = terms.V.shape, RowAdder(terms, block, loads=False)
        D, *facts, self._work = self._adder.arguments
        self._found = self._adder.sums[0]
        shape = D, filled(self._r)
        by_row, self._sums = np.zeros(shape), np.zeros(shape)
        by_row[:columns, : self._r] = terms.V
        self._facts = D, facts[0], by_row.reshape(-1), shape[1], *facts[1:]
        self._numbers = self._found[facts[2] * D :]

    def add(self, source: tuple[Any, ...], cells: Cells, factors: FloatArray, span: Span) -> None:
        """Add a run of rows: data, columns and limits."""
        run, sums = cast("Any", add_sparse), self._sums.reshape(-1)
        run(source, cells, factors, span, *self._facts, self._work, sums, self._numbers)

    def finish(self) -> None:
        """Hand the sums over."""
        by_component = self._sums[:, : self._r].T.reshape(-1)
        self._found[: by_component.size] = by_component
        self._adder.finish()


@part
def choose(
    chosen: IntArray, at: int, stop: int, block: int, b: int, factors: Scales, rows: IntArray,
    scales: FloatArray,
) -> int:  # fmt: skip
    """Write the numbers and factors of the next rows; return how many there are.

    A block is filled up with zero rows to b rows.
    """
    width = min(stop - at, block)
    for i in range(width):
        rows[i] = chosen[at + i] if len(chosen) > 0 else at + i
        if len(factors.values) > 0:
            scales[i] = factors.values[rows[i]]
        else:
            scales[i] = 1.0 if len(factors.kept) == 0 or factors.kept[rows[i]] else 0.0
    for i in range(width, b):
        rows[i], scales[i] = rows[0], 0.0
    return width


@bare
def _run(
    load: int, source: Any, first: int, row_bytes: int, cells: Cells, factors: Scales, runs: Runs,
    rows: IntArray, scales: FloatArray, places: IntArray, X: FloatArray, add: int, D: int,
    V: FloatArray, r: int, used: int, kind: int, near: float, floor: float, cut: float, cap: float,
    work: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Load and add block after block, job after job, by the two addresses."""
    c, last = cells, runs.edges[-1, 1] if row_bytes > 0 else 0  # no row is ahead of position 0
    for k in range(runs.edges.shape[0]):
        at, stop, out = runs.edges[k, 0], runs.edges[k, 1], sums[k]
        while at < stop:
            b = (min(stop - at, runs.block) + 7) // 8 * 8
            width = choose(runs.chosen, at, stop, runs.block, b, factors, rows, scales)
            call(load, (source, c.center, c.unit, c.missing, c.kind, rows, scales, b, X, D))
            if factors.bound >= 0.0:
                bound_rows(X, D, b, factors.bound, scales, work)
            at += width
            ahead = (runs.chosen, at, last, first, row_bytes)
            facts = (b, D, V, r, used, kind, near, floor, cut, cap)
            call(add, (X, places, -1, X[:0], *facts, work, out, *ahead))


@cache
def _adder(function: Any) -> int:
    return address_of(function, _ADD)


_loaders: dict[Any, int] = {}


def loader(load: Any, source: tuple[Any, ...]) -> int:
    """Return the address of a loader for such arrays; numba's own look at them takes longer."""
    key = (load, *((array.dtype, array.flags.num) for array in source))
    if key not in _loaders:
        kind = typeof(source)  # type: ignore[no-untyped-call]
        _loaders[key] = address_of(load, (kind, *_LOAD))
    return _loaders[key]


def _place(source: tuple[Any, ...]) -> tuple[int, int]:
    """Return where rows begin, and their bytes: 0 if they do not lie one by one."""
    X = source[0]
    size = X[:1].nbytes if len(source) == 1 and X.flags.c_contiguous else 0
    return X.__array_interface__["data"][0], size


class RowAdder:
    """Adds the terms of runs of blocks, one run after another: the same bits as one long run.

    Or those of several jobs at once, each with a sum of its own. `finish` hands the sums over.
    """

    def __init__(self, terms: Terms, rows: int, *, loads: bool = True) -> None:
        """Take memory for blocks of at most so many rows; for the rows themselves if it `loads`."""
        several = terms.out.ndim == 3
        self._terms = (
            terms if several else terms._replace(out=terms.out[None], more=terms.more[None])
        )
        columns, r = terms.V.shape
        self.D, self._r, self._used, b = row_width(columns), r, filled(r, 2), filled(rows)
        D, used = self.D, self._used
        near = near_of(terms.V, terms.near)
        self._projects = terms.kind in (GLAD, NEWTON) and near < np.inf
        size = D * D if terms.kind == MOMENT else used * D + filled(used * used) + 16
        room = max(4 * used * b + D + 64 * (r + 1), NORM_WORK)
        first, last = r * D, r * D + room
        memory = lines(last + len(self._terms.out) * size)
        memory[:first].reshape(r, D)[:, :columns] = terms.V.T
        self._V, work = memory[:first], memory[first:last]
        self.sums = memory[last:].reshape(-1, size)
        """One row per job."""
        height = filled(columns) if terms.kind == MOMENT else used
        facts = (self._V, r, height, terms.kind, near, terms.floor, terms.cut, terms.cap)
        self.arguments: tuple[Any, ...] = (D, *facts, work)
        """What the compiled function takes beside the rows, before the sums of a job."""
        if loads:
            places = places_of(b, D)
            self._memory = np.empty(b, dtype=np.int64), np.empty(b), places, lines(D * b)

    def add(
        self, load: Any, source: tuple[Any, ...], cells: Cells, factors: Scales, runs: Runs
    ) -> None:
        """Add runs of stored rows, which the compiled function `load` turns into blocks."""
        run: Any = _run
        run(
            loader(load, source), source, *_place(source), cells, factors, runs, *self._memory,
            _adder(add_terms), *self.arguments, self.sums,
        )  # fmt: skip

    def add_block(self, X: FloatArray) -> None:
        """Add one block of rows (b, D)."""
        b, D = X.shape
        cells = Cells(filled_up(np.zeros(D)), filled_up(np.ones(D)), np.nan, AS_STORED)
        runs = Runs(np.empty(0, dtype=np.int64), np.array([[0, b]]), b)
        self.add(load_dense, (X,), cells, Scales(), runs)

    def finish(self) -> None:
        """Add the sums to where they go."""
        terms, columns, D, r, used = self._terms, len(self._terms.V), self.D, self._r, self._used
        sums, jobs = self.sums, len(self.sums)
        if terms.kind == MOMENT:
            mirror(sums, D, terms.out)
            return
        grams = sums[:, used * D + 8 : used * D + 8 + used * used]
        products = grams.reshape(jobs, used, used)[:, :r, :r]
        if terms.kind == SCORES:
            terms.out[:] += products
            return
        if self._projects:
            finish(sums, self._V, D, r, np.empty(8 * r))
        terms.out[:] += sums[:, : r * D].reshape(jobs, r, D)[:, :, :columns].transpose(0, 2, 1)
        if terms.kind in (IRLS, NEWTON):
            terms.more[:, 0] += sums[:, used * D]
        if terms.more.shape[1] > 1:
            terms.more[:, 1:] += products.reshape(jobs, -1)


def load_rows(
    load: Any,
    source: tuple[Any, ...],
    cells: Cells,
    factors: FloatArray,
    numbers: IntArray,
    X: FloatArray,
) -> None:
    """Fill `X` (count, width) with the rows of these numbers, which have these factors.

    What is beyond their columns becomes zero. X is C-contiguous.
    """
    count, width = X.shape
    load(source, *cells, numbers, factors, count, X.reshape(-1), width)


def add_block(terms: Terms, XT: FloatArray) -> None:
    """Add the terms of one block of rows as columns (D, b)."""
    adder = RowAdder(terms, XT.shape[1])
    adder.add_block(np.ascontiguousarray(XT.T))
    adder.finish()
