"""Releases chosen from earlier ones: the ceiling, the shares, one pass for several blocks."""

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, sqrt
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse, stats

from stillspace import Budget, PrivateRobustPCA
from stillspace.exceptions import LedgerError, NotAccountedError
from stillspace.parts.noise import SAMPLER_ERROR, seeded_generator
from stillspace.parts.queries import (
    PRIVATE_FLOOR,
    PRIVATE_NEAR,
    Curvature,
    CurvatureMatrix,
    Glad,
    GladCost,
    Joint,
    SecondMoment,
)
from stillspace.parts.sampling import Poisson
from stillspace.plans.adaptive import AdaptivePlan, Ask, Outcome
from stillspace.plans.ledger import CeilingLedger, Ledger
from stillspace.plans.release import JointRelease, Release
from stillspace.plans.starts import MomentStart
from stillspace.privacy import ComposedEvent, GaussianEvent, full_batch_mu, privacy_curve
from stillspace.recipes import Facts, make_plan
from stillspace.rows import MemoryRows, OnceAdded
from stillspace.run import run
from tests.conftest import random_basis, unit_rows
from tests.kernels import reference

D, R, N = 6, 2, 400


@dataclass(frozen=True)
class Asks:
    """A method that asks for a fixed list of shares of each query, at a fixed point."""

    shares: tuple[tuple[float, ...], ...]
    most: int = 10**6
    name: ClassVar[str] = "a list of questions"
    n_components: ClassVar[int] = R

    @property
    def coordinates(self):
        return self.most

    @property
    def n_passes(self):
        return len(self.shares)

    def begin(self, allowance):
        return (allowance, ())

    def ask(self, state):
        taken = state[1]
        if len(taken) == len(self.shares):
            return None
        queries = (Glad(D, R, cut=0.5), Curvature(D, R, 0.1, 0.5), CurvatureMatrix(D, R, 0.1, 0.5))
        return Ask(np.eye(D)[:, :R], tuple(zip(queries, self.shares[len(taken)], strict=False)))

    def take(self, state, answers):
        return (state[0], (*state[1], answers))

    def outcome(self, state):
        return Outcome(np.eye(D)[:, :R], facts={"answers": state[1]})


def plan_of(shares, *, relation="replace-one", mu=1.0, **options):
    return AdaptivePlan("asks", Asks(tuple(shares), **options), N, relation=relation, mu=mu)


@pytest.fixture
def rows(rng):
    return MemoryRows(unit_rows(rng, N, D))


def ledger_of(plan):
    return CeilingLedger(ceiling=plan.ceiling(), relation=plan.relation)


# --- the ceiling ---------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("mu", [1e-3, 0.7, 30.0])
def test_shares_that_add_up_to_one_fit_and_use_the_ceiling_up(rows, relation, mu):
    shares = [(0.1, 0.05, 0.05)] * 5
    plan = plan_of(shares, relation=relation, mu=mu)
    ledger = ledger_of(plan)
    for share in shares:
        ask = plan.method.ask((None, ()))
        queries = tuple((query, s) for (query, _), s in zip(ask.shares, share, strict=True))
        plan.joint_release(Ask(ask.point, queries)).draw(N, seeded_generator(0), ledger)
    assert 1 - 1e-9 < float(ledger.spent) / mu**2 <= 1.0
    assert (
        ledger.spent <= Fraction(plan.ceiling().sensitivity(relation) / plan.ceiling().sigma) ** 2
    )


@pytest.mark.parametrize("shares", [[(0.6,), (0.6,)], [(1.001,)], [(0.4, 0.4, 0.3)]])
def test_a_release_beyond_the_ceiling_is_refused_before_its_noise_is_drawn(rows, shares):
    with pytest.raises(LedgerError, match="ceiling"):
        run(plan_of(shares), rows, seeded_generator(0))


def test_more_normals_than_planned_are_refused(rows):
    with pytest.raises(LedgerError, match="ceiling"):
        run(plan_of([(0.1,)] * 3, most=2 * D * R), rows, seeded_generator(0))
    run(plan_of([(0.1,)] * 3, most=3 * D * R), rows, seeded_generator(0))


