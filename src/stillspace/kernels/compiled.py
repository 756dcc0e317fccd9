"""The row kernels compiled with numba: same names, same bits as `reference`.

Loops run across the rows of a block, so that they vectorise without reordering what happens
inside one row; `fastmath` stays off, so that nothing is contracted or reassociated. Several
columns or components are taken in one sweep over the rows, which saves loads and stores and
leaves the order of a row's own operations as it is.
"""

import math

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit
from stillspace.kernels.lanes import LANES, load, multiply, spread, store, subtract

CHUNK = 64
"""Coordinates whose residuals are worked on at a time, so that they stay in the first cache."""


@jit
def add_scores(XT: FloatArray, V: FloatArray, Y: FloatArray) -> None:
    """Add `Vᵀx` (r, b) to `Y`, coordinate after coordinate."""
    D, b = XT.shape
    r = V.shape[1]
    d = 0
    while d + 4 <= D:
        j = 0
        while j + 2 <= r:
            v0, v1, v2, v3 = V[d, j], V[d + 1, j], V[d + 2, j], V[d + 3, j]
            u0, u1, u2, u3 = V[d, j + 1], V[d + 1, j + 1], V[d + 2, j + 1], V[d + 3, j + 1]
            for i in range(b):
                x0, x1, x2, x3 = XT[d, i], XT[d + 1, i], XT[d + 2, i], XT[d + 3, i]
                Y[j, i] = (((Y[j, i] + v0 * x0) + v1 * x1) + v2 * x2) + v3 * x3
                Y[j + 1, i] = (((Y[j + 1, i] + u0 * x0) + u1 * x1) + u2 * x2) + u3 * x3
            j += 2
        if j < r:
            v0, v1, v2, v3 = V[d, j], V[d + 1, j], V[d + 2, j], V[d + 3, j]
            for i in range(b):
                Y[j, i] = (
                    ((Y[j, i] + v0 * XT[d, i]) + v1 * XT[d + 1, i]) + v2 * XT[d + 2, i]
                ) + v3 * XT[d + 3, i]
        d += 4
    while d < D:
        for j in range(r):
            v = V[d, j]
            for i in range(b):
                Y[j, i] += v * XT[d, i]
        d += 1


@jit
def _take_eight(S: FloatArray, V: FloatArray, Y: FloatArray, i: int, j: int, R: FloatArray) -> None:
    """Write `s − Σ V_j y_j` over components j…j + 7, for the eight rows from column i on."""
    D, b = S.shape
    r, at = V.shape[1], j * b + i
    y0, y1, y2, y3 = load(Y, at), load(Y, at + b), load(Y, at + 2 * b), load(Y, at + 3 * b)
    at += 4 * b
    y4, y5, y6, y7 = load(Y, at), load(Y, at + b), load(Y, at + 2 * b), load(Y, at + 3 * b)
    for d in range(D):
        x, v = load(S, d * b + i), d * r + j
        x = subtract(x, multiply(spread(V, v), y0))
        x = subtract(x, multiply(spread(V, v + 1), y1))
        x = subtract(x, multiply(spread(V, v + 2), y2))
        x = subtract(x, multiply(spread(V, v + 3), y3))
        x = subtract(x, multiply(spread(V, v + 4), y4))
        x = subtract(x, multiply(spread(V, v + 5), y5))
        x = subtract(x, multiply(spread(V, v + 6), y6))
        x = subtract(x, multiply(spread(V, v + 7), y7))
        store(R, d * b + i, x)


@jit
def _take_two(S: FloatArray, V: FloatArray, Y: FloatArray, i: int, j: int, R: FloatArray) -> None:
    """Write `s − Σ V_j y_j` over components j and j + 1."""
    D, b = S.shape
    r = V.shape[1]
    y0, y1 = load(Y, j * b + i), load(Y, (j + 1) * b + i)
    for d in range(D):
        x, v = load(S, d * b + i), d * r + j
        x = subtract(x, multiply(spread(V, v), y0))
        store(R, d * b + i, subtract(x, multiply(spread(V, v + 1), y1)))


@jit
def _take_one(S: FloatArray, V: FloatArray, Y: FloatArray, i: int, j: int, R: FloatArray) -> None:
    """Write `s − V_j y_j`."""
    D, b = S.shape
    y = load(Y, j * b + i)
    for d in range(D):
        x = subtract(load(S, d * b + i), multiply(spread(V, d * V.shape[1] + j), y))
        store(R, d * b + i, x)


