"""Rows as they lie in memory, eight cells of a row to one value: the one layer below all passes.

A block X has b rows of D cells, D filled up with zeros to a multiple of 8, b a multiple of 8.
`places` says where each row begins: in a block that was loaded, row after row. A basis V is (r, D),
component after component. Arrays are flat.

**Order inside a row.** A sum over the coordinates of a row is made in eight parts, part k of the
coordinates d ≡ k (mod 8) in ascending order; the parts are then added as neighbours:
`((p₀ + p₁) + (p₂ + p₃)) + ((p₄ + p₅) + (p₆ + p₇))`. Every operation is rounded once and none is
fused. So a row's scores and distance depend on its own cells alone (SPEC 4 a); `reference` is the
same in NumPy. Zeros that fill up a shape change no bit: they add exact zeros.
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import MANY_REGISTERS, part
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
from stillspace.kernels.prefetch import bring_rows

CHUNK = 264
"""Coordinates of eight rows that are worked on at a time: they stay in the first cache. 256 columns
and the eight cells that keep rows apart are one chunk."""


@part
def group_scores(
    X: FloatArray, places: IntArray, i: int, D: int, V: FloatArray, r: int, squared: bool,
    parts: FloatArray, Y: FloatArray, to: int, b: int, chosen: IntArray, ahead: int, stop: int,
    each: int, first: int, row_bytes: int,
) -> Any:  # fmt: skip
    """Write the scores `Vᵀx` of eight rows, from row i on, to Y[to:] (r, b); return their ‖x‖².

    Zeros instead unless `squared`. `parts` has 64 (r + 1) entries. Meanwhile rows come nearer,
    positions ahead…stop (`bring_rows`), `each` of them in every one of `steps_of` steps.
    """
    squares = constant(0.0)
    for begin in range(0, D, CHUNK):
        end = begin + CHUNK if begin + CHUNK < D else D
        j = 0
        while MANY_REGISTERS and j + 2 <= r:
            one, other = _two_inner_products(X, places, i, D, V, j * D, begin, end, parts, 64 * j)
            store(Y, to + j * b, one)
            store(Y, to + (j + 1) * b, other)
            bring_rows(chosen, ahead, min(ahead + each, stop), first, row_bytes)
            j, ahead = j + 2, ahead + each
        while j < r:
            found = _inner_products(X, places, i, D, V, j * D, begin, end, parts, 64 * j)
            store(Y, to + j * b, found)
            bring_rows(chosen, ahead, min(ahead + each, stop), first, row_bytes)
            j, ahead = j + 1, ahead + each
        if squared:
            squares = group_squares(X, places, i, D, begin, end, parts, 64 * r)
    return squares


@part
def steps_of(D: int, r: int) -> int:
    """Return in how many steps `group_scores` goes through the components."""
    return (D + CHUNK - 1) // CHUNK * ((r + 1) // 2 if MANY_REGISTERS else r)


@part
def eight_totals(parts: FloatArray, at: int) -> Any:
    """Return the sums of the parts of eight rows."""
    a0, a1, a2, a3 = _load_four(parts, at)
    a4, a5, a6, a7 = _load_four(parts, at + 32)
    return totals(a0, a1, a2, a3, a4, a5, a6, a7)


@part
def _inner_products(
    X: FloatArray, places: IntArray, i: int, D: int, V: FloatArray, v: int, begin: int, end: int,
    parts: FloatArray, to: int,
) -> Any:  # fmt: skip
    """Return the inner products of eight rows with V[v:], as far as coordinate `end`.

    Up to `begin` they are there already, in parts[to:].
    """
    zero = constant(0.0)
    a0, a1, a2, a3, a4, a5, a6, a7 = zero, zero, zero, zero, zero, zero, zero, zero
    if begin > 0:
        a0, a1, a2, a3 = _load_four(parts, to)
        a4, a5, a6, a7 = _load_four(parts, to + 32)
    x0, x1, x2, x3, x4, x5, x6, x7 = _eight(places, i)
    for k in range(begin, end, 8):
        w = load(V, v + k)
        a0 = add(a0, multiply(load(X, x0 + k), w))
        a1 = add(a1, multiply(load(X, x1 + k), w))
        a2 = add(a2, multiply(load(X, x2 + k), w))
        a3 = add(a3, multiply(load(X, x3 + k), w))
        a4 = add(a4, multiply(load(X, x4 + k), w))
        a5 = add(a5, multiply(load(X, x5 + k), w))
        a6 = add(a6, multiply(load(X, x6 + k), w))
        a7 = add(a7, multiply(load(X, x7 + k), w))
    if end < D:
        _store_four(parts, to, a0, a1, a2, a3)
        _store_four(parts, to + 32, a4, a5, a6, a7)
    return totals(a0, a1, a2, a3, a4, a5, a6, a7)


@part
def _two_inner_products(
    X: FloatArray, places: IntArray, i: int, D: int, V: FloatArray, v: int, begin: int, end: int,
    parts: FloatArray, to: int,
) -> Any:  # fmt: skip
    """Return what `_inner_products` returns, for V[v:] and V[v + D:]; a row is loaded once."""
    zero = constant(0.0)
    a0, a1, a2, a3, a4, a5, a6, a7 = zero, zero, zero, zero, zero, zero, zero, zero
    b0, b1, b2, b3, b4, b5, b6, b7 = zero, zero, zero, zero, zero, zero, zero, zero
    if begin > 0:
        a0, a1, a2, a3 = _load_four(parts, to)
        a4, a5, a6, a7 = _load_four(parts, to + 32)
        b0, b1, b2, b3 = _load_four(parts, to + 64)
        b4, b5, b6, b7 = _load_four(parts, to + 96)
    x0, x1, x2, x3, x4, x5, x6, x7 = _eight(places, i)
    for k in range(begin, end, 8):
        w, u = load(V, v + k), load(V, v + D + k)
        y0, y1, y2, y3 = load(X, x0 + k), load(X, x1 + k), load(X, x2 + k), load(X, x3 + k)
        a0, b0 = add(a0, multiply(y0, w)), add(b0, multiply(y0, u))
        a1, b1 = add(a1, multiply(y1, w)), add(b1, multiply(y1, u))
        a2, b2 = add(a2, multiply(y2, w)), add(b2, multiply(y2, u))
        a3, b3 = add(a3, multiply(y3, w)), add(b3, multiply(y3, u))
        y0, y1, y2, y3 = load(X, x4 + k), load(X, x5 + k), load(X, x6 + k), load(X, x7 + k)
        a4, b4 = add(a4, multiply(y0, w)), add(b4, multiply(y0, u))
        a5, b5 = add(a5, multiply(y1, w)), add(b5, multiply(y1, u))
        a6, b6 = add(a6, multiply(y2, w)), add(b6, multiply(y2, u))
        a7, b7 = add(a7, multiply(y3, w)), add(b7, multiply(y3, u))
    if end < D:
        _store_four(parts, to, a0, a1, a2, a3)
        _store_four(parts, to + 32, a4, a5, a6, a7)
        _store_four(parts, to + 64, b0, b1, b2, b3)
        _store_four(parts, to + 96, b4, b5, b6, b7)
    first = totals(a0, a1, a2, a3, a4, a5, a6, a7)
    return first, totals(b0, b1, b2, b3, b4, b5, b6, b7)


@part
def group_squares(
    X: FloatArray, places: IntArray, i: int, D: int, begin: int, end: int, parts: FloatArray,
    to: int,
) -> Any:  # fmt: skip
    """Return the sums of squares of eight rows, as `_inner_products`."""
    zero = constant(0.0)
    a0, a1, a2, a3, a4, a5, a6, a7 = zero, zero, zero, zero, zero, zero, zero, zero
    if begin > 0:
        a0, a1, a2, a3 = _load_four(parts, to)
        a4, a5, a6, a7 = _load_four(parts, to + 32)
    x0, x1, x2, x3, x4, x5, x6, x7 = _eight(places, i)
    for k in range(begin, end, 8):
        y0, y1, y2, y3 = load(X, x0 + k), load(X, x1 + k), load(X, x2 + k), load(X, x3 + k)
        a0, a1 = add(a0, multiply(y0, y0)), add(a1, multiply(y1, y1))
        a2, a3 = add(a2, multiply(y2, y2)), add(a3, multiply(y3, y3))
        y0, y1, y2, y3 = load(X, x4 + k), load(X, x5 + k), load(X, x6 + k), load(X, x7 + k)
        a4, a5 = add(a4, multiply(y0, y0)), add(a5, multiply(y1, y1))
        a6, a7 = add(a6, multiply(y2, y2)), add(a7, multiply(y3, y3))
    if end < D:
        _store_four(parts, to, a0, a1, a2, a3)
        _store_four(parts, to + 32, a4, a5, a6, a7)
    return totals(a0, a1, a2, a3, a4, a5, a6, a7)


@part
def _eight(places: IntArray, i: int) -> Any:
    first = places[i], places[i + 1], places[i + 2], places[i + 3]
    return (*first, places[i + 4], places[i + 5], places[i + 6], places[i + 7])


@part
def _load_four(A: FloatArray, at: int) -> Any:
    return load(A, at), load(A, at + 8), load(A, at + 16), load(A, at + 24)


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
    while d + 24 <= D:
        v, p = d, x + d
        e0, e1, e2 = load(X, p), load(X, p + 8), load(X, p + 16)
        for j in range(r):
            w = spread(Y, y + j * b)
            e0 = subtract(e0, multiply(load(V, v), w))
            e1 = subtract(e1, multiply(load(V, v + 8), w))
            e2 = subtract(e2, multiply(load(V, v + 16), w))
            v += D
        store(R, to + d, e0)
        store(R, to + d + 8, e1)
        store(R, to + d + 16, e2)
        square = add(add(square, multiply(e0, e0)), multiply(e1, e1))
        square = add(square, multiply(e2, e2))
        d += 24
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
    X: FloatArray, places: IntArray, D: int, b: int, W: FloatArray, w0: int, r: int,
    sums: FloatArray, chosen: IntArray, ahead: int, stop: int, first: int, row_bytes: int,
) -> None:  # fmt: skip
    """Add `Σ w_i x_iᵀ` to `sums` (r, D), for the b rows X and their weights W[w0:] (r, b).

    r is 2, 4 or more. These are sums of finished terms, for which any order and any rounding of a
    matrix product will do (SPEC 4 b). A block is added to `sums` at once.
    Meanwhile rows come nearer, positions ahead…stop (`bring_rows`), one after another: all at once
    they would wait for each other.
    """
    zero, due, turns, count = constant(0.0), 0, D // 8 * ((r + 4) // 5), stop - ahead
    for d in range(0, D, 8):
        j = 0
        while j < r:
            due += count
            while due >= turns and ahead < stop:
                bring_rows(chosen, ahead, ahead + 1, first, row_bytes)
                ahead, due = ahead + 1, due - turns
            left, w, t = r - j, w0 + j * b, j * D + d
            s0, s1, s2, s3, s4 = zero, zero, zero, zero, zero
            if left >= 5 and left not in (6, 8):
                for k in range(b):
                    x, i = load(X, places[k] + d), w + k
                    s0 = fused(x, spread(W, i), s0)
                    s1 = fused(x, spread(W, i + b), s1)
                    s2 = fused(x, spread(W, i + 2 * b), s2)
                    s3 = fused(x, spread(W, i + 3 * b), s3)
                    s4 = fused(x, spread(W, i + 4 * b), s4)
                store(sums, t + 4 * D, add(load(sums, t + 4 * D), s4))
                j += 5
            elif left >= 4:
                for k in range(b):
                    x, i = load(X, places[k] + d), w + k
                    s0 = fused(x, spread(W, i), s0)
                    s1 = fused(x, spread(W, i + b), s1)
                    s2 = fused(x, spread(W, i + 2 * b), s2)
                    s3 = fused(x, spread(W, i + 3 * b), s3)
                j += 4
            else:
                for k in range(0, b, 2):
                    x, y, i = load(X, places[k] + d), load(X, places[k + 1] + d), w + k
                    s0, s1 = fused(x, spread(W, i), s0), fused(x, spread(W, i + b), s1)
                    s2, s3 = fused(y, spread(W, i + 1), s2), fused(y, spread(W, i + b + 1), s3)
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
def add_square(X: FloatArray, b: int, D: int, columns: int, sums: FloatArray) -> None:
    """Add `Σ xxᵀ` of the rows X (b, D) to the entries of `sums` (D, D) on and above the diagonal.

    Of the first `columns` columns, a multiple of 8; the others have zeros.
    Entries below the diagonal are not meant: some change. Sums of finished terms, as in
    `add_outer`; eight columns with eight others at a time.
    """
    zero = constant(0.0)
    for low in range(0, b, SQUARE_ROWS):
        high = low + SQUARE_ROWS if low + SQUARE_ROWS < b else b
        for d in range(0, columns, 8):
            for e in range(d, columns, 8):
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