@dataclass(frozen=True)
class AsksMoreAtAPoint(Asks):
    """It says one number of normals before the run, and another one once it has its point."""

    def at(self, point):
        return AsksMoreAtAPoint(self.shares, 10 * self.most)


def test_a_method_at_a_point_is_held_to_what_was_accounted_for(rows):
    """The second release is refused before its noise is drawn and before the rows are read."""
    method = AsksMoreAtAPoint(((0.1,),) * 2, most=D * R)
    plan, rng, seen = AdaptivePlan("asks", method, N, mu=1.0), seeded_generator(0), []
    with pytest.raises(LedgerError, match="ceiling"):
        run(plan, rows, rng, point=np.zeros(1), witness=seen.append)
    assert len(seen) == 1
    enough = replace(plan, method=replace(method, most=2 * D * R))
    assert run(enough, rows, rng, point=np.zeros(1)).event == enough.event()


def test_a_ceiling_takes_full_batches_with_noise_only():
    plan = plan_of([])
    sampled = Release(Glad(D, R), N, 10.0, Poisson(0.1))
    with pytest.raises(LedgerError, match="public rows"):
        ledger_of(plan).record(sampled.event(0))
    with pytest.raises(LedgerError, match="Gaussian"):
        ledger_of(plan).record(Release(Glad(D, R), N, 0.0).event(0))
    with pytest.raises(LedgerError, match="ceiling"):
        ledger_of(replace(plan, rows_per_person=2)).record(Release(Glad(D, R), N, 100.0).event(0))


def test_what_is_accounted_for_is_the_ceiling_not_what_was_spent(rows):
    plan = plan_of([(0.1,)])
    result = run(plan, rows, seeded_generator(0))
    assert result.event == plan.event() == ComposedEvent.of([plan.ceiling()])
    assert full_batch_mu(result.event, "replace-one") == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(LedgerError, match="withheld"):
        ledger_of(plan).check(replace(plan, mu=2.0).event())


def test_the_ceiling_under_the_other_relation():
    """Kept under add-or-remove-one: twice the μ when rows are replaced. Never less elsewhere."""
    added = plan_of([], relation="add-or-remove-one", mu=0.5).event()
    assert full_batch_mu(added, "add-or-remove-one") == pytest.approx(0.5, rel=1e-12)
    assert full_batch_mu(added, "replace-one") == pytest.approx(1.0, rel=1e-12)
    replaced = plan_of([], mu=0.5).event()
    assert full_batch_mu(replaced, "replace-one") == pytest.approx(0.5, rel=1e-12)
    assert full_batch_mu(replaced, "add-or-remove-one") >= 0.5
    for query in (Glad(D, R), Curvature(D, R, 0.1), CurvatureMatrix(D, R, 0.1), SecondMoment(D)):
        assert query.norm_bound <= query.difference_bound <= 2 * query.norm_bound


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_calibrated_to_the_budget(relation):
    facts = Facts(N, D, R, 1.3, 1e-7, relation=relation, rows_per_person=3)
    plan = make_plan("auto", facts)
    curve = privacy_curve(plan.event(), relation)
    assert 1.3 * (1 - 1e-9) < curve.get_epsilon(1e-7) <= 1.3
    event = plan.ceiling()
    assert event.ceiling
    assert event.rows_per_person == 3
    assert event.coordinates * SAMPLER_ERROR < 1e-30
    assert ComposedEvent.from_dict(plan.event().to_dict()) == plan.event()


def test_calibration_counts_all_normals_that_a_run_may_draw():
    """Their error is a part of δ, and too many of them are refused."""
    most, epsilon = 10**6, 1.0
    error = (1.0 + np.exp(epsilon)) * most * SAMPLER_ERROR
    plan = plan_of([(0.5,)], most=most)
    fits = plan.calibrate(epsilon, 1001.0 * error)
    assert fits.ceiling().coordinates == most
    assert privacy_curve(fits.event(), "replace-one").get_delta(epsilon) <= 1001.0 * error
    with pytest.raises(NotAccountedError, match="sampler"):
        plan.calibrate(epsilon, 999.0 * error)


