"""Parts of the rows: which rows they have, what the ledger charges, and who may use them."""

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import sqrt
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

from stillspace import run as run_module
from stillspace.audit.neighbours import Neighbours
from stillspace.audit.scores import WhiteBox
from stillspace.exceptions import LedgerError, NotAccountedError
from stillspace.methods.division import DIVISION
from stillspace.methods.newton import DampedNewton
from stillspace.methods.newton.rule import NEWTON_RULE
from stillspace.methods.spectrum import Moment
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import AngleCounts, FourthMoment, Glad, SecondMoment
from stillspace.parts.sampling import All, Division, Poisson, RowPart
from stillspace.plans.adaptive import (
    LEAST_SHARE,
    PART_MARGIN,
    AdaptivePlan,
    Allowance,
    Ask,
    Outcome,
)
from stillspace.plans.ledger import CeilingLedger, Ledger
from stillspace.plans.release import JointRelease, Release
from stillspace.rows import FileRows, Layout, MemoryRows, Sphere
from stillspace.rows.sums import stretches
from stillspace.run import Views, run
from stillspace.run.journal import Journal
from stillspace.run.journal_file import JournalFile
from stillspace.run.observers import Observers
from tests.conftest import random_basis, unit_rows

N, D, R, PARTS = 3000, 6, 2, 4
V0 = np.eye(D)[:, :R]


def part_of(number, parts=PARTS):
    return RowPart(parts, number)


def division_of(seed=7, parts=PARTS, n=N):
    return Division(parts, n, seeded_generator(seed))


@dataclass(frozen=True)
class AsksParts:
    """A method that asks for a gradient, at a fixed point, of a fixed list of rows and shares."""

    asked: tuple[tuple[All | RowPart, float], ...]
    D: ClassVar[int] = D
    name: ClassVar[str] = "a list of questions about parts"
    n_components: ClassVar[int] = R
    coordinates: ClassVar[int] = 10**6

    @property
    def n_passes(self):
        return len(self.asked)

    def begin(self, allowance):
        return ()

    def ask(self, state):
        if len(state) == len(self.asked):
            return None
        read, share = self.asked[len(state)]
        return Ask(V0, ((Glad(D, R), share),), sampling=read)

    def take(self, state, answers):
        return (*state, answers)

    def outcome(self, state):
        return Outcome(V0, facts={"answers": state})


def plan_of(*asked, mu=1.0, **facts):
    return AdaptivePlan("asks", AsksParts(asked), N, mu=mu, **facts)


def ledger_of(plan):
    return CeilingLedger(ceiling=plan.ceiling(), relation=plan.relation)


@pytest.fixture
def rows(rng):
    return MemoryRows(unit_rows(rng, N, D))


# --- which rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 65, 3000, 2**17 + 1])
@pytest.mark.parametrize("parts", [2, 3, 8, 256])
def test_parts_are_disjoint_and_have_all_rows_together(n, parts):
    division = division_of(11, parts, n)
    found = [division.numbers(part_of(k, parts)) for k in range(parts)]
    again = [division.numbers(part_of(k, parts)) for k in reversed(range(parts))]
    assert all(map(np.array_equal, found, reversed(again)))
    assert all(np.all(numbers[1:] > numbers[:-1]) for numbers in found)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(n))


@pytest.mark.parametrize("parts", [3, 8])
def test_each_row_is_in_each_part_equally_often_and_alone(parts):
    """Uniform and independent: χ² of single rows and of neighbours, each with false alarm 1e-7."""
    draws, n = 4000, 12
    labels = np.empty((draws, n), dtype=np.int64)
    for seed in range(draws):
        division = division_of(seed, parts, n)
        for k in range(parts):
            labels[seed, division.numbers(part_of(k, parts))] = k
    rows = np.array([np.bincount(labels[:, i], minlength=parts) for i in range(n)])
    assert _chi2(rows, draws / parts) < _limit(n * (parts - 1))
    both = labels[:, :-1] * parts + labels[:, 1:]
    pairs = np.array([np.bincount(both[:, i], minlength=parts**2) for i in range(0, n - 1, 2)])
    assert _chi2(pairs, draws / parts**2) < _limit(len(pairs) * (parts**2 - 1))


