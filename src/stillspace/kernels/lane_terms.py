"""Terms of a block of rows, eight rows to a value: what the compiled loops add up.

A block is (D, b): rows as columns, D the number of coordinates, b a multiple of `GROUP`, the last
columns zero rows (whose terms are exactly zero). Arrays are flat. Inside one row the operations
and their order are those of `reference` and of the queries, so its term has the same bits in any
lane, block or batch; zero columns and zero coordinates that pad a shape change none of them.
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import jit, part
from stillspace.kernels.lanes import (
    LANES,
    add,
    constant,
    divide,
    finite_or_zero,
    larger,
    load,
    multiply,
    root,
    spread,
    store,
    subtract,
    transpose,
)

GROUP = 3 * LANES
"""Rows handled together: three independent chains of additions hide each other's latency."""

WIDTH = 4 * GROUP
"""Rows in a block: with its residuals it stays in the first cache up to some twenty columns."""


@jit
def gather(rows: FloatArray, D: int, chosen: IntArray, start: int, stop: int, X: FloatArray) -> int:
    """Fill `X` (D, b) with the chosen rows of an (n + 1, D) array; return b.

    Its last row is zero and fills up the block; D is a multiple of 4.
    """
    count = stop - start
    b = (count + GROUP - 1) // GROUP * GROUP
    zero = rows.size - D
    for i in range(0, b, LANES):
        at = start + i
        a0 = chosen[at] * D if at < stop else zero
        a1 = chosen[at + 1] * D if at + 1 < stop else zero
        a2 = chosen[at + 2] * D if at + 2 < stop else zero
        a3 = chosen[at + 3] * D if at + 3 < stop else zero
        a4 = chosen[at + 4] * D if at + 4 < stop else zero
        a5 = chosen[at + 5] * D if at + 5 < stop else zero
        a6 = chosen[at + 6] * D if at + 6 < stop else zero
        a7 = chosen[at + 7] * D if at + 7 < stop else zero
        for d in range(0, D, 4):
            eight = (a0 + d, a1 + d, a2 + d, a3 + d, a4 + d, a5 + d, a6 + d, a7 + d)
            transpose(rows, eight, X, d * b + i, b)
    return b


@part
def _scores(X: FloatArray, at: int, D: int, b: int, V: FloatArray, j: int, Y: FloatArray) -> None:
    """Write the components j and j + 1 of `Vᵀx` to Y (r, b); V is (r, D)."""
    zero = constant(0.0)
    for i in range(0, b, GROUP):
        y0, y1, y2, z0, z1, z2 = zero, zero, zero, zero, zero, zero
        p = at + i
        for d in range(D):
            x0, x1, x2 = load(X, p), load(X, p + 8), load(X, p + 16)
            v, w = spread(V, j * D + d), spread(V, (j + 1) * D + d)
            y0, z0 = add(y0, multiply(v, x0)), add(z0, multiply(w, x0))
            y1, z1 = add(y1, multiply(v, x1)), add(z1, multiply(w, x1))
            y2, z2 = add(y2, multiply(v, x2)), add(z2, multiply(w, x2))
            p += b
        q = j * b + i
        _store_group(Y, q, y0, y1, y2)
        _store_group(Y, q + b, z0, z1, z2)


@part
def _store_group(A: FloatArray, at: int, a0: Any, a1: Any, a2: Any) -> None:
    store(A, at, a0)
    store(A, at + 8, a1)
    store(A, at + 16, a2)


@part
def _residuals(
    X: FloatArray, at: int, D: int, b: int, V: FloatArray, j: int, Y: FloatArray,
    R: FloatArray, S: FloatArray,
) -> None:  # fmt: skip
    """Write `X − v_j y_j − v_{j+1} y_{j+1}` to R (D, b) and its squared norms to S (b)."""
    zero = constant(0.0)
    for i in range(0, b, GROUP):
        q = j * b + i
        y0, y1, y2 = load(Y, q), load(Y, q + 8), load(Y, q + 16)
        q += b
        z0, z1, z2 = load(Y, q), load(Y, q + 8), load(Y, q + 16)
        s0, s1, s2 = zero, zero, zero
        p = i
        for d in range(D):
            x0, x1, x2 = load(X, at + p), load(X, at + p + 8), load(X, at + p + 16)
            v, w = spread(V, j * D + d), spread(V, (j + 1) * D + d)
            x0 = subtract(subtract(x0, multiply(v, y0)), multiply(w, z0))
            x1 = subtract(subtract(x1, multiply(v, y1)), multiply(w, z1))
            x2 = subtract(subtract(x2, multiply(v, y2)), multiply(w, z2))
            _store_group(R, p, x0, x1, x2)
            s0, s1, s2 = (
                add(s0, multiply(x0, x0)), add(s1, multiply(x1, x1)), add(s2, multiply(x2, x2))
            )  # fmt: skip
            p += b
        _store_group(S, i, s0, s1, s2)


