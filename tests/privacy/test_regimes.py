"""The accountant over all regimes: never below the truth, and never far above it.

ε = get_epsilon(δ) is checked at δ = 1e-3, 1e-6 and 1e-9 in two ways, against references that share
no code with the library:
(a) never below: a lower bound on the true δ is at most δ at ε;
(b) tight: an upper bound on the true δ is more than δ at ε/1.05 (ε/1.001 for one step).
One step: the definition, with 40 digits. Two steps: sums over cells, each with its loss at the
lower or at the upper end. More steps, Poisson: dp_accounting's optimistic and pessimistic PLD.
More steps of a fixed size: bounds through both of these, and their order.
"""

import math
from functools import lru_cache, partial
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as reference_pld
from scipy.stats import binom, norm

from stillspace.privacy import ComposedEvent, GaussianEvent, calibrate, privacy_curve
from stillspace.privacy.masses import BlockLaw
from stillspace.privacy.profiles import StepProfile

ADD, REPLACE = "add-or-remove-one", "replace-one"
DELTAS = (1e-3, 1e-6, 1e-9)
RATES = (1e-6, 1e-3, 0.05, 0.5)
NOISES = (0.3, 1.0, 3.0, 10.0)
SIZES = {1e-6: (10**6, 1), 1e-3: (10**4, 10), 0.05: (200, 10), 0.5: (20, 10)}
KINDS = ("add/remove", "replace", "without", "with")


def curve(kind, q, z, steps):
    """z is σ over the unit of the kind: norm bound (Poisson) or difference bound (fixed size)."""
    if kind in ("add/remove", "replace"):
        event = GaussianEvent(z, 1.0, 2.0, sampling="poisson", rate=q)
        relation = ADD if kind == "add/remove" else REPLACE
    else:
        n, batch = SIZES[q]
        name = kind + "-replacement"
        event = GaussianEvent(2 * z, 1.0, 2.0, sampling=name, batch_size=batch, population=n)
        relation = REPLACE
    return privacy_curve(ComposedEvent(((event, steps),)), relation)


def check(found_curve, lower, upper, factor):
    for delta in DELTAS:
        epsilon = found_curve.get_epsilon(delta)
        assert lower(epsilon) <= delta * (1 + 1e-9), (delta, epsilon, lower(epsilon))
        if epsilon > 0:
            assert upper(epsilon / factor) > delta, (delta, epsilon, upper(epsilon / factor))


# One step: the definition, with digits.


def draws(kind, q):
    """(γ, probabilities of k = 1, 2, … draws of the changed row)."""
    n, batch = SIZES[q]
    if kind == "without":
        return mp.mpf(batch) / n, [mp.mpf(batch) / n]
    p = mp.mpf(1) / n
    weights = [mp.binomial(batch, k) * p**k * (1 - p) ** (batch - k) for k in range(1, batch + 1)]
    return 1 - (1 - p) ** batch, weights


def exact_delta(kind, q, z, epsilon):
    with mp.workdps(40):
        alpha, mu = mp.exp(mp.mpf(epsilon)), 1 / mp.mpf(z)

        def gauss(a, m):
            x = mp.log(a) / m
            return mp.ncdf(m / 2 - x) - a * mp.ncdf(-m / 2 - x)

        if kind in ("without", "with"):
            rate, weights = draws(kind, q)
            base = 1 + (alpha - 1) / rate
            return sum(w * gauss(base, k * mu) for k, w in enumerate(weights, 1))
        q = mp.mpf(q)
        if kind == "replace":
            # q(y − α/y)c = (α − 1)(1 − q), c = e^(−μ²/2), y = e^(μx).
            b = (alpha - 1) * (1 - q) / (q * mp.exp(-mu * mu / 2))
            x = mp.log((b + mp.sqrt(b * b + 4 * alpha)) / 2) / mu
            up, zero, down = (mp.ncdf(m - x) for m in (mu, 0, -mu))
            return (1 - q) * (1 - alpha) * zero + q * up - alpha * q * down
        remove = q * gauss(1 + (alpha - 1) / q, mu)
        if alpha * (1 - q) >= 1:
            return remove
        x = mp.log((1 / alpha - 1 + q) / q) / mu + mu / 2
        add = (1 - alpha * (1 - q)) * mp.ncdf(x) - alpha * q * mp.ncdf(x - mu)
        return max(add, remove)