def _chi2(counts, expected):
    return float(np.sum((counts - expected) ** 2 / expected))


def _limit(freedom):
    return float(chi2.isf(1e-7, freedom))


def test_nothing_public_tells_which_rows_a_part_has():
    """A part is two whole numbers; without the division of its run it reads nothing."""
    assert [field.name for field in fields(RowPart)] == ["parts", "number"]
    release = Release(Glad(D, R), N, 5.0, part_of(1))
    with pytest.raises(ValueError, match="division of its run"):
        release.draw(0, N, seeded_generator(0), Ledger())
    with pytest.raises(ValueError, match="4 parts"):
        division_of().numbers(part_of(0, 5))
    assert str(N) not in repr(division_of())


@pytest.mark.parametrize("facts", [(1, 0), (4, 4), (4, -1), (257, 0)])
def test_a_part_that_is_none_is_refused(facts):
    with pytest.raises(ValueError, match="part"):
        RowPart(*facts)


def test_the_mean_is_that_of_the_rows_of_the_part_over_its_expected_size(rows):
    point, division = random_basis(np.random.default_rng(3), D, R), division_of()
    for number in range(PARTS):
        part = part_of(number)
        release = Release(Glad(D, R), N, 0.0, part)
        draw = release.draw(0, N, seeded_generator(0), Ledger(), division)
        chosen = division.numbers(part)
        expected = rows.add(Glad(D, R), point, chosen) / (N / PARTS)
        assert np.array_equal(release.apply(rows, point, draw), expected)


def selections(plan, rows, seed=0):
    """Return which rows each release of a run reads."""
    _, seen = watched(plan, rows, seed)
    return [o.selections[0] for o in seen]


def test_a_run_draws_one_division_and_the_next_run_another(rows):
    asked = (part_of(k % PARTS) for k in range(2 * PARTS))
    plan = plan_of(*((part, 0.1) for part in asked))
    found = selections(plan, rows)
    for k in range(PARTS):
        assert np.array_equal(found[k], found[k + PARTS])
    assert np.array_equal(np.sort(np.concatenate(found[:PARTS])), np.arange(N))
    other = selections(plan, rows, seed=1)
    # Two independent parts share 1/16 of the rows: 188 ± 13. More than 300 has p < 1e-15.
    assert len(np.intersect1d(found[0], other[0])) < 300


def test_the_division_comes_from_the_generator_of_the_run(rows):
    """Words that repeat give a division that repeats: nothing else decides it."""
    plan = plan_of((part_of(0), 0.1))
    twice = [selections(plan, rows, seed=5)[0] for _ in range(2)]
    assert np.array_equal(*twice)
    expected = Division(PARTS, N, seeded_generator(5)).numbers(part_of(0))
    assert np.array_equal(twice[0], expected)  # drawn before the noise of the first part


def test_a_pass_reads_its_part_alone(rows):
    """With hardly any noise the answers are the means of the parts, each another one."""
    plan = plan_of(*((part_of(k), 0.5) for k in range(PARTS)), mu=1e5)
    result, seen = watched(plan, rows)
    for (answer,), observed in zip(result.facts["answers"], seen, strict=True):
        reads = (observed.selections[0], N / PARTS), (None, N)
        means = [rows.add(Glad(D, R), V0, read) / m for read, m in reads]
        assert np.abs(answer.value - means[0]).max() < 10 * answer.sd
        assert np.abs(means[0] - means[1]).max() > 1000 * answer.sd


# --- what is charged -----------------------------------------------------------------------


