"""Sums over jobs are exact: any partition, any order, and no overflow."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from stillspace.kernels import loops
from stillspace.kernels.words import CARRY, HIGH, LARGEST, LOW, add_words
from stillspace.parts.queries import Glad, IrlsPower, SecondMoment
from stillspace.parts.sampling import Poisson
from stillspace.plans.release import Release
from stillspace.rows import STANDARD, MemoryRows, Summation
from stillspace.rows.sums import (
    JOB_CELLS,
    LONGEST_BLOCK,
    LOOP_BLOCK,
    SPARSE_JOB,
    ExactSum,
    Layout,
    TreeSum,
    loop_chain_length,
)
from tests.conftest import sum_of


def as_fraction(total: ExactSum) -> list[Fraction]:
    return [
        (int(high) * Fraction(HIGH) + int(low) * Fraction(LOW)) * Fraction(total.unit)
        for high, low in zip(total.high, total.low, strict=True)
    ]


@pytest.mark.parametrize("norm_bound", [1.0, 1.5, 2.0, 3.0**0.5, 40.0])
def test_words_hold_sums_to_the_last_bit_that_is_promised(rng, norm_bound):
    parts = rng.standard_normal((200, 7)) * np.exp2(rng.integers(-60, 16, (200, 7)))
    total = ExactSum((7,), norm_bound)
    for part in parts:
        total.add(part)
    exact = [sum((Fraction(float(x)) for x in column), Fraction(0)) for column in parts.T]
    for found, want in zip(as_fraction(total), exact, strict=True):
        assert abs(found - want) <= 200 * Fraction(2) ** -71 * Fraction(total.unit)
    assert norm_bound <= total.unit < 2 * norm_bound
    np.testing.assert_allclose(total.value(), [float(x) for x in exact], rtol=1e-15, atol=1e-16)


def test_any_order_and_any_grouping_gives_the_same_bits(rng):
    parts = rng.standard_normal((300, 5)) * np.exp2(rng.integers(-40, 10, (300, 5)))
    want = sum_of(parts, (5,), 1.0).value()
    for _ in range(5):
        assert np.array_equal(sum_of(parts[rng.permutation(300)], (5,), 1.0).value(), want)
    groups = [ExactSum((5,), 1.0) for _ in range(3)]
    for i, part in enumerate(parts):
        groups[i % 3].add(part)
    merged = sum(g.high for g in groups), sum(g.low for g in groups)
    whole = ExactSum((5,), 1.0)
    for part in parts:
        whole.add(part)
    assert np.array_equal(merged[0] + (merged[1] >> CARRY), whole.high)
    assert np.array_equal(merged[1] & ((1 << CARRY) - 1), whole.low)


def test_the_low_word_is_carried_and_the_high_word_has_room():
    high, low = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    part = np.array([np.nextafter(1.0, 0.0)])
    for _ in range(5000):
        add_words(part[None], 1.0, high, low)
        assert 0 <= low[0] < 2**CARRY
    found = int(high[0]) * Fraction(HIGH) + int(low[0]) * Fraction(LOW)
    assert abs(found - 5000 * Fraction(part[0])) <= 5000 * Fraction(2) ** -71
    most = 16 * 10**10  # rows of norm 1, far more than anyone has
    assert most * 2**20 < 2**62


def test_what_no_bounded_query_gives_is_total():
    total = ExactSum((4,), 1.0)
    total.add(np.array([np.nan, np.inf, -np.inf, 0.25]))
    assert total.value().tolist() == [0.0, LARGEST, -LARGEST, 0.25]


def along_the_tree(parts):
    """The definition: the left half is the largest power of two of jobs that is not all of them."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return along_the_tree(parts[:half]) + along_the_tree(parts[half:])


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 64])
def test_terms_without_a_bound_are_added_along_a_tree(rng, count):
    parts = rng.standard_normal((count, 3)) * np.exp2(rng.integers(-30, 900, (count, 3)))
    want = along_the_tree(list(parts))
    assert np.array_equal(sum_of(parts, (3,), np.inf).value(), want)
    for pieces in (2, 3, 5):  # whoever adds which jobs
        cuts = [0, *sorted(rng.integers(0, count + 1, pieces - 1).tolist()), count]
        whole = TreeSum()
        for low, high in pairwise(cuts):
            whole.merge(sum_of(parts[low:high], (3,), np.inf, low))
        assert np.array_equal(whole.value(), want)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_give_the_same_bits_for_any_partition_into_whole_jobs(rng, threads):
    from threadpoolctl import threadpool_limits

    D, r = 6, 2
    job = Layout.of(D, D * r).job
    X, V = rng.standard_normal((3 * job + 17, D)), np.eye(D)[:, :r] + 0.0
    with threadpool_limits(threads):
        whole = MemoryRows.prepare(X).add(Glad(D, r), V, None)
    parts = ExactSum((D, r), 1.0)
    for start in (2 * job, 0, job, 3 * job):
        rows = MemoryRows.prepare(X[start : start + job])
        parts.add(rows.add(Glad(D, r), V, None))  # a job alone is its own sum
    assert np.array_equal(parts.value(), whole)


