"""Eight rows at a time: the one routine for scores, for residuals, and for sums of products.

A group is (D, 8): eight rows as columns. Arrays are flat, and a routine gets the offsets at which
its matrices begin. The number of components r is a multiple of 4; a component, coordinate or row of
zeros that fills up a shape changes no bit of the others: it adds and subtracts exact zeros. Inside
one row the operations and their order are those of `reference`.
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray
from stillspace.kernels.jit import part
from stillspace.kernels.lane_sums import totals
from stillspace.kernels.lanes import add, constant, fused, load, multiply, spread, store, subtract

CHUNK = 64
"""Coordinates that are worked on at a time: their part of a basis stays in the first cache."""


@part
def add_scores(
    X: FloatArray, x0: int, V: FloatArray, r: int, begin: int, end: int, Y: FloatArray, to: int
) -> None:
    """Add what the coordinates begin…end of X[x0:] (D, 8) give of `Vᵀx` to Y[to:] (r, 8)."""
    j = 0
    while j + 8 <= r:
        q, v = to + 8 * j, begin * r + j
        y0, y1, y2, y3 = load(Y, q), load(Y, q + 8), load(Y, q + 16), load(Y, q + 24)
        y4, y5, y6, y7 = load(Y, q + 32), load(Y, q + 40), load(Y, q + 48), load(Y, q + 56)
        for at in range(x0 + 8 * begin, x0 + 8 * end, 8):
            x = load(X, at)
            y0 = add(y0, multiply(spread(V, v), x))
            y1 = add(y1, multiply(spread(V, v + 1), x))
            y2 = add(y2, multiply(spread(V, v + 2), x))
            y3 = add(y3, multiply(spread(V, v + 3), x))
            y4 = add(y4, multiply(spread(V, v + 4), x))
            y5 = add(y5, multiply(spread(V, v + 5), x))
            y6 = add(y6, multiply(spread(V, v + 6), x))
            y7 = add(y7, multiply(spread(V, v + 7), x))
            v += r
        _store_four(Y, q, y0, y1, y2, y3)
        _store_four(Y, q + 32, y4, y5, y6, y7)
        j += 8
    while j < r:
        q, v = to + 8 * j, begin * r + j
        y0, y1, y2, y3 = load(Y, q), load(Y, q + 8), load(Y, q + 16), load(Y, q + 24)
        for at in range(x0 + 8 * begin, x0 + 8 * end, 8):
            x = load(X, at)
            y0 = add(y0, multiply(spread(V, v), x))
            y1 = add(y1, multiply(spread(V, v + 1), x))
            y2 = add(y2, multiply(spread(V, v + 2), x))
            y3 = add(y3, multiply(spread(V, v + 3), x))
            v += r
        _store_four(Y, q, y0, y1, y2, y3)
        j += 4


@part
def _store_four(A: FloatArray, at: int, a0: Any, a1: Any, a2: Any, a3: Any) -> None:
    store(A, at, a0)
    store(A, at + 8, a1)
    store(A, at + 16, a2)
    store(A, at + 24, a3)


@part
def residual(
    X: FloatArray, x0: int, V: FloatArray, r: int, begin: int, end: int, Y: FloatArray, y: int,
    R: FloatArray, r0: int, square: Any,
) -> Any:  # fmt: skip
    """Write the coordinates begin…end of `x − V y` to R[r0:] (D, 8); return `square` with theirs.

    x is X[x0:] (D, 8) and y is Y[y:] (r, 8). Component after component; r is not 0. Every residual
    to a basis comes from here, or from the same operations in `passes.few`.
    """
    j, S, s, before = 0, X, x0, square
    while j + 8 <= r:
        q, v = y + 8 * j, begin * r + j
        y0, y1, y2, y3 = load(Y, q), load(Y, q + 8), load(Y, q + 16), load(Y, q + 24)
        y4, y5, y6, y7 = load(Y, q + 32), load(Y, q + 40), load(Y, q + 48), load(Y, q + 56)
        square = before
        for at in range(8 * begin, 8 * end, 8):
            x = load(S, s + at)
            x = subtract(x, multiply(spread(V, v), y0))
            x = subtract(x, multiply(spread(V, v + 1), y1))
            x = subtract(x, multiply(spread(V, v + 2), y2))
            x = subtract(x, multiply(spread(V, v + 3), y3))
            x = subtract(x, multiply(spread(V, v + 4), y4))
            x = subtract(x, multiply(spread(V, v + 5), y5))
            x = subtract(x, multiply(spread(V, v + 6), y6))
            x = subtract(x, multiply(spread(V, v + 7), y7))
            store(R, r0 + at, x)
            square = add(square, multiply(x, x))
            v += r
        j, S, s = j + 8, R, r0
    while j < r:
        q, v = y + 8 * j, begin * r + j
        y0, y1, y2, y3 = load(Y, q), load(Y, q + 8), load(Y, q + 16), load(Y, q + 24)
        square = before
        for at in range(8 * begin, 8 * end, 8):
            x = load(S, s + at)
            x = subtract(x, multiply(spread(V, v), y0))
            x = subtract(x, multiply(spread(V, v + 1), y1))
            x = subtract(x, multiply(spread(V, v + 2), y2))
            x = subtract(x, multiply(spread(V, v + 3), y3))
            store(R, r0 + at, x)
            square = add(square, multiply(x, x))
            v += r
        j, S, s = j + 4, R, r0
    return square


@part
def squares(A: FloatArray, at: int, rows: int) -> Any:
    """Return `Σ a²` over the rows of A[at:] (rows, 8): the squared norms of eight columns."""
    total = constant(0.0)
    for q in range(at, at + 8 * rows, 8):
        a = load(A, q)
        total = add(total, multiply(a, a))
    return total


@part
def add_products(
    A: FloatArray, a0: int, rows: int, jump: int, B: FloatArray, b0: int, r: int, used: int,
    groups: int, sums: FloatArray, to: int,
) -> None:  # fmt: skip
    """Add `Σ A Bᵀ` over groups to sums[to:], for the first `used` rows of B, an even number.

    A[a0:] is (groups, rows, 8), a group every `jump` entries, rows a multiple of 4; B[b0:] is
    (groups, r, 8). The sums are in turned tiles of 4 × 2, (rows/4, used/2, 2, 4). These are sums of
    finished terms, for which any order and any rounding of a matrix product will do (SPEC 4 b).
    """
    zero = constant(0.0)
    for a in range(a0, a0 + 8 * rows, 32):
        for b in range(b0, b0 + 8 * used, 16):
            s0, s1, s2, s3, t0, t1, t2, t3 = zero, zero, zero, zero, zero, zero, zero, zero
            p, q = a, b
            for _ in range(groups):
                w, u = load(B, q), load(B, q + 8)
                x = load(A, p)
                s0, t0 = fused(x, w, s0), fused(x, u, t0)
                x = load(A, p + 8)
                s1, t1 = fused(x, w, s1), fused(x, u, t1)
                x = load(A, p + 16)
                s2, t2 = fused(x, w, s2), fused(x, u, t2)
                x = load(A, p + 24)
                s3, t3 = fused(x, w, s3), fused(x, u, t3)
                p, q = p + jump, q + 8 * r
            store(sums, to, add(load(sums, to), totals(s0, s1, s2, s3, t0, t1, t2, t3)))
            to += 8
