"""Three starts that fail on different data: PCA, Tyler's M-estimator, RANSAC.

PCA is the start of the paper. Tyler's matrix weighs directions by how many rows share them, so that
a cluster does not draw it as it draws PCA. RANSAC tries spans of few rows and keeps the one that
half of the rows lie near to. Rows are unit rows, none of them zero.
"""

from __future__ import annotations

from math import ceil, log, log1p

import numpy as np

from stillspace._typing import FloatArray

SEARCH_ROWS, SEARCH_ROWS_A_COLUMN, SEARCH_CELLS = 1024, 8, 2**22
"""A search reads so many rows, if there are as many, and at most so many cells."""

TYLER_COLUMNS = 300
"""Tyler's iteration inverts D × D matrices; above this many columns it is left out."""

TYLER_ROWS_A_COLUMN = 3
_TYLER_STEPS, _TYLER_TOL = 30, 1e-3

RANSAC_TRIES, RANSAC_ROWS, RANSAC_KEPT, RANSAC_STEPS = 64, 500, 5, 10
"""At most so many spans, judged on so many rows; the best few are concentrated so many times."""


def search_rows(D: int) -> int:
    """Return how many rows of D columns a search reads at most."""
    return max(min(SEARCH_ROWS + SEARCH_ROWS_A_COLUMN * D, SEARCH_CELLS // D), 256)


def pca(U: FloatArray, r: int) -> FloatArray:
    """Return the top r right singular vectors (D, r), by the smaller of the two Gram matrices."""
    m, D = U.shape
    if m >= D:
        return np.ascontiguousarray(np.linalg.eigh(U.T @ U)[1][:, : -r - 1 : -1])
    left = np.linalg.eigh(U @ U.T)[1][:, : -r - 1 : -1]
    return np.linalg.qr(U.T @ left)[0]


def tyler_applies(m: int, D: int) -> bool:
    """Whether there are rows enough for Tyler's matrix, and not too many columns."""
    return m >= 2 * D and D <= TYLER_COLUMNS


def tyler(U: FloatArray, r: int) -> FloatArray:
    """Return the top eigenvectors of `M = (D/m) Σ xxᵀ / (xᵀM⁻¹x)` (Tyler 1987).

    Where too many rows lie on a subspace M becomes singular; a grain of the identity keeps it
    invertible, and its top eigenvectors still point there.
    """
    D = U.shape[1]
    U = U[: max(TYLER_ROWS_A_COLUMN * D, 200)]
    M = np.eye(D)
    for _ in range(_TYLER_STEPS):
        size = np.einsum("ij,ij->i", U @ np.linalg.inv(M + 1e-8 * np.eye(D)), U)
        new = (U.T / np.maximum(size, 1e-300)) @ U
        new *= D / np.trace(new)
        moved = float(np.linalg.norm(new - M))
        M = new
        if moved <= _TYLER_TOL * float(np.linalg.norm(M)):
            break
    return np.ascontiguousarray(np.linalg.eigh(M)[1][:, : -r - 1 : -1])


def ransac_tries(r: int) -> int:
    """Return how many spans of r rows hold one of inliers alone with 99 %, half being inliers."""
    return min(RANSAC_TRIES, ceil(log(0.01) / log1p(-(0.5**r))))


def ransac(U: FloatArray, r: int, rng: np.random.Generator) -> FloatArray:
    """Return the span with the least median distance, after concentration steps.

    A step takes the half of the rows nearest to V and makes a power step on their moment, as
    fast least trimmed squares does (Rousseeuw and Van Driessen 2006).
    """
    m = len(U)
    judges = U[: min(m, RANSAC_ROWS)]
    drawn = [U[rng.choice(m, min(r, m), replace=False)].T for _ in range(ransac_tries(r))]
    spans, medians = _concentrated(judges, np.linalg.qr(np.stack(drawn))[0])
    spans = spans[np.argsort(medians, kind="stable")[:RANSAC_KEPT]]
    for _ in range(RANSAC_STEPS):
        spans, medians = _concentrated(judges, spans)
    return np.asarray(spans[int(np.argmin(medians))])


def affine_ransac(S: FloatArray, r: int, rng: np.random.Generator) -> FloatArray:
    """Return a basis (D, r) of the affine span with the least median distance of the rows of S.

    As `ransac`, with the mean of the nearest half as the point of the span. S is in random order.
    """
    judges = S[: min(len(S), RANSAC_ROWS)]
    found = []
    for _ in range(ransac_tries(r + 1)):
        drawn = S[rng.choice(len(S), r + 1, replace=False)]
        V, m = np.linalg.qr((drawn[1:] - drawn[0]).T)[0], drawn[0]
        found.append(_concentrated_affine(judges, V, m))
    found.sort(key=lambda end: end[2])
    ends = []
    for end in found[:RANSAC_KEPT]:
        V, m, median = end
        for _ in range(RANSAC_STEPS):
            V, m, median = _concentrated_affine(judges, V, m)
        ends.append((median, V))
    return min(ends, key=lambda pair: pair[0])[1]


def _concentrated_affine(
    S: FloatArray, V: FloatArray, m: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    S = S - m
    d = _lost(S, S @ V)
    median = float(np.median(d))
    near = S[d <= median]
    mean = near.mean(axis=0)
    near = near - mean
    return np.linalg.qr(near.T @ (near @ V))[0], m + mean, median


def _concentrated(U: FloatArray, spans: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return k spans (k, D, r) after one concentration step, and their median squares before it."""
    k, D, r = spans.shape
    Y = (U @ spans.transpose(1, 0, 2).reshape(D, k * r)).reshape(-1, k, r)
    d = _lost(U, Y.swapaxes(0, 1))
    medians = np.median(d, axis=1)
    Y *= (d <= medians[:, None]).T[:, :, None]
    moved = (U.T @ Y.reshape(-1, k * r)).reshape(D, k, r)
    return np.linalg.qr(moved.transpose(1, 0, 2))[0], medians


def _lost(U: FloatArray, Y: FloatArray) -> FloatArray:
    """Return ‖x‖² − ‖y‖²: squared distances, right to 1e-16, which tells spans apart."""
    return np.asarray(np.einsum("ij,ij->i", U, U) - np.einsum("...ij,...ij->...i", Y, Y))
