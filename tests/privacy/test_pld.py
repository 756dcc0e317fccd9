"""Composed curves of sampled steps against brute force, exact curves and dp_accounting."""

import math
from functools import lru_cache

import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as reference_pld
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stillspace.privacy import ComposedEvent, GaussianCurve, GaussianEvent, privacy_curve
from stillspace.privacy.pld import LossCurve
from stillspace.privacy.profiles import StepProfile

from .reference import (
    close_above,
    fixed_size,
    fixed_size_twice,
    hockey_stick,
    hockey_stick_twice,
)

ADD, REPLACE = "add-or-remove-one", "replace-one"


def poisson(q, z, steps, relation):
    event = GaussianEvent(z, 1.0, 2.0, sampling="poisson", rate=q)
    return privacy_curve(ComposedEvent(((event, steps),)), relation)


def fixed(n, batch, mu, steps, replacement):
    name = "with-replacement" if replacement else "without-replacement"
    event = GaussianEvent(2 / mu, 1.0, 2.0, sampling=name, batch_size=batch, population=n)
    return privacy_curve(ComposedEvent(((event, steps),)), REPLACE)


@pytest.mark.parametrize(("q", "z"), [(0.01, 0.7), (0.3, 1.0), (0.8, 3.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.4, 1.5])
def test_one_poisson_step(q, z, epsilon):
    alpha = math.exp(epsilon)
    both = max(hockey_stick(kind, alpha, q, z) for kind in ("add", "remove"))
    assert close_above(poisson(q, z, 1, ADD).get_delta(epsilon), both, 1e-3) or both < 1e-12
    exact = hockey_stick("replace", alpha, q, z)
    assert close_above(poisson(q, z, 1, REPLACE).get_delta(epsilon), exact, 1e-3) or exact < 1e-12


@pytest.mark.parametrize(
    ("q", "z", "epsilon"), [(0.05, 0.7, 0.3), (0.5, 1.5, 0.2), (0.3, 1.0, 1.0)]
)
def test_two_poisson_steps(q, z, epsilon):
    alpha = math.exp(epsilon)
    both = max(hockey_stick_twice(kind, alpha, q, z) for kind in ("add", "remove"))
    assert poisson(q, z, 2, ADD).get_delta(epsilon) == pytest.approx(both, rel=1e-3)
    exact = hockey_stick_twice("replace", alpha, q, z)
    assert poisson(q, z, 2, REPLACE).get_delta(epsilon) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("n", "batch", "mu"), [(100, 5, 1.0), (20, 15, 0.5)])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5])
def test_one_and_two_fixed_size_steps(n, batch, mu, epsilon, replacement):
    alpha = math.exp(epsilon)
    one = float(fixed_size(alpha, n, batch, mu, replacement))
    assert close_above(fixed(n, batch, mu, 1, replacement).get_delta(epsilon), one, 1e-3)
    two = fixed_size_twice(alpha, n, batch, mu, replacement)
    assert fixed(n, batch, mu, 2, replacement).get_delta(epsilon) == pytest.approx(two, rel=2e-3)


EXACT = [
    (steps, mu, delta)
    for steps in (1, 7, 2000, 30_000)
    for mu in (0.05, 0.8, 5.0)
    for delta in (0.02, 1e-6, 1e-30, 1e-200)
]


@pytest.mark.parametrize(("steps", "mu", "delta"), EXACT)
def test_rate_one_is_the_exact_gaussian(steps, mu, delta):
    """Where every row is drawn the exact curve is known: above it, and hardly."""
    z = math.sqrt(steps) / mu
    cases = [
        (poisson(1.0, z, steps, ADD), mu),
        (poisson(1.0, z, steps, REPLACE), 2 * mu),
        (fixed(9, 9, 1 / z, steps, False), mu),
    ]
    for curve, total in cases:
        epsilon = GaussianCurve(total).get_epsilon(delta)
        exact = GaussianCurve(total).get_delta(epsilon)
        slack = 5e-3 if delta > 1e-20 else 0.2 if delta > 1e-100 else 9
        assert exact * (1 - 1e-12) <= curve.get_delta(epsilon) <= exact * (1 + slack)


