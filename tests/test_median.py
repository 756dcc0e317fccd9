"""The private geometric median."""

from math import sqrt

import numpy as np
import pytest

from stillspace.methods.median import PrivateMedian
from stillspace.parts.noise import seeded_generator
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Answer
from stillspace.privacy import mu_from_budget
from stillspace.rows import MemoryRows
from stillspace.run import run


def weiszfeld(X, steps=300):
    m = X.mean(axis=0)
    for _ in range(steps):
        weight = 1.0 / np.maximum(np.linalg.norm(X - m, axis=1), 1e-12)
        m = (X * weight[:, None]).sum(axis=0) / weight.sum()
    return m


@pytest.mark.parametrize("radius", [5.0, 100.0])
def test_it_finds_the_median(rng, radius):
    """Within three times the noise of one gradient at the whole budget; seeded."""
    n, D = 20_000, 20
    center = rng.standard_normal(D)
    X = center * 0.3 * 5.0 / np.linalg.norm(center) + rng.standard_normal((n, D)) / sqrt(D)
    X[: n // 5] += 3.0
    mu = mu_from_budget(1.0, 1e-6)
    plan = AdaptivePlan("median", PrivateMedian(D), n, mu=mu)
    rows = MemoryRows.prepare(X, norm_bound=2 * radius)
    found = run(plan, rows, seeded_generator(0)).V * 2 * radius
    median = weiszfeld(X)
    noise = sqrt(D) * 2 / (n * mu) * np.mean(np.linalg.norm(X - median, axis=1))
    assert np.linalg.norm(found - median) < 3 * noise
    assert np.linalg.norm(X.mean(axis=0) - median) > 10 * noise


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6])
def test_whatever_is_released_the_shares_fit_and_it_ends(rng, scale):
    method, allowance = PrivateMedian(6), Allowance(0.5, 300)
    state, spent, coordinates = method.begin(allowance), 0.0, 0
    while (ask := method.ask(state)) is not None:
        spent += sum(share for _, share in ask.shares)
        coordinates += sum(query.noise.coordinates for query, _ in ask.shares)
        state = method.take(
            state,
            tuple(
                Answer(scale * rng.standard_normal(query.shape), allowance.sd(query, share))
                for query, share in ask.shares
            ),
        )
        assert np.linalg.norm(state.m) <= 0.5 + 1e-12
    assert spent <= 1.0 + 1e-12
    assert coordinates == method.coordinates
