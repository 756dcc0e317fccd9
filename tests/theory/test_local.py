"""The stability near L*, and the inequalities of docs/theory.md on random instances."""

from math import inf, sqrt

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.theory import stability
from stillspace.theory._walk import Drift, Noise, chordal_radius, gap_of_radius
from stillspace.theory.local import LocalStability, local_stability
from tests.conftest import random_basis
from tests.theory.simulate import mean_gradient, polar, sines, tilted


def instance(seed):
    """A small labelled table with skewed inliers, and a basis at any distance from L*."""
    rng = np.random.default_rng(seed)
    D = int(rng.integers(2, 9))
    r = int(rng.integers(1, D))
    truth = random_basis(rng, D, r)
    inner = rng.standard_normal((rng.integers(1, 15), r)) * rng.exponential(size=r) @ truth.T
    outer = rng.standard_normal((rng.integers(0, 6), D))
    inner, outer = (X / np.linalg.norm(X, axis=1)[:, None] for X in (inner, outer))
    V = polar(truth + 10.0 ** rng.uniform(-4.0, 1.0) * rng.standard_normal((D, r)))
    return rng, inner, outer, truth, V


def shares(inner, outer, V):
    """The inliers' and outliers' parts of the mean gradient, and the gradient."""
    n = len(inner) + len(outer)
    parts = [mean_gradient(X, V) * len(X) / n if len(X) else 0.0 * V for X in (inner, outer)]
    return *parts, parts[0] + parts[1]


def test_lemma_1_the_gradient_pulls_towards_the_subspace():
    for seed in range(300):
        _, inner, outer, truth, V = instance(seed)
        n = len(inner) + len(outer)
        _, away, G = shares(inner, outer, V)
        E = V - truth @ (truth.T @ V)
        s = np.minimum(sines(V, truth.T), 1.0)
        c = np.sqrt(1.0 - s**2)
        P = np.linalg.eigvalsh(truth.T @ (inner.T @ inner) @ truth / n)[0]
        A = np.linalg.norm(away, 2)
        assert (E * G).sum() <= -(c.min() * P - A) * (s * c).sum() + 1e-10
        assert (s * c).sum() >= c.min() * np.linalg.norm(E) - 1e-12
        every = np.concatenate([inner, outer])
        assert np.linalg.norm(G) ** 2 <= np.linalg.norm(every, 2) ** 2 / n + 1e-12
        r = V.shape[1]
        facts = local_stability(inner, outer, truth.T)
        pull = facts.pull(np.linalg.norm(E), r)
        assert np.linalg.norm(G) <= pull.gradient + 1e-12
        assert np.mean(np.sum((every @ V) ** 2, axis=1)) <= pull.square + 1e-12
        assert pull.gradient <= facts.gradient


def test_lemma_2_one_step_with_noise_of_any_size():
    for seed in range(100):
        rng, inner, outer, truth, V = instance(seed)
        _, _, G = shares(inner, outer, V)
        eta = 10.0 ** rng.uniform(-3.0, 0.5)
        B = 10.0 ** rng.uniform(-3.0, 0.5) * rng.standard_normal(V.shape)
        K = np.eye(V.shape[1]) + eta * V.T @ B
        H = G + B - V @ (V.T @ B)
        E, off = V - truth @ (truth.T @ V), H - truth @ (truth.T @ H)
        moved = polar(V + eta * (G + B))
        bound = np.linalg.norm(E + eta * off @ np.linalg.inv(K))
        assert np.linalg.norm(sines(moved, truth.T)) <= bound * (1.0 + 1e-6) + 1e-9


@pytest.mark.parametrize("tangential", [True, False])
@pytest.mark.parametrize("batch_size", [None, 30])
def test_lemma_3_mean_and_spread_of_one_step(tangential, batch_size):
    """2000 steps from one point; 6 standard errors, false alarms below 1e-8."""
    data = make_haystack(400, 8, 2, inlier_ratio=0.9, random_state=0)
    facts = local_stability(data.X[data.inliers], data.X[~data.inliers], data.components)
    rng = np.random.default_rng(0)
    sigma, eta = 0.1, 0.02
    noise = Noise(8, 2, sigma, batch_size, tangential)
    V = tilted(rng, data.components, 0.01)
    f = np.linalg.norm(sines(V, data.components))
    ends = []
    for _ in range(2000):
        rows = data.X if batch_size is None else data.X[rng.integers(0, 400, batch_size)]
        B = sigma * rng.standard_normal(V.shape)
        if tangential:
            B -= V @ (V.T @ B)
        moved = polar(V + eta * (mean_gradient(rows, V) + B))
        ends.append(np.linalg.norm(sines(moved, data.components)))
    tilt = noise.tilt(eta, 2000, 1e-3)
    assert (tilt == 0.0) == tangential
    drift = Drift.of(facts.pull(f, 2), noise, tilt)
    bound = f**2 - 2 * eta * drift.s * f + eta**2 * drift.energy
    squares = np.square(ends)
    assert squares.mean() <= bound + 6 * squares.std() / sqrt(2000)
    plain = drift.spread**2 + drift.square / drift.rows
    assert np.std(ends) <= eta * sqrt(plain) * (1 + 6 / sqrt(4000))
    for slack in (0.01, 0.1, 0.5):  # the moments that lemma 4 uses, within 6 standard errors
        spread = drift.variance(slack)
        assert plain <= spread <= drift.spread**2 + 1.0 / drift.rows
        grown = np.exp(2.0 * slack / spread * (np.array(ends) - np.mean(ends)) / eta)
        limit = np.exp(2.0 * slack**2 / spread)
        assert grown.mean() <= limit + 6 * grown.std() / sqrt(2000)
    assert bound < f**2


