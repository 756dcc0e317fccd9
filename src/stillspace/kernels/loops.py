"""Whole loops, compiled: release, step, push for a chunk of iterations whose draws are given.

They do what `run` does with `Release.apply`, the geometry and the output, for two families of
plans: GLAD with the polar step, REAPER with water-filling or the entropic mirror. Draws are never
made here: a chunk gets stacked draws and returns how many it used.

Rows come as they lie in a table (`as_table`). Blocks of rows are added up as in every other pass
(`tiles`, `passes`). GLAD's rows stay where they are: a block says where each of its rows begins.
`offsets` and `chosen` hold the selections of all iterations (`chosen[offsets[k]:offsets[k + 1]]`);
no offsets means all rows. `noise` has no iterations where there is none. `trace` (iterations, 2, …)
is filled with the point before each step and what was released there; of no entries, it is not.
"""

from __future__ import annotations

import math

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import bare, jit, part
from stillspace.kernels.jobs import ORTHONORMAL, filled, lines
from stillspace.kernels.lanes import constant, load, multiply, root, spread, store, subtract
from stillspace.kernels.passes import GLAD, add_terms, clipped
from stillspace.kernels.small import mirror_step, polar_rows, rebuild, water_fill
from stillspace.kernels.tiles import eight_totals, group_squares, project_out, squares_of_row

BLOCK = 96
"""Rows in a block: with its residuals it stays in the first cache up to some twenty columns."""

EXTRA = 1 + BLOCK
"""Rows of a table beyond those of the data."""

WATER_FILLING, CAPPED_MIRROR, RESCALED_MIRROR = 0, 1, 2

_LARGEST_INDEX = 2.0**62  # as in stillspace.parts.noise


def as_table(X: FloatArray) -> FloatArray:
    """Return rows (n, D') as (n + `EXTRA`, D), D' filled up with zeros to a multiple of 8.

    Row n is a zero row, which fills up blocks. The residuals of a block go to the rows after it.
    """
    (n, columns), width = X.shape, filled(X.shape[1])
    table = lines((n + EXTRA) * width).reshape(n + EXTRA, width)
    table[:n, :columns] = X
    return table


@jit
def _lines(size: int) -> FloatArray:
    """As `jobs.lines`, for compiled code."""
    memory = np.zeros(size + 8)
    first = (64 - memory.ctypes.data % 64) % 64 // 8
    return memory[first : first + size]


@bare
def _on_lattice(value: float, index: int, spacing: float) -> float:
    """Return `(rint(value/γ) + index) γ`; the same steps as `GaussianNoise.release`."""
    if math.isnan(value):
        value = 0.0
    limit = spacing * _LARGEST_INDEX
    value = min(max(value, -limit), limit)
    return float(np.int64(np.rint(value / spacing)) + index) * spacing


@part
def _push(average: FloatArray, V: FloatArray, r: int, k: int) -> None:
    """Move the running average of k projectors towards that of V (r, D)."""
    D = average.shape[0]
    for d in range(D):
        for e in range(D):
            value = 0.0
            for j in range(r):
                value += V[j, d] * V[j, e]
            average[d, e] += (value - average[d, e]) / (k + 1)


@part
def _push_matrix(average: FloatArray, P: FloatArray, weight: float) -> None:
    """Move the average a part of the way to P."""
    for d in range(P.shape[0]):
        for e in range(P.shape[1]):
            average[d, e] += (P[d, e] - average[d, e]) * weight


@part
def _gather(
    rows: FloatArray, chosen: IntArray, start: int, stop: int, D: int, X: FloatArray
) -> int:
    """Copy rows start…stop − 1, or those that `chosen` has there, to X (b, D); return b.

    b is a multiple of 8: zero rows, whose terms are exactly zero, fill up the block.
    """
    count, zero = stop - start, constant(0.0)
    b = (count + 7) // 8 * 8
    if chosen.size == 0:
        for to in range(0, count * D, 8):
            store(X, to, load(rows, start * D + to))
    else:
        for i in range(count):
            for d in range(0, D, 8):
                store(X, i * D + d, load(rows, chosen[start + i] * D + d))
    for to in range(count * D, b * D, 8):
        store(X, to, zero)
    return b


