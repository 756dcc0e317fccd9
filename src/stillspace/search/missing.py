"""Missing cells of a robust fit: first from rows alike, then from the subspace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stillspace._typing import FloatArray


@dataclass(frozen=True, slots=True)
class MissingRule:
    """How missing cells are filled."""

    donors: int = 1000
    """Rows from which cells are taken at first; enough that each row has some alike."""
    nearest: int = 10
    """Donors whose cells are averaged (by the median); more would blur, fewer would be noisy."""
    rounds: int = 6
    """Rounds of: fill from the subspace, fit again. The change falls about tenfold per round."""
    block: int = 2048
    """Rows whose distances to the donors are held at a time."""


RULE = MissingRule()


def filled_by_neighbours(
    X: FloatArray, rng: np.random.Generator, rule: MissingRule = RULE
) -> FloatArray:
    """Return X (n, D) with each NaN replaced by the median of that column over the nearest donors.

    Distances are root mean squares over the cells that both rows have, each column in units of its
    median deviation.
    """
    middle = np.nan_to_num(_nanmedian(X))
    spread = np.nan_to_num(_nanmedian(np.abs(X - middle)))
    unit = np.where(spread > 0.0, spread, 1.0)
    donors = X[rng.permutation(len(X))[: rule.donors]]
    filled = X.copy()
    rows = np.flatnonzero(np.isnan(X).any(axis=1))
    for at in range(0, len(rows), rule.block):
        some = rows[at : at + rule.block]
        apart = _apart((X[some] - middle) / unit, (donors - middle) / unit)
        filled[some] = _from_donors(X[some], donors, apart, middle, rule.nearest)
    return filled


def filled_from_subspace(
    X: FloatArray, V: FloatArray, variances: FloatArray, noise: float
) -> FloatArray:
    """Return centred rows (n, D) with each NaN replaced by its expectation.

    Rows are taken for a Gaussian on the span of V (D, r) with these variances of the scores, and
    noise of variance `noise` per cell. Then the scores given the cells that are there are a ridge
    regression, `(V_oᵀV_o + noise Λ⁻¹)⁻¹ V_oᵀ x_o`.
    """
    present = ~np.isnan(X)
    rows = np.flatnonzero(~present.all(axis=1))
    if not len(rows):
        return X
    D, r = V.shape
    known = np.where(present[rows], X[rows], 0.0)
    outer = (V[:, :, None] * V[:, None, :]).reshape(D, r * r)
    ridge = noise / np.maximum(variances, np.finfo(float).tiny)
    ridge = np.minimum(ridge, 1e12) + 1e-12  # a row without cells sits at the centre
    A = (present[rows].astype(np.float64) @ outer).reshape(-1, r, r) + np.diag(ridge)
    scores = np.linalg.solve(A, (known @ V)[:, :, None])[:, :, 0]
    filled = X.copy()
    filled[rows] = np.where(present[rows], X[rows], scores @ V.T)
    return filled


def _apart(rows: FloatArray, donors: FloatArray) -> FloatArray:
    """Return mean squared differences (rows, donors) over common cells; infinite without any."""
    here, there = (~np.isnan(S) for S in (rows, donors))
    a, b = np.nan_to_num(rows), np.nan_to_num(donors)
    H, T = here.astype(np.float64), there.astype(np.float64)
    total = (a**2) @ T.T + H @ (b**2).T - 2.0 * (a @ b.T)
    common = H @ T.T
    return np.where(common > 0.0, total / np.maximum(common, 1.0), np.inf)


def _from_donors(
    rows: FloatArray, donors: FloatArray, apart: FloatArray, middle: FloatArray, nearest: int
) -> FloatArray:
    filled = rows.copy()
    for j in np.flatnonzero(np.isnan(rows).any(axis=0)):
        holes, givers = np.isnan(rows[:, j]), ~np.isnan(donors[:, j])
        if not givers.any():
            filled[holes, j] = middle[j]
            continue
        k = min(nearest, int(givers.sum()))
        order = np.argpartition(apart[np.ix_(holes, givers)], k - 1, axis=1)[:, :k]
        filled[holes, j] = np.median(donors[givers, j][order], axis=1)
    return filled


def _nanmedian(X: FloatArray) -> FloatArray:
    """Return column medians; NaN for a column without a cell, and without NumPy's warning."""
    found = np.full(X.shape[1], np.nan)
    some = ~np.isnan(X).all(axis=0)
    found[some] = np.nanmedian(X[:, some], axis=0)
    return found
