"""The row kernels by compiled code: same names, same bits as `reference`.

Blocks of any shape are filled up with zeros for the routines of `tiles`, which the passes over
large data use too: whoever asks for a residual gets the same bits.
"""

import math

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit
from stillspace.kernels.lanes import LANES, constant
from stillspace.kernels.tiles import add_scores, residual


@jit
def _work_out(
    X: FloatArray, groups: int, D: int, V: FloatArray, r: int, Y: FloatArray, R: FloatArray
) -> None:
    """Add the scores to Y (groups, r, 8) and, if R has entries, write residuals there, as X."""
    for g in range(groups):
        x, y = 8 * D * g, 8 * r * g
        add_scores(X, x, V, r, 0, D, Y, y)
        if len(R) > 0:
            residual(X, x, V, r, 0, D, Y, y, R, x, constant(0.0))


def _worked_out(XT: FloatArray, V: FloatArray, *, residuals: bool) -> tuple[FloatArray, FloatArray]:
    """Return scores (r, b) and residuals (D, b)."""
    (D, b), r = XT.shape, V.shape[1]
    groups, wide = -(-b // LANES), -(-r // 4) * 4
    X, basis = np.zeros((D, groups * LANES)), np.zeros((D, wide))
    X[:, :b], basis[:, :r] = XT, V
    grouped = np.ascontiguousarray(X.reshape(D, groups, LANES).transpose(1, 0, 2))
    Y, R = np.zeros((groups, wide, LANES)), grouped.copy() if residuals else grouped[:0]
    if X.size and basis.size:
        flat = (basis.reshape(-1), wide, Y.reshape(-1), R.reshape(-1))
        _work_out(grouped.reshape(-1), groups, D, *flat)
    return _as_columns(Y)[:r, :b], _as_columns(R)[:, :b]


def _as_columns(groups: FloatArray) -> FloatArray:
    """Return groups (g, height, 8) as one matrix (height, 8 g)."""
    return groups.transpose(1, 0, 2).reshape(groups.shape[1], -1)


def scores(XT: FloatArray, V: FloatArray) -> FloatArray:
    """Return `y = Vᵀx` (r, b)."""
    return _worked_out(XT, V, residuals=False)[0]


def residual_to_basis(XT: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `R = x − V y` (D, b) and `y = Vᵀx` (r, b)."""
    Y, R = _worked_out(XT, V, residuals=True)
    return R, Y


def residual_to_matrix(XT: FloatArray, P: FloatArray) -> FloatArray:
    """Return `R = x − P x` (D, b) for a symmetric matrix P."""
    return np.asarray(XT - scores(XT, P.T))


@jit
def _add_squares(A: FloatArray, total: FloatArray) -> None:
    """Add the squares of each column to `total`, coordinate after coordinate."""
    for d in range(A.shape[0]):
        for i in range(A.shape[1]):
            total[i] += A[d, i] * A[d, i]


def column_norms(A: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each column, for columns within the unit ball."""
    total = np.zeros(A.shape[1])
    _add_squares(np.ascontiguousarray(A), total)
    return np.asarray(np.sqrt(total))


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