def test_the_ledger_charges_all_rows_and_the_part_that_was_read_most():
    plan = plan_of()
    ledger, allowance = ledger_of(plan), plan.allowance
    whole, parts = Fraction(0), dict.fromkeys(range(PARTS), Fraction(0))
    for number, share in ((None, 0.1), (0, 0.2), (1, 0.3), (None, 0.05), (0, 0.15), (2, 0.3)):
        read = All() if number is None else part_of(number)
        release = allowance.release(Glad(D, R), read).within(sqrt(share))
        cost = release.event(0).squared_mu("replace-one")
        event = release.event(0)
        ledger.record(event, read=read)
        if number is None:
            whole += cost
        else:
            parts[number] += cost
            whole += (Fraction(event.slack) / Fraction(event.sigma)) ** 2  # rounding elsewhere
        assert ledger.whole == whole
        assert ledger.spent == whole + max(parts.values())
    assert float(ledger.spent) == pytest.approx(0.15 + 0.35, rel=1e-9)


@pytest.mark.parametrize(
    "asked",
    [
        [(part_of(0), 0.6), (part_of(0), 0.6)],
        [(All(), 0.5), (part_of(0), 0.4), (part_of(1), 0.6)],
        [(part_of(0), 0.4), (part_of(1), 0.6), (All(), 0.5)],
        [(part_of(k), 0.5) for k in range(PARTS)] + [(part_of(3), 0.6)],
    ],
)
def test_what_one_row_may_be_in_must_fit_under_the_ceiling(rows, asked):
    with pytest.raises(LedgerError, match="ceiling"):
        run(plan_of(*asked), rows, seeded_generator(0))


def test_each_part_may_have_what_all_rows_left(rows):
    plan = plan_of((All(), 0.5), *((part_of(k), 0.5) for k in range(PARTS)))
    result = run(plan, rows, seeded_generator(0))
    assert result.event == plan.event()
    assert result.n_iter == 1 + PARTS


def test_parts_of_two_divisions_overlap_and_are_refused(rows):
    with pytest.raises(LedgerError, match="one division"):
        run(plan_of((part_of(0), 0.1), (part_of(1, 5), 0.1)), rows, seeded_generator(0))


def test_parts_need_replace_one_and_one_row_per_person(rows):
    for facts in ({"rows_per_person": 2}, {"relation": "add-or-remove-one"}):
        plan = plan_of((part_of(0), 0.1), **facts)
        assert not plan.allowance.divides(2, Glad(D, R))
        with pytest.raises(LedgerError, match="one row per person"):
            run(plan, rows, seeded_generator(0))


def test_rounding_of_the_other_parts_has_room(rows):
    """Shares that add up to 1 fit under the ceiling, with what another order of the rows moves."""
    asked = [(All(), 0.4), *((part_of(k % 8, 8), 0.3) for k in range(16))]
    plan = plan_of(*asked)
    assert run(plan, rows, seeded_generator(0)).n_iter == len(asked)
    assert plan.allowance.divides(8, Glad(D, R))
    for read, most in ((All(), 1.0), (part_of(0), (1.0 - PART_MARGIN) ** 2)):
        (release,) = plan.joint_release(Ask(V0, ((Glad(D, R), 0.3),), sampling=read)).releases
        cost = float(release.event(0).squared_mu("replace-one"))
        assert 0.99999 * most < cost / 0.3 <= most
    wide = Allowance(0.2, 10**7)  # rounding has room in a few parts, not in many
    assert wide.divides(8, Glad(10_000, 50))
    assert not wide.divides(256, Glad(10_000, 50))
    with pytest.raises(ValueError, match="share of at least"):
        run(plan_of((part_of(0), 1e-4)), rows, seeded_generator(0))


def test_several_releases_at_once_are_charged_several_times():
    plan = plan_of()
    event = plan.allowance.release(Glad(D, R)).within(sqrt(0.1)).event(0)
    for read in (All(), part_of(0)):
        once, thrice = ledger_of(plan), ledger_of(plan)
        for _ in range(3):
            once.record(event, read=read)
        thrice.record(event, 3, read)
        assert (once.whole, once.parts) == (thrice.whole, thrice.parts)
        assert once.spent > 0