@part
def _scale(A: FloatArray, rows: int, b: int, S: FloatArray, N: FloatArray, floor: float) -> None:
    """Scale each column of A (rows, b) by `1 / max(s, floor)`, clipped so that s·n stays ≤ 1.

    S and N hold the squares of s and n.
    """
    one, low = constant(1.0), constant(floor)
    for i in range(0, b, LANES):
        s = root(load(S, i))
        weight = divide(one, larger(s, low))
        size = multiply(s, root(load(N, i)))
        weight = finite_or_zero(divide(weight, larger(multiply(weight, size), one)))
        for q in range(i, i + rows * b, b):
            store(A, q, multiply(load(A, q), weight))


@part
def _squares(A: FloatArray, at: int, rows: int, b: int, N: FloatArray) -> None:
    """Write the squared norms of the columns of A (rows, b) to N."""
    for i in range(0, b, LANES):
        n = constant(0.0)
        for q in range(at + i, at + i + rows * b, b):
            a = load(A, q)
            n = add(n, multiply(a, a))
        store(N, i, n)


@part
def _add_products(R: FloatArray, Y: FloatArray, D: int, r: int, b: int, sums: FloatArray) -> None:
    """Add `R Yᵀ`, lane by lane, to `sums` (r, D, LANES); r even, D a multiple of 4."""
    zero = constant(0.0)
    for j in range(0, r, 2):
        for d in range(0, D, 4):
            s0, s1, s2, s3, t0, t1, t2, t3 = zero, zero, zero, zero, zero, zero, zero, zero
            p, q = d * b, j * b
            for _ in range(0, b, LANES):
                y, z = load(Y, q), load(Y, q + b)
                x0, x1, x2, x3 = load(R, p), load(R, p + b), load(R, p + 2 * b), load(R, p + 3 * b)
                s0, t0 = add(s0, multiply(y, x0)), add(t0, multiply(z, x0))
                s1, t1 = add(s1, multiply(y, x1)), add(t1, multiply(z, x1))
                s2, t2 = add(s2, multiply(y, x2)), add(t2, multiply(z, x2))
                s3, t3 = add(s3, multiply(y, x3)), add(t3, multiply(z, x3))
                p, q = p + LANES, q + LANES
            at = (j * D + d) * LANES
            _add_four(sums, at, s0, s1, s2, s3)
            _add_four(sums, at + D * LANES, t0, t1, t2, t3)


@part
def _add_four(sums: FloatArray, at: int, a0: Any, a1: Any, a2: Any, a3: Any) -> None:
    store(sums, at, add(load(sums, at), a0))
    store(sums, at + 8, add(load(sums, at + 8), a1))
    store(sums, at + 16, add(load(sums, at + 16), a2))
    store(sums, at + 24, add(load(sums, at + 24), a3))


@jit
def add_glad(
    X: FloatArray, at: int, b: int, V: FloatArray, floor: float,
    work: tuple[FloatArray, FloatArray, FloatArray, FloatArray], sums: FloatArray,
) -> None:  # fmt: skip
    """Add GLAD's terms of the block X[at:] (D, b) at V (r, D) to `sums` (r, D, LANES).

    r is even and D a multiple of 4, by zero components and coordinates.
    """
    r, D = V.shape
    Y, R, S, N = work
    for j in range(0, r, 2):
        _scores(X, at, D, b, V, j, Y)
    source, begin = X, at
    for j in range(0, r, 2):
        _residuals(source, begin, D, b, V, j, Y, R, S)
        source, begin = R, 0
    _squares(Y, begin, r, b, N)
    _scale(Y, r, b, S, N, floor)
    _add_products(R, Y, D, r, b, sums)


@jit
def scaled_residuals(
    X: FloatArray, at: int, b: int, P: FloatArray, floor: float,
    work: tuple[FloatArray, FloatArray, FloatArray],
) -> None:  # fmt: skip
    """Write `w (I − P) x`, w as in REAPER's term, to R (D, b) for the block X[at:] (D, b).

    Coordinates of X beyond those of P are not looked at.
    """
    D = P.shape[0]
    R, S, N = work
    zero = constant(0.0)
    for i in range(0, b, GROUP):
        n0, n1, n2 = zero, zero, zero
        for d in range(D):
            s0, s1, s2 = zero, zero, zero
            p = at + i
            for e in range(D):
                v = spread(P, d * D + e)
                s0 = add(s0, multiply(v, load(X, p)))
                s1 = add(s1, multiply(v, load(X, p + 8)))
                s2 = add(s2, multiply(v, load(X, p + 16)))
                p += b
            p = d * b + i
            s0 = subtract(load(X, at + p), s0)
            s1 = subtract(load(X, at + p + 8), s1)
            s2 = subtract(load(X, at + p + 16), s2)
            _store_group(R, p, s0, s1, s2)
            n0, n1, n2 = (
                add(n0, multiply(s0, s0)), add(n1, multiply(s1, s1)), add(n2, multiply(s2, s2))
            )  # fmt: skip
        _store_group(S, i, n0, n1, n2)
    _squares(X, at, D, b, N)
    _scale(R, D, b, S, N, floor)
