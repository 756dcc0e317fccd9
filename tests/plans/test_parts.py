"""Parts of the rows: which rows they have, what the ledger charges, and who may use them."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillspace.audit.neighbours import Neighbours
from stillspace.audit.scores import WhiteBox
from stillspace.exceptions import LedgerError, NotAccountedError
from stillspace.methods.division import DIVISION
from stillspace.methods.newton import DampedNewton
from stillspace.methods.newton.rule import NEWTON_RULE
from stillspace.methods.spectrum import Moment
from stillspace.methods.stages import SubspaceStage
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import AngleCounts, FourthMoment, Glad, SecondMoment
from stillspace.parts.sampling import BLOCK_ROWS, All, Poisson, RowPart
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Ask, Outcome
from stillspace.plans.ledger import CeilingLedger, Ledger
from stillspace.plans.release import JointRelease, Release
from stillspace.plans.staged import StagedPlan
from stillspace.rows import FileRows, Layout, MemoryRows, Sphere
from stillspace.rows.sums import stretches
from stillspace.run import run
from stillspace.run.journal import Journal, remaining
from stillspace.run.journal_file import JournalFile
from tests.conftest import random_basis, unit_rows

N, D, R, PARTS = 3000, 6, 2, 4
V0 = np.eye(D)[:, :R]


def part_of(number, seed=7, parts=PARTS, n=N):
    return RowPart(parts, number, seed, n)


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


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 3000, 8 * 64 * 5, 8 * 64 * 5 + 1])
@pytest.mark.parametrize("parts", [2, 3, 8])
def test_parts_are_disjoint_and_have_all_rows_together(n, parts):
    found = [part_of(k, 11, parts, n).numbers(n) for k in range(parts)]
    assert all(np.all(numbers[1:] > numbers[:-1]) for numbers in found)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(n))


def test_a_part_has_one_block_of_every_group_and_the_seed_decides_which():
    n = 8 * BLOCK_ROWS * 400
    for seed in (0, 2**64 - 1):
        numbers = part_of(0, seed, 8, n).numbers(n)
        assert np.array_equal(numbers % BLOCK_ROWS, np.tile(np.arange(BLOCK_ROWS), 400))
        blocks = numbers[::BLOCK_ROWS] // BLOCK_ROWS
        assert np.array_equal(blocks // 8, np.arange(400))
        # each place equally often: 7 degrees of freedom, false alarm 1e-7
        counts = np.bincount(blocks % 8, minlength=8)
        assert np.sum((counts - 50.0) ** 2 / 50.0) < 45.0
    assert not np.array_equal(part_of(0, 1).numbers(N), part_of(0, 2).numbers(N))


def test_rows_do_not_decide_which_rows_are_read(rng):
    """Neither their cells nor the generator: only numbers that are public."""
    release = Release(Glad(D, R), N, 5.0, part_of(1))
    draws = [release.draw(0, N, seeded_generator(k), Ledger()).selection for k in (0, 1)]
    assert np.array_equal(*draws)
    assert np.array_equal(draws[0], part_of(1).numbers(N))
    with pytest.raises(ValueError, match="read-only"):
        draws[0][0] = 5
    with pytest.raises(ValueError, match="3000 rows"):
        part_of(1).numbers(N + 1)


@pytest.mark.parametrize("facts", [(1, 0, 0, 9), (4, 4, 0, 9), (4, -1, 0, 9), (4, 0, -1, 9)])
def test_a_part_that_is_none_is_refused(facts):
    with pytest.raises(ValueError, match="part"):
        RowPart(*facts)


def test_the_mean_is_that_of_the_rows_of_the_part(rows):
    point = random_basis(np.random.default_rng(3), D, R)
    for number in range(PARTS):
        part = part_of(number)
        release = Release(Glad(D, R), N, 0.0, part)
        draw = release.draw(0, N, seeded_generator(0), Ledger())
        chosen = part.numbers(N)
        expected = rows.add(Glad(D, R), point, chosen) / len(chosen)
        assert np.array_equal(release.apply(rows, point, draw), expected)


def test_a_pass_reads_its_part_alone(rows):
    """With hardly any noise the answers are the means of the parts, each another one."""
    plan = plan_of(*((part_of(k), 0.5) for k in range(PARTS)), mu=1e5)
    answers = run(plan, rows, seeded_generator(0)).facts["answers"]
    for number, (answer,) in enumerate(answers):
        chosen = part_of(number).numbers(N)
        reads = (chosen, len(chosen)), (None, N)
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
        release.draw(0, N, seeded_generator(0), ledger)
        if number is None:
            whole += cost
        else:
            parts[number] += cost
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
    assert np.intersect1d(part_of(0).numbers(N), part_of(1, seed=8).numbers(N)).size > 0
    for other in (part_of(1, seed=8), part_of(1, parts=5)):
        with pytest.raises(LedgerError, match="one division"):
            run(plan_of((part_of(0), 0.1), (other, 0.1)), rows, seeded_generator(0))


def test_parts_need_replace_one_and_one_row_per_person(rows):
    with pytest.raises(NotAccountedError, match="replace-one"):
        Release(Glad(D, R), N, 5.0, part_of(0), "add-or-remove-one")
    with pytest.raises(LedgerError, match="one row per person"):
        run(plan_of((part_of(0), 0.1), rows_per_person=2), rows, seeded_generator(0))
    event = Release(Glad(D, R), N, 500.0).event(0)
    ledger = ledger_of(plan_of(relation="add-or-remove-one"))
    with pytest.raises(LedgerError, match="replace-one"):
        ledger.record(event, read=part_of(0))


def test_a_part_costs_as_much_as_all_rows():
    """There is no amplification: the event is that of the same noise on all rows."""
    every, some = (Release(Glad(D, R), N, 5.0, read) for read in (All(), part_of(0)))
    assert some.event(0) == every.event(0)
    assert some.divisor == len(part_of(0).numbers(N))


def test_releases_of_one_pass_read_the_same_part():
    release = Release(Glad(D, R), N, 5.0, part_of(0))
    JointRelease((release, replace(release, query=SecondMoment(D))))
    for other in (part_of(1), All()):
        with pytest.raises(ValueError, match="rows that they read"):
            JointRelease((release, replace(release, sampling=other)))
    with pytest.raises(ValueError, match="public"):
        JointRelease((replace(release, sampling=Poisson(0.5)),))


def test_a_replaced_row_changes_the_sums_of_its_own_part_alone(rng):
    XT = unit_rows(rng, N, D)
    other = XT.copy()
    row = 1717
    other[:, row] = -XT[::-1, row]
    before, after = MemoryRows(XT), MemoryRows(other)
    changed = []
    for number in range(PARTS):
        chosen = part_of(number).numbers(N)
        sums = [rows.add(Glad(D, R), V0, chosen) for rows in (before, after)]
        assert np.array_equal(*sums) == (row not in chosen)
        if row in chosen:
            changed.append(np.linalg.norm(sums[0] - sums[1]))
    assert len(changed) == 1
    assert changed[0] <= Glad.difference_bound


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
    assert len({read.division for read in reads[:first]}) == 1
    assert all(read == All() for read in reads[first:])
    costs = [o.release.event(0).squared_mu("replace-one") for o in seen]
    limit = ledger_of(plan).limit
    assert sum(costs) > limit  # what a sum over all releases would refuse
    parts = [
        sum(c for c, o in zip(costs, seen, strict=True) if o.release.sampling in (All(), part))
        for part in set(reads[:first])
    ]
    assert 0.98 * limit < max(parts) <= limit


def test_the_division_is_new_in_every_fit(rng):
    """Who wrote the rows cannot know which of them are read together."""
    rows = near_a_plane(rng, N)
    seeds = set()
    for seed in range(3):
        _, seen = watched(newton_plan(N, 5.0), rows, seed)
        seeds |= {o.release.sampling.seed for o in seen if o.release.sampling != All()}
    assert len(seeds) == 3


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
    part = DIVISION.first_part(Allowance(0.2, n), moment, R)
    assert (part.parts, part.number) == (DIVISION.most_parts, 0)
    assert DIVISION.first_part(Allowance(0.2, n - 1), moment, R) == All()
    assert DIVISION.first_part(Allowance(0.2, n, "add-or-remove-one"), moment, R) == All()


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
    layout, chosen = Layout.of(256, 256 * 3), part_of(0, n=n).numbers(n)
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
    chosen = part_of(1, n=n).numbers(n)
    expected = MemoryRows.of(X).through(Sphere()).add(Glad(40, R), V, chosen)
    for name in ("X.parquet", "X.npy"):
        rows = FileRows.open(tmp_path / name, memory=memory).through(Sphere())
        assert np.array_equal(rows.add(Glad(40, R), V, chosen), expected)


# --- journals and audits -------------------------------------------------------------------


def test_what_remains_after_a_part_is_what_a_row_of_another_part_may_still_pay(tmp_path, rows):
    """A row of part 3 was in one release of share .3 so far: 0.7 may still come for it."""
    asked = (All(), 0.3), (part_of(0), 0.5), (part_of(1), 0.6), (All(), 0.1)
    plan, path = plan_of(*asked), str(tmp_path / "j.journal")
    header = {"kind": "private", "plan": "", "relation": ""}
    journal = Journal(JournalFile.create(path, header))
    journal.begin_stage()
    first = run(plan, rows, seeded_generator(0), journal=journal)
    records = list(JournalFile.open(path, header).records())[:3]
    assert [r["releases"][0].get("part") for r in records] == [
        None,
        [0, PARTS, 7, N],
        [1, PARTS, 7, N],
    ]
    staged = StagedPlan("fit", (Sphere(),), (SubspaceStage(plan, None),), D)
    (left,) = [event for event, _ in remaining(staged, records)]
    assert float(left.squared_mu("replace-one")) == pytest.approx(0.7, rel=1e-9)
    again = Journal(JournalFile.open(path, header))
    again.begin_stage()
    replayed = run(plan, rows, seeded_generator(1), journal=again)
    for one, other in zip(first.facts["answers"], replayed.facts["answers"], strict=True):
        assert np.array_equal(one[0].value, other[0].value)


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
        assert (box.scores[0] == 0.0) == (N - 1 not in part_of(number).numbers(N))
    assert sorted(information)[:-1] == [0.0] * (PARTS - 1)
    assert 0.0 < max(information) <= 0.5 * 0.8**2
