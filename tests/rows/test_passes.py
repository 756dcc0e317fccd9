"""Blocks, jobs and threads: same terms, same sums, and the chain of additions that is charged."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from stillspace.parts.queries import Glad, GladCost, IrlsPower, Reaper, ScoreMoment, SecondMoment
from stillspace.parts.queries.base import PRIVATE_NEAR
from stillspace.rows import MemoryRows, sums
from stillspace.rows.sums import Layout
from tests.conftest import random_basis, unit_rows
from tests.kernels import reference


def glad(XT, V, floor):
    """The terms (n, D, r), by the reference."""
    return reference.glad_terms(XT, V, PRIVATE_NEAR, floor)


SHAPES = [(7, 1), (20, 2), (70, 2), (600, 3), (65, 4), (41, 5), (9, 8), (33, 6), (30, 11), (8, 7)]


@pytest.mark.parametrize(("D", "r"), SHAPES)
@pytest.mark.parametrize("near", [1.0, 3e-3, 1e-8, 1e-15])
def test_a_glad_term_has_the_bits_of_the_reference_in_every_kernel(rng, D, r, near):
    """One row among zero rows: the sum is its term. Distances on both sides of the limit."""
    V = random_basis(rng, D, r)
    XT = V @ rng.standard_normal((r, 5)) + near * rng.standard_normal((D, 5))
    XT /= np.linalg.norm(XT, axis=0)
    want = glad(XT, V, 2.0**-26)
    for b, at in ((1, 0), (16, 3), (16, 11), (21, 20), (64, 40)):
        for i in range(5):
            block, out = np.zeros((D, b)), np.zeros((D, r))
            block[:, at] = XT[:, i]
            Glad(D, r).add_block(block, V, out)
            assert np.array_equal(out, want[i])


@pytest.mark.parametrize(("D", "r", "b"), [(130, 3, 33), (256, 10, 128), (70, 2, 32), (5, 4, 7)])
def test_blocks_against_the_reference(rng, D, r, b):
    XT, V = unit_rows(rng, b, D), random_basis(rng, D, r)
    out = np.zeros((D, r))
    Glad(D, r).add_block(XT, V, out)
    np.testing.assert_allclose(out, glad(XT, V, 2.0**-26).sum(axis=0), atol=1e-13)
    distance = np.linalg.norm(XT - V @ V.T @ XT, axis=0)
    between = float(np.sort(distance)[b // 2 - 1 : b // 2 + 1].mean())  # no row lies on the cut
    for cut in (np.inf, between):
        flat = np.zeros(D * r + 1)
        IrlsPower(D, r, cut=cut).add_block(XT, V, flat)
        weight = (distance < cut) / distance
        np.testing.assert_allclose(flat[:-1].reshape(D, r), (XT * weight) @ XT.T @ V, atol=1e-12)
        assert flat[-1] == pytest.approx(np.minimum(distance, cut).sum(), rel=1e-14)


def test_scores_moment(rng):
    XT, V = unit_rows(rng, 600, 9), random_basis(rng, 9, 3)
    got = MemoryRows(XT).add(ScoreMoment(9, 3), V, None)
    np.testing.assert_allclose(got, V.T @ XT @ XT.T @ V, atol=1e-12)


@pytest.mark.parametrize(
    "query",
    [Glad(40, 2), Glad(40, 5), IrlsPower(40, 3), SecondMoment(40), GladCost(40, 3), Reaper(40, 3)],
    ids=lambda q: f"{q.name} {q.shape}",
)
def test_threads_do_not_change_a_bit(rng, query, monkeypatch, job_cells):
    job_cells(2**14)
    n = 5003
    X = rng.standard_normal((n, 40))
    V = random_basis(rng, 40, getattr(query, "r", 3))
    point = V @ V.T if isinstance(query, Reaper) else V
    results = []
    for count in (1, 2, 3):
        monkeypatch.setattr(sums, "allowed_threads", lambda count=count: count)
        results.append(MemoryRows.prepare(X).add(query, point, None))
    assert len(Layout.of(40, 80).jobs(n)) > 3
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("n", [15, 16, 17, 255, 256, 257, 1023, 1024, 1025])
def test_sums_move_by_one_term_across_block_and_job_limits(rng, n, job_cells):
    """Rows on the subspace, where residuals are all rounding; several jobs and threads."""
    job_cells(2**12)
    D, r = 20, 2
    V = random_basis(rng, D, r)
    X = (V @ rng.standard_normal((r, n + 1))).T * 3.0
    for A in (X, X.astype(np.float32)):
        whole, part = MemoryRows.prepare(A), MemoryRows.prepare(A[:-1])
        assert np.array_equal(whole.sphered()[:-1], part.sphered())
        term = np.zeros((D, r))
        Glad(D, r).add_block(np.ascontiguousarray(whole.sphered()[-1:].T), V, term)
        moved = whole.add(Glad(D, r), V, None) - part.add(Glad(D, r), V, None)
        np.testing.assert_allclose(moved, term, atol=1e-11)


def test_user_limits_on_threads_are_kept():
    with threadpool_limits(1):
        assert sums.allowed_threads() == 1
    assert sums.allowed_threads() >= 1


def test_work_is_done_in_order_and_errors_come_through():
    assert list(sums.each(lambda k: k * k, list(range(20)))) == [k * k for k in range(20)]
    with pytest.raises(ZeroDivisionError):
        list(sums.each(lambda k: 1 // (k - 7), list(range(20))))


def test_a_subclass_never_runs_the_stock_kernel(rng):
    class Nothing(Glad):
        def add_block(self, XT, point, out):
            pass

    X, V = rng.standard_normal((50, 6)), random_basis(rng, 6, 2)
    assert MemoryRows.prepare(X).add(Glad(6, 2), V, None).any()
    assert not MemoryRows.prepare(X).add(Nothing(6, 2), V, None).any()


@pytest.mark.parametrize("query", [Glad(40, 2), Glad(40, 5), IrlsPower(40, 3)], ids=repr)
def test_compiled_runs_of_blocks_equal_the_blocks(rng, query):
    X, V = rng.standard_normal((700, 40)), random_basis(rng, 40, query.r)
    rows, want = MemoryRows.prepare(X), np.zeros(query.shape)
    sphered, step = rows.sphered(), Layout.of(40, np.prod(query.shape)).block
    for start in range(0, 700, step):
        query.add_block(np.ascontiguousarray(sphered[start : start + step].T), V, want)
    if isinstance(query, Glad):  # a job's sum is projected once, not block by block
        np.testing.assert_allclose(rows.add(query, V, None), want, atol=1e-12)
    else:
        assert np.array_equal(rows.add(query, V, None), want)
