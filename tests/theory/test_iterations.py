"""The promise of the iteration bounds, simulated on certified data.

Each promise may break with probability λ = 1e-6, so that a test of 100 of them raises a false alarm
with probability 1e-4 at most.
"""

from math import inf, log, sqrt

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.privacy import mu_from_budget
from stillspace.theory import iteration_bound, largest_restarts, restarts, stability
from tests.theory.simulate import descend, gap, tilted

RARE = 1e-6
FACTS = {"stability": 0.2, "D": 20, "r": 2, "failure": 0.05, "nu": 0.8, "c1": 0.7}
RUN = {"radius": 0.05, "start": 0.1, **FACTS}


def certified(data, gamma):
    r = len(data.components)
    return stability(data.X[data.inliers], data.X[~data.inliers], r, gamma=gamma).lower


@pytest.fixture(scope="module", params=[(400, 4, 1, 0.95), (300, 5, 2, 0.98)], ids=str)
def data(request):
    n, D, r, share = request.param
    return make_haystack(n, D, r, inlier_ratio=share, random_state=0)


@pytest.mark.parametrize("start", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize(
    ("method", "sigma", "batch_size"),
    [
        ("nggd", 0.0, 1),
        ("nggd", 0.02, 1),
        ("nggd", 0.2, 1),
        ("sggd", 0.0, 100),
        ("nsggd", 0.02, 200),
    ],
)
def test_the_promise_is_kept(data, start, method, sigma, batch_size):
    r, D = data.components.shape
    rng = np.random.default_rng(3)
    gamma = sqrt(1.0 - 2.0 * r * start * (2.0 - start))
    S = certified(data, gamma)
    assert S > 0.0
    simulated = 0
    for nu, c1 in ((0.55, 1.0), (0.55, 3.0 / sqrt(start)), (0.75, 10.0 / sqrt(start))):
        bound = iteration_bound(
            method,
            radius=start / 2.0,
            start=start,
            stability=S,
            D=D,
            r=r,
            sigma=sigma,
            batch_size=batch_size,
            failure=RARE,
            nu=nu,
            c1=c1,
        )
        assert bound.gamma == pytest.approx(gamma)
        if bound.iterations > 1000:
            continue
        simulated += 1
        V = descend(
            rng,
            data.X,
            tilted(rng, data.components, start, all_angles=simulated % 2 == 1),
            [bound.step] * int(bound.iterations),
            sigma=sigma,
            batch_size=None if method == "nggd" else batch_size,
        )
        assert gap(V, data.components) <= start / 2.0
    assert simulated >= (1 if sigma < 0.2 else 0)


def test_the_bound_of_the_slip_is_broken_and_ours_is_not():
    """A recursion that starts at 2d₀ instead of √(2d₀) promises half the start in 86 iterations."""
    data = make_haystack(400, 4, 1, inlier_ratio=0.95, random_state=0)
    S = min(certified(data, 0.9), 0.75)
    ends = []
    for start in (1e-2, 1e-4):
        s86 = start / 2.0 * 86**-0.55
        rng = np.random.default_rng(0)
        V = descend(rng, data.X, tilted(rng, data.components, start), [s86] * 86)
        ends.append(gap(V, data.components) / start)
        bound = iteration_bound(
            "nggd", radius=start / 2.0, start=start, stability=S, D=4, r=1, nu=0.55
        )
        assert bound.iterations > 300
    assert 0.5 < ends[0] < ends[1] < 1.0


def test_the_iterations_grow_as_the_theory_says():
    """Without noise T^(1−ν) ~ (F₀ − F₁)/(c₁ a S), and F ~ √a: slope −1/(2(1 − ν)) in log a."""
    counts = [
        iteration_bound(
            "nggd", radius=a / 2.0, start=a, stability=0.5, D=10, r=1, nu=0.6
        ).iterations
        for a in (1e-8, 1e-10)
    ]
    assert log(counts[1] / counts[0]) / log(100.0) == pytest.approx(1.0 / 0.8, rel=0.02)


@pytest.mark.parametrize(("method", "sigma"), [("nggd", 0.0), ("nggd", 0.1), ("nsggd", 0.1)])
def test_each_condition_begins_where_it_says(method, sigma):
    """Recomputed from the formulas of docs/theory.md, lemmas 3 to 5, with slack τ = s/4."""
    batch = 100
    bound = iteration_bound(method, sigma=sigma, batch_size=batch, **RUN)
    D, r, lam = 20, 2, 0.05 if sigma == 0.0 else 0.025
    F0, F1 = sqrt(2 * 0.1 * 1.9), sqrt(0.05 * 1.95)
    gamma = sqrt(1 - 2 * F0**2)
    spread2 = sigma**2 + (0.01 if method == "nsggd" else 0.0)

    def conditions(T):
        eta = 0.7 * 0.05 * T**-0.8
        theta = eta * sigma * (2 * sqrt(r) + sqrt(2 * log(T / lam)))
        s = gamma * 0.2 - theta / (1 - theta)
        v2 = (1 + sigma**2 * r * (D - r)) / (1 - theta) ** 2
        if s <= 0:
            return False, False, False
        tau, e = s / 4, (v2 - s * s) / 2
        unit = spread2 / (1 - theta) ** 2 / (2 * tau)
        x, y = unit * log(T * T / lam), unit * log(2 * T / lam)
        u0, u1 = F0 / eta, F1 / eta - y
        stays = eta * x <= sqrt(1 - gamma**2) - F0
        if u1 <= max(s + e / (s - tau), 2 * s, sqrt(v2) + tau):
            return stays, False, False
        d, w0, w1 = s - tau, u0 - s, u1 - s
        time = (w0 - w1) / d + e / d**2 * log((d * w0 - e) / (d * w1 - e))
        return stays, True, time <= T

    for k, T in enumerate((bound.stay, bound.settle, bound.shrink)):
        for factor in (1 + 1e-9, 1.5, 10.0, 1e4):
            assert conditions(T * factor)[k]
        assert T == 1.0 or not conditions(T * (1 - 1e-6))[k]
    assert bound.iterations == np.ceil(max(bound.stay, bound.settle, bound.shrink))
    assert bound.step == pytest.approx(0.7 * 0.05 * bound.iterations**-0.8)


def test_more_noise_and_less_stability_need_more_iterations():
    def iterations(method, **change):
        return iteration_bound(method, **{**RUN, **change}).iterations

    base = iterations("nggd", sigma=0.01)
    assert iterations("nggd", sigma=1.0) > base
    assert iterations("nsggd", sigma=0.01, batch_size=5) > base
    assert iterations("sggd", batch_size=1) >= iterations("sggd", batch_size=100)
    assert iterations("nggd", sigma=0.01, stability=0.05) > base


def test_a_start_too_far_away_is_promised_nothing():
    assert iteration_bound("nggd", **{**RUN, "start": 0.25}).iterations == inf
    # With a stability that holds in a larger ball, the same start is covered.
    wide = iteration_bound("nggd", gamma=0.1, **{**RUN, "start": 0.25})
    assert wide.iterations < inf
    assert wide.gamma == 0.1


def test_restarts_halve_the_error_and_get_longer():
    schedule = restarts("nsggd", 5, sigma=0.01, batch_size=50, **{**RUN, "failure": 0.001})
    lengths = [run.iterations for run in schedule.runs]
    assert schedule.iterations == sum(lengths)
    assert lengths[1:] == sorted(lengths[1:])
    assert lengths[-1] > 2 * lengths[1]
    assert schedule.error == pytest.approx(0.05 / 16)
    assert schedule.probability == pytest.approx(1 - 5 * 0.001)


def test_restarts_keep_their_promise(data):
    r, D = data.components.shape
    start, rng = 0.02, np.random.default_rng(1)
    S = certified(data, sqrt(1.0 - 2.0 * r * start * (2.0 - start)))
    facts = {"radius": 0.01, "start": start, "stability": S, "D": D, "r": r, "sigma": 0.01}
    schedule = restarts("nggd", 4, nu=0.55, c1=20.0, failure=RARE, **facts)
    V = tilted(rng, data.components, start)
    for k, run in enumerate(schedule.runs):
        V = descend(rng, data.X, V, [run.step] * int(run.iterations), sigma=0.01)
        assert gap(V, data.components) <= 0.01 / 2**k


def test_the_largest_number_of_restarts_is_affordable_and_one_more_is_not():
    n, mu = 10**5, mu_from_budget(1.0, 1e-8)
    facts = {**RUN, "nu": 0.6, "c1": 10.0, "failure": 0.005}
    schedule, sigma = largest_restarts(n=n, epsilon=1.0, delta=1e-8, **facts)
    assert schedule is not None
    assert 2 <= schedule.restarts < 100
    assert sqrt(schedule.iterations) * 2.0 / (n * sigma) <= mu * (1 + 1e-9)
    # With one more run no noise level works: what the noise of T iterations needs exceeds T.
    for T in np.geomspace(1e3, 1e12, 10):
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
        ({"gamma": 1.5}, "gamma"),
        ({"r": 20}, "r must"),
    ],
)
def test_wrong_numbers(change, message):
    with pytest.raises(ValueError, match=message):
        iteration_bound("nggd", **{**RUN, **change})


def test_wrong_methods():
    with pytest.raises(ValueError, match="method"):
        iteration_bound("ggd", **RUN)
    with pytest.raises(ValueError, match="batch_size"):
        iteration_bound("sggd", batch_size=0, **RUN)
    with pytest.raises(ValueError, match="at least 1"):
        restarts("sggd", 0, **RUN)
