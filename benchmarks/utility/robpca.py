"""Robust PCA of others, without privacy: ROBPCA, and PCA of the MCD covariance.

ROBPCA: Hubert, Rousseeuw and Vanden Branden, Technometrics 47 (2005), our implementation with the
usual constants: α = .75, 250 directions through pairs of rows, outlyingness by the univariate MCD,
the covariance of the h least outlying rows, then of all rows whose orthogonal distance is below the
Wilson–Hilferty cut-off at 97.5 %. The last step of the paper, an MCD inside the subspace, turns
axes within it and is left out: only the subspace is compared. MCD is scikit-learn's `MinCovDet`.
"""

import warnings

import numpy as np
from scipy.stats import norm

from stillspace._typing import FloatArray

ALPHA = 0.75
DIRECTIONS = 250


def robpca(X: FloatArray, r: int, seed: int = 0) -> FloatArray:
    """Return a basis (D, r)."""
    n = len(X)
    h = max(int(ALPHA * n), (n + r + 1) // 2)
    kept = np.argsort(outlyingness(X, h, np.random.default_rng(seed)), kind="stable")[:h]
    V, center = _leading(X[kept], r)
    distance = np.linalg.norm((X - center) - (X - center) @ V @ V.T, axis=1)
    middle, spread = univariate_mcd(distance[:, None] ** (2.0 / 3.0), h)
    near = distance ** (2.0 / 3.0) <= middle[0] + spread[0] * norm.ppf(0.975)
    return _leading(X[near], r)[0]


def outlyingness(X: FloatArray, h: int, rng: np.random.Generator) -> FloatArray:
    """Return the Stahel–Donoho outlyingness over directions through pairs of rows."""
    i, j = rng.integers(len(X), size=(2, DIRECTIONS))
    U = X[i] - X[j]
    U = U[np.linalg.norm(U, axis=1) > 1e-12]
    Y = X @ (U / np.linalg.norm(U, axis=1, keepdims=True)).T
    middle, spread = univariate_mcd(Y, h)
    usable = spread > 1e-12
    away = np.abs(Y[:, usable] - middle[usable]) / spread[usable]
    return np.asarray(away.max(axis=1, initial=0.0))


def univariate_mcd(Y: FloatArray, h: int) -> tuple[FloatArray, FloatArray]:
    """Return, per column, mean and deviation of the h neighbouring values of least variance.

    The deviation is made consistent for normal data.
    """
    Y = np.sort(Y, axis=0)
    n = len(Y)
    Y0 = Y - np.median(Y, axis=0)  # sums of squares lose fewer digits
    ones, squares = (np.cumsum(np.vstack([np.zeros(Y.shape[1]), p]), axis=0) for p in (Y0, Y0**2))
    means = (ones[h:] - ones[: n - h + 1]) / h
    variances = (squares[h:] - squares[: n - h + 1]) / h - means**2
    best = variances.argmin(axis=0)
    columns = np.arange(Y.shape[1])
    share = h / n
    quantile = norm.ppf((1.0 + share) / 2.0)
    factor = share / (share - 2.0 * quantile * norm.pdf(quantile)) if share < 1.0 else 1.0
    middle = means[best, columns] + np.median(Y, axis=0)
    return middle, np.sqrt(np.maximum(variances[best, columns], 0.0) * factor)


def mcd(X: FloatArray, r: int, seed: int = 0) -> FloatArray:
    """Return the leading eigenvectors (D, r) of the MCD covariance."""
    from sklearn.covariance import MinCovDet  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where a determinant grows by rounding
        found = MinCovDet(random_state=seed).fit(X).covariance_
    return np.asarray(np.linalg.eigh(found)[1][:, ::-1][:, :r])


def _leading(X: FloatArray, r: int) -> tuple[FloatArray, FloatArray]:
    center = X.mean(axis=0)
    return np.linalg.svd(X - center, full_matrices=False)[2][:r].T, center