@lru_cache
def dp_accounting_pld(q, z, steps, relation, pessimistic):
    return reference_pld.from_gaussian_mechanism(
        z,
        sampling_prob=q,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
        value_discretization_interval=4e-4,
        neighboring_relation=(
            NeighboringRelation.REPLACE_ONE
            if relation == REPLACE
            else NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
    ).self_compose(steps)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(("q", "z", "steps"), [(0.03, 1.2, 200), (0.15, 2.0, 30), (0.3, 1.0, 5)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-8])
def test_against_dp_accounting(q, z, steps, relation, delta):
    found = poisson(q, z, steps, relation).get_epsilon(delta)
    above = dp_accounting_pld(q, z, steps, relation, True).get_epsilon_for_delta(delta)
    below = dp_accounting_pld(q, z, steps, relation, False).get_epsilon_for_delta(delta)
    assert found == pytest.approx(above, rel=3e-4)
    assert found >= below


def test_directions_are_composed_before_the_maximum():
    """Add/remove: each direction by itself. A per-step maximum would overstate it by far."""
    q, z, steps, epsilon = 0.05, 0.8, 100, 1.0
    right = poisson(q, z, steps, ADD).get_delta(epsilon)
    reference = dp_accounting_pld(q, z, steps, ADD, True).get_delta_for_epsilon(epsilon)
    assert right == pytest.approx(reference, rel=2e-3)
    worst_of_both = StepProfile("amplified", q, (1 / z,), (q,), mirrored=True)
    assert LossCurve((((worst_of_both, steps),),)).get_delta(epsilon) > 1.2 * right


def test_fixed_size_takes_the_maximum_before_composing():
    """Replace-one: composing (1−q)Q + qP against Q, each order alone, is too small (SPEC 4)."""
    n, batch, mu, steps, epsilon = 1000, 50, 1.0, 100, 0.8
    one_order = StepProfile("amplified", batch / n, (mu,), (batch / n,))
    other_order = StepProfile("reversed", batch / n, (mu,), (batch / n,))
    wrong = LossCurve((((one_order, steps),), ((other_order, steps),))).get_delta(epsilon)
    assert fixed(n, batch, mu, steps, False).get_delta(epsilon) > 1.2 * wrong


def test_different_steps_compose():
    """Rate one twice with different noise, and with full-batch releases: one Gaussian."""
    parts = (
        (GaussianEvent(20.0, 1.0, 2.0, sampling="poisson", rate=1.0), 300),
        (GaussianEvent(9.0, 1.0, 2.0, sampling="poisson", rate=1.0), 20),
        (GaussianEvent(4.0, 1.0, 2.0), 3),
    )
    curve = privacy_curve(ComposedEvent(parts), ADD)
    exact = GaussianCurve(math.sqrt(300 / 400 + 20 / 81 + 3 / 16))
    for epsilon in (0.0, 1.0, 4.0):
        assert close_above(curve.get_delta(epsilon), exact.get_delta(epsilon), 2e-3)


def test_order_and_grouping_do_not_matter():
    a = GaussianEvent(2.0, 1.0, 2.0, sampling="poisson", rate=0.1)
    b = GaussianEvent(3.0, 1.0, 2.0, sampling="poisson", rate=0.2)
    one = privacy_curve(ComposedEvent(((a, 10), (b, 5), (a, 10))), ADD)
    other = privacy_curve(ComposedEvent(((b, 5), (a, 20))), ADD)
    assert one.get_delta(0.7) == pytest.approx(other.get_delta(0.7), rel=1e-9)


def test_heavy_tail_and_tiny_delta():
    """Few, strong steps: Chernoff's bound is far from δ, and the window must still be enough."""
    q, z, steps = 0.0015, 0.64, 75
    for delta in (1e-2, 1e-5, 1e-7):
        found = poisson(q, z, steps, REPLACE).get_epsilon(delta)
        reference = dp_accounting_pld(q, z, steps, REPLACE, True).get_epsilon_for_delta(delta)
        assert found == pytest.approx(reference, rel=2e-3)


PRINTED = 5.4e-4 * 20


def test_the_printed_noise():
    """SPEC 9.3: the true ε of the paper's dp-SGGD noise."""
    delta = 1 / math.sqrt(2000)
    assert poisson(0.01, PRINTED, 2000, ADD).get_epsilon(delta) == pytest.approx(1.2e5, rel=0.06)
    assert fixed(2000, 20, 2 / PRINTED, 2000, True).get_epsilon(delta) > 1e4


def test_epsilon_is_where_delta_is():
    for curve in (poisson(0.02, 1.1, 500, ADD), fixed(300, 10, 0.9, 100, True)):
        for delta in (0.1, 1e-4, 1e-9):
            epsilon = curve.get_epsilon(delta)
            assert curve.get_delta(epsilon) <= delta
            assert curve.get_delta(epsilon * (1 - 1e-4)) > delta * (1 - 1e-6)


def test_ends_of_the_range():
    curve = poisson(0.02, 1.1, 10, ADD)
    assert curve.get_delta(math.inf) == 0
    assert curve.get_epsilon(0.0) == math.inf
    assert curve.get_epsilon(1.0) == 0
    assert curve.get_delta(1e4) < 1e-200
    assert curve.name == "privacy loss distribution (upper bound)"
    with pytest.raises(ValueError, match="epsilon"):
        curve.get_delta(-0.1)
    with pytest.raises(ValueError, match="delta"):
        curve.get_epsilon(2.0)


@pytest.mark.parametrize(("q", "z"), [(1e-30, 1.0), (0.5, 1e9), (1 - 1e-12, 0.5), (1e-6, 0.05)])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_extreme_parameters_stay_sane(q, z, relation):
    curve = poisson(q, z, 1000, relation)
    deltas = [curve.get_delta(e) for e in (0.0, 0.5, 5.0)]
    assert all(0 <= d <= 1 for d in deltas)
    assert deltas == sorted(deltas, reverse=True)
    if q * math.expm1(min(1 / z**2, 500)) < 1e-9:
        assert deltas[0] < 1e-3


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    q=st.floats(1e-3, 0.99),
    z=st.floats(0.4, 6),
    steps=st.integers(1, 3000),
    epsilon=st.floats(0.01, 5),
    relation=st.sampled_from([ADD, REPLACE]),
)
def test_monotone(q, z, steps, epsilon, relation):
    here = poisson(q, z, steps, relation).get_delta(epsilon)
    assume(here > 1e-200)
    room = 1 + 5e-3
    assert poisson(q, z, steps, relation).get_delta(epsilon * 1.3) <= here * room
    assert poisson(q, z * 1.3, steps, relation).get_delta(epsilon) <= here * room
    assert poisson(q * 0.7, z, steps, relation).get_delta(epsilon) <= here * room
    assert poisson(q, z, 2 * steps, relation).get_delta(epsilon) >= here / room
    assert poisson(q, z, steps, ADD).get_delta(epsilon) <= here * room or relation == ADD


@settings(max_examples=8, deadline=None, derandomize=True)
@given(q=st.floats(0.01, 0.9), z=st.floats(0.5, 3), epsilon=st.floats(0.0, 1.0))
def test_upper_bound_on_random_pairs_of_steps(q, z, epsilon):
    for relation, kinds in ((ADD, ("add", "remove")), (REPLACE, ("replace",))):
        found = poisson(q, z, 2, relation).get_delta(epsilon)
        for kind in kinds:
            exact = hockey_stick_twice(kind, math.exp(epsilon), q, z, points=1501)
            assert found >= exact * (1 - 2e-4) - 1e-9


def test_with_replacement_where_chernoff_is_far_from_delta():
    """A heavy tail under long, weak steps: δ must fall with ε, and ε must come back."""
    curve = fixed(2000, 20, 2 / 3.0629, 100, True)
    deltas = [curve.get_delta(e) for e in (0.2, 0.5, 1.0, 1.5)]
    assert deltas == sorted(deltas, reverse=True)
    assert curve.get_epsilon(deltas[2]) == pytest.approx(1.0, rel=1e-4)
    assert deltas[2] == pytest.approx(1e-6, rel=2e-2)
