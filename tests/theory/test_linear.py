"""Linear convergence: what is proved, simulated on the paper's data.

Each promise may break with probability λ = 1e-6; all of them together raise a false alarm with
probability below 1e-4.
"""

from math import inf, log10, sqrt

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.privacy import mu_from_budget
from stillspace.theory.linear import linear_convergence, most_halvings, noise_floor
from stillspace.theory.local import LocalStability, local_stability
from tests.theory.simulate import descend, gap, sines, tilted

RARE = 1e-6
N, D, R = 2000, 20, 2
SIGMA = 2.0 * sqrt(N) / (N * mu_from_budget(0.8, 1.0 / sqrt(N)))
"""The noise of the paper's setting: n = T = 2000, ε = 0.8, δ = 1/√n."""


@pytest.fixture(scope="module")
def paper():
    data = make_haystack(N, D, R, inlier_ratio=0.5, random_state=0)
    return data, local_stability(data.X[data.inliers], data.X[~data.inliers], data.components)


@pytest.mark.parametrize(
    ("start", "sigma", "batch_size", "tangential"),
    [
        (1e-2, 0.0, None, False),
        (1e-2, SIGMA, None, False),
        (1e-3, SIGMA, None, True),
        (1e-3, SIGMA, 20, False),
        (1e-6, SIGMA, None, False),
    ],
)
def test_every_stage_ends_within_its_bound(paper, start, sigma, batch_size, tangential):
    data, facts = paper
    noise = {"sigma": sigma, "batch_size": batch_size, "tangential": tangential}
    found = linear_convergence(
        facts, start=start, target=start / 1e3, D=D, r=R, failure=RARE, **noise
    )
    rng = np.random.default_rng(0)
    V = tilted(rng, data.components, start)
    for stage in found.stages:
        steps = [stage.step] * int(stage.iterations)
        V = descend(rng, data.X, V, steps, **noise)
        assert np.linalg.norm(sines(V, data.components)) <= stage.factor * stage.radius
    assert gap(V, data.components) <= found.error <= start / 1e3 * (1 + 1e-9)
    assert len(found.steps()) == found.iterations


def test_predicted_iterations_are_within_ten_times_those_needed(paper):
    """To halve d_r² of the start, with the paper's noise; the needed ones are from the same run."""
    data, facts = paper
    for start in (1e-4, 1e-3):
        found = linear_convergence(facts, start=start, target=start / 2, D=D, r=R, sigma=SIGMA)
        assert found.iterations < 50
        rng = np.random.default_rng(1)
        seen = [tilted(rng, data.components, start)]
        descend(rng, data.X, seen[0], found.steps(), sigma=SIGMA, watch=seen.append)
        gaps = np.array([gap(V, data.components) for V in seen])
        needed = 1 + np.flatnonzero(gaps > start / 2).max()
        assert found.iterations <= 10 * needed


def test_halving_the_step_divides_the_error_by_four(paper):
    """At a small radius the stages repeat themselves: same length, and half the step."""
    _, facts = paper
    found = linear_convergence(facts, start=1e-10, target=1e-16, D=D, r=R, sigma=SIGMA)
    first, second = found.stages[:2]
    assert second.iterations == first.iterations <= 50
    assert second.step / first.step == pytest.approx(first.factor, rel=1e-4)
    decades = -2.0 * log10(first.factor) / -np.log2(first.factor)
    assert decades == pytest.approx(log10(4.0))


def test_the_papers_schedule_follows_its_step(paper):
    """Once in the ball, 50 iterations per halving are more than the theorem needs: .602 decades."""
    data, _ = paper
    rng, ends = np.random.default_rng(2), []
    V = tilted(rng, data.components, 1e-4)
    for k in range(9):
        V = descend(rng, data.X, V, [2.0**-8 / 2**k] * 50, sigma=SIGMA)
        ends.append(np.linalg.norm(sines(V, data.components)) ** 2)
    slope = np.polyfit(np.arange(9), np.log10(ends), 1)[0]
    assert slope == pytest.approx(-log10(4.0), abs=0.06)


def test_a_constant_step_ends_below_its_floor(paper):
    data, facts = paper
    rng = np.random.default_rng(3)
    for step, sigma in ((1e-3, SIGMA), (3e-3, SIGMA), (3e-3, 0.0)):
        run = {"step": step, "start": 1e-3, "iterations": 600, "D": D, "r": R, "sigma": sigma}
        floor = noise_floor(facts, failure=RARE, **run)
        assert floor < 1e-3
        V = tilted(rng, data.components, 1e-3)
        V = descend(rng, data.X, V, [step] * 600, sigma=sigma)
        assert gap(V, data.components) <= floor
    long = {"start": 1e-3, "iterations": 1e5, "D": D, "r": R}
    ratio = noise_floor(facts, step=2e-3, **long) / noise_floor(facts, step=1e-3, **long)
    assert ratio == pytest.approx(4.0, rel=1e-2)
    assert noise_floor(facts, step=1.0, **long) == 1.0


def test_more_noise_takes_longer_and_no_stability_takes_for_ever():
    facts = LocalStability(0.3, 0.1, 0.6)
    run = {"start": 1e-4, "target": 1e-5, "D": 10, "r": 2}
    lengths = [linear_convergence(facts, sigma=s, **run).iterations for s in (0.0, 0.1, 0.3, 1.0)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] < inf
    tangential = linear_convergence(facts, sigma=0.3, tangential=True, **run)
    assert tangential.iterations <= lengths[2]
    never = linear_convergence(LocalStability(0.1, 0.2), **run)
    assert never.iterations == inf
    with pytest.raises(ValueError, match="No finite number"):
        never.steps()
    with pytest.raises(ValueError, match="target"):
        linear_convergence(facts, start=0.1, target=0.2, D=10, r=2)


def test_the_budget_buys_halvings_in_proportion_to_its_square():
    """σ²(T) r(D − r) grows with T, so the number of halvings grows as (nμS)²/(r(D − r))."""
    facts = LocalStability(0.25, 0.05, 0.55)
    run = {"epsilon": 0.8, "delta": 1e-6, "start": 1e-3, "D": 20, "r": 2}
    few, sigma = most_halvings(facts, n=1500, **run)
    many, _ = most_halvings(facts, n=3000, **run)
    assert few is not None
    assert many is not None
    mu = mu_from_budget(0.8, 1e-6)
    assert 2.0 * sqrt(few.iterations) / (1500 * sigma) <= mu * (1 + 1e-9)
    assert len(many.stages) > 2.5 * len(few.stages)
    assert few.radius == pytest.approx(few.stages[0].radius / 2 ** len(few.stages))
    assert most_halvings(facts, n=50, **run) == (None, inf)