@part
def _place(chosen: IntArray, start: int, stop: int, D: int, zero_row: int, places: IntArray) -> int:
    """Write where rows start…stop − 1, or those that `chosen` has there, begin; return b.

    b is a multiple of 8: the zero row, whose term is exactly zero, fills up the block.
    """
    count = stop - start
    b = (count + 7) // 8 * 8
    if chosen.size == 0:
        for i in range(count):
            places[i] = (start + i) * D
    else:
        for i in range(count):
            places[i] = chosen[start + i] * D
    for i in range(count, b):
        places[i] = zero_row * D
    return b


@part
def _residuals_to_matrix(
    X: FloatArray, x: int, D: int, P: FloatArray, n: int, R: FloatArray
) -> None:
    """Write `x − Px` to R for the four rows X[x:] of n columns, P symmetric (n, D)."""
    x1, x2, x3 = x + D, x + 2 * D, x + 3 * D
    for d in range(0, D, 8):
        e0, e1, e2, e3 = load(X, x + d), load(X, x1 + d), load(X, x2 + d), load(X, x3 + d)
        for j in range(n):
            p = load(P, j * D + d)
            e0 = subtract(e0, multiply(p, spread(X, x + j)))
            e1 = subtract(e1, multiply(p, spread(X, x1 + j)))
            e2 = subtract(e2, multiply(p, spread(X, x2 + j)))
            e3 = subtract(e3, multiply(p, spread(X, x3 + j)))
        store(R, x + d, e0)
        store(R, x1 + d, e1)
        store(R, x2 + d, e2)
        store(R, x3 + d, e3)


@part
def _is_orthonormal(V: FloatArray) -> bool:
    """Whether the rows of V are orthonormal, as `jobs.near_of` asks."""
    for i in range(V.shape[0]):
        for j in range(i + 1):
            apart = -1.0 if i == j else 0.0
            for d in range(V.shape[1]):
                apart += V[i, d] * V[j, d]
            if not abs(apart) <= ORTHONORMAL:
                return False
    return True


@bare
def scaled_residuals(
    X: FloatArray, b: int, D: int, P: FloatArray, n: int, floor: float, R: FloatArray,
    work: FloatArray,
) -> None:  # fmt: skip
    """Write `w (x − Px)`, w as in REAPER's term, to R (b, D) for the rows X (b, D) of n columns.

    P (n, D) is symmetric, filled up with zeros. `work` has 136 entries.
    """
    for i in range(0, b, 8):
        _residuals_to_matrix(X, i * D, D, P, n, R)
        _residuals_to_matrix(X, (i + 4) * D, D, P, n, R)
        for k in range(8):
            store(work, 8 * k, squares_of_row(R, (i + k) * D, D))
            store(work, 64 + 8 * k, squares_of_row(X, (i + k) * D, D))
        distance = root(eight_totals(work, 0))
        store(work, 128, clipped(distance, eight_totals(work, 64), floor, math.inf))
        for k in range(8):
            weight = spread(work, 128 + k)
            for at in range((i + k) * D, (i + k + 1) * D, 8):
                store(R, at, multiply(load(R, at), weight))


