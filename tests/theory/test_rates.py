"""REAPER's excess cost and the private PCA start: what is promised, simulated."""

from math import inf, pi, sqrt

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.metrics import chordal_gap, subspace_error
from stillspace.parts.geometry import rebuild, water_fill
from stillspace.privacy import mu_from_budget
from stillspace.theory import pca_start, reaper_stability
from stillspace.theory.rates import reaper_rate
from stillspace.theory.starts import private_pca_start


def cost(X, P):
    return np.linalg.norm(X - X @ P, axis=1).mean()


def symmetric_noise(rng, D, sigma):
    Z = rng.standard_normal((D, D))
    return sigma * (Z + Z.T) / 2.0


def descent(rng, X, r, steps, sigma):
    """Projected subgradient descent on REAPER's cost; returns the average iterate."""
    n, D = X.shape
    P = np.eye(D) * r / D
    mean = np.zeros((D, D))
    for k, eta in enumerate(steps):
        mean += (P - mean) / (k + 1)
        R = X - X @ P
        R /= np.maximum(np.linalg.norm(R, axis=1), 1e-12)[:, None]
        G = (R.T @ X + X.T @ R) / (2 * n)
        values, U = np.linalg.eigh(P + eta * (G + symmetric_noise(rng, D, sigma)))
        P = rebuild(U, water_fill(values, r))
    return mean


@pytest.fixture(scope="module")
def data():
    return make_haystack(400, 8, 1, inlier_ratio=0.97, random_state=0)


@pytest.mark.parametrize(("scale", "sigma"), [(None, 0.0), (None, 0.05), (8.0, 0.05), (0.3, 0.2)])
def test_the_mean_excess_cost_is_below_its_bound(data, scale, sigma):
    """The mean of 12 runs is below the bound on the expectation; it is far below in fact."""
    T, rng = 150, np.random.default_rng(0)
    rate = reaper_rate(400, 8, 1, n_iter=T, sigma=sigma, scale=scale)
    steps = [rate.step] * T if scale is None else scale / np.sqrt(np.arange(1, T + 1))
    least = cost(data.X, data.components.T @ data.components)  # the minimum: S_R > 0
    stable = reaper_stability(data.X[data.inliers], data.X[~data.inliers], data.components)
    assert stable.lower > 0.0
    excess, distances = [], []
    for _ in range(12):
        P = descent(rng, data.X, 1, steps, sigma)
        excess.append(cost(data.X, P) - least)
        top = np.linalg.eigh(P)[1][:, -1:]
        distances.append(sqrt(subspace_error(top.T, data.components)))
        assert distances[-1] <= pi / 2 * excess[-1] / stable.lower  # for each answer, not the mean
    assert min(excess) >= -1e-12
    assert np.mean(excess) <= rate.excess
    assert np.mean(distances) <= rate.distance(stable.lower)


def test_the_rate_by_its_formula():
    mu = mu_from_budget(1.0, 1e-6)
    n, D, r, T = 10_000, 20, 2, 10**9
    rate = reaper_rate(n, D, r, n_iter=T, epsilon=1.0, delta=1e-6)
    assert rate.sigma == pytest.approx(sqrt(2 * T) / (n * mu))
    limit = sqrt(4.0 * D * (D + 1)) / (n * mu)
    assert rate.excess == pytest.approx(limit, rel=1e-3)
    # Of order 1/n when T is of order n².
    twice = reaper_rate(2 * n, D, r, n_iter=4 * T, epsilon=1.0, delta=1e-6)
    assert twice.excess == pytest.approx(rate.excess / 2)
    assert rate.distance(0.1) == pytest.approx(pi / 2 * rate.excess / 0.1)
    assert rate.distance(0.0) == inf
    best = reaper_rate(n, D, r, n_iter=500, sigma=0.1).excess
    assert all(reaper_rate(n, D, r, n_iter=500, sigma=0.1, scale=c).excess > best for c in (0.1, 1))
    with pytest.raises(ValueError, match="epsilon and delta"):
        reaper_rate(n, D, r, n_iter=5)


def test_private_pca_starts_where_it_is_promised():
    """200 draws with failure 1e-4: a false alarm has probability 0.02 at most, in fact far less."""
    data = make_haystack(2000, 10, 2, inlier_ratio=0.8, random_state=0)
    inner, outer = data.X[data.inliers], data.X[~data.inliers]
    budget = {"epsilon": 1.0, "delta": 1e-6}
    found = private_pca_start(inner, outer, 2, gamma=0.9, failure=1e-4, **budget)
    plain = pca_start(inner, outer, 2, gamma=0.9)
    assert 0.7 < found.cosine < plain.cosine
    assert found.margin < plain.margin
    rng = np.random.default_rng(0)
    sigma = sqrt(2.0) / mu_from_budget(**budget)
    worst = 1.0
    for _ in range(200):
        W = symmetric_noise(rng, 10, sigma)
        assert np.linalg.norm(W, 2) <= found.noise
        V = np.linalg.eigh(data.X.T @ data.X + W)[1][:, -2:]
        worst = min(worst, 1.0 - chordal_gap(V.T, data.components))
    assert worst >= found.cosine
    assert found.noise < 2.0 * sigma * sqrt(2 * 10)


def test_a_small_budget_promises_no_start():
    data = make_haystack(100, 10, 2, inlier_ratio=0.8, random_state=0)
    inner, outer = data.X[data.inliers], data.X[~data.inliers]
    found = private_pca_start(inner, outer, 2, gamma=0.8, epsilon=0.1, delta=1e-6)
    assert found.cosine == 0.0
    assert not found.holds
