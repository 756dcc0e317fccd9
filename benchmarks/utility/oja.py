"""DP-PCA and k-DP-PCA: private PCA by one pass of noisy gradient steps on disjoint batches.

DP-PCA: Liu, Kong, Jain and Oh, "DP-PCA: Statistically Optimal and Differentially Private PCA",
NeurIPS 2022 (arXiv 2205.13709), for one component. k-DP-PCA: Düngler and Sanyal, "An Iterative
Algorithm for Differentially Private k-PCA with Adaptive Noise", NeurIPS 2025 (arXiv 2508.10879):
DP-PCA on one k-th of the rows per component, each after projecting out the components before.

Written from public descriptions of the papers, not from their pseudocode. A batch is halved.
The first half tells the spread of the gradients `g = x(x·w)`: the largest eigenvalue of the
covariance of g in each of k groups of rows, as a noisy histogram over octaves, the fullest bin
counts. The second half gives the mean of g: each coordinate is cut to a range around the fullest
bin of its own noisy histogram, and Gaussian noise is added in proportion to that range. So the
noise adapts to the spread. A row is in one half of one batch: each half may use the whole budget.

Choices of ours, all but the last two in favour of the methods:

- noise is Gaussian everywhere with exact composition (the papers: stability-based histograms and
  advanced composition);
- rows have length at most 1, so that two gradients differ by at most 1; where that bound asks for
  less noise than the range does, it is used, and no histogram of coordinates is bought;
- the range is `RANGE` standard deviations on each side (the papers: a power of a logarithm);
- steps are power steps, the limit of a large learning rate, and there are `STEPS` of them. Both
  were chosen once on the development tables, of 1, 2, 3, 5 and 8 steps and of rates 1, 3, 10 and ∞
  over the first eigenvalue (the papers: rates that need to know the eigenvalues);
- the number of groups is `GROUPS`/μ.
"""

from math import ceil, inf, sqrt

import numpy as np

from stillspace._typing import FloatArray

STEPS = 5
RATE = inf
RANGE = 3.0
"""Standard deviations of the gradients that their range holds on each side of the middle."""
GROUPS = 16.0
"""Groups of rows, times μ, that tell the spread; the noise of a bin is √2/μ."""
OCTAVES = 24
"""Bins of the spread: [2^−j, 2^(1−j)), the last one with all that is below."""
RANGE_SHARE = 0.25
"""Of μ²: the histograms of the coordinates, where they are bought."""


def k_dp_pca(
    X: FloatArray, r: int, mu: float, rng: np.random.Generator, *, steps: int = STEPS,
    rate: float = RATE,
) -> FloatArray:  # fmt: skip
    """Return a private basis (D, r) of rows of length at most 1; for r = 1 this is DP-PCA."""
    D = X.shape[1]
    V = np.zeros((D, 0))
    for part in np.array_split(X[rng.permutation(len(X))], r):
        w = top_direction(part, V, mu, rng, steps, rate)
        V = np.linalg.qr(np.column_stack([V, w]))[0]
    return np.asarray(V)


def top_direction(
    X: FloatArray, V: FloatArray, mu: float, rng: np.random.Generator, steps: int, rate: float
) -> FloatArray:
    """Return a private first direction of the rows across V."""
    X = X - (X @ V) @ V.T  # a contraction: lengths stay at most 1
    w = _across(rng.standard_normal(X.shape[1]), V)
    for batch in np.array_split(X, steps):
        half = len(batch) // 2
        spread = private_spread(batch[:half], w, mu, rng)
        g = private_mean(gradients(batch[half:], w), spread, mu, rng)
        w = _across(g if rate == inf else w + rate * g, V)
    return w


def gradients(X: FloatArray, w: FloatArray) -> FloatArray:
    return np.asarray(X * (X @ w)[:, None])


def private_spread(X: FloatArray, w: FloatArray, mu: float, rng: np.random.Generator) -> float:
    """Return the upper end of the octave that most groups' largest eigenvalues are in."""
    G = gradients(X, w)
    pairs = (G[1::2] - G[: len(G) // 2 * 2 : 2]) / sqrt(2.0)
    groups = np.array_split(pairs, max(1, min(len(pairs), ceil(GROUPS / mu))))
    counts = spread_counts(groups) + sqrt(2.0) / mu * rng.standard_normal(OCTAVES)
    return float(2.0 ** -np.argmax(counts))


def spread_counts(groups: list[FloatArray]) -> FloatArray:
    """Return how many groups have their largest eigenvalue in each octave below 1."""
    counts = np.zeros(OCTAVES)
    for group in groups:
        top = float(np.linalg.norm(group, 2) ** 2 / max(1, len(group)))
        octave = -np.log2(max(top, 2.0**-OCTAVES))
        counts[int(np.clip(octave, 0, OCTAVES - 1))] += 1.0
    return counts


def private_mean(G: FloatArray, spread: float, mu: float, rng: np.random.Generator) -> FloatArray:
    """Return the mean of the gradients with the least noise that one of two bounds asks for."""
    m, D = G.shape
    width = 2.0 * RANGE * sqrt(spread)
    if not narrow(width, D):
        return np.asarray(G.mean(axis=0) + rng.standard_normal(D) / (m * mu))
    middle = private_middle(G, width, mu * sqrt(RANGE_SHARE), rng)
    cut = np.clip(G, middle - width / 2.0, middle + width / 2.0)
    sigma = sqrt(D) * width / (m * mu * sqrt(1.0 - RANGE_SHARE))
    return np.asarray(cut.mean(axis=0) + sigma * rng.standard_normal(D))


def narrow(width: float, D: int) -> bool:
    """Return whether cutting to this width on each coordinate asks for less noise than length 1."""
    return sqrt(D) * width / sqrt(1.0 - RANGE_SHARE) < 1.0


def private_middle(G: FloatArray, width: float, mu: float, rng: np.random.Generator) -> FloatArray:
    """Return, per coordinate, the middle of the fullest bin; all histograms are one release."""
    D = G.shape[1]
    n_bins = ceil(2.0 / width)
    counts = coordinate_counts(G, width, n_bins)
    counts += sqrt(2.0 * D) / mu * rng.standard_normal(counts.shape)
    return np.asarray(-1.0 + (counts.argmax(axis=1) + 0.5) * width)


def coordinate_counts(G: FloatArray, width: float, n_bins: int) -> FloatArray:
    """Return the counts of each coordinate's cells in bins of [−1, 1]."""
    bins = np.clip(((G + 1.0) / width).astype(int), 0, n_bins - 1)
    return np.array([np.bincount(b, minlength=n_bins) for b in bins.T], dtype=float)


def _across(v: FloatArray, V: FloatArray) -> FloatArray:
    v = v - V @ (V.T @ v)
    return np.asarray(v / np.linalg.norm(v))