@pytest.mark.parametrize("name", ["auto", "dp-ggd", "dp-pca", "dp-sggd"])
def test_calibrated_beside_another_release(name):
    beside = ComposedEvent.of([GaussianEvent(sigma=20.0, norm_bound=1.0, difference_bound=2.0)])
    plan = make_plan(name, Facts(N, D, R, 1.0, 1e-6))
    together = plan.calibrate(1.0, 1e-6, beside=beside)
    total = privacy_curve(together.event() + beside, "replace-one").get_epsilon(1e-6)
    assert 0.998 < total <= 1.0
    alone = privacy_curve(together.event(), "replace-one").get_epsilon(1e-6)
    assert alone < 0.97


def test_a_ceiling_of_sampled_steps_cannot_be_made():
    with pytest.raises(ValueError, match="full batches"):
        GaussianEvent(1.0, 1.0, 2.0, sampling="poisson", rate=0.1, ceiling=True)
    sampled = Release(Glad(D, R), N, 10.0, Poisson(0.1)).event(0)
    with pytest.raises(NotAccountedError, match="all rows"):
        full_batch_mu(ComposedEvent.of([sampled]), "replace-one")


def test_a_ledger_charges_the_ceiling(tmp_path, rng):
    budget = Budget(tmp_path / "ledger.db", epsilon=2.0, delta=1e-6)
    X = unit_rows(rng, N, D).T
    fit = PrivateRobustPCA(R, epsilon=1.0, delta=1e-6, budget=budget, center=None).fit(X)
    mu = full_batch_mu(fit.privacy_.event, "replace-one")
    assert mu == pytest.approx(fit.plan_.main.mu, rel=1e-12)
    entry = budget.entries()[-1]
    assert entry.event == fit.privacy_.event == fit.plan_.event()
    limit = full_batch_mu(make_plan("auto", Facts(N, D, R, 2.0, 1e-6)).event(), "replace-one")
    assert budget.spent() == pytest.approx(mu**2 / limit**2, rel=1e-6)


# --- noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-6, 0.3, 3.0, 200.0])
@pytest.mark.parametrize("query", [Glad(D, R), SecondMoment(D), GladCost(D, R)])
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_the_least_noise_within_mu(mu, query, relation):
    release = Release(query, N, relation=relation).within(mu)
    square = release.event(0).squared_mu(relation)
    assert (1 - 1e-8) * mu**2 < square <= Fraction(mu) ** 2


@pytest.mark.parametrize("query", [Glad(D, R), SecondMoment(D)], ids=lambda q: q.name)
def test_what_the_noise_does_not_change_is_computed_once(query, monkeypatch):
    """A release within μ keeps its sensitivity and what rounding adds, and has one event."""
    calls = Counter()
    for name in ("_summation_error", "_event_at"):
        plain = getattr(Release, name)

        def counted(self, *args, name=name, plain=plain, **facts):
            calls[name] += 1
            return plain(self, *args, **facts)

        monkeypatch.setattr(Release, name, counted)
    release = Release(query, N).within(0.5)
    ledger = Ledger()
    release.draw(0, N, seeded_generator(0), ledger)
    assert calls == {"_summation_error": 1}  # the event is that of the search for the noise
    fresh = Release(query, N, release.z)
    assert ledger.events == [fresh.event(0)]
    assert (fresh, fresh.sensitivity()) == (release, release.sensitivity())


def test_the_noise_is_what_the_shares_buy():
    """Zero rows: answers are noise alone. False alarms: below 1e-9."""
    passes, share = 300, 1.0 / 301
    plan = plan_of([(share / 2, share / 4, share / 4)] * passes, mu=2.0)
    facts = run(plan, MemoryRows(np.zeros((D, N))), seeded_generator(3)).facts
    wanted = {
        0: 2.0 / (2.0 * sqrt(share / 2)),
        1: 1.0 / (2.0 * sqrt(share / 4)),
        2: sqrt(2.0) / (2.0 * sqrt(share / 4)),
    }
    upper = np.triu(np.ones((R, R)))
    for i, sigma in wanted.items():
        answers = [taken[i] for taken in facts["answers"]]
        assert answers[0].sd * N == pytest.approx(sigma, rel=1e-6)
        z = np.array([answer.value * N / sigma for answer in answers])
        if i == 2:
            assert np.array_equal(z, z.transpose(0, 2, 1))
            z = (z * (upper + (sqrt(2.0) - 1.0) * np.triu(upper, 1)))[:, upper > 0]
        squares = float(np.sum(z**2))
        low, high = stats.chi2.ppf([1e-10, 1 - 1e-10], z.size)
        assert low < squares < high


