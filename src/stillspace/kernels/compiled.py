"""The row kernels by compiled code: same names, same bits as `tests/kernels/reference.py`.

Blocks of any shape are filled up with zeros for the routines of `tiles`, which the passes over
large data use too: whoever asks for a residual gets the same bits.
"""

import math

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import bare, jit
from stillspace.kernels.jobs import by_component, filled, places_of
from stillspace.kernels.lane_sums import totals
from stillspace.kernels.lanes import LANES, constant, store
from stillspace.kernels.measuring import measured
from stillspace.kernels.tiles import group_scores, residual, squares_of_row


def scores(XT: FloatArray, V: FloatArray) -> FloatArray:
    """Return `y = Vᵀx` (r, b)."""
    return measured(XT, V)[0]


@bare
def _residuals(
    X: FloatArray, places: IntArray, b: int, D: int, V: FloatArray, r: int, Y: FloatArray,
    parts: FloatArray,
) -> None:  # fmt: skip
    """Write the scores to Y (r, b), and residuals over the rows X (b, D)."""
    for i in range(0, b, 8):
        nothing = (places, 0 * D, 0 * D, 0 * D, 0 * D, 0 * D)
        group_scores(X, places, i, D, V, r, False, parts, Y, i, b, *nothing)
        for k in range(i, i + 8):
            residual(X, k * D, D, V, r, Y, k, b, X, k * D)


def residual_to_basis(XT: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `R = x − V y` (D, b) and `y = Vᵀx` (r, b)."""
    (D, b), r = XT.shape, V.shape[1]
    X, Y = np.zeros((filled(b), filled(D))), np.empty((r, filled(b)))
    X[:b, :D] = XT.T
    basis, parts = by_component(V, X.shape[1]), np.empty(64 * (r + 1))
    places = places_of(*X.shape)
    _residuals(X.reshape(-1), places, *X.shape, basis, r, Y.reshape(-1), parts)
    return X[:b, :D].T, Y[:, :b]


def residual_to_matrix(XT: FloatArray, P: FloatArray) -> FloatArray:
    """Return `R = x − P x` (D, b) for a symmetric matrix P."""
    return np.asarray(XT - scores(XT, P.T))


@bare
def _squares(A: FloatArray, b: int, D: int, out: FloatArray) -> None:
    """Write the sums of squares of the rows of A (b, D)."""
    zero = constant(0.0)
    for i in range(b):
        square = squares_of_row(A, i * D, D)
        store(out, i, totals(square, zero, zero, zero, zero, zero, zero, zero))


def column_norms(A: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each column, for columns within the unit ball."""
    D, b = A.shape
    rows, out = np.zeros((b, filled(D))), np.empty(b + LANES)
    rows[:, :D] = A.T
    _squares(rows.reshape(-1), *rows.shape, out)
    return np.asarray(np.sqrt(out[:b]))


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