@jit
def _residual_lanes(XT: FloatArray, V: FloatArray, Y: FloatArray, R: FloatArray) -> None:
    """Write `x − V y` for blocks of a multiple of eight rows."""
    r = V.shape[1]
    for i in range(0, XT.shape[1], LANES):
        S, j = XT, 0
        while j < r:
            if r - j >= 8:
                _take_eight(S, V, Y, i, j, R)
                j += 8
            elif r - j >= 2:
                _take_two(S, V, Y, i, j, R)
                j += 2
            else:
                _take_one(S, V, Y, i, j, R)
                j += 1
            S = R


@jit
def _residual_loops(XT: FloatArray, V: FloatArray, Y: FloatArray, R: FloatArray) -> None:
    """Write `x − V y` for blocks of any width."""
    D, b = XT.shape
    for d in range(D):
        R[d] = XT[d]
        for j in range(V.shape[1]):
            v = V[d, j]
            for i in range(b):
                R[d, i] -= v * Y[j, i]


@jit
def residual(XT: FloatArray, V: FloatArray, Y: FloatArray, R: FloatArray) -> None:
    """Write `R = x − V y` (D, b): the one routine that every residual to a basis comes from.

    V must be C-contiguous. Both ways subtract component after component, with the same bits.
    """
    D, b = XT.shape
    if b % LANES > 0 or V.shape[1] == 0:
        _residual_loops(XT, V, Y, R)
        return
    for d in range(0, D, CHUNK):
        stop = min(d + CHUNK, D)
        _residual_lanes(XT[d:stop], V[d:stop], Y, R[d:stop])


@jit
def add_squares(A: FloatArray, total: FloatArray) -> None:
    """Add the squares of each column to `total`, coordinate after coordinate."""
    D, b = A.shape
    d = 0
    while d + 4 <= D:
        for i in range(b):
            a0, a1, a2, a3 = A[d, i], A[d + 1, i], A[d + 2, i], A[d + 3, i]
            total[i] = (((total[i] + a0 * a0) + a1 * a1) + a2 * a2) + a3 * a3
        d += 4
    while d < D:
        for i in range(b):
            total[i] += A[d, i] * A[d, i]
        d += 1


@jit
def scores(XT: FloatArray, V: FloatArray) -> FloatArray:
    """Return `y = Vᵀx` (r, b)."""
    Y = np.zeros((V.shape[1], XT.shape[1]))
    add_scores(XT, V, Y)
    return Y


@jit
def residual_to_basis(XT: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `R = x − V y` (D, b) and `y = Vᵀx` (r, b)."""
    V = np.ascontiguousarray(V)
    Y = scores(XT, V)
    R = np.empty_like(XT)
    residual(np.ascontiguousarray(XT), V, Y, R)
    return R, Y


@jit
def residual_to_matrix(XT: FloatArray, P: FloatArray) -> FloatArray:
    """Return `R = x − P x` (D, b) for a symmetric matrix P."""
    R = np.zeros_like(XT)
    D, b = XT.shape
    add_scores(XT, P.T, R)
    for d in range(D):
        for i in range(b):
            R[d, i] = XT[d, i] - R[d, i]
    return R


@jit
def column_norms(A: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each column, for columns within the unit ball."""
    total = np.zeros(A.shape[1])
    add_squares(A, total)
    return np.sqrt(total)


@jit
def unit_columns(XT: FloatArray, norm_bound: float) -> FloatArray:
    """Return each column scaled into the unit ball; a non-finite or zero column becomes zero."""
    D, b = XT.shape
    out = np.empty_like(XT)
    for i in range(b):
        largest = 0.0
        finite = True
        for d in range(D):
            x = XT[d, i]
            if not math.isfinite(x):
                finite = False
            largest = max(largest, abs(x))
        exponent = math.frexp(largest)[1] if finite else 0
        total = 0.0
        for d in range(D):
            x = math.ldexp(XT[d, i], -exponent) if finite else 0.0
            out[d, i] = x
            total += x * x
        divisor = max(math.sqrt(total), math.ldexp(norm_bound, -exponent))
        if divisor > 0.0:
            for d in range(D):
                out[d, i] /= divisor
    return out
