"""A run of blocks in one compiled call: rows are loaded and their terms added without Python.

Two threads that come back to the interpreter for each block spend a third of their time waiting
for each other. How rows are loaded is in `storage`, what a block adds is in `passes`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.calls import address_of, call
from stillspace.kernels.jit import jit
from stillspace.kernels.lanes import LANES
from stillspace.kernels.passes import FEW, GLAD, IRLS, NEWTON, SCORES, few, many
from stillspace.kernels.storage import AS_STORED, load_columns

_FLAT: Any = types.float64[::1]
_WHOLE, _REAL = types.int64, types.float64
_ADD = (
    _FLAT, _WHOLE, _WHOLE, _FLAT, _WHOLE, _WHOLE, _WHOLE, _REAL, _REAL, _REAL, _FLAT, _FLAT,
)  # fmt: skip
_LOAD = (
    _FLAT, _FLAT, _REAL, _WHOLE, types.int64[::1], _FLAT, _WHOLE, _FLAT, _WHOLE, _WHOLE,
)  # fmt: skip


class Terms(NamedTuple):
    """Which terms, at which basis V (D, r), and where their sums go."""

    kind: int
    V: FloatArray
    floor: float
    out: FloatArray
    """(D, r); (r, r) for the moment of the scores."""
    more: FloatArray
    """What a pass has at hand besides: the sum of distances (IRLS), the curvature (Newton)."""
    cut: float
    """Rows at this distance or farther add nothing (all but the scores)."""
    cap: float
    """Up to this distance a row's curvature counts in full (Newton)."""


class Cells(NamedTuple):
    """How cells are scaled; see `storage`."""

    center: FloatArray
    unit: FloatArray
    missing: float
    kind: int
    """AS_STORED, PLACED or FILLED of `storage`."""


class Span(NamedTuple):
    """Positions start…stop of `chosen`, or of the rows where it is empty, a block at a time."""

    chosen: IntArray
    start: int
    stop: int
    block: int


