"""The predicted phase boundary against runs on both sides of it."""

from math import inf, log, sqrt

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.privacy import mu_from_budget
from stillspace.theory.boundary import (
    HALVING,
    boundary_rows,
    predict_recovery,
    typical_alignment,
)
from stillspace.theory.local import local_stability
from tests.theory.simulate import descend, gap, tilted


def test_the_constant_is_the_least_of_its_function():
    x = np.linspace(1.01, 5.0, 10_000)
    assert ((x + np.log((2 * x - 1) / (x - 1))) / 2).min() == pytest.approx(HALVING, rel=1e-6)
    assert pytest.approx((1.5 + log(4.0)) / 2.0) == HALVING


def test_the_formula():
    found = predict_recovery(2000, 0.8, 20, 2, 0.5, delta=1e-3, n_iter=500)
    sigma = 2 * sqrt(500) / (2000 * mu_from_budget(0.8, 1e-3))
    S = 0.25 - typical_alignment(2000, 20, 2, 0.5)
    assert found.sigma == pytest.approx(sigma)
    assert found.stability == pytest.approx(S)
    want = HALVING * (0.125 + sigma**2 * 36) / (2 * S**2)
    assert found.halving == pytest.approx(want)
    batches = predict_recovery(2000, 0.8, 20, 2, 0.5, sigma=sigma, batch_size=10)
    more = HALVING * (0.5 + 0.5 * 0.1) / 10 / (2 * S**2)
    assert batches.halving == pytest.approx(want + more)
    with pytest.raises(ValueError, match="sigma"):
        predict_recovery(2000, 0.8, 20, 2, 0.5, batch_size=10)


def test_the_typical_alignment_is_typical():
    for n, D, r, share in ((2000, 20, 2, 0.5), (500, 10, 3, 0.2)):
        seen = []
        for seed in range(20):
            data = make_haystack(n, D, r, inlier_ratio=share, random_state=seed)
            inner, outer = data.X[data.inliers], data.X[~data.inliers]
            seen.append(local_stability(inner, outer, data.components, radius=1e-6).nearby)
        assert np.mean(seen) == pytest.approx(typical_alignment(n, D, r, share), rel=0.3)


@pytest.mark.parametrize(("D", "r", "share"), [(20, 2, 0.5), (15, 4, 0.8)])
def test_runs_recover_on_one_side_and_not_on_the_other(D, r, share):
    """The noise is chosen so that K is 0.5 and 3 times the 50 iterations per halving."""
    data = make_haystack(1000, D, r, inlier_ratio=share, random_state=0)
    free = predict_recovery(1000, 1.0, D, r, share, sigma=0.0)
    per_variance = (predict_recovery(1000, 1.0, D, r, share, sigma=1.0).halving) - free.halving
    ends = {}
    for times in (0.5, 3.0):
        sigma = sqrt((50 * times - free.halving) / per_variance)
        prediction = predict_recovery(1000, 1.0, D, r, share, sigma=sigma)
        assert prediction.halving == pytest.approx(50 * times)
        assert prediction.recovers == (times < 1)
        rng = np.random.default_rng(0)
        steps = 0.125 / 2.0 ** (np.arange(600) // 50)
        V = descend(rng, data.X, tilted(rng, data.components, 0.02), steps, sigma=sigma)
        ends[times] = gap(V, data.components)
    assert ends[0.5] < 1e-5
    assert ends[3.0] > 1e-3


def test_the_boundary_in_rows():
    n = boundary_rows(0.8, 100, 2, 0.5)
    assert predict_recovery(int(n), 0.8, 100, 2, 0.5).recovers
    assert not predict_recovery(int(n) - 1, 0.8, 100, 2, 0.5).recovers
    assert boundary_rows(0.4, 100, 2, 0.5) > n
    assert boundary_rows(0.8, 200, 2, 0.5) > n
    assert boundary_rows(0.8, 100, 4, 0.5) > n
    assert boundary_rows(0.8, 100, 2, 0.3) > n
    assert boundary_rows(0.8, 100, 2, 0.0) == inf