def test_parts_of_pairs_and_parts_of_rows_are_not_disjoint(rows):
    """Half as many rows behind the view of a stage: a part of them is none of the table's."""

    @dataclass(frozen=True)
    class AsksBoth(AsksParts):
        def ask(self, state):
            found = super().ask(state)
            whole = {"whole": True, "through": (Sphere(),)} if len(state) == 1 else {}
            return found if found is None else replace(found, **whole)

    plan = AdaptivePlan("asks", AsksBoth(((part_of(0), 0.1), (part_of(1), 0.1))), N, mu=1.0)
    raw = MemoryRows.of(np.zeros((2 * N, D)))
    with pytest.raises(NotAccountedError, match="not disjoint"):
        run_module.run_adaptive(
            plan, rows, seeded_generator(0), ledger_of(plan), Observers(), Views(raw, None)
        )


@pytest.mark.parametrize(
    ("n", "mu", "query", "fits"),
    [
        (10**6, 0.2, Glad(50, 5), True),
        (10**9, 0.2, Glad(50, 5), True),
        (5 * 10**9, 1.01, Glad(20, 2), True),  # sums of the least share fit on the lattice
        (6 * 10**7, 0.2, Glad(10_000, 50), False),  # rounding of sums
        (10**8, 1e-4, FourthMoment(64, 44), False),  # rounding to the lattice
    ],
)
def test_tables_are_divided_only_where_rounding_has_room(n, mu, query, fits):
    """At the least share, where B is largest beside what a release costs."""
    allowance = Allowance(mu, n)
    event = allowance.release(query).within(mu * sqrt(LEAST_SHARE)).event(0)
    moved, own = (event.slack / event.sigma) ** 2, float(event.squared_mu("replace-one"))
    assert (own * (1.0 - PART_MARGIN) ** 2 + 8 * moved <= own) is fits
    assert allowance.divides(8, query) is fits
    large = Moment(np.diag([0.5, 0.3, *[0.2 / 4] * 4]), 0.1, 1e-7)
    part = DIVISION.first_part(allowance, large, 2, Glad(6, 2), query)
    assert isinstance(part, RowPart) is fits


def test_a_part_costs_as_much_as_all_rows():
    """There is no amplification: the event is that of the same noise on all rows."""
    every, some = (Release(Glad(D, R), N, 5.0, read) for read in (All(), part_of(0)))
    assert some.event(0) == every.event(0)
    assert some.divisor == N / PARTS


def test_releases_of_one_pass_read_the_same_part():
    release = Release(Glad(D, R), N, 5.0, part_of(0))
    JointRelease((release, replace(release, query=SecondMoment(D))))
    for other in (part_of(1), All()):
        with pytest.raises(ValueError, match="rows that they read"):
            JointRelease((release, replace(release, sampling=other)))
    with pytest.raises(ValueError, match="one part"):
        JointRelease((replace(release, sampling=Poisson(0.5)),))


def test_a_replaced_row_changes_its_own_part_alone_whatever_the_order_of_the_rows(rng):
    """A table that is sorted by its cells: another value moves all rows behind it.

    Each row keeps its part, as the proof couples them: the other parts move by rounding, the
    part of the row by its bound. Parts by the place of a row would move by dozens.
    """
    X = unit_rows(rng, N, D).T
    X = X[np.argsort(X[:, 0])]
    other = X.copy()
    other[17] = -other[17, ::-1]
    order = np.argsort(other[:, 0])
    slack = Release(Glad(D, R), N, 5.0).event(0).slack
    labels = np.random.default_rng(2).integers(PARTS, size=N)
    sums = [
        [
            MemoryRows(np.ascontiguousarray(table.T)).add(Glad(D, R), V0, np.flatnonzero(at == k))
            for k in range(PARTS)
        ]
        for table, at in ((X, labels), (other[order], labels[order]))
    ]
    moved = [np.linalg.norm(a - b) for a, b in zip(*sums, strict=True)]
    for number in range(PARTS):
        bound = Glad.difference_bound if number == labels[17] else 0.0
        assert moved[number] <= bound + slack
    assert moved[labels[17]] > 0.1
    by_place = [table.T[:, :1500].copy() for table in (X, other[order])]
    sums = [MemoryRows(part).add(Glad(D, R), V0, None) for part in by_place]
    assert np.linalg.norm(sums[0] - sums[1]) > 0.0