def test_kept_sums_are_released_with_new_noise(rows):
    kept = OnceAdded(rows)
    release = Release(SecondMoment(D), N, 1.0)
    point = np.empty((0, 0))
    a, b = (
        release.apply(
            kept, point, release.draw(0, N, seeded_generator(i), ledger_of(plan_of([], mu=9.0)))
        )
        for i in range(2)
    )
    assert len(kept.kept) == 1
    assert not np.allclose(a, b)
    total = kept.add(SecondMoment(D), point, None)
    total += 1.0  # a caller's copy
    assert np.array_equal(
        kept.add(SecondMoment(D), point, None), rows.add(SecondMoment(D), point, None)
    )


# --- several blocks in one pass ------------------------------------------------------------


def stored(XT, kind):
    X = XT.T
    if kind == "float32":
        return X.astype(np.float32)
    if kind == "int8":
        return np.rint(40 * X).astype(np.int8)
    if kind == "csr":
        return sparse.csr_array(np.where(np.abs(X) > 0.1, X, 0.0))
    return np.asfortranarray(X) if kind == "columns" else np.ascontiguousarray(X)


@pytest.mark.parametrize("kind", ["float64", "columns", "float32", "int8", "csr"])
@pytest.mark.parametrize(("D", "r"), [(7, 1), (20, 2), (70, 3), (41, 9)])
@pytest.mark.parametrize(("cut", "cap"), [(inf, 0.3), (0.6, 1e-7)])
def test_one_pass_gives_what_the_queries_give_alone(rng, kind, D, r, cut, cap):
    rows = MemoryRows.prepare(stored(unit_rows(rng, 701, D), kind))
    V = random_basis(rng, D, r)
    queries = (Glad(D, r, cut=cut), Curvature(D, r, cap, cut), CurvatureMatrix(D, r, cap, cut))
    together = queries if r > 1 else queries[:2]
    joint = Joint(together)
    assert joint.terms(V, np.zeros(joint.shape)) is not None
    parts = joint.split(rows.add(joint, V, None))
    for query, part in zip(together, parts, strict=True):
        np.testing.assert_allclose(part, rows.add(query, V, None), atol=1e-11)


def test_queries_of_other_facts_are_not_read_by_the_compiled_pass(rng):
    V = random_basis(rng, D, R)

    @dataclass(frozen=True, slots=True)
    class OtherGlad(Glad):
        pass

    for queries in (
        (Glad(D, R, cut=0.5), Curvature(D, R, 0.1, 0.4)),
        (Glad(D, R), Curvature(D, R, 0.1), CurvatureMatrix(D, R, 0.2)),
        (OtherGlad(D, R), Curvature(D, R, 0.1)),
        (Curvature(D, R, 0.1), Glad(D, R)),
        (Glad(D, R), GladCost(D, R)),
    ):
        joint = Joint(queries)
        assert joint.terms(V, np.zeros(joint.shape)) is None
        XT = unit_rows(rng, 50, D)
        parts = joint.split(MemoryRows(XT).add(joint, V, None))
        for query, part in zip(queries, parts, strict=True):
            np.testing.assert_allclose(part, MemoryRows(XT).add(query, V, None), atol=1e-13)


def terms_of(XT, V, cut, cap):
    """Gradient and curvature terms (n, …), by the reference, written out."""
    R_, _ = reference.residual_to_basis(XT, V)
    Y, d, _ = reference.measured(XT, V, PRIVATE_NEAR)
    w = np.where(d < cut, 1.0 / np.maximum(d, PRIVATE_FLOOR), 0.0)
    u = np.minimum(cap, d) * w
    return (
        np.einsum("di,ji->idj", R_, Y * w),
        u * np.sum(Y**2, axis=0),
        np.einsum("ji,ki->ijk", Y * u, Y),
    )


