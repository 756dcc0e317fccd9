"""Rows as they lie in memory, eight cells of a row to one value: the one layer below all passes.

A block X is (b, D): row after row, D filled up with zeros to a multiple of 8, b a multiple of 8.
A basis V is (r, D), component after component. Arrays are flat.

**Order inside a row.** A sum over the coordinates of a row is made in eight parts, part k of the
coordinates d ≡ k (mod 8) in ascending order; the parts are then added as neighbours:
`((p₀ + p₁) + (p₂ + p₃)) + ((p₄ + p₅) + (p₆ + p₇))`. Every operation is rounded once and none is
fused. So a row's scores and distance depend on its own cells alone (SPEC 4 a); `reference` is the
same in NumPy. Zeros that fill up a shape change no bit: they add exact zeros.
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray
from stillspace.kernels.jit import part
from stillspace.kernels.lane_sums import totals
from stillspace.kernels.lanes import (
    add,
    constant,
    fused,
    load,
    multiply,
    spread,
    store,
    subtract,
)

CHUNK = 512
"""Coordinates of four rows that are worked on at a time: they stay in the first cache."""


@part
def group_scores(
    X: FloatArray, at: int, D: int, V: FloatArray, r: int, parts: FloatArray, Y: FloatArray,
    to: int, b: int,
) -> Any:  # fmt: skip
    """Write the scores `Vᵀx` of the eight rows X[at:] to Y[to:] (r, b); return their ‖x‖².

    `parts` has 64 (r + 1) entries.
    """
    for begin in range(0, D, CHUNK):
        end = begin + CHUNK if begin + CHUNK < D else D
        for x in (at, at + 4 * D):
            p = 0 if x == at else 32
            for j in range(0, r - 1, 2):
                _add_four_by_two(X, x, D, V, j * D, begin, end, parts, p + 64 * j)
            if r % 2 == 1:
                _add_four(X, x, D, V, (r - 1) * D, begin, end, parts, p + 64 * (r - 1))
            _add_four_squares(X, x, D, begin, end, parts, p + 64 * r)
    for j in range(r):
        store(Y, to + j * b, eight_totals(parts, 64 * j))
    return eight_totals(parts, 64 * r)


@part
def eight_totals(parts: FloatArray, at: int) -> Any:
    """Return the sums of the parts of eight rows."""
    return totals(
        load(parts, at),
        load(parts, at + 8),
        load(parts, at + 16),
        load(parts, at + 24),
        load(parts, at + 32),
        load(parts, at + 40),
        load(parts, at + 48),
        load(parts, at + 56),
    )


@part
def _add_four_by_two(
    X: FloatArray, x: int, D: int, V: FloatArray, v: int, begin: int, end: int, parts: FloatArray,
    to: int,
) -> None:  # fmt: skip
    """As `_add_four`, for two components at once: each cell is loaded once for both."""
    zero = constant(0.0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    if begin > 0:
        a, b = load(parts, to), load(parts, to + 8)
        c, d = load(parts, to + 16), load(parts, to + 24)
        e, f = load(parts, to + 64), load(parts, to + 72)
        g, h = load(parts, to + 80), load(parts, to + 88)
    for k in range(begin, end, 8):
        v0, v1, at = load(V, v + k), load(V, v + D + k), x + k
        y = load(X, at)
        a, e = add(a, multiply(y, v0)), add(e, multiply(y, v1))
        y = load(X, at + D)
        b, f = add(b, multiply(y, v0)), add(f, multiply(y, v1))
        y = load(X, at + 2 * D)
        c, g = add(c, multiply(y, v0)), add(g, multiply(y, v1))
        y = load(X, at + 3 * D)
        d, h = add(d, multiply(y, v0)), add(h, multiply(y, v1))
    _store_four(parts, to, a, b, c, d)
    _store_four(parts, to + 64, e, f, g, h)


@part
def _add_four(
    X: FloatArray, x: int, D: int, V: FloatArray, v: int, begin: int, end: int, parts: FloatArray,
    to: int,
) -> None:  # fmt: skip
    """Add what the coordinates begin…end give of the inner products of four rows with V[v:]."""
    a, b, c, d = constant(0.0), constant(0.0), constant(0.0), constant(0.0)
    if begin > 0:
        a, b = load(parts, to), load(parts, to + 8)
        c, d = load(parts, to + 16), load(parts, to + 24)
    x1, x2, x3 = x + D, x + 2 * D, x + 3 * D
    for k in range(begin, end, 8):
        w = load(V, v + k)
        a = add(a, multiply(load(X, x + k), w))
        b = add(b, multiply(load(X, x1 + k), w))
        c = add(c, multiply(load(X, x2 + k), w))
        d = add(d, multiply(load(X, x3 + k), w))
    _store_four(parts, to, a, b, c, d)


@part
def _add_four_squares(
    X: FloatArray, x: int, D: int, begin: int, end: int, parts: FloatArray, to: int
) -> None:
    """Add the squares of the coordinates begin…end of four rows."""
    a, b, c, d = constant(0.0), constant(0.0), constant(0.0), constant(0.0)
    if begin > 0:
        a, b = load(parts, to), load(parts, to + 8)
        c, d = load(parts, to + 16), load(parts, to + 24)
    x1, x2, x3 = x + D, x + 2 * D, x + 3 * D
    for k in range(begin, end, 8):
        y = load(X, x + k)
        a = add(a, multiply(y, y))
        y = load(X, x1 + k)
        b = add(b, multiply(y, y))
        y = load(X, x2 + k)
        c = add(c, multiply(y, y))
        y = load(X, x3 + k)
        d = add(d, multiply(y, y))
    _store_four(parts, to, a, b, c, d)


@part
def _store_four(A: FloatArray, at: int, a: Any, b: Any, c: Any, d: Any) -> None:
    store(A, at, a)
    store(A, at + 8, b)
    store(A, at + 16, c)
    store(A, at + 24, d)


@part
def squares_of_row(X: FloatArray, x: int, D: int) -> Any:
    """Return the eight parts of the sum of squares of the row X[x:]."""
    square = constant(0.0)
    for at in range(x, x + D, 8):
        a = load(X, at)
        square = add(square, multiply(a, a))
    return square


@part
def residual(
    X: FloatArray, x: int, D: int, V: FloatArray, r: int, Y: FloatArray, y: int, b: int,
    R: FloatArray, to: int,
) -> Any:  # fmt: skip
    """Write `x − V y` to R[to:] for the row X[x:] and its scores Y[y + j b]; return its squares.

    Component after component. What is returned are the eight parts of the sum of squares.
    """
    square, d = constant(0.0), 0
    while d + 32 <= D:
        v, p = d, x + d
        e0, e1, e2, e3 = load(X, p), load(X, p + 8), load(X, p + 16), load(X, p + 24)
        for j in range(r):
            w = spread(Y, y + j * b)
            e0 = subtract(e0, multiply(load(V, v), w))
            e1 = subtract(e1, multiply(load(V, v + 8), w))
            e2 = subtract(e2, multiply(load(V, v + 16), w))
            e3 = subtract(e3, multiply(load(V, v + 24), w))
            v += D
        _store_four(R, to + d, e0, e1, e2, e3)
        square = add(add(square, multiply(e0, e0)), multiply(e1, e1))
        square = add(add(square, multiply(e2, e2)), multiply(e3, e3))
        d += 32
    while d < D:
        e0, v = load(X, x + d), d
        for j in range(r):
            e0 = subtract(e0, multiply(load(V, v), spread(Y, y + j * b)))
            v += D
        store(R, to + d, e0)
        square = add(square, multiply(e0, e0))
        d += 8
    return square


@part
def add_outer(
    X: FloatArray, D: int, b: int, W: FloatArray, w0: int, r: int, sums: FloatArray
) -> None:
    """Add `Σ w_i x_iᵀ` to `sums` (r, D), for the rows X (b, D) and their weights W[w0:] (r, b).

    r is 2, 4 or more. These are sums of finished terms, for which any order and any rounding of a
    matrix product will do (SPEC 4 b). A block is added to `sums` at once.
    """
    zero = constant(0.0)
    for d in range(0, D, 8):
        j = 0
        while j < r:
            left, w, t, p = r - j, w0 + j * b, j * D + d, d
            s0, s1, s2, s3, s4 = zero, zero, zero, zero, zero
            if left >= 5 and left not in (6, 8):
                for i in range(w, w + b):
                    x = load(X, p)
                    s0 = fused(x, spread(W, i), s0)
                    s1 = fused(x, spread(W, i + b), s1)
                    s2 = fused(x, spread(W, i + 2 * b), s2)
                    s3 = fused(x, spread(W, i + 3 * b), s3)
                    s4 = fused(x, spread(W, i + 4 * b), s4)
                    p += D
                store(sums, t + 4 * D, add(load(sums, t + 4 * D), s4))
                j += 5
            elif left >= 4:
                for i in range(w, w + b):
                    x = load(X, p)
                    s0 = fused(x, spread(W, i), s0)
                    s1 = fused(x, spread(W, i + b), s1)
                    s2 = fused(x, spread(W, i + 2 * b), s2)
                    s3 = fused(x, spread(W, i + 3 * b), s3)
                    p += D
                j += 4
            else:
                for i in range(w, w + b, 2):
                    x, y = load(X, p), load(X, p + D)
                    s0, s1 = fused(x, spread(W, i), s0), fused(x, spread(W, i + b), s1)
                    s2, s3 = fused(y, spread(W, i + 1), s2), fused(y, spread(W, i + b + 1), s3)
                    p += 2 * D
                store(sums, t, add(load(sums, t), add(s0, s2)))
                store(sums, t + D, add(load(sums, t + D), add(s1, s3)))
                j += 2
                continue
            store(sums, t, add(load(sums, t), s0))
            store(sums, t + D, add(load(sums, t + D), s1))
            store(sums, t + 2 * D, add(load(sums, t + 2 * D), s2))
            store(sums, t + 3 * D, add(load(sums, t + 3 * D), s3))


@part
def add_gram(
    A: FloatArray, a0: int, B: FloatArray, b0: int, b: int, r: int, sums: FloatArray, to: int
) -> None:
    """Add `Σ a_i b_iᵀ` to sums[to:] (r, r), for A[a0:] and B[b0:], both (r, b) with r even.

    Sums of finished terms, as in `add_outer`.
    """
    zero = constant(0.0)
    for j in range(r):
        for k in range(0, r, 2):
            s, t = zero, zero
            for i in range(0, b, 8):
                a = load(A, a0 + j * b + i)
                s = fused(a, load(B, b0 + k * b + i), s)
                t = fused(a, load(B, b0 + (k + 1) * b + i), t)
            # two sums, and zeros for the six entries behind them
            both, at = totals(s, t, zero, zero, zero, zero, zero, zero), to + j * r + k
            store(sums, at, add(load(sums, at), both))


@part
def add_symmetric(A: FloatArray, b: int, p: int, sums: FloatArray) -> None:
    """Add `A Aᵀ` to the entries of sums (p, p) on and above the diagonal, for A (p, b).

    p is a multiple of 4, b of 8; `sums` has 8 more entries, for scratch. Entries below the diagonal
    are not meant: some change. Sums of finished terms, as in `add_outer`; 2 × 4 entries at a time.
    """
    zero, end = constant(0.0), p * p
    for j in range(0, p, 2):
        for k in range(j // 4 * 4, p, 4):
            s0, s1, s2, s3, t0, t1, t2, t3 = zero, zero, zero, zero, zero, zero, zero, zero
            for i in range(0, b, 8):
                x, y = load(A, j * b + i), load(A, (j + 1) * b + i)
                z = load(A, k * b + i)
                s0, t0 = fused(x, z, s0), fused(y, z, t0)
                z = load(A, (k + 1) * b + i)
                s1, t1 = fused(x, z, s1), fused(y, z, t1)
                z = load(A, (k + 2) * b + i)
                s2, t2 = fused(x, z, s2), fused(y, z, t2)
                z = load(A, (k + 3) * b + i)
                s3, t3 = fused(x, z, s3), fused(y, z, t3)
            store(sums, end, totals(s0, s1, s2, s3, t0, t1, t2, t3))
            for m in range(4):
                sums[j * p + k + m] += sums[end + m]
                sums[(j + 1) * p + k + m] += sums[end + 4 + m]


SQUARE_ROWS = 128
"""Rows whose products are added up in registers: their cells stay in the second cache."""


@part
def add_square(X: FloatArray, b: int, D: int, sums: FloatArray) -> None:
    """Add `Σ xxᵀ` of the rows X (b, D) to the entries of `sums` (D, D) on and above the diagonal.

    Entries below the diagonal are not meant: some change. Sums of finished terms, as in
    `add_outer`; eight columns with eight others at a time.
    """
    zero = constant(0.0)
    for low in range(0, b, SQUARE_ROWS):
        high = low + SQUARE_ROWS if low + SQUARE_ROWS < b else b
        for d in range(0, D, 8):
            for e in range(d, D, 8):
                s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
                for p in range(low * D, high * D, D):
                    x, q = load(X, p + e), p + d
                    s0, s1 = fused(x, spread(X, q), s0), fused(x, spread(X, q + 1), s1)
                    s2, s3 = fused(x, spread(X, q + 2), s2), fused(x, spread(X, q + 3), s3)
                    s4, s5 = fused(x, spread(X, q + 4), s4), fused(x, spread(X, q + 5), s5)
                    s6, s7 = fused(x, spread(X, q + 6), s6), fused(x, spread(X, q + 7), s7)
                t = d * D + e
                _add_four_to(sums, t, D, s0, s1, s2, s3)
                _add_four_to(sums, t + 4 * D, D, s4, s5, s6, s7)


@part
def _add_four_to(A: FloatArray, at: int, D: int, a: Any, b: Any, c: Any, d: Any) -> None:
    store(A, at, add(load(A, at), a))
    store(A, at + D, add(load(A, at + D), b))
    store(A, at + 2 * D, add(load(A, at + 2 * D), c))
    store(A, at + 3 * D, add(load(A, at + 3 * D), d))


@part
def project_out(sums: FloatArray, V: FloatArray, D: int, r: int, work: FloatArray) -> None:
    """Turn `sums` (r, D), S say, into `S − (S Vᵀ) V`, V (r, D) of orthonormal rows.

    S Vᵀ is summed in the order of a row's scores; then component after component is subtracted.
    `work` has 8 r entries.
    """
    zero = constant(0.0)
    for k in range(r):
        for j in range(r):
            a = zero
            for d in range(0, D, 8):
                a = add(a, multiply(load(sums, k * D + d), load(V, j * D + d)))
            store(work, 8 * j, totals(a, zero, zero, zero, zero, zero, zero, zero))
        for d in range(0, D, 8):
            s = load(sums, k * D + d)
            for j in range(r):
                s = subtract(s, multiply(load(V, j * D + d), spread(work, 8 * j)))
            store(sums, k * D + d, s)
