"""Missing cells of rows, filled from the row's other cells and a basis."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit, part

LARGEST = 1e300
"""Scores from here on could make filled cells that are not finite: cells then stay at zero."""


@jit
def fill_rows(
    X: FloatArray, center: FloatArray, unit: FloatArray, missing: float, holes: bool,
    V: FloatArray, least: float, weighed: bool, factors: FloatArray,
) -> None:  # fmt: skip
    """Centre and scale the raw cells X[:, :D], fill the missing ones, and scale rows by `factors`.

    The weight of a row says how well its present cells tell its scores: `r/tr((V_OᵀV_O)⁻¹)`, in
    [0, 1]. Below `least`, missing cells stay at zero. With `weighed` a row is also multiplied by
    its weight, which is 0 if the present cells do not tell the scores.

    Everything is computed from the row's own cells in one order, so that the row has the same bits
    wherever it stands. A row whose factor is zero becomes a zero row, whatever it holds. A row
    without missing cells has the bits that the loaders of `storage` give it.
    """
    D, r = V.shape
    work, empty = np.empty((r + 2, r)), np.empty(D, dtype=np.bool_)
    for i in range(len(X)):
        if factors[i] == 0.0:
            X[i] = 0.0
            continue
        count = 0
        for d in range(D):
            x = X[i, d]
            empty[d] = x == missing or (holes and math.isnan(x))
            if empty[d]:
                count += 1
            X[i, d] = 0.0 if empty[d] else (x - center[d]) * unit[d]
        factor = factors[i]
        if count > 0:
            known = _factored(empty, V, work) and _solved(X[i], V, work)
            weight = _weight(work) if known else 0.0
            for d in range(D):
                if known and weight >= least and empty[d]:
                    for j in range(r):
                        X[i, d] += V[d, j] * work[r, j]
            if weighed:
                factor *= weight
        for d in range(D):
            X[i, d] *= factor


@part
def _factored(empty: npt.NDArray[np.bool_], V: FloatArray, L: FloatArray) -> bool:
    """Write the Cholesky factor of the present cells' Gram matrix to L; say whether there is one.

    The Gram matrix of the present cells is that of all cells, I, less that of the missing ones.
    """
    D, r = V.shape
    for j in range(r):
        for k in range(j + 1):
            total = 1.0 if j == k else 0.0
            for d in range(D):
                if empty[d]:
                    total -= V[d, j] * V[d, k]
            for m in range(k):
                total -= L[j, m] * L[k, m]
            L[j, k] = math.sqrt(total) if j == k else total / L[k, k]
        if not L[j, j] > 0.0:  # or not a number
            return False
    return True


@part
def _solved(x: FloatArray, V: FloatArray, L: FloatArray) -> bool:
    """Write the scores of a row, whose missing cells are zero, to L[r]; say whether all are finite.

    They solve L Lᵀ y = Vᵀ x.
    """
    D, r = V.shape
    size = 0.0
    for j in range(r):
        total = 0.0
        for d in range(D):
            total += V[d, j] * x[d]
        for m in range(j):
            total -= L[j, m] * L[r, m]
        L[r, j] = total / L[j, j]
    for j in range(r - 1, -1, -1):
        total = L[r, j]
        for m in range(j + 1, r):
            total -= L[m, j] * L[r, m]
        L[r, j] = total / L[j, j]
        size += abs(L[r, j])
    return size < LARGEST


@part
def _weight(L: FloatArray) -> float:
    """Return `r/tr((LLᵀ)⁻¹)`, at most 1, or 0 if it is not a number: row r + 1 of L is work space.

    Scores of least squares have the variance `(V_OᵀV_O)⁻¹` in units of the noise of a cell: this is
    the mean variance of the scores of a complete row over that of this row.
    """
    r = L.shape[1]
    total = 0.0
    for k in range(r):
        for j in range(k, r):
            part = 1.0 if j == k else 0.0
            for m in range(k, j):
                part -= L[j, m] * L[r + 1, m]
            L[r + 1, j] = part / L[j, j]
            total += L[r + 1, j] ** 2
    return min(r / total, 1.0) if total > 0.0 else 0.0