@pytest.mark.parametrize("z", NOISES)
@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_step_is_exact(kind, q, z):
    exact = partial(exact_delta, kind, q, z)
    found = curve(kind, q, z, 1)
    check(found, exact, exact, 1.001)
    for epsilon in (0.0, 1e-5, 0.01, 1.0, 5.0):
        # 1e-5: at q = 1e-6 the rounding of ε is some 1e-6 of the losses.
        assert exact(epsilon) * (1 - mp.mpf(10) ** -13) <= found.get_delta(epsilon)
        if exact(epsilon) > 1e-300:
            assert found.get_delta(epsilon) <= exact(epsilon) * (1 + 1e-5)


# Two steps: cells of the first one, all of the second.


def poisson_step(kind, q, z):
    """Return losses at the edges of cells, masses of P there, and H of a step.

    H(α) = P(S) − αQ(S) on a half-line S that is nearly the best: never above H.
    """
    mu = 1 / z
    x = np.linspace(-mu - 13, mu + 13, 12_001)
    up, zero, down = (m * x - m * m / 2 for m in (mu, 0.0, -mu))
    one = np.log1p(q * np.expm1(up))
    other = np.log1p(q * np.expm1(down)) if kind == "replace" else zero
    loss = one - other
    in_p, in_q = ((q, 1 - q), (mu, 0.0)), ((1.0,), (-mu if kind == "replace" else 0.0,))
    if kind == "replace":
        in_q = ((q, 1 - q), (-mu, 0.0))
    if kind == "add":  # the same pair, exchanged: x → −x makes the loss increase again
        x, loss = -x[::-1], -loss[::-1]
        in_p, in_q = ((1.0,), (0.0,)), ((q, 1 - q), (-mu, 0.0))

    def tail(law, at):
        return sum(w * norm.sf(at - m) for w, m in zip(*law, strict=True))

    def below(law, at):
        return sum(w * norm.cdf(at - m) for w, m in zip(*law, strict=True))

    def step(alpha):
        at = np.interp(np.log(alpha), loss, x, left=-np.inf, right=np.inf)
        return np.maximum(tail(in_p, at) - alpha * tail(in_q, at), 0.0)

    masses = np.where(x[1:] < 0, np.diff(below(in_p, x)), -np.diff(tail(in_p, x)))
    return loss, masses, step, float(tail(in_p, x[-1]))


def fixed_step(kind, q, z):
    """The same for the bound of Balle, Barthe and Gaboardi, mirrored."""
    n, batch = SIZES[q]
    if kind == "without":
        rate, weights = batch / n, np.array([batch / n])
    else:
        rate = -math.expm1(batch * math.log1p(-1 / n))
        weights = binom.pmf(np.arange(1, batch + 1), batch, 1 / n)
    mus = np.arange(1, len(weights) + 1)[:, None] / z

    def tails(losses):
        base = np.log1p(np.expm1(losses) / rate) / mus
        q_tail = weights / rate @ norm.sf(base + mus / 2)
        return weights @ norm.sf(base - mus / 2) + (1 - rate) * q_tail, q_tail

    def step(alpha):
        at = np.log(np.where(alpha >= 1, alpha, 1 / alpha))
        p_tail, q_tail = tails(at)
        h = np.where(at < 700, p_tail - np.exp(np.minimum(at, 700)) * q_tail, 0.0).clip(0.0)
        return np.where(alpha >= 1, h, 1 - alpha + alpha * h)

    top = 12.0 * len(weights) / z + 0.5 * (len(weights) / z) ** 2
    half = np.concatenate([[0.0], rate * np.geomspace(1e-6, min(top, 500) / rate, 6000)])
    p_tail, q_tail = tails(half)
    up, down = -np.diff(p_tail), -np.diff(q_tail)
    atom = max(1 - p_tail[0] - q_tail[0], 0.0)
    losses = np.concatenate([-half[::-1], half])
    return losses, np.concatenate([down[::-1], [atom], up]), step, float(p_tail[-1])


