"""What every kind of plan keeps to, from the event to the text, and what `run` makes of it."""

import pickle
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import stillspace.run as run_module
from stillspace import PrivateRobustPCA
from stillspace._frozen import FrozenArray
from stillspace.audit import audit, check_noise, make_neighbours
from stillspace.exceptions import LedgerError, NotAccountedError
from stillspace.methods.stages import SubspaceStage, SummaryStage
from stillspace.parts.noise import seeded_generator
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.plans.fixed import fingerprint
from stillspace.plans.ledger import CeilingLedger, Ledger
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Release
from stillspace.plans.staged import StagedPlan
from stillspace.privacy import ComposedEvent, GaussianEvent, full_batch_mu, privacy_curve
from stillspace.rows import (
    STANDARD,
    Clip,
    LeaveOut,
    MemoryRows,
    Project,
    Sphere,
    Summation,
    through_view,
)
from stillspace.run import run
from tests.plans.kinds import (
    ADAPTIVE,
    BUDGET,
    CENTRED,
    FACTS,
    KINDS,
    PAIRED,
    STAGED,
    TESTED,
    other_facts,
)


def ran(name, seed=0, X=None, plan=None, **options):
    """Run a plan of a kind on its rows, without a bound, with seeded noise."""
    kind = KINDS[name]
    rows = MemoryRows.of(kind.rows if X is None else X)
    plan = kind.plan if plan is None else plan
    return run(plan, rows, seeded_generator(seed), point=kind.point, **options)


def bits(result):
    """Everything that a run gives back, as values that compare bit by bit."""
    moment = None if result.moment is None else result.moment.tobytes()
    facts = {k: pickle.dumps(v) for k, v in result.facts.items()}
    return result.V.tobytes(), result.n_iter, result.event, moment, facts, result.view


def epsilon_of(event, kind):
    return privacy_curve(event, kind.facts.relation).get_epsilon(kind.facts.delta)


# --- what it costs -------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_what_ran_is_what_it_says_beforehand(name):
    plan = KINDS[name].plan
    assert isinstance(plan, AnyPlan)
    result = ran(name)
    assert result.event == plan.event()
    assert not result.event.non_private_reasons
    assert np.isfinite(result.V).all() or name == "lengths"


@pytest.mark.parametrize("name", KINDS)
def test_a_calibrated_plan_spends_its_budget_and_no_more(name):
    kind = KINDS[name]
    for epsilon in (kind.facts.epsilon, kind.facts.epsilon + 1.5):
        plan = kind.plan.calibrate(epsilon, kind.facts.delta)
        spent = epsilon_of(plan.event(), kind)
        assert 0.99 * epsilon < spent <= epsilon


@pytest.mark.parametrize("name", KINDS)
def test_it_leaves_room_for_what_stands_beside(name):
    kind = KINDS[name]
    people = kind.facts.rows_per_person
    other = ComposedEvent.of([GaussianEvent(4.0 * people, 1.0, 2.0, rows_per_person=people)])
    if name in TESTED:
        with pytest.raises(NotAccountedError, match="no proof together"):
            kind.plan.calibrate(*BUDGET, beside=other)
        return
    budget = kind.facts.epsilon, kind.facts.delta
    both = kind.plan.calibrate(*budget, beside=other).event() + other
    assert 0.99 * budget[0] < epsilon_of(both, kind) <= budget[0]


@pytest.mark.parametrize("name", KINDS)
def test_within_a_total_it_has_just_enough_noise(name):
    kind = KINDS[name]
    if not kind.shared:
        with pytest.raises(NotAccountedError):
            kind.plan.within(0.3)
        return
    plan = kind.plan.within(0.3)
    assert 0.999 * 0.3 < full_batch_mu(plan.event(), kind.facts.relation) <= 0.3 * (1 + 1e-9)
    assert ran(name, plan=plan).event == plan.event()


