"""A run of blocks in one compiled call: rows are loaded and their terms added without Python.

Two threads that come back to the interpreter for each block spend a third of their time waiting
for each other. One function for each way of storing rows; what a block adds is in `passes`.
"""

from typing import NamedTuple

import numpy as np

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.kernels.compiled import CHUNK
from stillspace.kernels.jit import jit
from stillspace.kernels.passes import (
    STORED,
    glad_block,
    irls_block,
    newton_block,
    score_block,
)
from stillspace.kernels.storage import load_columns, load_dense, load_sparse

GLAD, IRLS, SCORES, NEWTON = 0, 1, 2, 3


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
    """Rows at this distance or farther add nothing (GLAD, Newton, IRLS)."""
    cap: float
    """Up to this distance a row's curvature counts in full (Newton)."""


class Cells(NamedTuple):
    """How cells are scaled; see `storage`."""

    center: FloatArray
    unit: FloatArray
    factors: FloatArray
    missing: float
    plain: bool


class Span(NamedTuple):
    """Positions start…stop of `chosen`, or of the rows where it is empty, a block at a time."""

    chosen: IntArray
    start: int
    stop: int
    block: int


@jit
def scratch_rows(kind: int, D: int, r: int) -> int:
    """Return how many coordinates' residuals have to be kept."""
    keep: bool = kind in (GLAD, NEWTON) and r > STORED
    return D if keep else min(D, CHUNK)


@jit
def add_terms(terms: Terms, XT: FloatArray, memory: FloatArray) -> None:
    """Add what one block gives; `memory` is scratch."""
    D, b = XT.shape
    rows = scratch_rows(terms.kind, D, terms.V.shape[1])
    R = memory[: rows * b].reshape(rows, b)
    if terms.kind == GLAD:
        glad_block(XT, terms.V, terms.floor, terms.cut, R, terms.out)
    elif terms.kind == NEWTON:
        t = terms
        newton_block(XT, t.V, t.floor, t.cut, t.cap, R, t.out, t.more)
    elif terms.kind == SCORES:
        score_block(XT, terms.V, terms.out)
    else:
        terms.more[0] += irls_block(XT, terms.V, terms.floor, terms.cut, R, terms.out)


@jit
def add_dense(X: AnyArray, terms: Terms, cells: Cells, span: Span) -> None:
    """Add the terms of rows of a dense array (n, D)."""
    D, r = terms.V.shape
    block = min(span.block, span.stop - span.start)
    memory, scratch = np.empty(D * block), np.empty(scratch_rows(terms.kind, D, r) * block)
    for at in range(span.start, span.stop, span.block):
        width = min(span.block, span.stop - at)
        XT = memory[: D * width].reshape(D, width)
        c = cells
        load_dense(X, span.chosen, at, c.center, c.unit, c.factors, c.missing, c.plain, XT)
        add_terms(terms, XT, scratch)


@jit
def add_columns(columns: AnyArray, terms: Terms, cells: Cells, span: Span) -> None:
    """Add the terms of rows of an array that is stored column by column (D, n)."""
    D, r = terms.V.shape
    block = min(span.block, span.stop - span.start)
    memory, scratch = np.empty(D * block), np.empty(scratch_rows(terms.kind, D, r) * block)
    for at in range(span.start, span.stop, span.block):
        width = min(span.block, span.stop - at)
        XT = memory[: D * width].reshape(D, width)
        c = cells
        load_columns(columns, span.chosen, at, c.center, c.unit, c.factors, c.missing, c.plain, XT)
        add_terms(terms, XT, scratch)


@jit
def add_sparse(
    data: AnyArray, columns: AnyArray, limits: AnyArray, terms: Terms, cells: Cells, span: Span
) -> None:
    """Add the terms of compressed sparse rows."""
    D, r = terms.V.shape
    block = min(span.block, span.stop - span.start)
    memory, scratch = np.empty(D * block), np.empty(scratch_rows(terms.kind, D, r) * block)
    for at in range(span.start, span.stop, span.block):
        width = min(span.block, span.stop - at)
        XT = memory[: D * width].reshape(D, width)
        c = cells
        load_sparse(
            data, columns, limits, span.chosen, at, c.center, c.unit, c.factors, c.missing, XT
        )
        add_terms(terms, XT, scratch)
