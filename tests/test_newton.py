"""The damped Newton method: its filter, its shares, its routes, and its accuracy."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.methods.newton import ChosenNewton, DampedNewton
from stillspace.methods.newton.belief import Belief
from stillspace.methods.newton.rule import NEWTON_RULE
from stillspace.methods.newton.spread import Across
from stillspace.methods.newton.states import Found, LastMoment, Looking, Steps, TopUp
from stillspace.methods.outlier_look import LOOK_RULE, LeftOut, Screening
from stillspace.methods.spectrum import Moment, Spectrum, count_components
from stillspace.methods.standardiser import STANDARDISER_RULE
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import polar
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import (
    AngleCounts,
    Curvature,
    CurvatureMatrix,
    FourthMoment,
    Glad,
    SecondMoment,
)
from stillspace.parts.sampling import RowPart
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Answer
from stillspace.plans.ledger import ALL
from stillspace.recipes import Facts, make_plan
from stillspace.rows import MemoryRows, through_view
from stillspace.run import run
from tests.conftest import random_basis


def symmetric_noise(rng, D, sd):
    A = rng.standard_normal((D, D)) * sd / sqrt(2)
    return np.triu(A, 1) + np.triu(A, 1).T + np.diag(rng.standard_normal(D) * sd)


# --- the filter ----------------------------------------------------------------------------


@pytest.mark.parametrize(("r", "k"), [(1, 0), (3, 0), (1, 2), (3, 2), (3, 6)])
def test_the_gain_is_the_posterior_mean(rng, r, k):
    """Against conditioning of the joint normal of error and gradient, written out for all entries.

    Along each of k leading directions across the subspace the error has its own covariance and the
    mean distance its own curvature; along all others both are the same.
    """
    D, sigma, s, cap = 9, 0.03, 1.7, 0.3
    V, *Q = np.hsplit(np.linalg.qr(rng.standard_normal((D, D)))[0], np.arange(r, D))
    B = 0.1 * rng.standard_normal((k + 1, r, r))
    P = B @ B.transpose(0, 2, 1) + 0.01 * np.eye(r)
    near, far = rng.uniform(0.0, 0.4, (2, k + 1))
    near[-1] = far[-1] = 0.1
    across = Across(np.hstack([np.empty((D, 0)), *Q[:k]]), near, far)
    belief = Belief(V, P, s, 1e-12, 0.5, cap, np.zeros((r, r)), across=across)
    G = rng.standard_normal((D, r)) * 0.05
    scalar = Answer(np.array(s * cap), 1e-9)
    matrix = Answer(s * cap / r * np.eye(r), 1e-9)
    after = belief.after((Answer(G, sigma), scalar, matrix)[: 2 + (r > 1)]).belief

    distance = next(d for d in np.roots([1.0, s, -1.0]) if d > 0.0)  # 1/d − d = s
    covariance, curvature = np.zeros((2, D * r, D * r))
    for i, q in enumerate(Q):
        at = min(i, k)
        C = max((1.0 - near[at]) * s / r - far[at] * distance, 0.1 * s / r)
        covariance += np.kron(q @ q.T, P[at])
        curvature += np.kron(q @ q.T, C * np.eye(r))
    seen = curvature @ covariance @ curvature + sigma**2 * np.eye(D * r)
    gain = covariance @ curvature @ np.linalg.inv(seen)
    across_V = (np.eye(D) - V @ V.T) @ G
    mean = (gain @ across_V.ravel()).reshape(D, r)
    left = covariance - gain @ curvature @ covariance
    np.testing.assert_allclose(after.V, polar(V + mean), atol=1e-9)
    for i, q in enumerate(Q):
        along = np.kron(q.T, np.eye(r))
        np.testing.assert_allclose(after.P[min(i, k)], along @ left @ along.T, atol=1e-9)
    assert after.s == pytest.approx(s, rel=1e-6)


def shaped(belief: Belief, matrix: Answer) -> Belief:
    """Return the belief after a curvature matrix, beside a scalar that says nothing."""
    return belief._curved(Answer(np.array(0.0), 1e30), matrix)


def curvature(belief: Belief):
    """Return the curvature that is believed, as a matrix."""
    values, U = belief.axes
    return (U * values) @ U.T


def test_the_curvature_takes_the_shape_of_a_clear_matrix_and_none_of_noise(rng):
    D, r, s, cap = 8, 3, 2.0, 0.3
    V = random_basis(rng, D, r)
    belief = Belief(V, np.eye(r)[None], s, 1e-12, s * cap, cap, np.zeros((r, r)))
    shape = np.diag([0.6, 0.3, 0.1])
    clear = curvature(shaped(belief, Answer(cap * s * shape, 1e-9)))
    np.testing.assert_allclose(clear, s * shape, atol=1e-6)
    unclear = Answer(cap * s * shape, 10.0)
    noisy = curvature(shaped(belief, unclear))
    np.testing.assert_allclose(noisy, s / r * np.eye(r), atol=1e-9)
    known = replace(belief, squares=np.array([0.3, 0.2, 0.1]))
    np.testing.assert_allclose(curvature(known), s * np.diag([3.0, 2.0, 1.0]) / 6.0, atol=1e-9)
    np.testing.assert_allclose(curvature(shaped(known, unclear)), curvature(known), atol=1e-9)
    clear = curvature(shaped(known, Answer(cap * s * shape, 1e-9)))
    np.testing.assert_allclose(clear, s * shape, atol=1e-6)


def test_the_weakest_curvature_is_bounded_from_above(rng):
    """Noise may lower the smallest eigenvalue; the bound holds in 1000 of 1000 draws.

    It is three times the half of what noise alone spreads: a miss has a chance below 1e-4 each.
    """
    r, s, cap, sd = 4, 2.0, 0.3, 0.02
    shape = np.diag([0.5, 0.3, 0.15, 0.05])
    start = Belief(
        random_basis(rng, 8, r), np.eye(r)[None], s, 1e-12, s * cap, cap, np.zeros((r, r))
    )
    bounds, least = [], []
    for _ in range(1000):
        belief = start
        for sd_ in (4.0 * sd, 4.0 * sd, sd, sd):
            noisy = Answer(cap * s * shape + symmetric_noise(rng, r, sd_), sd_)
            belief = shaped(belief, noisy)
        bounds.append(belief.weakest)
        least.append(belief.axes.values[0])
    assert min(bounds) > 0.05 * s
    assert np.median(least) < 0.05 * s + 0.05 < np.median(bounds) < 0.8 * s
    assert start.weakest == s / r


def test_curvature_matrices_of_different_caps_have_one_shape(rng):
    """The trace of a released matrix is s·cap, which falls while s grows faster than the cap."""
    r, shape = 2, np.diag([0.8, 0.2])
    belief = Belief(
        random_basis(rng, 8, r), np.eye(r)[None], 2.0, 1e-12, 0.3, 0.5, np.zeros((r, r))
    )
    for s, cap in ((2.0, 0.5), (4.0, 0.2), (9.0, 0.03)):
        belief = shaped(replace(belief, s=s, cap=cap), Answer(s * cap * shape, 1e-9))
    np.testing.assert_allclose(curvature(belief), 9.0 * shape, atol=1e-6)
    assert belief.weakest == pytest.approx(9.0 * 0.2, rel=1e-5)


@pytest.mark.parametrize("factor", [1.6, 3.0, 30.0])
def test_a_signal_is_freed_of_what_noise_adds(rng, factor):
    """Against drawn spiked matrices; the sample mean of 20 has an error of a few percent."""
    D, sd = 300, 1.0
    edge = sd * sqrt(D / 2)
    v = random_basis(rng, D, 1)
    found = [
        Spectrum.of(symmetric_noise(rng, D, sd) + factor * edge * v @ v.T, sd, 1).signal[0]
        for _ in range(20)
    ]
    assert np.mean(found) == pytest.approx(factor * edge, rel=0.06)


@pytest.mark.parametrize("r", [1, 2, 5])
def test_components_are_counted(rng, r):
    D, sd = 60, 0.002
    V = random_basis(rng, D, r)
    moment = 0.5 / r * V @ V.T + 0.5 / D * np.eye(D)
    found = {count_components(moment + symmetric_noise(rng, D, sd), sd, 10) for _ in range(20)}
    assert found == {r}
    assert 1 <= count_components(symmetric_noise(rng, D, sd), sd, 10) <= 10


# --- a total function of its releases ------------------------------------------------------


def walk(method, allowance, answer):
    """Run a method on made-up answers; return shares, passes and normals that it used."""
    state, shares, passes, coordinates = method.begin(allowance), 0.0, 0, 0
    while (ask := method.ask(state)) is not None:
        assert np.isfinite(ask.point).all()
        answers = []
        for query, share in ask.shares:
            assert 0.0 < share <= 1.0
            shares += share
            coordinates += query.noise.coordinates
            answers.append(answer(query, allowance.sd(query, share)))
        state = method.take(state, tuple(answers))
        passes += 1
        assert passes <= method.n_passes
    found = method.outcome(state)
    return found, shares, passes, coordinates


@pytest.mark.parametrize("r", [1, 4])
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1.0, 1e6])
@pytest.mark.parametrize("mu", [1e-4, 0.2, 20.0])
@pytest.mark.parametrize("chosen", [False, True])
def test_whatever_is_released_the_shares_fit_and_it_ends(rng, r, scale, mu, chosen):
    D = 7
    method = ChosenNewton(D, r) if chosen else DampedNewton(D, r)
    allowance = Allowance(mu, 500)
    for _ in range(5):

        def answer(query, sd):
            shape = query.shape
            value = rng.standard_normal(shape) * max(sd, 1e-300) * rng.choice([1.0, 50.0])
            value = value + scale * rng.standard_normal(shape)
            if len(shape) == 2 and shape[0] == shape[1]:
                value = value + value.T
            return Answer(np.asarray(value), sd)

        found, shares, _, coordinates = walk(method, allowance, answer)
        assert shares <= 1.0 + 1e-12
        assert coordinates <= method.coordinates
        assert found.V.shape[0] == D
        assert 1 <= found.V.shape[1] <= r
        np.testing.assert_allclose(found.V.T @ found.V, np.eye(found.V.shape[1]), atol=1e-9)
        assert not found.facts["error_estimate"] < 0.0


def test_a_weak_signal_gets_plain_private_pca_with_the_whole_budget(rng):
    """Two releases averaged by share have the noise of one: μ² adds up."""
    D, r, n, mu = 12, 2, 1000, 0.05
    method = DampedNewton(D, r)
    plan = AdaptivePlan("x", method, n, mu=mu)
    moments = []
    for seed in range(200):
        result = run(plan, MemoryRows(np.zeros((D, n))), seeded_generator(seed))
        if result.n_iter == 2:  # now and then noise looks like a signal at first
            assert result.facts["route"].startswith("private PCA")
            moments.append(result.moment[np.triu_indices(D, 1)])
    assert len(moments) > 190
    want = 1.0 / (mu * n)
    # 10 000 normals and more: the relative error of their spread is .7 %
    assert np.std(moments) == pytest.approx(want, rel=0.05)


def test_moments_are_averaged_by_share(rng):
    first, second = symmetric_noise(rng, 5, 1.0), symmetric_noise(rng, 5, 1.0)
    moment = Moment(first, 0.1, 1.0).plus(Answer(second, sqrt(0.1 / 0.3)), 0.3)
    np.testing.assert_allclose(moment.value, 0.25 * first + 0.75 * second)
    assert moment.sd == pytest.approx(sqrt(0.1 / 0.4))


def looked_at(method, n, moment, sd):
    """Return the state after a look that finds nothing: no direction with more rows than others."""
    state = method.begin(Allowance(1.0, n))
    state = method.take(state, (Answer(moment, sd),))
    assert isinstance(state, Looking)
    ask = method.ask(state)
    ((query, share),) = ask.shares
    assert (type(query), share) == (FourthMoment, 0.02)
    return method.take(state, (Answer(np.zeros(query.shape), 1e-3),))


def test_it_asks_for_what_the_docs_say():
    method = DampedNewton(20, 3)
    state = method.begin(Allowance(1.0, 10_000))
    assert isinstance(state, Looking)
    ask = method.ask(state)
    assert ask.shares == ((SecondMoment(20), 0.1),)
    V = np.eye(20)[:, :3]
    state = looked_at(method, 10_000, 0.2 * V @ V.T, 1e-4)
    assert isinstance(state, Steps)
    assert state.spent == pytest.approx(0.12)
    ask = method.ask(state)
    assert [type(query) for query, _ in ask.shares] == [Glad, Curvature, CurvatureMatrix]
    assert ask.through == ()
    last = method.ask(LastMoment(state.screening, 0.5, "x"))
    assert last.shares == ((SecondMoment(20), 0.5),)
    assert method.ask(Found(V, state.screening, 0.0, "x")) is None


def test_a_weaker_signal_gets_a_better_start_first():
    method, V = DampedNewton(20, 3), np.eye(20)[:, :3]
    sd = 1.45e-3
    state = looked_at(method, 10_000, 0.01 * V @ V.T, sd)
    assert isinstance(state, TopUp)
    kappa = Spectrum.of(0.01 * V @ V.T, sd, 3).kappa / sqrt(0.1)
    assert 4.0 < kappa < sqrt(60.0)
    assert state.share == pytest.approx(6.0 / kappa**2 - 0.1)
    entered = method.take(state, (Answer(0.01 * V @ V.T, sd),))
    assert isinstance(entered, Steps)
    assert entered.spent == pytest.approx(0.12 + state.share)
    assert entered.screening.moment.share == pytest.approx(0.1 + state.share)


def test_what_the_look_leaves_out_is_left_out_to_the_end():
    """The direction e0 holds a group within 5 degrees; the other rows have e1 and e2."""
    D, method, n = 6, DampedNewton(6, 2), 100_000
    moment = np.diag([0.4, 0.3, 0.2, 0.04, 0.03, 0.03])
    state = method.take(method.begin(Allowance(1.0, n)), (Answer(moment, 1e-5),))
    ask = method.ask(state)
    gathered = ask.point[0]  # e0 in the basis of the leading directions
    first, second = np.triu_indices(ask.point.shape[1])
    q = gathered[first] * gathered[second] * np.where(first == second, 1.0, sqrt(2.0))
    state = method.take(state, (Answer(np.outer(q, q), 1e-5),))
    ask = method.ask(state)
    ((query, share),) = ask.shares
    assert (type(query), share) == (AngleCounts, 0.05)
    counts = np.zeros(query.shape)
    counts[:, 17:19] = 0.01
    at = int(np.argmax(np.abs(ask.point[0])))
    counts[at, 0 if ask.point[0, at] > 0 else -1] = 0.4
    state = method.take(state, (Answer(counts, 1e-4),))
    ask = method.ask(state)
    assert ask.shares == ((SecondMoment(D), 0.1),)
    rest = np.diag([0.0, 0.3, 0.2, 0.04, 0.03, 0.03])
    state = method.take(state, (Answer(rest, 1e-5),))
    assert isinstance(state, Steps)
    assert state.spent == pytest.approx(0.27)
    np.testing.assert_allclose(np.abs(state.start), np.eye(D)[:, 1:3], atol=1e-9)
    through = method.ask(state).through
    kept = through_view(MemoryRows(np.eye(D)), through).sphered().any(axis=1)
    np.testing.assert_array_equal(kept, np.arange(D) != 0)
    assert method.ask(LastMoment(state.screening, 0.1, "x")).through == through
    (group,) = method.outcome(Found(state.start, state.screening, 0.0, "x")).facts["left_out"]
    np.testing.assert_allclose(group.direction, np.eye(D)[0], atol=1e-9)


def stepped(method, state, k, *, curvature, gradient):
    """Take k steps whose releases show the curvature matrix and, along one entry, the gradient.

    `gradient` is in standard deviations of its noise.
    """
    for _ in range(k):
        ask = method.ask(state)
        assert isinstance(state, Steps)
        cap = state.belief.cap
        answers = []
        for query, share in ask.shares:
            sd = state.allowance.sd(query, share)
            if isinstance(query, Glad):
                value = np.zeros(query.shape)
                value[-1, 0] = gradient * sd
            elif isinstance(query, CurvatureMatrix):
                value = cap * curvature
            else:
                value = np.asarray(cap * np.trace(curvature))
            answers.append(Answer(value, sd))
        state = method.take(state, tuple(answers))
    return state


def started(D=20, n=100_000, rule=NEWTON_RULE):
    method, V = DampedNewton(D, 2, rule=rule), np.eye(D)[:, :2]
    state = looked_at(method, n, 0.4 * V @ V.T, 1e-5)
    assert isinstance(state, Steps)
    return method, state


@pytest.mark.parametrize("weight", [1.2, 2.0, 6.0])
def test_gradients_are_worth_the_square_of_half_their_weight(weight):
    """A second moment has half the noise of a gradient, and sees the weight 1."""
    method, state = started()
    state = stepped(method, state, 2, curvature=0.4 * weight * np.eye(2), gradient=0.0)
    shares = 0.1 + sum(state.parts), state.parts[0]
    expected = (2.0 / weight) ** 2 * shares[0] / shares[1]
    assert state.gradient_error / state.pca_error == pytest.approx(expected, rel=0.05)
    assert method._noisy(state) == (weight <= 2.0)


@pytest.mark.parametrize("groups", [0, 1])
def test_steps_on_a_noisy_table_go_on_if_a_group_was_left_out(groups):
    """Nothing is compared: the group shows that there are outliers. Otherwise V₀ decides."""
    method, state = started()
    group = LeftOut(np.eye(20)[:, 5], two_sided=False, angle=0.2, share=0.2, sd=0.01)
    state = replace(state, screening=replace(state.screening, left_out=groups * (group,)))
    noisy = {"curvature": 0.4 * np.eye(2), "gradient": 0.0}
    state = stepped(method, state, NEWTON_RULE.settled, **noisy)
    assert state.doubt == (groups == 0)
    for _ in range(NEWTON_RULE.compared_at - NEWTON_RULE.settled):
        if isinstance(state, Steps):
            state = stepped(method, state, 1, **noisy)
    assert isinstance(state, Steps if groups else LastMoment)
    assert state.route.startswith("newton: a noisy table" if groups else "private PCA and steps")


def test_a_first_phase_without_end_leaves_something_for_the_second():
    """Units were found again and the signal is weak: .935 is spent before the first step. With a
    rule that leaves hardly anything to the gradient, 20 steps would take .068."""
    rule = replace(NEWTON_RULE, most_curvature=0.47)
    method, allowance = DampedNewton(6, 2, rule=rule), Allowance(1.0, 5000)
    values = Answer(np.diag([0.4, 0.3, 0.1, 0.1, 0.05, 0.05]), 0.056)
    state = method.enter(allowance, Screening(Moment(values.value, 0.1, values.sd), (), 0.87))
    assert isinstance(state, TopUp)
    state, spent, steps = method.take(state, (values,)), 0.935, 0
    while (ask := method.ask(state)) is not None:
        shares = [share for _, share in ask.shares]
        assert min(shares) > 0.0
        spent, steps = spent + sum(shares), steps + 1
        state = stepped(method, state, 1, curvature=9.0 * np.eye(2), gradient=30.0)
    assert spent == pytest.approx(1.0)
    assert steps == 23


@pytest.mark.parametrize("r", [1, 2])
@pytest.mark.parametrize("noise", [0.02, 0.05])
@pytest.mark.parametrize("division", [ALL, RowPart(2, 0)])
def test_steps_fit_into_what_is_left_after_the_dearest_look(r, noise, division):
    """A group was left out, its scatter was asked for, and units were found again with the smallest
    κ: .032 is left, or half of it after a second release of the second moment."""
    rule, least = LOOK_RULE, STANDARDISER_RULE.share_of(STANDARDISER_RULE.least_kappa)
    spent = 3.0 * rule.moment_share + rule.modes_share + rule.angles_share + rule.scatter_share
    assert spent + least == pytest.approx(0.968)
    method = DampedNewton(6, r)
    plan = AdaptivePlan("n", method, 10**6, mu=1.0)
    values = Answer(np.diag([0.3, 0.3, 0.1, 0.1, 0.05, 0.05]), noise)
    moment = Moment(values.value, 0.1, values.sd)
    state = method.enter(plan.allowance, Screening(moment, (), spent + least, division=division))
    assert isinstance(state, Steps if noise < 0.03 else TopUp)
    spent += least
    if isinstance(state, TopUp):
        spent += state.share
        state = method.take(state, (values,))
    while (ask := method.ask(state)) is not None:
        plan.joint_release(ask)
        spent += sum(share for _, share in ask.shares)
        state = stepped(method, state, 1, curvature=9.0 * np.eye(r), gradient=30.0)
    assert spent == pytest.approx(1.0)


def test_directions_held_by_other_rows_end_with_private_pca():
    """A thirtieth of the weight along one direction: another group of rows is near the other."""
    method, state = started()
    state = stepped(method, state, 8, curvature=np.diag([60.0, 2.0]), gradient=0.0)
    assert isinstance(state, LastMoment)
    assert state.route == "private PCA: different rows hold different directions"
    assert state.share == pytest.approx(1.0 - 0.12 - 8 * sum(started()[1].shares), abs=1e-3)


def test_private_pca_averages_the_moments_of_the_kept_rows():
    method = DampedNewton(6, 2)
    values = np.diag([0.4, 0.3, 0.2, 0.03, 0.03, 0.04])
    last = LastMoment(Screening(Moment(values, 0.5, 1e-4), (), 0.5), 0.5, "x")
    found = method.take(last, (Answer(np.diag([0.0, 0.3, 0.3, 0.0, 0.0, 0.0]), 1e-4),))
    np.testing.assert_allclose(np.abs(found.V), np.eye(6)[:, [1, 2]], atol=1e-12)
    assert found.screening.spent == 1.0


# --- accuracy ------------------------------------------------------------------------------


def errors(n, D, r, epsilon, seeds, **options):
    plan = make_plan("auto", Facts(n, D, r, epsilon, 1e-6))
    found = []
    for seed in range(seeds):
        data = make_haystack(n, D, r, random_state=seed, **options)
        result = run(plan, MemoryRows.prepare(data.X), seeded_generator(seed))
        found.append((subspace_error(result.V.T, data.components), result.facts))
    return found


@pytest.mark.parametrize(
    ("n", "D", "r", "epsilon", "options", "limit"),
    [
        (2000, 20, 2, 1.0, {"inlier_ratio": 0.5}, 2.4e-4),
        (
            20_000,
            50,
            3,
            1.0,
            {"inlier_ratio": 0.7, "outliers": "low-rank", "outlier_rank": 5},
            1.3e-5,
        ),
        (20_000, 50, 3, 1.0, {"inlier_ratio": 0.8, "outliers": "cluster"}, 1.2e-5),
    ],
)
def test_figures_of_noisy_inliers(n, D, r, epsilon, options, limit):
    """Four times the measured medians; seeded, so this never fails by chance."""
    found = errors(n, D, r, epsilon, 3, inlier_noise=0.05, **options)
    assert np.median([error for error, _ in found]) < limit
    for error, facts in found:
        assert facts["route"] == "newton"
        assert 0.2 < facts["error_estimate"] / error < 5.0


def test_noiseless_inliers_are_found_next_to_exactly():
    found = errors(2000, 20, 2, 1.0, 3, inlier_ratio=0.5)
    assert np.median([error for error, _ in found]) < 1e-9


@pytest.mark.parametrize(("noise", "limit"), [(0.0, 1e-12), (0.05, 1.2e-4)])
def test_a_fifth_of_inliers_is_enough(noise, limit):
    """Four times the measured median with noise; private PCA has 2e-3."""
    found = errors(20_000, 50, 3, 1.0, 2, inlier_ratio=0.2, inlier_noise=noise)
    assert max(error for error, _ in found) < limit


@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_a_cluster_of_outliers_does_not_capture_the_start(spread):
    """45 % in one cluster; with a tight one the optimum of the mean distance is wrong itself."""
    cluster = {"outliers": "cluster", "cluster_spread": spread}
    found = errors(20_000, 13, 2, 2.0, 2, inlier_ratio=0.55, inlier_noise=0.02, **cluster)
    assert max(error for error, _ in found) < 1e-6


def test_a_line_of_outliers_that_would_win_is_left_out():
    """45 % on a line, which is a direction of the optimum of the mean distance."""
    line = {"outliers": "low-rank", "outlier_rank": 1}
    found = errors(20_000, 13, 2, 2.0, 2, inlier_ratio=0.55, inlier_noise=0.1, **line)
    for error, facts in found:
        (group,) = facts["left_out"]
        assert group.two_sided
        assert abs(group.share - 0.45) < 4.0 * group.sd + 0.02  # bins have cosines of their middles
        assert error < 1e-4


@pytest.mark.parametrize("scales", [[3.0, 1.0], [5.0, 1.0], [4.0, 2.0, 1.0], [1.0, 1.0, 0.2]])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_inliers_that_vary_less_along_some_directions_are_not_split(rng, scales, noise):
    n, D, r = 20_000, 10, len(scales)
    V = random_basis(rng, D, r)
    X = rng.standard_normal((n, r)) * scales @ V.T / np.linalg.norm(scales)
    X += noise / sqrt(D) * rng.standard_normal((n, D))
    plan = make_plan("auto", Facts(n, D, r, 2.0, 1e-6))
    result = run(plan, MemoryRows.prepare(X), seeded_generator(1))
    assert result.facts["route"].startswith("newton")


@pytest.mark.parametrize("mean", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("line", [0.1, 0.2])
def test_inliers_with_a_mean_are_not_left_for_a_line_of_outliers(rng, mean, line):
    n, D, r = 3000, 10, 3
    U, outliers = random_basis(rng, D, r + 1), round(line * n)
    Y = rng.standard_normal((n, r))
    Y[:, 0] += mean
    X = Y @ U[:, :r].T / sqrt(r)
    X[:outliers] = rng.standard_normal((outliers, 1)) * U[:, r]
    X += 0.1 / sqrt(D) * rng.standard_normal((n, D))
    plan = make_plan("auto", Facts(n, D, r, 2.0, 1e-6))
    result = run(plan, MemoryRows.prepare(X), seeded_generator(1))
    assert subspace_error(result.V.T, U[:, :r].T) < 1e-3


@pytest.mark.parametrize(("r", "offset"), [(1, 0.3), (1, 2.0), (3, 0.5), (3, 2.0)])
def test_inliers_that_have_a_mean_keep_it(rng, r, offset):
    """Their centre lies in the subspace, at `offset` of their length along a direction."""
    n, D, inliers = 10_000, 20, 6_000
    V = random_basis(rng, D, r)
    Y = rng.standard_normal((inliers, r)) / sqrt(r)
    Y[:, 0] += offset
    X = np.vstack([Y @ V.T, rng.standard_normal((n - inliers, D))])
    X += 0.05 / sqrt(D) * rng.standard_normal((n, D))
    plan = make_plan("auto", Facts(n, D, r, 1.0, 1e-6))
    result = run(plan, MemoryRows.prepare(X), seeded_generator(1))
    assert subspace_error(result.V.T, V.T) < 1e-4


def test_clean_noisy_tables_end_with_private_pca():
    found = errors(1500, 20, 2, 1.0, 3, inlier_ratio=1.0, inlier_noise=1.0)
    assert all(facts["route"].startswith("private PCA") for _, facts in found)


def test_steps_end_soon_after_a_check_that_shows_no_sharpening():
    """Noisy inliers need two steps after it; noiseless ones go on, as their error keeps falling."""
    n, D, r = 2000, 20, 2
    plan = make_plan("auto", Facts(n, D, r, 1.0, 1e-6))
    passes = []
    for noise in (0.05, 0.0):
        data = make_haystack(n, D, r, inlier_ratio=0.5, inlier_noise=noise, random_state=0)
        passes.append(run(plan, MemoryRows.prepare(data.X), seeded_generator(0)).n_iter)
    assert (
        NEWTON_RULE.first_steps + NEWTON_RULE.settled + NEWTON_RULE.last_few
        <= passes[0]
        < NEWTON_RULE.most_steps - NEWTON_RULE.more_steps + 8
    )
    assert passes[1] > NEWTON_RULE.settled + NEWTON_RULE.more_steps


def test_an_ablation_is_data():
    """A rule without the late cut runs, and leaves no row out."""
    plain = replace(NEWTON_RULE, cut_from=10**6)
    states = [
        stepped(method, state, 7, curvature=np.diag([6.0, 5.0]), gradient=1.0)
        for method, state in (started(), started(rule=plain))
    ]
    assert states[0].cut < np.inf
    assert states[1].cut == np.inf