def test_a_fit_is_calibrated_beside_its_own_stages():
    """The subspace alone has less than the budget, by the shares of all others."""
    kind = KINDS["fit, median, summaries"]
    plan = kind.plan
    assert len(plan.stages) == 4
    parts = [full_batch_mu(stage.plan.event(), plan.relation) ** 2 for stage in plan.stages]
    assert sum(parts) == pytest.approx(full_batch_mu(plan.event(), plan.relation) ** 2, rel=1e-6)
    shares = [part / sum(parts) for part in parts]
    want = [stage.share for stage in plan.stages]
    want[1] = 1.0 - sum(share for share in want if share is not None)
    np.testing.assert_allclose(shares, want, rtol=1e-3)


# --- what it reads -------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in KINDS if name not in TESTED])
def test_every_release_is_seen_planned_and_recorded(name, monkeypatch):
    """Releases of methods are chosen later: of those the ledger is compared with what was seen."""
    kind, seen, ledgers = KINDS[name], [], []

    @dataclass(slots=True)
    class Kept(CeilingLedger):
        def __post_init__(self):
            CeilingLedger.__post_init__(self)
            ledgers.append(self)

    monkeypatch.setattr(run_module, "CeilingLedger", Kept)
    ran(name, witness=seen.append)
    plan = kind.plan
    facts = kind.facts
    for release in plan.releases():
        assert isinstance(release, Release)
        assert (release.size, release.relation) == (facts.n, facts.relation)
        assert release.rows_per_person == facts.rows_per_person
    stages = plan.stages if isinstance(plan, StagedPlan) else ()
    plans = [stage.plan for stage in stages] or [plan]
    ceilings = [part for part in plans if isinstance(part, AdaptivePlan)]
    assert len(ledgers) == len(ceilings)
    chosen = [event for ledger in ledgers for event in ledger.events]
    events = [part.release.event(part.first + i) for part in seen for i in range(len(part.points))]
    planned = ComposedEvent.of([e for e in events if e not in chosen])
    fixed = [part.event() for part in plans if not isinstance(part, AdaptivePlan)]
    assert planned == sum(fixed, ComposedEvent())
    assert [e for e in events if e in chosen] == chosen
    for ledger in ledgers:
        assert ledger.spent == sum(e.squared_mu(facts.relation) for e in ledger.events)
        assert 0 < ledger.spent <= Fraction(ledger.ceiling.squared_mu(facts.relation))
    if not ceilings:
        known = set(plan.releases())
        assert {part.release for part in seen} == known


def test_the_pairs_of_the_cut_are_looked_at_three_times():
    """The rows of this kind have a valley that is confirmed, so that all passes are run."""
    seen = []
    result = ran("fit, pairs, cut", witness=seen.append)
    assert 2.0 < result.facts["pair_cut"] < 8.0
    assert isinstance(seen[2].view[-1], LeaveOut)
    assert isinstance(result.view[-1], LeaveOut)


@pytest.mark.parametrize("name", STAGED)
def test_a_release_sees_the_rows_behind_its_view(name):
    """Mapped again, map by map, from the table; the sums differ by the noise alone (8σ: 1e-15)."""
    kind, seen = KINDS[name], []
    ran(name, X=kind.rows[::-1])  # an earlier run on other rows does not matter
    result = ran(name, witness=seen.append)
    for part in seen:
        rows = through_view(MemoryRows.of(kind.rows), part.view, part.pairs)
        assert rows.bounded or not part.release.query.needs_bound
        np.testing.assert_array_equal(rows.sphered(), part.rows.sphered())
        assert part.rows.n_rows == kind.facts.n
        if part.selections is None:
            total = rows.add(part.release.query, part.points[0], None) / part.release.divisor
            sd = part.release.sigma(part.first) / part.release.divisor
            assert np.abs(part.released[0] - total).max() < 8.0 * sd
    assert len(seen) > 0 or name in TESTED
    assert result.view[: len(kind.plan.view)] != ()


def test_the_median_sees_clipped_rows_and_the_next_stage_is_centred():
    kind, seen = KINDS["fit, median, summaries"], []
    result = ran("fit, median, summaries", witness=seen.append)
    X = kind.rows
    assert seen[0].view[-1] == Clip(6.0)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(seen[0].rows.sphered(), X / np.maximum(lengths, 6.0), rtol=1e-12)
    center = result.view[0].center.array
    assert center.any()
    moved = X - center
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(seen[-1].rows.sphered(), moved, rtol=1e-9)
    assert seen[-1].view == result.view == (result.view[0], Sphere())