def test_a_replaced_row_changes_one_term_whatever_the_order_of_the_rows(rng):
    """What the slack relies on: a table that is sorted by its cells moves its rows by rounding."""
    D = 8
    X = rng.standard_normal((2 * Layout.of(D, D * D).job, D))
    X = X[np.argsort(X[:, 0])]
    Y = X.copy()
    Y[3] = np.abs(rng.standard_normal(D)) + 3.0
    y = Y[3] / np.linalg.norm(Y[3])
    Y = Y[np.argsort(Y[:, 0])]
    gap = np.subtract(
        *(MemoryRows.prepare(A).add(SecondMoment(D), np.empty((0, 0)), None) for A in (X, Y))
    )
    x = X[3] / np.linalg.norm(X[3])
    release = Release(SecondMoment(D), len(X), 5.0)
    off = np.linalg.norm(gap - (np.outer(x, x) - np.outer(y, y)))
    assert off <= 2 * release._summation_error()


def test_the_slack_at_a_thousand_million_rows_is_small():
    """Issue: noise may grow by half a percent at most, under both relations."""
    for relation, limit in (("replace-one", 2e-3), ("add-or-remove-one", 5e-3)):
        release = Release(Glad(50, 5), 10**9, 10.0, relation=relation)
        event = release.event(0)
        assert event.sensitivity(relation) <= release.sensitivity() * (1 + limit)


def rounding(chain):
    """The relative error of a sum whose entries pass so many operations."""
    return chain * 2.0**-53 / (1 - chain * 2.0**-53)


@pytest.mark.parametrize("people", [1, 7])
def test_the_slack_counts_every_job(people):
    """From the jobs that are really made: all of them, because all rows may move."""
    D, r, n = 20, 3, 10**6
    here = Layout.of(D, D * r)
    chain = 1 + here.block + here.job // here.block
    fixed = Release(Glad(D, r), n, 10.0, rows_per_person=people)
    total, weight = 2 * n * 2.0**-53, fixed.asked.summand_bound
    assert weight >= 2**8
    assert fixed._summation_error() >= n * weight * rounding(chain) + total
    most = rounding(STANDARD.chain) + fixed.asked.job_error
    assert fixed._summation_error() <= 1.1 * (n * weight * most + total)
    hidden = replace(fixed, relation="add-or-remove-one")
    assert hidden._summation_error() >= 16 * (n * weight * rounding(chain) + total)
    sampled = replace(fixed, sampling=Poisson(0.5), rows_per_person=1)
    assert sampled._summation_error() >= n * weight * rounding(chain) + total
    for release in (fixed, hidden, sampled):
        assert release.event(0).slack >= 2 * release._summation_error()


def test_the_slack_counts_the_chains_of_a_compiled_loop():
    """Few columns and many rows: the loop adds all rows at once, by longer chains than jobs do."""
    n = 500_000
    assert loop_chain_length(n) > 6 * STANDARD.chain
    error = Release(Glad(2, 1), n, 10.0)._summation_error()
    assert error >= n * (rounding(loop_chain_length(n)) + 2 * 2.0**-53)


@pytest.mark.parametrize("D", [1, 2, 20, 256, 4096, 10_000, 10**6])
@pytest.mark.parametrize("r", [1, 10, 300])
def test_no_job_is_longer_than_what_is_charged_for(D, r):
    here = Layout.of(D, D * min(r, D))
    assert here.job % here.block == 0
    assert here.job <= STANDARD.job_rows(D)
    assert 1 + here.block + here.job // here.block <= STANDARD.chain
    thin = Layout.of(D, D * min(r, D), sparse=True)
    assert thin.job <= STANDARD.job_rows(D)
    assert thin.job >= SPARSE_JOB
    assert thin.job % thin.block == 0
    for block in (thin.block, LONGEST_BLOCK):  # made dense, or as they are stored
        assert 1 + block + -(-thin.job // block) <= STANDARD.chain
    assert STANDARD.job_cells == JOB_CELLS
    assert loops.BLOCK == LOOP_BLOCK


def test_longer_chains_are_not_covered():
    assert STANDARD.covers(STANDARD)
    assert not STANDARD.covers(Summation(STANDARD.job_cells, STANDARD.chain + 1))
    assert not STANDARD.covers(Summation(STANDARD.job_cells + 1, STANDARD.chain))


def test_unbounded_queries_still_add_up(rng):
    X, V = rng.standard_normal((700, 6)), np.eye(6)[:, :2]
    found = MemoryRows.prepare(X).add(IrlsPower(6, 2), V, None)
    assert np.isfinite(found).all()
    assert found.any()
