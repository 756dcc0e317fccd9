"""Outliers of small tables: rows grow from the central half, and exact laws judge each row.

The laws are those of Gaussian rows of which mean and covariance are estimated (Hotelling; Wilks
1963; Cerioli 2010): no factor is tuned, and they hold for every number of rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, f

from stillspace._typing import FloatArray

_Mask = npt.NDArray[np.bool_]

LEFT_OUT = 0.1
"""Probability with which a row of a clean table is left out of the rows that set the cut-offs."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Squared distances of rows from the other clean rows, and what clean rows hardly exceed."""

    inside: _Mask
    """(n,), the rows whose mean and covariance the distances are measured by."""
    along: FloatArray
    """(n,), along the subspace."""
    across: FloatArray
    """(n,), across the subspace."""
    along_limit: float
    across_limit: float
    along_lost: float = 1.0
    """The covariance along the subspace is that of the rows inside times this."""
    across_lost: float = 1.0

    @property
    def within(self) -> _Mask:
        """(n,), rows that exceed neither limit."""
        return (self.along <= self.along_limit) & (self.across <= self.across_limit)

    @property
    def leverage(self) -> float:
        """How much a row's squared distance along the subspace adds to its uncertainty across."""
        others = int(self.inside.sum()) - 1
        return others / (others**2 - 1.0)


def judged(
    scores: FloatArray,
    R: FloatArray,
    counts: _Mask,
    central: FloatArray,
    level: float,
    *,
    given_scores: bool,
) -> Judged:
    """Measure rows with scores (n, r) along a subspace and coordinates R (n, q) across it.

    Clean rows (`clean_rows`) judge all rows; then the rows that exceed a limit are left out, once
    more among all that count, and the others judge again, as in reweighted estimates of the
    covariance. With `given_scores` the distance across is that from the value which the scores
    predict, in units of the error of this prediction. It is independent of the distance along.
    Otherwise R has one column, and the scores are taken to say nothing of it.
    """
    Z = np.column_stack([scores, R])
    inside = np.zeros(len(Z), dtype=bool)
    inside[counts] = clean_rows(Z[counts], central[counts])
    first = _judged_by(inside, scores, R, level, given_scores)
    kept = counts & first.within
    if kept.sum() < max(np.count_nonzero(counts) // 2, Z.shape[1] + 2):
        return first
    sides = level if given_scores else 2.0 * level
    lost = tail_lost(scores.shape[1], level), tail_lost(R.shape[1], sides)
    return _judged_by(kept, scores, R, level, given_scores, lost)


def _judged_by(
    inside: _Mask,
    scores: FloatArray,
    R: FloatArray,
    level: float,
    given_scores: bool,
    lost: tuple[float, float] = (1.0, 1.0),
) -> Judged:
    others, r, q = int(inside.sum()) - 1, scores.shape[1], R.shape[1]
    squares = squares_from_others(scores, inside)
    limit, along = square_limit(others, r, level), squares / lost[0]
    if q == 0:
        return Judged(inside, along, np.zeros(len(R)), limit, 0.0, *lost)
    if not given_scores:  # one column: both of its sides
        across = squares_from_others(R, inside) / lost[1]
        return Judged(inside, along, across, limit, square_limit(others, q, 2.0 * level), *lost)
    both = squares_from_others(np.column_stack([scores, R]), inside)
    found = Judged(inside, along, both, limit, square_limit(others, q, level, given=r), *lost)
    across = np.maximum(both - squares, 0.0) / lost[1] / (1.0 + found.leverage * along)
    return replace(found, across=across)


def clean_rows(Z: FloatArray, central: FloatArray) -> _Mask:
    """Return which rows of Z (n, p) have no outlier among them, as far as can be told.

    From the half of the rows that are most `central` (least values), the nearest row outside joins
    until that row is an outlier of the rows inside: one such row in a clean table has probability
    `LEFT_OUT`. One at a time, since few rows say little of what lies outside.
    """
    n, p = Z.shape
    m = max((n + p + 1) // 2, p + 2)
    inside = _least(central, m)
    while m < n:
        d = _squares(Z, inside)
        if d[~inside].min() > square_limit(m, p, LEFT_OUT / n):
            break
        m += 1
        inside = _least(d, m)
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


def square_limit(m: int, p: int, level: float, *, given: int = 0) -> float:
    """Return the square that a clean row exceeds with probability `level`, given m other rows.

    Hotelling's law of the distance along p columns from a mean and a covariance of m Gaussian rows.
    If as many columns as `given` are known already, it is the law of what p further columns add
    (Rao 1948): the distance from the regression on the known ones.
    """
    dof = m - p - given
    return float(p * (m**2 - 1) / (m * dof) * f.isf(level, p, dof))


def tail_lost(p: int, level: float) -> float:
    """Return variance over that of rows without their tail, for Gaussian rows of p columns.

    The tail are the rows whose distance is exceeded with a probability below `level`.
    """
    if p == 0:
        return 1.0
    limit = chi2.isf(level, p)
    return float(chi2.cdf(limit, p) / chi2.cdf(limit, p + 2))


def mean_and_covariance(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both; a grain of each variance keeps the covariance invertible."""
    p = Z.shape[1]
    return Z.mean(axis=0), grained(np.cov(Z, rowvar=False).reshape(p, p))


def grained(covariance: FloatArray) -> FloatArray:
    """Return a covariance with a grain more of each variance."""
    least = max(2.0**-40 * float(np.trace(covariance)), 1e-300)
    return covariance + 2.0**-40 * np.diag(np.maximum(np.diag(covariance), least))


def _squares(Z: FloatArray, inside: _Mask) -> FloatArray:
    mean, covariance = mean_and_covariance(Z[inside])
    about = (Z - mean).T
    return np.asarray((about * np.linalg.solve(covariance, about)).sum(axis=0))


def _least(d: FloatArray, m: int) -> _Mask:
    """Return which m values are the least."""
    least = np.zeros(len(d), dtype=bool)
    least[np.argsort(d, kind="stable")[:m]] = True
    return least