@pytest.mark.parametrize("name", KINDS)
def test_a_witness_changes_no_bit(name):
    assert bits(ran(name)) == bits(ran(name, witness=lambda _: None))


@pytest.mark.parametrize("name", KINDS)
def test_a_run_leaves_nothing_behind(name):
    """Another table in between: the same words give the same bits again."""
    first = bits(ran(name))
    other = KINDS[name].rows[::-1] * 0.5
    ran(name, X=other if name not in TESTED else KINDS[name].rows[::-1])
    assert bits(ran(name)) == first


@pytest.mark.parametrize("name", [name for name in KINDS if name not in STAGED])
def test_rows_without_a_bound_go_through_the_view_first(name):
    kind = KINDS[name]
    mapped = through_view(MemoryRows.of(kind.rows), kind.plan.view)
    again = run(kind.plan, mapped, seeded_generator(0), point=kind.point)
    assert bits(again) == bits(ran(name))


# --- what it is ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_is_a_value(name):
    kind = KINDS[name]
    plan, same = kind.plan, kind.calibrated(kind.facts)
    assert plan is not same
    assert (plan, hash(plan), repr(plan)) == (same, hash(same), repr(same))
    again = pickle.loads(pickle.dumps(plan))
    assert (again, hash(again), repr(again)) == (plan, hash(plan), repr(plan))
    assert fingerprint(again) == fingerprint(plan)
    assert ran(name, plan=again).event == plan.event()
    for facts in other_facts(kind):
        other = kind.calibrated(facts)
        assert other != plan
        assert repr(other) != repr(plan)
        assert fingerprint(other) != fingerprint(plan)


@pytest.mark.parametrize("name", STAGED)
def test_the_view_is_part_of_the_value(name):
    plan = KINDS[name].plan
    texts = {repr(plan)}
    for view in ((*plan.view, LeaveOut(2.0)), (*plan.view, LeaveOut(2.5))):
        other = replace(plan, view=view)
        assert other != plan
        texts.add(repr(other))
    assert len(texts) == 3


def _holds(value, secret, depth=0):
    """Whether an object, a field of it or an item of it holds the numbers of a secret array."""
    if isinstance(value, FrozenArray):
        value = value.array
    if isinstance(value, np.ndarray):
        numbers = {float(x) for x in value.ravel()[:5000]}
        return value.size >= secret.size and {float(x) for x in secret.ravel()} <= numbers
    if depth > 8 or isinstance(value, str | bytes | int | float | None.__class__):
        return False
    if isinstance(value, tuple | list):
        found = any(_holds(item, secret, depth + 1) for item in value)
        numbers = [x for x in value if isinstance(x, int | float)]
        return found or (len(numbers) >= secret.size and set(secret.ravel()) <= set(numbers))
    if hasattr(value, "items"):
        return any(_holds(item, secret, depth + 1) for item in value.values())
    names = [*getattr(value, "__slots__", ()), *getattr(value, "__dict__", {})]
    return any(_holds(getattr(value, n, None), secret, depth + 1) for n in names)


