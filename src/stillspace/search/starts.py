"""Three starts that fail on different data: PCA, Tyler's M-estimator, RANSAC.

PCA is the start of the paper. Tyler's matrix weighs directions by how many rows share them, so that
a cluster does not draw it as it draws PCA. RANSAC tries spans of few rows and keeps the one that
half of the rows lie near to. Rows are unit rows, none of them zero.
"""

from __future__ import annotations

from math import ceil, log, log1p

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.geometry import dense_eigenvectors

SEARCH_ROWS, SEARCH_ROWS_PER_COLUMN, SEARCH_CELLS = 1024, 4, 2**22
"""A search reads so many rows, if there are as many, and at most so many cells."""

TYLER_COLUMNS = 300
"""Tyler's iteration inverts D × D matrices; above this many columns it is left out."""

TYLER_ROWS_PER_COLUMN = 3
_TYLER_STEPS, _TYLER_TOL = 30, 1e-2

RANSAC_TRIES, RANSAC_ROWS, RANSAC_KEPT, RANSAC_STEPS = 64, 500, 5, 10
"""At most so many spans, judged on so many rows; the best few are concentrated so many times."""


def search_rows(D: int) -> int:
    """Return how many rows of D columns a search reads at most."""
    return max(min(SEARCH_ROWS + SEARCH_ROWS_PER_COLUMN * D, SEARCH_CELLS // D), 256)


def pca(U: FloatArray, r: int) -> FloatArray:
    """Return the top r right singular vectors (D, r), by the smaller of the two Gram matrices."""
    m, D = U.shape
    if m >= D:
        return dense_eigenvectors(U.T @ U, r)
    return np.linalg.qr(U.T @ dense_eigenvectors(U @ U.T, r))[0]


def tyler_applies(m: int, D: int) -> bool:
    """Whether there are rows enough for Tyler's matrix, and not too many columns."""
    return m >= 2 * D and D <= TYLER_COLUMNS


def tyler(U: FloatArray, r: int) -> FloatArray:
    """Return the top eigenvectors of `M = (D/m) Σ xxᵀ / (xᵀM⁻¹x)` (Tyler 1987).

    Where too many rows lie on a subspace M becomes singular; a grain of the identity keeps it
    invertible, and its top eigenvectors still point there.
    """
    D = U.shape[1]
    U = U[: max(TYLER_ROWS_PER_COLUMN * D, 200)]
    M = np.eye(D)
    for _ in range(_TYLER_STEPS):
        size = np.einsum("ij,ij->i", U @ np.linalg.inv(M + 1e-8 * np.eye(D)), U)
        new = (U.T / np.maximum(size, 1e-300)) @ U
        new *= D / np.trace(new)
        moved = float(np.linalg.norm(new - M))
        M = new
        if moved <= _TYLER_TOL * float(np.linalg.norm(M)):
            break
    return dense_eigenvectors(M, r)


def ransac_tries(drawn: int) -> int:
    """Return how many draws of so many rows hold one of inliers alone with 99 %, half being so."""
    return min(RANSAC_TRIES, ceil(log(0.01) / log1p(-(0.5**drawn))))


def ransac(U: FloatArray, r: int, rng: np.random.Generator) -> FloatArray:
    """Return the basis (D, r) of the span with the least median distance of the rows of U.

    Spans of r rows each, after concentration steps. A step takes the half of the rows nearest to a
    span and makes a power step on their moment, as fast least trimmed squares does (Rousseeuw and
    Van Driessen 2006).
    """
    m = len(U)
    drawn = np.stack([U[rng.choice(m, min(r, m), replace=False)] for _ in range(ransac_tries(r))])
    return _best_span(U[:RANSAC_ROWS], drawn, None)[0]


def affine_ransac(S: FloatArray, r: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return a basis (D, r) and a point of the affine span with the least median distance.

    As `ransac`, with spans of r + 1 rows; the mean of the nearest half is the point of the span. S
    is in random order.
    """
    tries = ransac_tries(r + 1)
    drawn = np.stack([S[rng.choice(len(S), r + 1, replace=False)] for _ in range(tries)])
    V, point = _best_span(S[:RANSAC_ROWS], drawn[:, 1:] - drawn[:, :1], drawn[:, 0])
    assert point is not None
    return V, point


def _best_span(
    S: FloatArray, drawn: FloatArray, points: FloatArray | None
) -> tuple[FloatArray, FloatArray | None]:
    """Return the best of the spans of drawn rows (k, r, D), and its point unless that is 0."""
    spans = np.linalg.qr(drawn.swapaxes(1, 2))[0]
    for step in range(1 + RANSAC_STEPS):
        spans, points, medians = _concentrated(S, spans, points)
        if step == 0:
            kept = np.argsort(medians, kind="stable")[:RANSAC_KEPT]
            spans, points = spans[kept], None if points is None else points[kept]
    best = int(np.argmin(medians))
    return np.asarray(spans[best]), None if points is None else points[best]


def _concentrated(
    S: FloatArray, spans: FloatArray, points: FloatArray | None
) -> tuple[FloatArray, FloatArray | None, FloatArray]:
    """Return k spans (k, D, r) and their points (k, D) after one concentration step.

    Also the median squared distances before the step: ‖x‖² − ‖y‖², right to 1e-16, which tells
    spans apart.
    """
    k, D, r = spans.shape
    Y = (S @ spans.transpose(1, 0, 2).reshape(D, k * r)).reshape(-1, k, r).swapaxes(0, 1)
    lost = np.einsum("ij,ij->i", S, S)[None]
    if points is not None:
        lost = lost - 2.0 * points @ S.T + np.einsum("ij,ij->i", points, points)[:, None]
        Y = Y - np.einsum("kd,kdr->kr", points, spans)[:, None]
    d = lost - np.einsum("kij,kij->ki", Y, Y)
    half = d.shape[1] // 2
    medians = np.partition(d, half, axis=1)[:, half]
    near = (d <= medians[:, None]).astype(np.float64)
    if points is not None:
        share = near / near.sum(axis=1, keepdims=True)
        points = share @ S
        Y = Y - np.einsum("ki,kir->kr", share, Y)[:, None]
    Y = (Y * near[:, :, None]).swapaxes(0, 1).reshape(-1, k * r)
    moved = (S.T @ Y).reshape(D, k, r)
    return np.linalg.qr(moved.transpose(1, 0, 2))[0], points, medians
