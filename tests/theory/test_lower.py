"""The lower bound: each step of its proof against independent numbers, and methods above it."""

import csv
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from benchmarks.limit import bounds
from scipy.integrate import quad

from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.privacy import mu_from_budget
from stillspace.theory import lower_bound
from stillspace.theory.lower import inlier_information


def projector(kappa):
    """Return the projector whose lower left block is κ (docs/theory.md), by its formula."""
    m, r = kappa.shape

    def root(M):
        values, axes = np.linalg.eigh(np.eye(len(M)) - 4.0 * M)
        return axes @ np.diag(np.sqrt(values)) @ axes.T

    A = 0.5 * (np.eye(r) + root(kappa.T @ kappa))
    B = 0.5 * (np.eye(m) - root(kappa @ kappa.T))
    return np.block([[A, kappa.T], [kappa, B]])


def test_the_information_of_an_inlier_is_that_of_its_covariance():
    """½ tr(Σ⁻¹Σ'Σ⁻¹Σ') along a geodesic, Σ' by differences."""
    rng = np.random.default_rng(0)
    D, r, noise, h = 6, 2, 0.3, 1e-5
    Q = np.linalg.qr(rng.standard_normal((D, D)))[0]
    V, W = Q[:, :r], Q[:, r : 2 * r]
    angles = rng.standard_normal(r)

    def covariance(t):
        U = V * np.cos(t * angles) + W * np.sin(t * angles)
        return U @ U.T / r + noise**2 / D * np.eye(D)

    slope = (covariance(h) - covariance(-h)) / (2 * h)
    solved = np.linalg.solve(covariance(0.0), slope)
    found = 0.5 * np.trace(solved @ solved) / np.sum(angles**2)
    assert found == pytest.approx(inlier_information(D, r, noise), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_chart_of_the_proof(seed):
    """P(κ) is a projector, and ½‖dP‖² ≤ ‖dκ‖²/(1 − 4τ²) where ‖κ‖ ≤ τ."""
    rng = np.random.default_rng(seed)
    m, r = 4, 2
    kappa = rng.standard_normal((m, r))
    tau = rng.uniform(0.05, 0.48)
    kappa *= tau / np.linalg.norm(kappa, 2)
    P = projector(kappa)
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    assert np.trace(P) == pytest.approx(r)
    for _ in range(20):
        step = 1e-6 * rng.standard_normal((m, r))
        moved = (projector(kappa + step) - projector(kappa - step)) / 2.0
        ratio = 0.5 * np.sum(moved**2) / np.sum(step**2)
        assert ratio <= 1.0 / (1.0 - 4.0 * tau**2) + 1e-6
        # Whatever an estimate is, its error is at least that of its lower left block.
        other = projector(0.3 * rng.standard_normal((m, r)) / 3.0)
        assert 0.5 * np.sum((other - P) ** 2) >= np.sum((other - P)[r:, :r] ** 2) - 1e-12


def test_the_information_of_the_prior():
    """Entries with density cos²(πx/2w)/w on [−w, w] have information π²/w²."""
    w = 0.37

    def squared_score(x):
        return (pi / w * np.tan(pi * x / (2 * w))) ** 2 * np.cos(pi * x / (2 * w)) ** 2 / w

    edge = w * (1 - 1e-9)
    assert quad(squared_score, -edge, edge)[0] == pytest.approx(pi**2 / w**2, rel=1e-6)


def test_the_bound_by_hand():
    """Every radius gives a bound; the best one is at least as large as one by hand."""
    n, D, r, share, noise, mu = 20_000, 20, 2, 0.5, 0.1, 0.5
    found = lower_bound(n, D, r, share, noise, mu=mu)
    a, b, d, tau = 0.5, 0.01 / 20, 36, 0.25
    lam = a**2 / ((a + b) * b) / (1 - 4 * tau**2)
    private = d / (0.5 * n * sqrt(np.exp(mu**2) - 1) * sqrt(lam) + pi * d / tau)
    sampling = d**2 / (0.5 * n * d * lam + (pi * d / tau) ** 2)
    assert private**2 <= found.private <= 1.5 * private**2
    assert sampling <= found.sampling <= 1.5 * sampling
    # For many rows: d/(n_in λ) and d²/(n_in² (e^μ² − 1) λ).
    many = lower_bound(10**9, D, r, share, noise, mu=mu)
    lam = inlier_information(D, r, noise)
    assert many.sampling == pytest.approx(d / (5e8 * lam), rel=0.02)
    assert many.private == pytest.approx(d**2 / (5e8**2 * np.expm1(mu**2) * lam), rel=0.02)
    assert many.error == max(many.sampling, many.private)


def test_more_rows_privacy_loss_or_less_noise_lower_it():
    base = lower_bound(1000, 10, 2, 0.5, 0.2, mu=0.3)
    for changed in (
        lower_bound(2000, 10, 2, 0.5, 0.2, mu=0.3),
        lower_bound(1000, 10, 2, 0.5, 0.2, mu=0.6),
        lower_bound(1000, 10, 2, 0.9, 0.2, mu=0.3),
        lower_bound(1000, 10, 2, 0.5, 0.1, mu=0.3),
    ):
        assert changed.private < base.private
    assert lower_bound(1000, 10, 2, 0.5, 0.2, mu=40.0).private == 0.0
    budget = lower_bound(1000, 10, 2, 0.5, 0.2, epsilon=1.0, delta=1e-6)
    assert budget == lower_bound(1000, 10, 2, 0.5, 0.2, mu=mu_from_budget(1.0, 1e-6))


@pytest.mark.parametrize("privately", [False, True])
def test_real_methods_lie_above(privately):
    """PCA of the inliers, and Gaussian-noise PCA in plain NumPy, over 20 tables each.

    The bound is on a mean over subspaces and rows. Both methods are equivariant, so every subspace
    has the same mean. A mean of 20 errors, each a sum of 16 squares, is off by a third at 6σ.
    """
    n, D, r, share, noise, mu = 400, 10, 2, 0.5, 0.6, 0.4
    rng = np.random.default_rng(3)
    errors = []
    for seed in range(20):
        data = make_haystack(
            n, D, r, inlier_ratio=share, inlier_noise=noise, random_state=seed, spherical=False
        )
        X = data.X if privately else data.X[data.inliers]
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
        M = X.T @ X
        if privately:  # replace-one: two rows xxᵀ of norm 1 differ by at most √2
            G = rng.standard_normal((D, D))
            M = M + sqrt(2.0) / mu * (G + G.T) / 2.0
        components = np.linalg.eigh(M)[1][:, -r:].T
        errors.append(subspace_error(components, data.components))
    bound = lower_bound(n, D, r, share, noise, mu=mu)
    assert np.mean(errors) > (bound.private if privately else bound.sampling) * 2.0 / 3.0
    assert bound.error > 1e-3  # and it is not an empty promise


def prior_draws(rng, shape, w):
    """Entries with density cos²(πx/2w)/w on [−w, w], by rejection."""
    x = rng.uniform(-w, w, (20, *shape))
    kept = rng.uniform(size=x.shape) < np.cos(pi * x / (2 * w)) ** 2
    first = np.argmax(kept, axis=0)
    assert kept.any(axis=0).all()
    return np.take_along_axis(x, first[None], axis=0)[0]


@pytest.mark.parametrize("mu", [None, 0.3, 2.0])
@pytest.mark.parametrize("tau", [0.15, 0.4])
@pytest.mark.parametrize("inliers", [5, 40, 400])
def test_no_shrunken_estimate_beats_the_bound_under_its_own_prior(mu, tau, inliers):
    """κ from the prior of the proof, inliers known: private PCA of them, shrunk towards L₀.

    The best of 8 shrinkages, chosen with hindsight, and L₀ itself is among them. 150 tables; the
    mean is 5 standard errors below its expectation with probability below 1e-6.
    """
    rng = np.random.default_rng(7)
    D, r, noise, tables = 5, 2, 0.8, 150
    d = r * (D - r)
    lam = inlier_information(D, r, noise) / (1 - 4 * tau**2)
    J = (pi * d / tau) ** 2
    bound = d**2 / (inliers * d * lam + J)
    if mu is not None:
        bound = max(bound, (d / (inliers * sqrt(np.expm1(mu**2) * lam) + sqrt(J))) ** 2)
    shrinkages = np.linspace(0.0, 1.0, 8)
    errors = np.empty((tables, len(shrinkages)))
    for t in range(tables):
        truth = projector(prior_draws(rng, (D - r, r), tau / sqrt(d)))
        covariance = truth / r + noise**2 / D * np.eye(D)
        X = rng.multivariate_normal(np.zeros(D), covariance, inliers)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        M = X.T @ X
        if mu is not None:
            G = rng.standard_normal((D, D))
            M = M + sqrt(2.0) / mu * (G + G.T) / 2.0
        V = np.linalg.eigh(M)[1][:, -r:]
        kappa = (V @ V.T)[r:, :r]
        errors[t] = [0.5 * np.sum((projector(0.999 * c * kappa) - truth) ** 2) for c in shrinkages]
    means = errors.mean(axis=0)
    best = int(np.argmin(means))
    assert means[best] + 5 * errors[:, best].std() / sqrt(tables) > bound
    assert bound > 0.02 * means[best]  # and it is of the right order


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Give mu, or both epsilon and delta"),
        ({"epsilon": 1.0}, "Give mu, or both epsilon and delta"),
        ({"mu": 1.0, "epsilon": 1.0, "delta": 1e-6}, "either mu or epsilon and delta"),
        ({"mu": -1.0}, "mu must be a number"),
        ({"mu": 1.0, "noise": 0.0}, "noise must be a number"),
        ({"mu": 1.0, "r": 5}, "5"),
    ],
)
def test_wrong_inputs(options, sentence):
    facts = {"n": 100, "D": 5, "r": 2, "share": 0.5, "noise": 0.1, **options}
    with pytest.raises(ValueError, match=sentence):
        lower_bound(**facts)


def test_the_published_table_has_these_bounds():
    """docs/limit.csv is written by `python -m benchmarks.limit`; its bounds are those of today."""
    with open(Path(__file__).parents[2] / "docs" / "limit.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    for row in rows:
        found = bounds(int(row["n"]), float(row["noise"]))
        for name, value in found.items():
            assert float(row[name]) == pytest.approx(value, rel=1e-3)
        assert float(row["PrivateRobustPCA"]) > max(found.values())