def test_lemma_4_the_walk_rarely_leaves_its_tail():
    """W ← max(W, 0) − τ + spread·Z leaves its bounds in at most 5 % of 4000 walks."""
    rng = np.random.default_rng(0)
    drift, slack, length = Drift(0.3, 1.0, 0.2), 0.1, 60
    W, worst = np.zeros(4000), np.zeros(4000)
    for _ in range(length):
        W = np.maximum(W, 0.0) - slack + 0.2 * rng.standard_normal(4000)
        worst = np.maximum(worst, W)
    way, end = drift.tails(slack, length, 0.05)
    # Binomial: 5 standard errors above 5 % would be 0.067; the bounds themselves have room.
    assert end < way
    assert ((worst > way) | (end < W)).mean() <= 0.05
    assert (worst > way / 4.0).mean() > 0.05
    assert Drift(0.3, 1.0, 0.0).tails(slack, length, 0.05) == (0.0, 0.0)


def test_bennetts_variance_against_its_definition():
    """A walk whose steps are two-valued, as far from a normal as the batch's terms can be."""
    b, square, slack = 20, 0.3, 0.05
    drift = Drift(0.3, 1.0, 0.0, float(b), square)
    variance = drift.variance(slack)
    t, c = 2.0 * slack / variance, 2.0 / b
    p = square / (4.0 + square)  # a term is 2/b with probability p, and its mean is 0
    moment = p * np.exp(t * c) + (1 - p) * np.exp(-t * c * p / (1 - p))
    assert p * c**2 + (1 - p) * (c * p / (1 - p)) ** 2 == pytest.approx(square / b**2)
    assert moment**b <= np.exp(t**2 * variance / 2.0) * (1 + 1e-9)
    assert square / b < variance < 0.5 / b
    # So many standard deviations that jumps decide: Hoeffding's variance is what is left.
    assert Drift(0.3, 1.0, 0.0, 20.0, 1.0).variance(0.9) == pytest.approx(1.0 / 20)
    assert Drift(0.3, 1.0, 0.4).variance(0.1) == pytest.approx(0.16)


def test_lemma_5_the_time_of_the_comparison_sequence():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        s = rng.uniform(0.01, 0.9)
        drift = Drift(s, rng.uniform(0.01, 3.0), 0.1)
        slack = s * rng.uniform(0.0, 0.8)
        v = max(sqrt(drift.energy), s)
        last = drift.floor(slack) * rng.uniform(1.001, 2.0)
        first = last * rng.uniform(1.0, 4.0)
        u, steps = first, 0
        while u > last:
            u = max(v, sqrt(max(u * u - 2 * s * u + v * v, 0.0))) + slack
            steps += 1
        assert steps <= np.ceil(drift.time(first, last, slack))
        assert steps >= 0.2 * drift.time(first, last, slack) - 2  # and the bound is no empty one
        assert max(v, sqrt(last**2 - 2 * s * last + v * v)) + slack <= last
        assert drift.time(first, 0.999 * drift.floor(slack), slack) == inf


def test_local_alignment_holds_at_many_subspaces_nearby():
    for seed, share in ((0, 0.5), (1, 0.9)):
        data = make_haystack(300, 6, 2, inlier_ratio=share, random_state=seed)
        rng = np.random.default_rng(seed)
        outer = data.X[~data.inliers].copy()
        outer[0] = data.components[0]  # an outlier on the subspace itself
        facts = local_stability(data.X[data.inliers], outer, data.components, radius=0.4)
        for _ in range(200):
            V = tilted(rng, data.components, 10.0 ** rng.uniform(-8.0, -1.5))
            f = np.linalg.norm(sines(V, data.components))
            seen = np.linalg.norm(mean_gradient(outer, V), 2) * len(outer) / 300
            assert seen <= facts.alignment_within(f) + 1e-12
        assert facts.alignment_within(1e-3) < 0.6 * facts.alignment
        assert facts.alignment_within(0.5) == facts.alignment


def test_the_drift_by_its_definition():
    plain = LocalStability(0.5, 0.2)
    assert plain.drift(0.6) == pytest.approx(0.8 * (0.8 * 0.5 - 0.2))
    assert plain.drift(1.0) == -inf
    data = make_haystack(500, 10, 2, inlier_ratio=0.8, random_state=0)
    facts = local_stability(data.X[data.inliers], data.X[~data.inliers], data.components)
    wide = stability(data.X[data.inliers], data.X[~data.inliers], 2, gamma=0.8)
    assert facts.drift(0.6) == pytest.approx(0.8 * wide.lower)
    assert facts.drift(0.0) > stability(data.X[data.inliers], data.X[~data.inliers], 2).lower
    alone = local_stability(data.X[data.inliers], np.empty((0, 10)), data.components)
    assert alone.alignment_within(0.1) == 0.0


def test_radii_and_gaps_belong_together():
    data = make_haystack(10, 7, 3, random_state=0)
    rng = np.random.default_rng(0)
    for gap in (1e-12, 1e-3, 0.5):
        s = sines(tilted(rng, data.components, gap), data.components)
        assert np.linalg.norm(s) == pytest.approx(chordal_radius(gap, 7, 3), rel=1e-4)
        assert gap_of_radius(s[0]) == pytest.approx(gap, rel=1e-4)
    assert gap_of_radius(1.2) == 1.0
    with pytest.raises(ValueError, match="permeance"):
        LocalStability(-1.0, 0.0)
    with pytest.raises(ValueError, match="radius"):
        local_stability(data.X, data.X, data.components, radius=2.0)