@pytest.mark.parametrize("name", [name for name in STAGED if KINDS[name].paired])
def test_the_pairing_stays_in_the_run(name, monkeypatch):
    drawn, real = [], run_module.draw_pairs

    def draw_pairs(n, rng, columns):
        drawn.append(real(n, rng, columns))
        return drawn[-1]

    monkeypatch.setattr(run_module, "draw_pairs", draw_pairs)
    plan = KINDS[name].plan
    before = repr(plan), hash(plan), pickle.dumps(plan)
    result = ran(name, plan=plan)
    (pairs,) = drawn
    assert _holds({"a": (pairs.copy(),)}, pairs)
    assert not _holds(result, pairs)
    assert not _holds(plan, pairs)
    assert pairs.tobytes() not in pickle.dumps(plan)
    assert before == (repr(plan), hash(plan), pickle.dumps(plan))
    ran(name, seed=1)
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("name", [name for name in STAGED if KINDS[name].paired])
def test_the_pairing_is_drawn_first_and_without_a_look(name, monkeypatch):
    """No row is read, and no word is drawn, before the pairing; other rows change nothing in it."""
    drawn, real = [], run_module.draw_pairs
    looks = []

    def draw_pairs(n, rng, columns):
        assert not looks
        assert n == 2 * KINDS[name].facts.n
        assert rng.bit_generator.state["state"]["ctr"].tolist() == [0, 0]
        drawn.append(real(n, rng, columns))
        return drawn[-1]

    for method in ("through", "add", "sphered", "paired", "lengths", "distances"):
        kept = getattr(MemoryRows, method)

        def looked(self, *args, kept=kept):
            looks.append(kept.__name__)
            return kept(self, *args)

        monkeypatch.setattr(MemoryRows, method, looked)
    monkeypatch.setattr(run_module, "draw_pairs", draw_pairs)
    ran(name)
    looks.clear()
    ran(name, X=1e3 * KINDS[name].rows[::-1])
    assert len(drawn) == 2
    assert np.array_equal(*drawn)


@pytest.mark.parametrize("name", KINDS)
def test_its_facts(name):
    kind = KINDS[name]
    plan, facts = kind.plan, kind.facts
    assert (plan.size, plan.relation) == (facts.n, facts.relation)
    assert plan.rows_per_person == facts.rows_per_person
    assert plan.n_components == kind.n_components
    assert plan.n_columns == kind.columns
    assert plan.view[-1] == (Clip(2.0) if name == "fit, pictures, hidden" else Sphere())
    assert plan.showing_last().event() == plan.event()


@pytest.mark.parametrize("name", KINDS)
def test_its_words(name):
    plan = KINDS[name].plan
    words = plan.in_words()
    assert words.endswith(".")
    assert "\n" not in words
    assert f"{plan.name}: " in words
    if isinstance(plan, StagedPlan):
        assert all(f"{stage.plan.name}: " in words for stage in plan.stages)
        assert all(str(row_map) in words for row_map in plan.view)


# --- what run refuses ----------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_longer_chains_are_refused_before_anything_is_read_or_drawn(name):
    rows, rng = MemoryRows.of(KINDS[name].rows), seeded_generator(0)
    before = rng.bit_generator.state["state"]["ctr"].tolist()
    for longer in (
        Summation(STANDARD.job_cells, STANDARD.chain + 1),
        Summation(STANDARD.job_cells + 1, STANDARD.chain),
    ):
        rows.summation = longer
        with pytest.raises(NotAccountedError, match="longer chains"):
            run(KINDS[name].plan, rows, rng, point=KINDS[name].point)
    assert rng.bit_generator.state["state"]["ctr"].tolist() == before


@pytest.mark.parametrize("name", STAGED)
def test_a_fit_maps_the_rows_itself(name):
    rows = MemoryRows.of(KINDS[name].rows).through(Sphere())
    with pytest.raises(ValueError, match="maps the rows itself"):
        run(KINDS[name].plan, rows, seeded_generator(0))


CEILINGS = (*ADAPTIVE, "fit of auto", "fit of dp-newton")
"""Their ledger gives back the ceiling: that all of it is recorded is a test of its own, above."""


@pytest.mark.parametrize("name", [name for name in KINDS if name not in CEILINGS])
def test_what_is_not_recorded_withholds_the_result(name, monkeypatch):
    monkeypatch.setattr(Ledger, "record", lambda *_: None)
    with pytest.raises(LedgerError, match="withheld"):
        ran(name)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "ptr"])
def test_another_event_than_the_planned_one_withholds_the_result(name, monkeypatch):
    """Propose-test-release records the very event of its plan; a fit of it is compared."""
    plan = KINDS[name].plan
    real = type(plan).event
    more = ComposedEvent.of([GaussianEvent(9.0, 1.0, 2.0, rows_per_person=plan.rows_per_person)])
    monkeypatch.setattr(type(plan), "event", lambda self: real(self) + more)
    with pytest.raises(LedgerError, match="withheld"):
        run(plan, MemoryRows.of(KINDS[name].rows), seeded_generator(0), point=KINDS[name].point)