@lru_cache
def two_steps(kind, q, z):
    if kind == "add/remove":
        return (poisson_step("add", q, z), poisson_step("remove", q, z))
    return ((poisson_step if kind == "replace" else fixed_step)(kind, q, z),)


def two_step_delta(kind, q, z, side, epsilon):
    """E_P H(αe^−L), which grows with L, L moved down (0) or up (1) to the end of its cell."""
    results = []
    for loss, masses, step, rest in two_steps(kind, q, z):
        ends = loss[:-1] if side == 0 else loss[1:]
        alpha = np.exp(np.clip(epsilon - ends, -700, 700))
        results.append(float(masses @ step(alpha)) + side * rest)
    return max(results)


@pytest.mark.parametrize("z", NOISES)
@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("kind", KINDS)
def test_two_steps_by_brute_force(kind, q, z):
    lower, upper = (partial(two_step_delta, kind, q, z, side) for side in (0, 1))
    check(curve(kind, q, z, 2), lower, upper, 1.05)


# More steps.


@lru_cache
def dp_accounting_pld(case, relation, pessimistic):
    steps, q, z, interval = case
    return reference_pld.from_gaussian_mechanism(
        z,
        sampling_prob=q,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
        value_discretization_interval=interval,
        neighboring_relation=(
            NeighboringRelation.REPLACE_ONE
            if relation == "replace"
            else NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
    ).self_compose(steps)


MANY = [
    # steps, q, z, interval of the reference
    (5, 1e-3, 0.3, 1e-3),
    (5, 1e-3, 1.0, 2e-4),
    (5, 0.05, 1.0, 1e-3),
    (5, 0.5, 3.0, 1e-3),
    (50, 1e-3, 0.3, 1e-3),
    (50, 1e-3, 1.0, 2e-4),
    (50, 0.05, 3.0, 2e-4),
    (50, 0.5, 10.0, 2e-4),
    (2000, 1e-3, 0.3, 1e-3),
    (2000, 1e-3, 1.0, 2e-4),
    (2000, 0.05, 3.0, 2e-4),
    (2000, 0.5, 10.0, 1e-3),
    (20_000, 1e-3, 1.0, 1e-4),
    (20_000, 1e-3, 3.0, 2e-5),
    (20_000, 0.05, 10.0, 1e-4),
]


@pytest.mark.parametrize("case", MANY, ids=str)
@pytest.mark.parametrize("kind", ["add/remove", "replace"])
def test_many_poisson_steps(kind, case):
    steps, q, z, _ = case
    lower, upper = (dp_accounting_pld(case, kind, pessimistic) for pessimistic in (False, True))
    check(curve(kind, q, z, steps), lower.get_delta_for_epsilon, upper.get_delta_for_epsilon, 1.05)


@pytest.mark.parametrize("steps", [5, 50, 2000, 20_000])
@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("z", [0.3, 1.0, 4.0])
def test_many_steps_of_a_fixed_size(steps, q, z):
    """Draws with replacement: at most one draw nearly always, so hardly more than without.

    More than one draw in any step has probability T·w₂: with it, δ_with <= δ_without + T·w₂, up to
    the 1.05. Both are above two steps, and above (1−q)N(0) + qN(μ) against N(0) in one order.
    """
    n, batch = SIZES[q]
    double = steps * batch**2 / (2 * n**2) if batch > 1 else 0.0
    without, with_ = curve("without", q, z, steps), curve("with", q, z, steps)
    one_order = curve("add/remove", q, z, steps)
    for delta in DELTAS if q < 0.05 or steps < 2000 else DELTAS[1:2]:
        epsilon = without.get_epsilon(delta)
        found = with_.get_delta(epsilon)
        assert two_step_delta("without", q, z, 0, epsilon) <= delta * (1 + 1e-9)
        assert two_step_delta("with", q, z, 0, epsilon) <= found * (1 + 1e-9)
        assert one_order.get_delta(epsilon) <= delta * (1 + 2e-3)
        if double < 0.5 and q < 0.05 and epsilon > 0:
            assert with_.get_delta(epsilon * (1 - 2 * batch / n)) >= delta * 0.99
            assert with_.get_delta(1.05 * epsilon) <= delta + double


@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("z", [0.3, 2.0])
def test_monotone_in_steps(kind, q, z):
    for epsilon in (0.01, 1.0):
        deltas = [curve(kind, q, z, steps).get_delta(epsilon) for steps in (1, 2, 5, 40, 300)]
        assert all(a <= b * (1 + 1e-3) for a, b in pairwise(deltas))
        assert all(0 < d <= 1 for d in deltas)


# What was loose.


@pytest.mark.parametrize(
    ("z", "figure"), [(0.2, 3.93e-3), (0.3, 1.02e-3), (0.5, 7.2e-6), (1, 2.8e-9), (2, 2e-15)]
)
def test_few_steps_with_replacement(z, figure):
    found = curve("with", 1e-3, z, 5).get_delta(1.0)
    assert found == pytest.approx(figure, rel=0.02)
    assert found >= exact_delta("with", 1e-3, z, 1.0)


def test_calibration_of_few_steps_with_replacement():
    def event(sampling, z):
        step = GaussianEvent(2 * z, 1.0, 2.0, sampling=sampling, batch_size=10, population=10**4)
        return ComposedEvent(((step, 5),))

    with_, without = (
        calibrate(partial(event, s), REPLACE, 1.0, 1e-6)
        for s in ("with-replacement", "without-replacement")
    )
    assert without * (1 - 1e-3) <= with_ <= 1.1 * without


def test_delta_is_positive():
    """Also where it is below the least number; at infinity alone it is zero."""
    for found in (curve("add/remove", 1e-6, 5.0, 1), curve("with", 1e-3, 50.0, 3)):
        assert 0 < found.get_delta(1e5) < 1e-299
        assert found.get_delta(math.inf) == 0


def test_reversed_loss_is_bounded():
    profile = StepProfile("reversed", 0.1, (1.0,), (0.1,))
    assert profile.get_delta(-math.log1p(-0.1) + 1e-12) == 0
    assert profile.get_delta(0.1) > 0


@pytest.mark.parametrize("h", [1e-5, 1e-2, 0.1, 0.5, 3.0])
def test_blocks_of_any_grid_are_above(h):
    """Also coarse ones, and short ones, whose mass beyond goes to infinity."""
    profile = StepProfile("amplified", 0.05, (1.0,), (0.05,))
    loss, masses, step, _ = poisson_step("remove", 0.05, 1.0)
    for high in (0.3, 4.0, 40.0):
        law = BlockLaw.of_step(profile, h, -5.0, high)
        for epsilon in (-1.0, 0.0, 0.1, 1.0, 4.0):
            lower = float(masses @ step(np.exp(epsilon - loss[:-1])))
            assert (law**2).hockey_stick(epsilon) >= lower * (1 - 1e-9)
            assert (law**3).hockey_stick(epsilon) >= lower * (1 - 1e-9)


def test_blocks_keep_both_masses():
    """P's and Q's totals: composing splits masses, and loses none."""
    law = BlockLaw.of_step(StepProfile("antipodal", 0.01, (1.5,), (0.01,)), 1e-3, -20.0, 20.0)
    units = np.arange(-512, 513)

    def totals(x):
        losses = x.h * 2.0 ** np.arange(len(x.blocks))[:, None] * units
        q_masses = x.blocks[x.blocks > 0] * np.exp(-losses[x.blocks > 0])
        return x.blocks.sum(), q_masses.sum()

    p, r = totals(law)
    for count in (2, 3, 20):
        found = totals(law**count)
        assert found[0] == pytest.approx(p**count, rel=1e-12)
        assert found[1] == pytest.approx(r**count, rel=1e-9)
