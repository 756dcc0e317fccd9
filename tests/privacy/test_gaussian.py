import math
import random

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillspace.privacy.gaussian import GaussianCurve, log_delta, mu_from_budget

from .reference import gaussian_delta


def cases():
    rng = random.Random(1)
    for _ in range(400):
        mu = 10 ** rng.uniform(-12, 4)
        tail = rng.uniform(-5, 37)
        yield max(0.0, mu * (tail + mu / 2)), mu
    for epsilon in (0.0, 1e-9, 0.8, 1e3, 1e6):
        for mu in (1e-9, 1e-3, 1.0, 30.0, 1414.0, 1e5):
            yield epsilon, mu


def test_against_fifty_digits_and_never_below():
    for epsilon, mu in cases():
        exact = gaussian_delta(epsilon, mu)
        if exact < mp.mpf(10) ** -306:
            continue
        found = mp.mpf(GaussianCurve(mu).get_delta(epsilon))
        assert 0 <= found / exact - 1 < 1e-9, (epsilon, mu)


def test_log_delta_goes_on_below_the_smallest_float():
    exact = float(mp.log(gaussian_delta(400.0, 1.0)))
    assert log_delta(400.0, 1.0) == pytest.approx(exact, rel=1e-12)
    assert GaussianCurve(1.0).get_delta(400.0) > 0


@pytest.mark.parametrize(("difference", "epsilon"), [(2.0, 4.377178), (math.sqrt(2), 2.943225)])
def test_one_release_of_sigma_two(difference, epsilon):
    assert GaussianCurve(difference / 2).get_epsilon(1e-5) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-10, 1e-100, 1e-300])
@pytest.mark.parametrize("mu", [1e-6, 1e-2, 1.0, 50.0, 2000.0])
def test_epsilon_is_the_smallest_that_holds(mu, delta):
    curve = GaussianCurve(mu)
    epsilon = curve.get_epsilon(delta)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gaussian_delta(epsilon * (1 - 1e-8), mu) > delta


@pytest.mark.parametrize("delta", [0.999, 0.3, 1e-5, 1e-100, 1e-300])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.8, 30.0, 1e6])
def test_mu_is_the_largest_that_holds(epsilon, delta):
    mu = mu_from_budget(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-8)) > delta


def test_ends_of_the_range():
    nothing, everything = GaussianCurve(0.0), GaussianCurve(math.inf)
    assert nothing.get_delta(0.0) == 0
    assert nothing.get_epsilon(0.0) == 0
    assert everything.get_delta(1e9) == 1
    assert everything.get_epsilon(0.5) == math.inf
    assert everything.get_epsilon(1.0) == 0
    assert GaussianCurve(1.0).get_epsilon(0.0) == math.inf
    assert GaussianCurve(1.0).get_delta(math.inf) == 0
    assert mu_from_budget(1.0, 0.0) == 0
    assert mu_from_budget(1.0, 1.0) == math.inf
    assert mu_from_budget(math.inf, 0.1) == math.inf


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        GaussianCurve(1.0).get_delta(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.1, math.nan])
def test_bad_delta(delta):
    with pytest.raises(ValueError, match="delta"):
        GaussianCurve(1.0).get_epsilon(delta)
    with pytest.raises(ValueError, match="delta"):
        mu_from_budget(1.0, delta)


@pytest.mark.parametrize("mu", [-1.0, math.nan])
def test_bad_mu(mu):
    with pytest.raises(ValueError, match="mu"):
        GaussianCurve(mu)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.floats(1e-4, 1e3),
    st.floats(0, 1e4),
    st.floats(1.0001, 5),
    st.sampled_from(["mu", "epsilon"]),
)
def test_monotone(mu, epsilon, factor, which):
    here = GaussianCurve(mu).get_delta(epsilon)
    if which == "mu":
        assert GaussianCurve(mu * factor).get_delta(epsilon) >= here
    else:
        assert GaussianCurve(mu).get_delta(epsilon * factor) <= here
