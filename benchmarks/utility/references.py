"""Subspaces that no private method is given: the optima of PCA and of GLAD without noise."""

import warnings

import numpy as np

from stillspace import RobustPCA
from stillspace._typing import FloatArray
from stillspace.parts.geometry import top_eigenvectors


def pca_optimum(X: FloatArray, r: int) -> FloatArray:
    """Return the top r eigenvectors (D, r) of the second moment."""
    return top_eigenvectors(X.T @ X, r)


def glad_optimum(X: FloatArray, r: int, *starts: FloatArray) -> FloatArray:
    """Return the basis (D, r) of the lowest mean distance, found from PCA's and given starts."""
    options: list[dict[str, object]] = [{}, *({"start": start.T} for start in starts)]
    found = [_irls(X, r, option) for option in options]
    return min(found, key=lambda V: mean_distance(X, V))


def mean_distance(X: FloatArray, V: FloatArray) -> float:
    """Return the cost of GLAD."""
    return float(np.linalg.norm(X - (X @ V) @ V.T, axis=1).mean())


def _irls(X: FloatArray, r: int, options: dict[str, object]) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no convergence in 1000 passes: the cost decides
        fit = RobustPCA(r, algorithm="irls", center=None, algorithm_options=options).fit(X)
    return np.asarray(fit.components_.T)
