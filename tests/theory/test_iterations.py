"""Iteration bounds and restarts: each condition checked where it starts to hold."""

from math import inf, log, sqrt

import numpy as np
import pytest

from stillspace.privacy import mu_from_budget
from stillspace.theory import iteration_bound, largest_restarts, restarts

FACTS = {"stability": 0.2, "D": 20, "r": 2, "failure": 0.05, "nu": 0.8, "c1": 0.7, "c": 1.3}
RUN = {"radius": 0.05, "start": 0.2, **FACTS}


def conditions(T, w, radius, start, stability, failure, nu, c1, c, **_):
    """The proof's inequalities, written out."""
    s, m0, u = c1 * radius * T**-nu, 2 * start, w / sqrt(failure)
    stay = s * sqrt(T) * u <= start / 2 and s**2 * T * c / stability <= start / 2
    small = s < m0 / stability
    root = 2 * s * stability * m0 - (s * stability) ** 2
    settle = root > 0 and s * (u * m0 / sqrt(root) + m0 * c / stability) <= radius / 2
    shrink = T * s * stability / m0 >= log(2 * start / radius)
    return {"stay": stay, "small": small, "settle": settle, "shrink": shrink}


@pytest.mark.parametrize(
    ("method", "sigma", "w"),
    [
        ("nggd", 0.01, 0.01 * (sqrt(20) + sqrt(2))),
        ("sggd", 0.01, 1.0),
        ("nsggd", 0.01, 1.0 + 0.01 * (sqrt(20) + sqrt(2))),
        ("nggd", 0.0, 0.0),
    ],
)
def test_each_condition_begins_where_it_says(method, sigma, w):
    bound = iteration_bound(method, sigma=sigma, **RUN)
    for name in ("stay", "small", "settle", "shrink"):
        T = getattr(bound, name)
        assert conditions(T * (1 + 1e-9), w, **RUN)[name]
        for factor in (1.5, 10.0, 1e4):
            assert conditions(T * factor, w, **RUN)[name]
        assert T == 1.0 or not conditions(T * (1 - 1e-6), w, **RUN)[name]
    assert bound.iterations == np.ceil(max(bound.stay, bound.small, bound.settle, bound.shrink))


def test_closed_forms_of_the_powers():
    """The conditions that are powers of T, solved by hand; c₁ counts squared in the second."""
    bound = iteration_bound("nggd", sigma=0.5, **RUN)
    w = 0.5 * (sqrt(20) + sqrt(2)) / sqrt(0.05)
    first = (2 * 0.7 * 0.05 * w / 0.2) ** (2 / 0.6)
    second = (2 * 0.7**2 * 0.05**2 * 1.3 / (0.2 * 0.2)) ** (1 / 0.6)
    assert bound.stay == pytest.approx(max(first, second, 1.0), rel=1e-9)
    shrink = (0.4 * log(8.0) / (0.2 * 0.7 * 0.05)) ** (1 / 0.2)
    assert bound.shrink == pytest.approx(shrink, rel=1e-9)


def test_more_noise_and_less_stability_need_more_iterations():
    base = iteration_bound("nggd", sigma=0.01, **RUN)
    noisy = iteration_bound("nggd", sigma=10.0, **RUN)
    assert noisy.settle > base.settle
    assert noisy.stay > base.stay
    assert noisy.shrink == base.shrink
    assert iteration_bound("nggd", sigma=100.0, **RUN).iterations > base.iterations
    assert iteration_bound("nsggd", sigma=0.01, **RUN).settle > base.settle
    weak = iteration_bound("nggd", sigma=0.01, **{**RUN, "stability": 0.01})
    assert weak.iterations > base.iterations


def test_restarts_halve_the_error_and_add_up():
    schedule = restarts("nsggd", 5, sigma=0.01, **{**RUN, "failure": 0.001})
    assert schedule.iterations == schedule.first + 4 * schedule.each
    assert schedule.error == pytest.approx(0.05 / 16)
    assert schedule.probability == pytest.approx(1 - 4 * 5 * 0.001)
    assert schedule.step == pytest.approx(0.7 * 0.05 * schedule.first**-0.8)
    assert restarts("sggd", 5, **RUN).probability == pytest.approx(1 - 2 * 5 * 0.05)
    # A later run, from a/4 to a/8, asks for no more than F(½) at a.
    later = iteration_bound("nsggd", sigma=0.01, radius=0.05 / 8, start=0.05 / 4, **FACTS)
    at_a = iteration_bound("nsggd", sigma=0.01, radius=0.05 / 2, start=0.05, **FACTS)
    assert later.iterations <= at_a.iterations


def test_the_largest_number_of_restarts_is_affordable_and_one_more_is_not():
    n, mu = 10**5, mu_from_budget(1.0, 1e-8)
    facts = {**RUN, "nu": 0.6, "c": 0.01, "c1": 10.0, "failure": 0.005}
    schedule, sigma = largest_restarts(n=n, epsilon=1.0, delta=1e-8, **facts)
    assert schedule is not None
    assert 2 <= schedule.restarts < 10**5
    assert sqrt(schedule.iterations) * 2.0 / (n * sigma) <= mu * (1 + 1e-9)
    needed = restarts("nggd", schedule.restarts, sigma=sigma, **facts)
    assert needed.iterations <= schedule.iterations
    # With one more run no noise level works: F at the noise of T iterations always exceeds T.
    for T in np.geomspace(1e2, 1e14, 300):
        level = 2.0 * sqrt(T) / (n * mu)
        assert restarts("nggd", schedule.restarts + 1, sigma=level, **facts).iterations > T


def test_a_hopeless_budget_allows_none():
    schedule, sigma = largest_restarts(n=100, epsilon=0.1, delta=1e-6, **RUN)
    assert schedule is None
    assert sigma == inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0.3}, "radius"),
        ({"nu": 0.5}, "nu"),
        ({"stability": -0.1}, "stability"),
        ({"failure": 0.0}, "failure"),
        ({"c": 0.0}, "c must"),
    ],
)
def test_wrong_numbers(change, message):
    with pytest.raises(ValueError, match=message):
        iteration_bound("nggd", **{**RUN, **change})


def test_wrong_methods():
    with pytest.raises(ValueError, match="method"):
        iteration_bound("ggd", **RUN)
    with pytest.raises(ValueError, match="at least 1"):
        restarts("sggd", 0, **RUN)
