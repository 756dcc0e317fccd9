"""Propose-test-release: its threshold, its votes, and what it refuses."""

from collections import Counter
from contextlib import suppress
from fractions import Fraction
from math import exp, factorial, floor, log

import numpy as np
import pytest

from stillspace import Budget, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import NotAccountedError, NothingReleasedError
from stillspace.metrics import subspace_error
from stillspace.parts import noise as noise_module
from stillspace.parts.noise import seeded_generator
from stillspace.plans.ledger import Ledger
from stillspace.plans.tested import TestedPlan
from stillspace.privacy import ComposedEvent, GaussianEvent, Guarantee, privacy_curve
from stillspace.privacy.events import TestedEvent
from stillspace.rows import ChosenRows, MemoryRows
from stillspace.run import run, tested
from stillspace.run.tested import _cell, _center, _fit, _winner
from tests.conftest import random_basis

EXACT = make_haystack(6000, 8, 2, inlier_ratio=0.7, random_state=0)
BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def test_noiseless_inliers_are_released_next_to_exactly():
    fit = PrivateRobustPCA(2, algorithm="ptr", **BUDGET).fit(EXACT.X)
    assert subspace_error(fit.components_, EXACT.components) < 1e-4
    assert fit.privacy_.private
    assert fit.privacy_.epsilon == 2.0
    assert fit.privacy_.get_epsilon(1e-7) == np.inf
    assert "propose-test-release" in str(fit.privacy_)


def test_noisy_inliers_release_nothing():
    data = make_haystack(6000, 8, 2, inlier_ratio=0.7, inlier_noise=0.2, random_state=0)
    with pytest.raises(NothingReleasedError, match="nothing is released"):
        PrivateRobustPCA(2, algorithm="ptr", **BUDGET).fit(data.X)


def test_it_keeps_no_journal():
    """What blocks vote for leaves the run through the test alone: no answer on the way is kept."""
    plan = TestedPlan("", 2, 6000, 8).calibrate(**BUDGET)
    rng = seeded_generator(0)
    before = str(rng.bit_generator.state)
    with pytest.raises(NotAccountedError, match="keeps no journal"):
        run(plan, MemoryRows.prepare(EXACT.X), rng, journal=object())
    assert str(rng.bit_generator.state) == before


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_the_threshold_by_brute_force(epsilon, delta):
    """The exact law of the noise: whoever is not the winner elsewhere passes with at most δ."""
    t = TestedPlan("", 2, 10**9, 8, epsilon=epsilon, delta=delta).threshold
    a = exp(-epsilon / 2)
    k = np.arange(0, 60_000)
    law = (1 - a) / (1 + a) * np.exp(-epsilon / 2 * k)
    passed = law[1 + k / 2 > t].sum()
    assert passed <= delta
    assert passed > delta * a * 0.99  # and no smaller than the lattice makes it
    assert floor(2 * (t - 1)) >= 2 * log(1 / ((1 + a) * delta)) / epsilon - 1


def test_delta_also_pays_for_blocks_in_ascending_order():
    """A part of 2⁻¹⁰ of δ, and blocks long enough for it: n_blocks/b! is no more."""
    epsilon, delta, kept = 1.0, 1e-9, 2.0**-10
    plan = TestedPlan("", 1, 10**9, 8).calibrate(epsilon, delta)
    a = exp(-epsilon / 2)
    assert plan.threshold >= 1.0 + log(1 / ((1 + a) * delta * (1 - kept))) / epsilon
    shortest = next(b for b in range(16, 99) if plan.n_blocks <= factorial(b) * delta * kept)
    assert shortest > 16
    enough = plan.n_blocks * shortest
    assert TestedPlan("", 1, enough, 8).calibrate(epsilon, delta).n_blocks == plan.n_blocks
    with pytest.raises(ValueError, match=f"at least {enough} rows"):
        TestedPlan("", 1, enough - 1, 8).calibrate(epsilon, delta)


def test_the_lead_decides(monkeypatch):
    """With the noise at 0, the test passes just above the threshold."""
    plan = TestedPlan("ptr", 1, 4000, 3, epsilon=1.0, delta=1e-2)
    blocks = plan.n_blocks
    monkeypatch.setattr("stillspace.run.tested.half_laplace", lambda *_: 0.0)
    for against in range(blocks // 2):
        lead = blocks - 2 * against
        cells = iter([b"b"] * against + [b"a"] * (blocks - against))
        monkeypatch.setattr("stillspace.run.tested._cell", lambda *_, c=cells: next(c))
        monkeypatch.setattr("stillspace.run.tested._center", lambda *_: np.eye(3)[:, :1])
        rows = MemoryRows(np.ones((3, 4000)) / np.sqrt(3))
        if lead / 2 > plan.threshold:
            run(plan, rows, seeded_generator(0))
        else:
            with pytest.raises(NothingReleasedError):
                run(plan, rows, seeded_generator(0))


def test_votes_are_counted_with_ties_in_a_fixed_order():
    assert _winner(Counter({b"b": 3, b"a": 3, b"c": 1})) == (b"a", 0)
    assert _winner(Counter({b"b": 3})) == (b"b", 3)
    assert _winner(Counter({b"b": 5, b"a": 3})) == (b"b", 2)


def test_a_replaced_row_changes_one_vote():
    rng = np.random.default_rng(0)
    plan = TestedPlan("ptr", 2, 2000, 8, **BUDGET)
    order = seeded_generator(0).permutation(2000)
    blocks = np.array_split(order, plan.n_blocks)
    assert sorted(np.concatenate(blocks)) == list(range(2000))
    row = int(rng.integers(2000))
    assert sum(row in block for block in blocks) == 1


N_LINES = 3000
LINES = TestedPlan("ptr", 1, N_LINES, 3, epsilon=4.0, delta=1e-3)


def on_lines(share, rng):
    """Rows on two lines, so that a block may decide for either: `share` of them on the first."""
    first = rng.random(N_LINES) < share
    return np.where(first[:, None], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])