@dataclass(frozen=True, slots=True)
class Unbounded(SubspaceStage):
    """A stage that looks at rows behind a view of its own."""

    maps: tuple = ()

    def view(self, progress):
        return (*progress.view[: -1 if not self.maps else None], *self.maps)


@pytest.mark.parametrize(
    "maps", [(), (Project(FrozenArray.of(np.eye(6) * 3.0)),)], ids=["no bound", "projection"]
)
def test_a_stage_whose_rows_have_no_bound_is_refused(maps, monkeypatch):
    """By its view, before a map is applied: the rows themselves refuse it only when added up."""
    plan = KINDS["fit of dp-pca"].plan
    monkeypatch.setattr(MemoryRows, "through", lambda *_: pytest.fail("a row was read"))
    with pytest.raises(ValueError, match=r"view must bound|followed by Sphere"):
        run(
            replace(plan, stages=(Unbounded(plan.main, None, maps=maps),)),
            MemoryRows.of(KINDS["fit of dp-pca"].rows),
            seeded_generator(0),
        )


def test_plans_that_do_not_fit_together_are_refused():
    plan = KINDS["fit of dp-pca"].plan
    reading = KINDS["reading, variances"]
    with pytest.raises(ValueError, match="must bound"):
        replace(plan, view=CENTRED[:1])
    with pytest.raises(ValueError, match="must bound"):
        replace(plan, view=PAIRED[:2])
    for facts in (
        replace(FACTS, n=401),
        replace(FACTS, relation="add-or-remove-one"),
        replace(FACTS, rows_per_person=2),
    ):
        other = SummaryStage(reading.make(facts), 0.05, 2)
        with pytest.raises(ValueError, match="one neighbouring relation"):
            replace(plan, stages=(*plan.stages, other))
    for stages in ((), plan.stages * 2):
        with pytest.raises(ValueError, match="Exactly one stage"):
            replace(plan, stages=stages)


# --- audits --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in KINDS if n not in TESTED and not KINDS[n].at_point])
def test_the_noise_is_what_the_plan_states_and_half_of_it_is_seen(name, monkeypatch):
    """A false alarm once in a million; X is given where the releases depend on the rows."""
    kind = KINDS[name]
    found = check_noise(kind.plan, kind.rows)
    assert found.ok, str(found)
    real = Release._noise
    monkeypatch.setattr(Release, "_noise", lambda *args: real(*args) // 2)
    fits = 2 if found.residuals > 400 else 12
    assert "less noise" in str(check_noise(kind.plan, kind.rows, fits=fits))


@pytest.mark.parametrize(
    "name", ["fit of dp-pca", "fit, median, summaries", "fit, pairs, cut", "fit, narrowed"]
)
def test_an_audit_takes_a_fit(name):
    """True claims fall with probability 5 % each by the audit's own level; the seed is fixed."""
    plan = KINDS[name].plan
    pair = None if name == "fit of dp-pca" else make_neighbours(plan, 0.6, "inliers")
    report = audit(
        plan, delta=1e-5, runs=8 if name == "fit, narrowed" else 24, neighbours=pair, random_state=0
    )
    assert not report.refuted
    assert report.claim.epsilon <= KINDS[name].facts.epsilon


# --- the estimator -------------------------------------------------------------------------


def test_the_plan_of_a_fit_has_the_epsilon_of_its_guarantee():
    fit = PrivateRobustPCA(
        2,
        epsilon=4.0,
        delta=1e-5,
        center="median",
        radius=3.0,
        summaries=("variances", "distances"),
        nonfinite="zero",
    ).fit(KINDS["fit, median, summaries"].rows)
    assert fit.plan_ == KINDS["fit, median, summaries"].plan
    assert fit.privacy_.event == fit.plan_.event()
    spent = privacy_curve(fit.plan_.event(), fit.plan_.relation).get_epsilon(1e-5)
    assert fit.privacy_.epsilon == spent
    assert 3.98 < spent <= 4.0
