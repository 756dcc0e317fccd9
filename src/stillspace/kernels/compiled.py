"""The row kernels by compiled code: same names, same bits as `reference`.

Blocks of any shape are filled up with zeros for the routines of `tiles`, which the passes over
large data use too: whoever asks for a residual gets the same bits.
"""

import math

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit
from stillspace.kernels.lanes import LANES
from stillspace.kernels.tiles import residual, scores


def _filled(A: FloatArray, columns: int) -> FloatArray:
    """Return a matrix with zero columns up to a multiple, in C order."""
    width = -(-A.shape[1] // columns) * columns
    if width == A.shape[1]:
        return np.ascontiguousarray(A, dtype=np.float64)
    out = np.zeros((len(A), width))
    out[:, : A.shape[1]] = A
    return out


@jit
def _work_out(
    X: FloatArray, D: int, b: int, V: FloatArray, r: int, Y: FloatArray, R: FloatArray
) -> None:
    """Write the scores of a block to Y (r, b) and, if R (D, b) has entries, its residuals there."""
    for i in range(0, b, 8):
        scores(X, D, b, i, V, r, Y)
        if len(R) > 0:
            residual(X, D, b, i, V, r, Y, R, 0)


def _worked_out(
    XT: FloatArray, V: FloatArray, *, residuals: bool
) -> tuple[FloatArray, FloatArray]:
    """Return scores (r, b) and residuals (D, b)."""
    b, r = XT.shape[1], V.shape[1]
    X, V = _filled(XT, LANES), _filled(V, 2)
    Y, R = np.empty((V.shape[1], X.shape[1])), X.copy() if residuals else np.empty((0, 0))
    if X.size and V.size:
        flat = (Y.reshape(-1), R.reshape(-1))
        _work_out(X.reshape(-1), *X.shape, V.reshape(-1), V.shape[1], *flat)
    return np.ascontiguousarray(Y[:r, :b]), np.ascontiguousarray(R[:, :b])




def residual_to_basis(XT: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `R = x − V y` (D, b) and `y = Vᵀx` (r, b)."""
    Y, R = _worked_out(XT, V, residuals=True)
    return R, Y


def residual_to_matrix(XT: FloatArray, P: FloatArray) -> FloatArray:
    """Return `R = x − P x` (D, b) for a symmetric matrix P."""
    return np.asarray(XT - _worked_out(XT, P.T, residuals=False)[0])


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