def filled(size: int, multiple: int = LANES) -> int:
    """Return the smallest multiple that is not below `size`."""
    return -(-size // multiple) * multiple


class Adder:
    """What adding blocks of at most so many rows needs; `finish` hands the sums over."""

    def __init__(self, terms: Terms, rows: int) -> None:
        self._terms = terms
        columns, wanted = terms.V.shape
        self.D, self.used = filled(columns), filled(wanted, 2)
        self._few = self.used <= FEW and terms.kind in (GLAD, NEWTON)
        D, r = self.D, FEW if self._few else max(self.used, 4)
        V = np.zeros((D, r))
        V[:columns, :wanted] = terms.V
        work = np.empty(2 * D if self._few else (2 * r + 3 + D) * filled(rows))
        self._sums = np.zeros(D * self.used + 8 + filled(wanted, 4) * self.used)
        facts = (V.reshape(-1), r, self.used, terms.kind, terms.floor, terms.cut, terms.cap)
        self.arguments: tuple[Any, ...] = (D, *facts, work, self._sums)
        """What the compiled function takes beside the rows."""

    @property
    def function(self) -> Any:
        """The compiled function."""
        return few if self._few else many

    def finish(self) -> None:
        """Add the sums to where they go."""
        terms, (columns, wanted) = self._terms, self._terms.V.shape
        D, r = self.D, self.used
        tiles, number = self._sums[: D * r], self._sums[D * r]
        products = _untiled(self._sums[D * r + 8 :], 4, r)[:wanted, :wanted]
        if terms.kind == SCORES:
            terms.out[:] += products
            return
        terms.out[:] += _untiled(tiles, 8 if self._few else 4, r)[:columns, :wanted]
        if terms.kind in (IRLS, NEWTON):
            terms.more[0] += number
        if len(terms.more) > 1:
            terms.more[1:] += products.reshape(-1)


def _untiled(tiles: FloatArray, height: int, r: int) -> FloatArray:
    """Return a matrix of r columns that is stored in tiles of `height` × 2, turned."""
    return tiles.reshape(-1, r // 2, 2, height).transpose(0, 3, 1, 2).reshape(-1, r)


@jit
def _run(
    load: int, source: Any, cells: Cells, factors: FloatArray, span: Span, rows: IntArray,
    scales: FloatArray, X: FloatArray, add: int, D: int, V: FloatArray, r: int, used: int,
    kind: int, floor: float, cut: float, cap: float, work: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Load and add block after block, by the two addresses."""
    c, at = cells, span.start
    while at < span.stop:
        width = min(span.stop - at, span.block)
        b = (width + 7) // 8 * 8
        for i in range(b):
            rows[i], scales[i] = 0, 0.0
            if i < width:
                rows[i] = span.chosen[at + i] if len(span.chosen) > 0 else at + i
                scales[i] = factors[rows[i]]
        cell = (c.center, c.unit, c.missing, c.kind)
        call(load, (source, *cell, rows, scales, b, X, 8, 8 * D + 8))
        call(add, (X, b // 8, D, V, r, used, kind, floor, cut, cap, work, sums))
        at += width


@cache
def _adder(function: Any) -> int:
    return address_of(function, _ADD)


_loaders: dict[Any, int] = {}


def _loader(load: Any, source: tuple[Any, ...]) -> int:
    """Return the address of a loader for such arrays; numba's own look at them takes longer."""
    key = (load, *((array.dtype, array.flags.num) for array in source))
    if key not in _loaders:
        kind = typeof(source)  # type: ignore[no-untyped-call]
        _loaders[key] = address_of(load, (kind, *_LOAD))
    return _loaders[key]


class RowAdder:
    """Adds the terms of runs of blocks, one run after another: the same bits as one long run."""

    def __init__(self, terms: Terms, block: int) -> None:
        b = filled(block)
        self._adder = Adder(terms, b)
        self._memory = np.empty(b, dtype=np.int64), np.empty(b), np.zeros((self._adder.D + 1) * b)

    def add(
        self, load: Any, source: tuple[Any, ...], cells: Cells, factors: FloatArray, span: Span
    ) -> None:
        """Add a run of stored rows, which the compiled function `load` turns into blocks."""
        addresses = _loader(load, source), _adder(self._adder.function)
        _run(
            addresses[0], source, cells, factors, span, *self._memory, addresses[1],
            *self._adder.arguments,
        )  # fmt: skip

    def add_block(self, XT: FloatArray) -> None:
        """Add one block of rows as columns (D, b)."""
        D, b = XT.shape
        cells = Cells(np.zeros(D), np.ones(D), np.nan, AS_STORED)
        span = Span(np.empty(0, dtype=np.int64), 0, b, b)
        self.add(load_columns, (np.ascontiguousarray(XT),), cells, np.ones(b), span)

    def finish(self) -> None:
        """Hand the sums over."""
        self._adder.finish()


def add_rows(
    load: Any,
    source: tuple[Any, ...],
    terms: Terms,
    cells: Cells,
    factors: FloatArray,
    span: Span,
) -> None:
    """Add the terms of stored rows, which the compiled function `load` turns into blocks."""
    adder = RowAdder(terms, min(span.block, span.stop - span.start))
    adder.add(load, source, cells, factors, span)
    adder.finish()


def load_rows(
    load: Any,
    source: tuple[Any, ...],
    cells: Cells,
    factors: FloatArray,
    numbers: IntArray,
    XT: FloatArray,
) -> None:
    """Fill `XT` (D, b) with the rows of these numbers, which have these factors."""
    D, width = XT.shape
    b = filled(width)
    rows, scales = np.zeros(b, dtype=np.int64), np.zeros(b)
    rows[:width], scales[:width] = numbers, factors
    X = XT if b == width and XT.flags.c_contiguous else np.empty((D, b))
    load(source, *cells, rows, scales, b, X.reshape(-1), b, 8)
    if X is not XT:
        XT[:] = X[:, :width]


def add_block(terms: Terms, XT: FloatArray) -> None:
    """Add the terms of one block of rows as columns (D, b)."""
    adder = RowAdder(terms, XT.shape[1])
    adder.add_block(XT)
    adder.finish()