@jit
def glad_polar(
    rows: FloatArray,
    offsets: IntArray,
    chosen: IntArray,
    noise: IntArray,
    spacings: FloatArray,
    steps: FloatArray,
    first: int,
    facts: tuple[int, int, float, float, float],
    V: FloatArray,
    average: FloatArray,
    trace: FloatArray,
) -> int:
    """Run GLAD with the polar step over a chunk; return the number of draws used.

    `facts` are D, r, the floor, the limit `near` of `passes` and the public divisor. `V` (r, D),
    filled up with zeros, and `average` (D, D), if that has entries, are updated.
    """
    D, r, floor, near, divisor = facts
    n, width, used, basis = rows.shape[0] - EXTRA, V.shape[1], r + r % 2, V.reshape(-1)
    table, places, free = rows.reshape(-1), np.empty(BLOCK, dtype=np.int64), (n + 1) * width
    sums = _lines(used * width + 16 + used * used)
    work = _lines(4 * used * BLOCK + width + 64 * (r + 1))
    moved, J = np.zeros((r, width)), np.empty((r, r))
    sampled = offsets.size > 0
    squares = _lines(0 if sampled else n + BLOCK)
    for start in range(0, 0 if sampled else n, BLOCK):
        b = _place(chosen, start, min(start + BLOCK, n), width, n, places)
        for i in range(0, b, 8):
            square = group_squares(table, places, i, width, 0 * i, width, work, 0 * i)
            store(squares, start + i, square)
    for k in range(steps.size):
        sums[:] = 0.0
        distinct = near if _is_orthonormal(V) else math.inf
        low, high = (offsets[k], offsets[k + 1]) if sampled else (0, n)
        for start in range(low, high, BLOCK):
            b = _place(chosen, start, min(start + BLOCK, high), width, n, places)
            add_terms(
                table, places, free, squares[start : start + b], b, width, basis, r, used, GLAD,
                distinct, floor, math.inf, 0.0, work, sums, chosen, 0, 0, 0, 0,
            )  # fmt: skip
        if distinct < math.inf:
            project_out(sums, basis, width, r, work)
        for j in range(r):
            for d in range(D):
                g = sums[j * width + d]
                if noise.shape[0] > 0:
                    g = _on_lattice(g, noise[k, d, j], spacings[k])
                if trace.size > 0:
                    trace[k, 0, d, j], trace[k, 1, d, j] = V[j, d], g / divisor
                moved[j, d] = V[j, d] + steps[k] * (g / divisor)
        polar_rows(moved, r, D, J, V)
        if average.size > 0:
            _push(average, V, r, first + k)
    return int(steps.size)


@jit
def reaper(
    rows: FloatArray,
    offsets: IntArray,
    chosen: IntArray,
    noise: IntArray,
    spacings: FloatArray,
    steps: FloatArray,
    first: int,
    facts: tuple[int, int, float, float],
    geometry: int,
    P: FloatArray,
    dual: FloatArray,
    average: FloatArray,
    trace: FloatArray,
) -> int:
    """Run REAPER over a chunk, one eigendecomposition per step; return the number of draws used.

    `facts` are D, r, the floor and the public divisor. The point `P`, for a mirror its logarithm
    `dual` (of no entries otherwise), and `average`, if that has entries, are updated: all (D, D).
    """
    D, r, floor, divisor = facts
    width = rows.shape[1]
    block, R = np.empty(BLOCK * width), np.empty(BLOCK * width)
    wide, work = np.zeros((D, width)), np.empty(136)
    half, part = np.empty((width, width)), np.empty((width, width))
    state = P if geometry == WATER_FILLING else dual
    sampled = offsets.size > 0
    for k in range(steps.size):
        half[:] = 0.0
        wide[:, :D] = P
        low, high = (offsets[k], offsets[k + 1]) if sampled else (0, rows.shape[0] - EXTRA)
        for start in range(low, high, BLOCK):
            b = _gather(rows, chosen, start, min(start + BLOCK, high), width, block)
            scaled_residuals(block, b, width, wide.reshape(-1), D, floor, R, work)
            size = b * width
            np.dot(R[:size].reshape((b, width)).T, block[:size].reshape((b, width)), part)
            half += part
        for d in range(D):
            for e in range(d + 1):
                g = (half[d, e] + half[e, d]) / 2.0
                if noise.shape[0] > 0:
                    g = _on_lattice(g, noise[k, e, d], spacings[k])
                if trace.size > 0:
                    trace[k, 0, d, e] = trace[k, 0, e, d] = P[d, e]
                    trace[k, 1, d, e] = trace[k, 1, e, d] = g / divisor
                state[d, e] += steps[k] * (g / divisor)
        values, U = np.linalg.eigh(state)  # looks at the lower half alone
        vectors = U.T
        if geometry == WATER_FILLING:
            filled = water_fill(values, r)
        else:
            filled = mirror_step(dual, values, vectors, r, geometry == CAPPED_MIRROR)
        rebuild(vectors, filled, P)
        if average.size > 0:
            _push_matrix(average, P, 1.0 / (first + k + 1))
    for d in range(dual.shape[0]):
        dual[:d, d] = dual[d, :d]
    return int(steps.size)
