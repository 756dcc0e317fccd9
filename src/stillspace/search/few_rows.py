"""Outliers of small tables: rows grow from the central half, and exact laws judge each row.

The laws are those of Gaussian rows of which mean and covariance are estimated (Hotelling; Wilks
1963; Cerioli 2010): no factor is tuned, and they hold for every number of rows and columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import f

from stillspace._typing import FloatArray

_Mask = npt.NDArray[np.bool_]

LEFT_OUT = 0.1
"""Probability with which a row of a clean table is left out of the rows that set the cut-offs."""

_ROUNDS = 10


def clean_rows(Z: FloatArray, central: FloatArray) -> _Mask:
    """Return which rows of Z (n, p) have no outlier among them, as far as can be told.

    From the half of the rows that are most `central` (least values), the nearest row outside joins
    until that row is an outlier of the rows inside: one such row in a clean table has probability
    `LEFT_OUT`. One at a time, since few rows say little of what lies outside. At the end rows join
    or leave by the same rule until none does.
    """
    n, p = Z.shape
    level = LEFT_OUT / n
    m = max((n + p + 1) // 2, p + 2)
    inside = _least(central, m)
    while m < n:
        d = _squares(Z, inside)
        if d[~inside].min() > square_limit(m, p, level):
            break
        m += 1
        inside = _least(d, m)
    for _ in range(_ROUNDS):
        new = squares_from_others(Z, inside) <= square_limit(int(inside.sum()) - 1, p, level)
        if new.sum() < max(n // 2, p + 2) or np.array_equal(new, inside):
            break
        inside = new
    return inside


def centrality(scores: FloatArray, orthogonal: FloatArray, counts: _Mask) -> FloatArray:
    """Return how far out each row lies, along the subspace or off it, by robust units of each."""
    about = np.abs(scores - np.median(scores[counts], axis=0))
    along = np.linalg.norm(about / np.maximum(np.median(about[counts], axis=0), 1e-300), axis=1)
    parts = [d / max(float(np.quantile(d[counts], 0.25)), 1e-300) for d in (along, orthogonal)]
    return np.asarray(np.maximum(*parts))


def squares_from_others(Z: FloatArray, inside: _Mask) -> FloatArray:
    """Return the squared Mahalanobis distance of each row of Z (n, p) from the *other* rows inside.

    A row inside pulls mean and covariance towards itself. Without it they need not be computed
    again: of m rows, `a = m d²/(m−1)²` becomes `a/(1−a)`, up to a factor.
    """
    m = int(inside.sum())
    found = _squares(Z, inside)
    a = np.minimum(m * found[inside] / (m - 1) ** 2, 1.0 - 2.0**-40)
    found[inside] = m * (m - 2) / (m - 1) * a / (1.0 - a)
    return found


def square_limit(m: int, p: int, level: float) -> float:
    """Return the square that a clean row exceeds with probability `level`, given m other rows.

    Hotelling's law of the distance from a mean and a covariance of m Gaussian rows.
    """
    return float(p * (m**2 - 1) / (m * (m - p)) * f.isf(level, p, m - p))


def mean_and_covariance(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both; a grain of the identity keeps the covariance invertible."""
    p = Z.shape[1]
    covariance = np.cov(Z, rowvar=False).reshape(p, p)
    grain = 2.0**-40 * max(float(np.trace(covariance)), 1e-300)
    return Z.mean(axis=0), covariance + grain * np.eye(p)


def _squares(Z: FloatArray, inside: _Mask) -> FloatArray:
    mean, covariance = mean_and_covariance(Z[inside])
    about = (Z - mean).T
    return np.asarray((about * np.linalg.solve(covariance, about)).sum(axis=0))


def _least(d: FloatArray, m: int) -> _Mask:
    """Return which m values are the least."""
    least = np.zeros(len(d), dtype=bool)
    least[np.argsort(d, kind="stable")[:m]] = True
    return least
