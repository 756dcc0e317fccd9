"""Private maps of scores: ours against the method of R's package dppca, at the same (ε, δ).

The method of dppca 0.1.0 (Jo and Kim, CRAN, 2026) is written again here from its documentation: a
third of (ε, δ) buys directions (eigenvectors of a spherical Kendall matrix with Gaussian noise), a
third buys the frame of the map, and a third buys the counts ("add": Gaussian noise; "sparse":
Laplace noise on cells that are not empty, small ones set to zero).

What favours dppca here: it centres rows without noise, and its frame is taken without noise, too.
Both methods get the centre and the scale of the columns, and the same number of cells.

    python -m benchmarks.score_maps
"""

from __future__ import annotations

import warnings
from math import log, sqrt

import numpy as np

from benchmarks.utility.kendall import kendall_matrix
from stillspace import PrivateRobustPCA
from stillspace.exceptions import SeededNoiseWarning
from stillspace.metrics import subspace_error

DELTA, RUNS = 1e-6, 5
TABLES = (("clean", 0.0), ("15 % outliers in one group", 0.15))
SIZES, EPSILONS = (3000, 10_000), (1.0, 3.0)
D, NOISE = 8, 0.15
INSIDE, INFLATED = 0.99, 1.2
"""dppca's frame: the part of the rows within its radius, and the factor of that radius."""


def table(n, outliers, seed):
    """Return rows in three groups on a plane, some of them replaced by outliers, and the plane."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((D, 3)))[0]
    middles = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])
    scores = middles[rng.integers(3, size=n)] + 0.5 * rng.standard_normal((n, 2))
    X = scores @ V[:, :2].T + NOISE * rng.standard_normal((n, D))
    wrong = rng.permutation(n)[: int(outliers * n)]
    X[wrong] = 6.0 * V[:, 2] + 0.3 * rng.standard_normal((len(wrong), D))
    return X, V[:, :2].T


def histogram(scores, middle, radius, bins):
    """Return the share of the rows per cell; rows outside the frame count in the nearest cell."""
    edges = np.linspace(-radius, radius, bins + 1)[1:-1]
    cells = [np.searchsorted(edges, scores[:, k] - middle[k]) for k in range(2)]
    counts = np.bincount(cells[0] * bins + cells[1], minlength=bins * bins)
    return counts / len(scores)


def dppca(X, epsilon, delta, bins, method, rng):
    """Return directions, shares per cell, and the true shares of the same scores."""
    epsilon, delta = epsilon / 3.0, delta / 3.0
    n = len(X)
    X = X - X.mean(axis=0)
    sd = 4.0 * sqrt(2.0 * log(1.25 / delta)) / (n * epsilon)
    noise = np.triu(sd * rng.standard_normal((D, D)))
    noisy = kendall_matrix(X) + noise + np.triu(noise, 1).T
    V = np.linalg.eigh(noisy)[1][:, : -2 - 1 : -1]
    scores = X @ V
    middle = np.median(scores, axis=0)
    radius = INFLATED * np.quantile(np.linalg.norm(scores - middle, axis=1), INSIDE)
    true = histogram(scores, middle, radius, bins)
    if method == "add":
        sigma = sqrt(2.0) * sqrt(2.0 * log(1.25 / delta)) / (epsilon * n)
        found = np.maximum(true + sigma * rng.standard_normal(true.shape), 0.0)
    else:
        found = true + rng.laplace(scale=2.0 / (epsilon * n), size=true.shape)
        floor = 2.0 * log(2.0 / delta) / (epsilon * n) + 1.0 / n
        found = np.where((true > 0.0) & (found >= floor), found, 0.0)
    return V.T, found / max(found.sum(), 1e-12), true


def ours(X, epsilon, delta, seed):
    """Return directions, shares per cell (negative ones cut off), the true ones, and the bins."""
    fit = PrivateRobustPCA(
        2, epsilon=epsilon, delta=delta, center=None, scale=None, summaries=("scores",),
        random_state=seed,
    ).fit(X)  # fmt: skip
    made = fit.score_map_
    length = np.linalg.norm(X, axis=1, keepdims=True)
    scores = X * np.minimum(1.0, made.length / length) @ fit.components_.T
    bins = len(made.shares)
    true = histogram(scores, (0.0, 0.0), made.length, bins)
    found = np.where(made.shares > 2.0 * made.sd, made.shares, 0.0).ravel()
    return fit.components_, found / max(found.sum(), 1e-12), true, bins


def measured(n, outliers, epsilon):
    """Return medians over runs: d² of the directions and the wrong part of the map, per method."""
    found = {"stillspace": [], "dppca add": [], "dppca sparse": []}
    for seed in range(RUNS):
        X, plane = table(n, outliers, seed)
        V, shares, true, bins = ours(X, epsilon, DELTA, seed)
        found["stillspace"].append((subspace_error(V, plane), wrong_part(shares, true)))
        for method in ("add", "sparse"):
            rng = np.random.default_rng(1000 + seed)
            V, shares, true = dppca(X, epsilon, DELTA, bins, method, rng)
            found[f"dppca {method}"].append((subspace_error(V, plane), wrong_part(shares, true)))
    return bins, {name: np.median(values, axis=0) for name, values in found.items()}


def wrong_part(shares, true):
    """Return the total-variation distance: the part of the rows that is drawn in wrong cells."""
    return 0.5 * float(np.abs(shares - true).sum())


def main():
    names = ("stillspace", "dppca add", "dppca sparse")
    print(
        "| table | rows | ε | cells | " + " | ".join(f"{n}: d², wrong part" for n in names) + " |"
    )
    print("|---" * 7 + "|")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        for title, outliers in TABLES:
            for n in SIZES:
                for epsilon in EPSILONS:
                    bins, found = measured(n, outliers, epsilon)
                    shown = [f"{found[m][0]:.1g}, {found[m][1]:.0%}" for m in names]
                    print(
                        f"| {title} | {n} | {epsilon:g} | {bins} × {bins} | {' | '.join(shown)} |"
                    )


if __name__ == "__main__":
    main()
