"""A run of blocks in one compiled call: rows are loaded and their terms added without Python.

Two threads that come back to the interpreter for each block spend a third of their time waiting
for each other. How rows are loaded is in `storage`, what a block adds is in `passes`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types, typeof

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.calls import address_of, call
from stillspace.kernels.jit import jit
from stillspace.kernels.lanes import LANES
from stillspace.kernels.passes import FEW, GLAD, IRLS, NEWTON, SCORES, few, many

_FLAT: Any = types.float64[::1]
_WHOLE, _REAL = types.int64, types.float64
_ADD = (
    _FLAT, _WHOLE, _WHOLE, _FLAT, _WHOLE, _WHOLE, _REAL, _REAL, _REAL, _FLAT, _FLAT,
)  # fmt: skip
_LOAD = (
    _FLAT, _FLAT, _REAL, types.boolean, types.int64[::1], _FLAT, _FLAT, _WHOLE,
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
    plain: bool


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
    """Adds blocks of at most so many rows; `finish` hands over what they came to."""

    def __init__(self, terms: Terms, rows: int) -> None:
        self._terms = terms
        columns, wanted = terms.V.shape
        self.D, self.r = filled(columns), filled(wanted, 2)
        self._few = self.r <= FEW and terms.kind in (GLAD, NEWTON)
        V = np.zeros((self.D, self.r))
        V[:columns, :wanted] = terms.V
        quads, b = filled(self.r, 4), filled(rows)
        self._work = np.empty(2 * self.D if self._few else (2 * quads + 2 + self.D) * b)
        self._sums = np.zeros(self.D * self.r + 8 + quads * self.r)
        cap = 1.0 if terms.kind == SCORES else terms.cap
        self._facts = (V.reshape(-1), self.r, terms.kind, terms.floor, terms.cut, cap)

    @property
    def function(self) -> Any:
        """The compiled function."""
        return few if self._few else many

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the compiled function takes beside the block and its shape."""
        return (*self._facts, self._work, self._sums)

    def add(self, XT: FloatArray) -> None:
        """Add the terms of a block of any width."""
        columns, width = XT.shape
        X = np.zeros((self.D, filled(width)))
        X[:columns, :width] = XT
        self.function(X.reshape(-1), *X.shape, *self.arguments)

    def finish(self) -> None:
        """Add the sums to where they go."""
        terms, (columns, wanted) = self._terms, self._terms.V.shape
        D, r = self.D, self.r
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


def add_block(terms: Terms, XT: FloatArray) -> None:
    """Add the terms of one block of rows as columns (D, b)."""
    adder = Adder(terms, XT.shape[1])
    adder.add(XT)
    adder.finish()


@jit
def _run(
    load: int, source: Any, cells: Cells, factors: FloatArray, span: Span, rows: IntArray,
    scales: FloatArray, X: FloatArray, D: int, add: int, V: FloatArray, r: int, kind: int,
    floor: float, cut: float, cap: float, work: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Load and add block after block, by the two addresses."""
    at = span.start
    while at < span.stop:
        width = span.stop - at
        if width > span.block:
            width = span.block
        b = (width + 7) // 8 * 8
        for i in range(b):
            rows[i], scales[i] = 0, 0.0
            if i < width:
                rows[i] = span.chosen[at + i] if len(span.chosen) > 0 else at + i
                scales[i] = factors[rows[i]]
        for k in range(len(cells.center) * b, D * b):
            X[k] = 0.0
        c = cells
        call(load, (source, c.center, c.unit, c.missing, c.plain, rows, scales, X, b))
        call(add, (X, D, b, V, r, kind, floor, cut, cap, work, sums))
        at += width


def add_rows(
    load: Any,
    source: tuple[Any, ...],
    terms: Terms,
    cells: Cells,
    factors: FloatArray,
    span: Span,
) -> None:
    """Add the terms of stored rows, which the compiled function `load` turns into blocks."""
    b = filled(min(span.block, span.stop - span.start))
    adder = Adder(terms, b)
    addresses = address_of(load, (typeof(source), *_LOAD)), address_of(adder.function, _ADD)
    memory = np.empty(b, dtype=np.int64), np.empty(b), np.empty(adder.D * b)
    _run(
        addresses[0], source, cells, factors, span, *memory, adder.D, addresses[1],
        *adder.arguments,
    )  # fmt: skip
    adder.finish()


def load_rows(
    load: Any,
    source: tuple[Any, ...],
    cells: Cells,
    factors: FloatArray,
    numbers: IntArray,
    XT: FloatArray,
) -> None:
    """Fill `XT` (D, b) with the rows of these numbers."""
    D, width = XT.shape
    b = filled(width)
    rows, scales = np.zeros(b, dtype=np.int64), np.zeros(b)
    rows[:width], scales[:width] = numbers, factors[numbers]
    X = XT if b == width and XT.flags.c_contiguous else np.empty((D, b))
    load(source, *cells, rows, scales, X.reshape(-1), b)
    if X is not XT:
        XT[:] = X[:, :width]
