"""The row kernels compiled with numba: same names, same bits as `reference`.

Loops run across the rows of a block, so that they vectorise without reordering what happens
inside one row; `fastmath` stays off, so that nothing is contracted or reassociated.
"""

import math

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit


@jit
def residual_to_basis(XT: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `R = x − V y` (D, b) and `y = Vᵀx` (r, b)."""
    D, b = XT.shape
    r = V.shape[1]
    Y = np.zeros((r, b))
    for d in range(D):
        for j in range(r):
            v = V[d, j]
            for i in range(b):
                Y[j, i] += v * XT[d, i]
    R = XT.copy()
    for d in range(D):
        for j in range(r):
            v = V[d, j]
            for i in range(b):
                R[d, i] -= v * Y[j, i]
    return R, Y


@jit
def residual_to_matrix(XT: FloatArray, P: FloatArray) -> FloatArray:
    """Return `R = x − P x` (D, b) for a symmetric matrix P."""
    D, b = XT.shape
    R = np.empty_like(XT)
    row = np.empty(b)
    for d in range(D):
        row[:] = 0.0
        for e in range(D):
            p = P[d, e]
            for i in range(b):
                row[i] += p * XT[e, i]
        for i in range(b):
            R[d, i] = XT[d, i] - row[i]
    return R


@jit
def column_norms(A: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each column, for columns within the unit ball."""
    D, b = A.shape
    total = np.zeros(b)
    for d in range(D):
        for i in range(b):
            total[i] += A[d, i] * A[d, i]
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
