"""Eight rows at a time: the one routine for scores, for residuals, and for sums of products.

A block is (D, b): rows as columns, b a multiple of 8. Arrays are flat, and a routine gets the
offsets at which its matrices begin. The number of components r is even; a component, coordinate
or row of zeros that fills up a shape changes no bit of the others: it adds and subtracts exact
zeros. Inside one row the operations and their order are those of `reference`.
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray
from stillspace.kernels.jit import part
from stillspace.kernels.lane_sums import totals
from stillspace.kernels.lanes import (
    LANES,
    add,
    constant,
    fused,
    load,
    multiply,
    spread,
    store,
    subtract,
)


@part
def scores(X: FloatArray, D: int, b: int, i: int, V: FloatArray, r: int, Y: FloatArray) -> None:
    """Write `Vᵀx` of the rows i…i + 7 to Y (r, b), coordinate after coordinate; V is (D, r)."""
    zero = constant(0.0)
    j = 0
    while j + 8 <= r:
        y0, y1, y2, y3, y4, y5, y6, y7 = zero, zero, zero, zero, zero, zero, zero, zero
        at, v = i, j
        for _ in range(D):
            x = load(X, at)
            y0 = add(y0, multiply(spread(V, v), x))
            y1 = add(y1, multiply(spread(V, v + 1), x))
            y2 = add(y2, multiply(spread(V, v + 2), x))
            y3 = add(y3, multiply(spread(V, v + 3), x))
            y4 = add(y4, multiply(spread(V, v + 4), x))
            y5 = add(y5, multiply(spread(V, v + 5), x))
            y6 = add(y6, multiply(spread(V, v + 6), x))
            y7 = add(y7, multiply(spread(V, v + 7), x))
            at, v = at + b, v + r
        at = j * b + i
        _store_four(Y, at, b, y0, y1, y2, y3)
        _store_four(Y, at + 4 * b, b, y4, y5, y6, y7)
        j += 8
    while j < r:
        y0, y1 = zero, zero
        at, v = i, j
        for _ in range(D):
            x = load(X, at)
            y0 = add(y0, multiply(spread(V, v), x))
            y1 = add(y1, multiply(spread(V, v + 1), x))
            at, v = at + b, v + r
        store(Y, j * b + i, y0)
        store(Y, j * b + b + i, y1)
        j += 2


@part
def _store_four(A: FloatArray, at: int, b: int, a0: Any, a1: Any, a2: Any, a3: Any) -> None:
    store(A, at, a0)
    store(A, at + b, a1)
    store(A, at + 2 * b, a2)
    store(A, at + 3 * b, a3)


@part
def residual(
    X: FloatArray, D: int, b: int, i: int, V: FloatArray, r: int, Y: FloatArray,
    R: FloatArray, at: int,
) -> None:  # fmt: skip
    """Write `x − V y` of the rows i…i + 7 to R[at:] (D, b), component after component.

    Every residual to a basis comes from here. r is not 0.
    """
    j, S, s, t = 0, X, i, at + i
    while j + 8 <= r:
        q = j * b + i
        y0, y1, y2, y3 = load(Y, q), load(Y, q + b), load(Y, q + 2 * b), load(Y, q + 3 * b)
        q += 4 * b
        y4, y5, y6, y7 = load(Y, q), load(Y, q + b), load(Y, q + 2 * b), load(Y, q + 3 * b)
        for d in range(D):
            x, v = load(S, s + d * b), d * r + j
            x = subtract(x, multiply(spread(V, v), y0))
            x = subtract(x, multiply(spread(V, v + 1), y1))
            x = subtract(x, multiply(spread(V, v + 2), y2))
            x = subtract(x, multiply(spread(V, v + 3), y3))
            x = subtract(x, multiply(spread(V, v + 4), y4))
            x = subtract(x, multiply(spread(V, v + 5), y5))
            x = subtract(x, multiply(spread(V, v + 6), y6))
            x = subtract(x, multiply(spread(V, v + 7), y7))
            store(R, t + d * b, x)
        j, S, s = j + 8, R, t
    while j < r:
        y0, y1 = load(Y, j * b + i), load(Y, j * b + b + i)
        for d in range(D):
            x, v = load(S, s + d * b), d * r + j
            x = subtract(x, multiply(spread(V, v), y0))
            store(R, t + d * b, subtract(x, multiply(spread(V, v + 1), y1)))
        j, S, s = j + 2, R, t


@part
def squares(A: FloatArray, at: int, rows: int, b: int) -> Any:
    """Return `Σ a²` over A[at], A[at + b], …: the squared norms of eight columns."""
    total = constant(0.0)
    for q in range(at, at + rows * b, b):
        a = load(A, q)
        total = add(total, multiply(a, a))
    return total


@part
def add_products(
    A: FloatArray, at: int, rows: int, W: FloatArray, begin: int, r: int, b: int,
    sums: FloatArray, to: int,
) -> None:  # fmt: skip
    """Add `A Wᵀ` to sums[to:], for A[at:] (rows, b), rows a multiple of 4, and W[begin:] (r, b).

    The sums are in tiles of 4 × 2, (rows/4, r/2, 2, 4). These are sums of finished terms, for
    which any order and any rounding of a matrix product will do (SPEC 4 b).
    """
    zero = constant(0.0)
    for d in range(0, rows, 4):
        for j in range(0, r, 2):
            s0, s1, s2, s3, t0, t1, t2, t3 = zero, zero, zero, zero, zero, zero, zero, zero
            p, q = at + d * b, begin + j * b
            for _ in range(0, b, LANES):
                w, u = load(W, q), load(W, q + b)
                a0, a1, a2, a3 = load(A, p), load(A, p + b), load(A, p + 2 * b), load(A, p + 3 * b)
                s0, t0 = fused(a0, w, s0), fused(a0, u, t0)
                s1, t1 = fused(a1, w, s1), fused(a1, u, t1)
                s2, t2 = fused(a2, w, s2), fused(a2, u, t2)
                s3, t3 = fused(a3, w, s3), fused(a3, u, t3)
                p, q = p + LANES, q + LANES
            store(sums, to, add(load(sums, to), totals(s0, s1, s2, s3, t0, t1, t2, t3)))
            to += 8
