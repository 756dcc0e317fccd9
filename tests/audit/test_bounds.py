"""Lower bounds on ε: against other formulas, jax_privacy's numbers, and their own coverage."""

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from stillspace.audit.bounds import (
    Counts,
    accuracy,
    clopper_pearson,
    one_run,
    scaled_curve,
    trade_off,
    upper_rate,
)
from stillspace.privacy import ComposedEvent, GaussianCurve, GaussianEvent
from tests.audit import jax_reference

STORED = json.loads((Path(__file__).parent / "jax_reference.json").read_text())
FULL = ComposedEvent.of([GaussianEvent(5.0, 1.0, 2.0)])
POISSON = ComposedEvent.of([GaussianEvent(0.5, 1.0, 2.0, sampling="poisson", rate=0.01)] * 5)


@pytest.mark.parametrize(("errors", "trials"), [(0, 10), (3, 40), (40, 41), (7, 7), (500, 1000)])
def test_rates_against_scipy(errors, trials):
    expected = binomtest(errors, trials).proportion_ci(0.9, "exact").high
    assert upper_rate(errors, trials, 0.05) == pytest.approx(expected, rel=1e-9)


def agrees(reference):
    for *counts, delta, expected in reference["clopper_pearson"]:
        found = clopper_pearson(Counts(*counts), delta, jax_reference.ALPHA)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    for correct, guesses, coins, delta, expected in reference["one_run"]:
        found = one_run(correct, guesses, coins, delta, jax_reference.ALPHA)
        assert found == pytest.approx(expected, abs=2e-6)  # their root finder's tolerance


def test_bounds_equal_those_of_jax_privacy():
    """Its numbers as stored by `jax_reference.py`."""
    assert STORED["jax_privacy"] == "2.0.0"
    assert {len(v) for k, v in STORED.items() if k != "jax_privacy"} == {15}
    agrees(STORED)


@pytest.mark.skipif(
    importlib.util.find_spec("jax_privacy") is None,
    reason="jax_privacy is not installed (it brings jax); its stored numbers are compared instead",
)
def test_bounds_equal_those_of_jax_privacy_live():
    agrees(jax_reference.compute())


def test_a_gaussian_fit_is_the_closed_form():
    """Full batch: accuracy Φ(μ/2), so μ = 2Φ⁻¹(lower bound on the accuracy)."""
    correct, runs, delta = 5600, 10000, 1e-5
    low = binomtest(correct, runs).proportion_ci(0.9, "exact").low
    mu = 2 * norm.ppf(low)
    epsilon, scale = trade_off(correct, runs, FULL, "replace-one", delta, 0.05)
    assert epsilon == pytest.approx(GaussianCurve(mu).get_epsilon(delta), rel=2e-4)
    assert epsilon <= GaussianCurve(mu).get_epsilon(delta)
    assert scale == pytest.approx((2.0 / 5.0) / mu, rel=1e-4)


def test_the_family_of_sampled_steps_is_their_own_and_not_gaussian():
    """Poisson: the total variation at the found scale is the advantage, by the accountant."""
    correct, runs = 5300, 10000
    _, scale = trade_off(correct, runs, POISSON, "replace-one", 1e-5, 0.05)
    low = binomtest(correct, runs).proportion_ci(0.9, "exact").low
    tv = scaled_curve(POISSON, "replace-one", scale).get_delta(0.0)
    assert tv == pytest.approx(2 * low - 1, rel=1e-3)
    exact = 2 * norm.ppf(low)
    epsilon = trade_off(correct, runs, POISSON, "replace-one", 1e-5, 0.05)[0]
    assert epsilon > 1.05 * GaussianCurve(exact).get_epsilon(1e-5)  # a heavier tail


def test_no_advantage_no_bound():
    assert trade_off(500, 1000, FULL, "replace-one", 1e-5, 0.05) == (0.0, math.inf)
    assert accuracy(500, 1000, 1e-5, 0.05) == 0.0
    assert one_run(0, 10, 10, 1e-5, 0.05) == 0.0
    assert clopper_pearson(Counts(500, 1000, 500, 1000), 1e-5, 0.05) == 0.0


def test_nobody_is_right_too_often_for_a_finite_bound():
    epsilon, scale = trade_off(10**6, 10**6, FULL, "replace-one", 1e-5, 0.05)
    assert 10 < epsilon <= 100
    assert scale < 0.1
    assert 10 < accuracy(10**6, 10**6, 0.0, 0.05) < 13
    assert accuracy(10, 10, 0.02, 0.05) == pytest.approx(
        math.log((0.05**0.1 - 0.02) / (1 - 0.05**0.1))
    )


def randomised_response(epsilon):
    return math.exp(epsilon) / (1 + math.exp(epsilon))


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("runs", [10, 200])
def test_coverage_is_exact_arithmetic(runs, delta):
    """Randomised response at ε, δ: the chance that a bound passes ε, over all outcomes, ≤ 5 %.

    The extremal (ε, δ) mechanism reveals the coin with probability δ, else flips it as
    randomised response does.
    """
    epsilon = 0.8
    right = delta + (1 - delta) * randomised_response(epsilon)
    k = np.arange(runs + 1)
    mass = binom.pmf(k, runs, right)
    for bound in (
        lambda c: accuracy(c, runs, delta, 0.05),
        lambda c: one_run(c, runs, runs, delta, 0.05),
    ):
        above = np.array([bound(int(c)) > epsilon for c in k])
        assert mass[above].sum() <= 0.05


def test_coverage_of_clopper_pearson():
    """Both rates at randomised response, 60 coins each side, all outcomes."""
    wrong, n = 1 - randomised_response(0.8), 60
    mass = binom.pmf(np.arange(n + 1), n, wrong)
    above = sum(
        mass[i] * mass[j]
        for i in range(n + 1)
        for j in range(n + 1)
        if clopper_pearson(Counts(i, n, j, n), 0.0, 0.05) > 0.8
    )
    assert above <= 0.05