# --- the default ---------------------------------------------------------------------------


def newton_plan(n, mu, least_cells=0, **facts):
    method = DampedNewton(D, R, division=replace(DIVISION, least_cells=least_cells))
    return AdaptivePlan("auto", method, n, mu=mu, **facts)


def near_a_plane(rng, n):
    X = rng.standard_normal((n, R)) @ random_basis(rng, D, R).T
    X += 0.05 * rng.standard_normal((n, D))
    X[::3] = rng.standard_normal((len(X[::3]), D))
    return MemoryRows((X / np.linalg.norm(X, axis=1)[:, None]).T)


def watched(plan, rows, seed=0):
    seen = []
    result = run(plan, rows, seeded_generator(seed), witness=seen.append)
    return result, seen


def test_the_first_phase_reads_part_after_part_and_pays_once_for_a_round(rng):
    rows = near_a_plane(rng, N)
    plan = newton_plan(N, 5.0)
    _, seen = watched(plan, rows)
    reads = [o.release.sampling for o in seen if type(o.release.query) is Glad]
    numbers = [read.number for read in reads if isinstance(read, RowPart)]
    first = len(numbers)
    assert first >= NEWTON_RULE.first_steps
    assert numbers == [k % reads[0].parts for k in range(first)]
    assert all(read == All() for read in reads[first:])
    costs = [o.release.event(0).squared_mu("replace-one") for o in seen]
    limit = ledger_of(plan).limit
    assert sum(costs) > limit  # what a sum over all releases would refuse
    parts = [
        sum(c for c, o in zip(costs, seen, strict=True) if o.release.sampling in (All(), part))
        for part in set(reads[:first])
    ]
    assert 0.98 * limit < max(parts) <= limit


@pytest.mark.parametrize(
    ("n", "mu", "options"),
    [
        (N, 5.0, {"relation": "add-or-remove-one"}),
        (N, 5.0, {"rows_per_person": 2}),
        (N, 5.0, {"least_cells": N * D + 1}),  # a small table
        (N, 0.03, {}),  # a weak signal
    ],
)
def test_who_may_not_use_parts_reads_all_rows(rng, n, mu, options):
    _, seen = watched(newton_plan(n, mu, **options), near_a_plane(rng, n))
    assert seen
    assert all(o.release.sampling == All() for o in seen)


def test_a_large_table_is_divided():
    n = DIVISION.least_cells // D + 1
    moment = Moment(np.diag([0.5, 0.3, 0.05, 0.05, 0.05, 0.05]), 0.1, 1e-4)
    part = DIVISION.first_part(Allowance(0.2, n), moment, R, Glad(D, R))
    assert (part.parts, part.number) == (DIVISION.most_parts, 0)
    for allowance in (
        Allowance(0.2, n - 1),
        Allowance(0.2, n, "add-or-remove-one"),
        Allowance(0.2, n, rows_per_person=2),
        Allowance(0.2, n, resumable=True),
    ):
        assert DIVISION.first_part(allowance, moment, R, Glad(D, R)) == All()


@pytest.mark.parametrize("smallest_group", [0.5, 0.0])
def test_the_look_reads_a_part_if_groups_are_visible_in_it(rng, smallest_group):
    rows, division = near_a_plane(rng, N), replace(DIVISION, least_cells=0)
    division = replace(division, smallest_group=smallest_group)
    plan = AdaptivePlan("auto", DampedNewton(D, R, division=division), N, mu=8.0)
    _, seen = watched(plan, rows)
    look = [
        o.release.sampling for o in seen if type(o.release.query) in (FourthMoment, AngleCounts)
    ]
    assert look
    assert all(isinstance(read, RowPart) == (smallest_group > 0) for read in look)