def voted(monkeypatch, X, seed, *, noise=None):
    """Run it; return the votes, the lead and the basis or the message."""
    seen = []

    def winner(votes):
        found = _winner(votes)
        seen.append((Counter(votes), found[1]))
        return found

    with monkeypatch.context() as patch:
        patch.setattr("stillspace.run.tested._winner", winner)
        if noise is not None:
            patch.setattr("stillspace.run.tested.half_laplace", lambda *_: noise)
        try:
            said = run(LINES, MemoryRows.prepare(X), seeded_generator(seed)).V
        except NothingReleasedError as error:
            said = (*error.args, error.__cause__, *getattr(error, "__notes__", []))
    ((votes, lead),) = seen
    assert votes.total() == LINES.n_blocks
    return votes, lead, said


def test_a_replaced_row_moves_one_vote_and_the_lead_by_two(monkeypatch, rng):
    """Neighbours with the same order of rows and the same offsets: `d` moves by at most 1."""
    moved = 0
    for seed in range(12):
        X = on_lines(0.5, rng)
        blocks = np.array_split(seeded_generator(seed).permutation(N_LINES), LINES.n_blocks)
        for block in blocks:  # one row decides in each block
            X[block] = [0.0, 1.0, 0.0]
            X[block[: len(block) // 2 + 1]] = [1.0, 0.0, 0.0]
        votes, lead, _ = voted(monkeypatch, X, seed)
        for block in (blocks[0], blocks[1], blocks[-1]):
            for row in ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [np.nan] * 3, rng.standard_normal(3)):
                other = X.copy()
                other[block[0]] = row
                changed, moved_lead, _ = voted(monkeypatch, other, seed)
                away = votes - changed
                assert away.total() <= 1
                assert (changed - votes).total() <= 1
                assert abs(lead - moved_lead) <= 2
                moved += away.total()
    assert moved >= 12  # such rows do decide


def test_nothing_released_is_one_sentence_whatever_the_votes(monkeypatch, rng):
    said, leads = set(), set()
    for seed, share in enumerate((0.5, 0.5, 0.52, 0.54, 0.56)):
        _, lead, message = voted(monkeypatch, on_lines(share, rng), seed, noise=-1e9)
        said.add(message)
        leads.add(lead)
    assert len(leads) > 2
    assert len(said) == 1
    ((text, cause),) = said
    assert cause is None
    assert not any(character.isdigit() for character in text)


@pytest.mark.parametrize("epsilon", [1.0, 3.7])
def test_the_epsilon_that_is_stated_is_that_of_the_noise(monkeypatch, epsilon):
    """The noise decides: released or not, with the rate of the event and the plan's threshold."""
    rates, drawn = [], {}
    real = noise_module.draw_laplace

    def draw_laplace(rate, rng):
        rates.append(rate)
        return drawn.get("value", real(rate, rng))

    monkeypatch.setattr(noise_module, "draw_laplace", draw_laplace)
    X = make_haystack(6000, 4, 1, inlier_ratio=0.9, random_state=0).X
    fit = PrivateRobustPCA(1, algorithm="ptr", epsilon=epsilon, delta=1e-6, center=None).fit(X)
    ((event, count),) = fit.privacy_.event
    assert (event, count) == (TestedEvent(epsilon, 1e-6), 1)
    assert rates == [Fraction(epsilon) / 2]
    # All blocks agree: what is released follows from the half-integer that is drawn.
    lead = fit.plan_.main.n_blocks
    assert fit.plan_.main.threshold >= 1.0 + log(1.0 / ((1.0 + exp(-epsilon / 2)) * 1e-6)) / epsilon
    last = floor(2 * fit.plan_.main.threshold) - lead
    for value, released in ((last, False), (last + 1, True)):
        drawn["value"] = value
        clone = PrivateRobustPCA(1, algorithm="ptr", epsilon=epsilon, delta=1e-6, center=None)
        if released:
            clone.fit(X)
        else:
            with pytest.raises(NothingReleasedError):
                clone.fit(X)


def test_a_cell_and_its_centre(rng):
    V, width = random_basis(rng, 7, 2), 1e-4
    offset = rng.random(28)
    found = _center(_cell(V, offset, width), offset, width, 7, 2)
    assert subspace_error(found.T, V.T) < 1e-6
    broken = np.full((7, 2), np.nan)
    assert _cell(broken, offset, width) == _cell(broken, offset, width)


def test_any_rows_take_a_path_that_ends():
    """Equal rows may agree on something or on nothing: both are answers."""
    for X in (np.zeros((3000, 5)), np.full((3000, 5), np.nan), np.full((3000, 5), 1e300)):
        with suppress(NothingReleasedError):
            fit = PrivateRobustPCA(2, algorithm="ptr", **BUDGET).fit(X)
            assert np.isfinite(fit.components_).all()


def test_the_curve_of_one_pair():
    event = ComposedEvent.of([TestedEvent(1.0, 1e-5)])
    curve = privacy_curve(event, "replace-one")
    assert curve.get_delta(1.0) == curve.get_delta(3.0) == 1e-5
    for epsilon in (0.0, 0.3, 0.9):
        delta = curve.get_delta(epsilon)
        assert delta == pytest.approx(1 - (1 - 1e-5) * exp(epsilon - 1), rel=1e-9)
        assert curve.get_epsilon(delta) == pytest.approx(epsilon, abs=1e-9)
        assert curve.get_epsilon(delta) >= epsilon
    assert curve.get_epsilon(1e-6) == np.inf
    assert ComposedEvent.from_dict(event.to_dict()) == event
    guarantee = Guarantee.from_event(event, "replace-one", 1e-5)
    assert guarantee.epsilon == 1.0


def test_it_stands_alone(tmp_path):
    tested, gaussian = TestedEvent(1.0, 1e-5), GaussianEvent(10.0, 1.0, 2.0)
    with pytest.raises(NotAccountedError, match="alone"):
        privacy_curve(ComposedEvent.of([tested, gaussian]), "replace-one")
    with pytest.raises(NotAccountedError, match="replace-one only"):
        privacy_curve(ComposedEvent.of([tested]), "add-or-remove-one")
    budget = Budget(tmp_path / "l.db", epsilon=3.0, delta=1e-5)
    for options, words in (
        ({"budget": budget}, "no filter"),
        ({"summaries": ("variances",)}, "together with other"),
        ({"rows_per_person": 2}, "one row"),
        ({"neighboring_relation": "add-or-remove-one", "public_size": 6000}, "replace-one only"),
    ):
        with pytest.raises(NotAccountedError, match=words):
            PrivateRobustPCA(2, algorithm="ptr", **BUDGET, **options).fit(EXACT.X)
    with pytest.raises(ValueError, match=r"at least \d+ rows"):
        PrivateRobustPCA(2, algorithm="ptr", **BUDGET).fit(EXACT.X[:300])
    with pytest.raises(ValueError, match="below 1/2"):
        TestedPlan("", 2, 1000, 8).calibrate(1.0, 0.6)


def test_a_block_of_many_columns_votes_the_same_each_time():
    """Equal eigenvalues: Lanczos would restart at random, and one block could change another."""
    rows = MemoryRows.prepare(np.tile(np.eye(2100)[:5], (4, 1)))
    first, other = (ChosenRows(rows, np.arange(20)[np.arange(20) % 5 < k]) for k in (3, 5))
    offset = np.random.default_rng(0).random(2100 * 2101 // 2)
    want = _cell(_fit(first, 2), offset, 1e-3)
    _fit(other, 2)
    assert _cell(_fit(first, 2), offset, 1e-3) == want


def test_a_vote_does_not_depend_on_the_order_of_the_table(monkeypatch):
    """A vote jumps, so that rounding could change it: blocks are added up in their random order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) * np.geomspace(1.0, 0.3, 5)
    order = rng.permutation(400)
    rows, other = (MemoryRows.prepare(table) for table in (X, X[order]))
    block = rng.permutation(400)[:60]
    there = np.argsort(order)[block]  # the same rows of the other table
    V, W = (tested._fit(ChosenRows(*task), 2) for task in ((rows, block), (other, there)))
    assert np.array_equal(V, W)
    again = tested._fit(ChosenRows(rows, np.sort(block)), 2)
    assert not np.array_equal(V, again)  # so the order of a block does matter

    seen, real = [], tested._fit
    monkeypatch.setattr(
        tested, "_fit", lambda chosen, r: seen.append(chosen.numbers) or real(chosen, r)
    )
    plan = TestedPlan("ptr", 1, 3000, 4).calibrate(5.0, 1e-6)
    exact = make_haystack(3000, 4, 1, inlier_ratio=0.9, random_state=0).X
    tested.run_tested(plan, MemoryRows.prepare(exact), seeded_generator(4), Ledger())
    assert np.array_equal(np.concatenate(seen), seeded_generator(4).permutation(3000))