@pytest.mark.parametrize(("D", "r"), [(20, 1), (20, 2), (33, 4)])
def test_rows_at_the_cut_are_told_apart_in_every_kernel_alike(rng, D, r):
    """A jump: a row at the cut must fall on the same side whatever stands beside it (SPEC 4 a)."""
    V = random_basis(rng, D, r)
    XT = unit_rows(rng, 64, D)
    _, distances, _ = reference.measured(XT, V, PRIVATE_NEAR)
    for i in range(0, 64, 7):
        for cut in (distances[i], np.nextafter(distances[i], inf)):
            inside = distances < cut
            assert inside[i] == (cut > distances[i])
            G, m, M = terms_of(XT, V, cut, 0.3)
            for b, at in ((1, 0), (16, 5), (21, 20)):
                block = np.zeros((D, b))
                block[:, at] = XT[:, i]
                out = np.zeros((D, r))
                Glad(D, r, cut=cut).add_block(block, V, out)
                assert np.any(out) == inside[i]
                np.testing.assert_allclose(out, G[i], atol=1e-15)
            joint = Joint(
                (Glad(D, r, cut=cut), Curvature(D, r, 0.3, cut), CurvatureMatrix(D, r, 0.3, cut))
            )
            for rows in (
                MemoryRows(XT),
                MemoryRows(XT[:, ::-1].copy()),
                MemoryRows(XT[:, : i + 1]),
            ):
                parts = joint.split(rows.add(joint, V, None))
                keep = slice(None) if rows.n_rows == 64 else slice(0, i + 1)
                np.testing.assert_allclose(parts[0], G[keep].sum(axis=0), atol=1e-12)
                np.testing.assert_allclose(parts[1], m[keep].sum(), atol=1e-12)
                np.testing.assert_allclose(parts[2], M[keep].sum(axis=0), atol=1e-12)


def test_releases_of_one_pass_must_agree():
    with pytest.raises(ValueError, match="all rows"):
        JointRelease((Release(Glad(D, R), N, 1.0, Poisson(0.5)),))
    with pytest.raises(ValueError, match="share"):
        JointRelease((Release(Glad(D, R), N, 1.0), Release(Curvature(D, R, 0.1), N + 1, 1.0)))


def test_a_cut_gradient_never_runs_in_the_plain_loop():
    from stillspace.run.executors import compiled_loop

    plan = make_plan("dp-ggd", Facts(N, D, R, 1.0, 1e-6), n_iter=3)
    assert isinstance(plan.start, MomentStart)
    cut = replace(plan, release=replace(plan.release, query=Glad(D, R, cut=0.5)))
    rows = MemoryRows(np.zeros((D, N)))
    state = np.eye(D)[:, :R]
    assert compiled_loop(plan, rows, state) is not None
    assert compiled_loop(cut, rows, state) is None


# --- audits see it -------------------------------------------------------------------------


def test_the_noise_of_the_default_is_checked_like_any_other(monkeypatch):
    from stillspace.audit import check_noise
    from stillspace.parts.noise import GaussianNoise

    plan = make_plan("auto", Facts(3000, 12, 2, 1.0, 1e-6))
    rows = np.random.default_rng(0).standard_normal((3000, 12)) * [5, 4, *[0.2] * 10]
    report = check_noise(plan, rows, random_state=0)
    assert report.ok
    assert report.residuals > 800
    honest = GaussianNoise.release
    monkeypatch.setattr(
        GaussianNoise, "release", lambda self, total, noise, s: honest(self, total, noise // 2, s)
    )
    assert not check_noise(plan, rows, random_state=0).ok


def test_an_audit_takes_the_default():
    from stillspace.audit import audit

    plan = make_plan("auto", Facts(60, 3, 1, 0.8, 1e-5))
    report = audit(plan, delta=1e-5, runs=80, random_state=0, n_jobs=1)
    assert not report.refuted
    assert "auto" in str(report)
    lie = audit(plan, claim=(1e-4, 1e-9), runs=80, random_state=0, n_jobs=1)
    assert lie.claim.epsilon == 1e-4