# --- kinds of rows -------------------------------------------------------------------------


def test_jobs_of_a_part_are_those_of_all_rows():
    n = 200_000
    layout, chosen = Layout.of(256, 256 * 3), division_of(n=n).numbers(part_of(0))
    jobs, every = layout.jobs_of(chosen, n), layout.jobs(n)
    assert jobs[0][0] == 0
    assert jobs[-1][1] == len(chosen)
    assert [a for a, _ in jobs[1:]] == [b for _, b in jobs[:-1]]
    for low, high in jobs:
        (job,) = {chosen[k] // layout.job for k in (low, high - 1)}
        assert every[job][0] <= chosen[low] <= chosen[high - 1] < every[job][1]
    few = np.arange(0, n, 100)
    assert not stretches(few, n)
    assert layout.jobs_of(few, n) == layout.jobs(len(few))
    assert not stretches(chosen[::-1], n)


@pytest.mark.parametrize("memory", ["17MB", "1GB"])
def test_a_part_of_a_file_has_the_bits_of_memory(tmp_path, rng, memory):
    n = 40_000
    X = rng.standard_normal((n, 40))
    table = pa.table({f"c{j}": X[:, j] for j in range(40)})
    pq.write_table(table, tmp_path / "X.parquet", row_group_size=9000)
    np.save(tmp_path / "X.npy", X)
    V = random_basis(rng, 40, R)
    chosen = division_of(n=n).numbers(part_of(1))
    expected = MemoryRows.of(X).through(Sphere()).add(Glad(40, R), V, chosen)
    for name in ("X.parquet", "X.npy"):
        rows = FileRows.open(tmp_path / name, memory=memory).through(Sphere())
        assert np.array_equal(rows.add(Glad(40, R), V, chosen), expected)


# --- journals and audits -------------------------------------------------------------------


def test_a_run_with_a_journal_reads_all_rows(tmp_path, rng):
    """Another process that goes on would not know the division; a part is refused there."""
    header = {"kind": "private", "plan": "", "relation": ""}
    seen, rows = [], near_a_plane(rng, N)
    for name, plan in (("a", newton_plan(N, 5.0)), ("b", plan_of((part_of(0), 0.1)))):
        journal = Journal(JournalFile.create(str(tmp_path / name), header))
        journal.begin_stage()
        task = {"witness": seen.append, "journal": journal}
        if name == "a":
            run(plan, rows, seeded_generator(0), **task)
        else:
            with pytest.raises(NotAccountedError, match="journal reads all rows"):
                run(plan, rows, seeded_generator(0), **task)
    assert seen
    assert all(o.release.sampling == All() for o in seen)


def test_a_canary_is_seen_in_its_own_part_alone(rng):
    one, other = np.zeros((1, D)), np.zeros((1, D))
    one[0, :3], other[0, :3] = (1.0, 0.0, 0.3), (1.0, 0.0, -0.3)
    rest = rng.standard_normal((N - 1, D))
    neighbours = Neighbours(rest, one, other)
    information = []
    for number in range(PARTS):
        box = WhiteBox(neighbours)
        plan = plan_of((part_of(number), 0.5), mu=0.8)
        table = neighbours.table(np.array([True]))
        run(plan, MemoryRows.prepare(table), seeded_generator(1), witness=box)
        information.append(float(box.information[0]))
        division = Division(PARTS, N, seeded_generator(1))
        assert (box.scores[0] == 0.0) == (N - 1 not in division.numbers(part_of(number)))
    assert sorted(information)[:-1] == [0.0] * (PARTS - 1)
    assert 0.0 < max(information) <= 0.5 * 0.8**2
