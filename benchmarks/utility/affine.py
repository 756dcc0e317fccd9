"""An affine subspace: inliers around an unknown centre, outliers elsewhere."""

import warnings

import numpy as np

from stillspace import PrivateRobustPCA, RobustPCA
from stillspace._typing import FloatArray
from stillspace.datasets import make_haystack
from stillspace.exceptions import SeededNoiseWarning
from stillspace.metrics import subspace_error

N, D, R, SHARE, EPSILON, DELTA = 20_000, 50, 3, 0.6, 2.0, 1e-6
RADIUS = 10.0
"""The public bound on the centre that "median" is given; the centre has length 2."""
CENTERS = ("pairs", "median")
OUTLIERS = ("around the centre", "around another point", "in one far cluster")


def made(outliers: str) -> tuple[FloatArray, FloatArray]:
    """Return rows and the directions (r, D) of the inliers' affine subspace."""
    hay = make_haystack(N, D, R, inlier_ratio=SHARE, inlier_noise=0.05, random_state=5)
    X, outside = hay.X, ~hay.inliers
    rng = np.random.default_rng(6)
    center, other = rng.standard_normal((2, D))
    center *= 2.0 / np.linalg.norm(center)
    other *= 3.0 / np.linalg.norm(other)
    if outliers == "around another point":
        X[outside] += other
    elif outliers == "in one far cluster":
        X[outside] = other + 0.1 * rng.standard_normal((int(outside.sum()), D)) / np.sqrt(D)
    return X + center, hay.components


def errors(center: str, outliers: str, count: int) -> list[float]:
    """Return d² of the library's default with each of `count` seeds."""
    X, components = made(outliers)
    radius = RADIUS if center == "median" else None
    found = []
    for seed in range(count):
        estimator = PrivateRobustPCA(
            R, epsilon=EPSILON, delta=DELTA, center=center, radius=radius, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            estimator.fit(X)
        found.append(subspace_error(estimator.components_, components))
    return found


def not_private(center: str, outliers: str) -> float:
    """Return d² of `RobustPCA` with the same way to find a centre, without noise."""
    X, components = made(outliers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # starts that disagree: that is what is looked at here
        fit = RobustPCA(R, center=center).fit(X)
    return subspace_error(fit.components_, components)
