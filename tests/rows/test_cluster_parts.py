"""Tasks of a cluster may run twice, and no part is taken for another one (without a cluster)."""

from itertools import pairwise

import numpy as np
import pytest

from stillspace.estimators._source import source_of
from stillspace.parts.queries import SecondMoment
from stillspace.rows import RowTable, Sphere
from stillspace.rows.cluster import worker
from stillspace.rows.cluster.coordinator import ClusterTable
from stillspace.rows.cluster.pool import Pool
from stillspace.rows.sources.raw import open_npy
from stillspace.rows.sums import ExactSum
from tests.conftest import sum_of

D = 3


@pytest.mark.parametrize("bound", [1.0, np.inf])
def test_sums_that_are_added_twice_do_not_count_a_part_twice(bound):
    """Dask runs a task again if its worker fails; the answers that it adds are still there."""

    def found(k):
        part = sum_of([np.full(D, float(k))], (D,), bound, first=k)
        return worker.Answer(part, {str(k): "here"}, "proof")

    answers = [found(k) for k in range(3)]
    first, second = (worker.combine(*answers).found.value() for _ in range(2))
    assert np.array_equal(first, np.full(D, 3.0))
    assert np.array_equal(second, first)
    assert worker.combine(*answers).kept == dict.fromkeys("012", "here")
    other = worker.combine(answers[0], worker.Answer(None, {}, "other", ("1",)))
    assert (other.found, other.lost, other.proof) == (None, ("1",), "they differ")


@pytest.mark.parametrize("bound", [1.0, 1.5, np.inf])
def test_sums_of_any_parts_are_the_sum_of_all_jobs(rng, bound):
    """To the last bit; whole numbers carry from the low word into the high one between parts."""
    jobs = [2.0**-21 * rng.uniform(-3.0, 3.0, D) + rng.integers(0, 9, D) for _ in range(64)]
    whole = sum_of(jobs, (D,), bound)
    for parts in (1, 2, 7, 64):
        edges = [k * len(jobs) // parts for k in range(parts + 1)]
        sums = [sum_of(jobs[a:b], (D,), bound, first=a) for a, b in pairwise(edges)]
        total = sums[0]
        for other in sums[1:]:
            total.merge(other)
        assert np.array_equal(total.value(), whole.value())
        if isinstance(total, ExactSum):
            assert np.array_equal(total.high, whole.high)
            assert np.array_equal(total.low, whole.low)


def test_a_part_is_never_taken_for_another_one(tmp_path, rng, monkeypatch):
    """Rows 0…4 as they are, and part 5 of the first rows of a table, have names of their own."""
    monkeypatch.setattr(worker, "_CACHE", worker._Cache())
    np.save(tmp_path / "X.npy", rng.standard_normal((9, D)))
    source = open_npy(tmp_path / "X.npy")

    def asked(key, start, stop, view):
        recipe = worker.Recipe("run", start, stop, view, 2**24, source)
        facts = [("mapped",), (np.arange(stop - start),), recipe]
        return worker.make_and_ask(key, *map(worker.Sealed.of, facts)).found

    X = source.read(0, 9)
    first = asked("run-1-0", 0, 5, (Sphere(),))
    assert np.allclose(first, X[:5] / np.linalg.norm(X[:5], axis=1)[:, None])
    assert np.array_equal(asked("run-0-5", 5, 9, ()), X[5:])


def test_two_pools_have_no_name_of_a_task_in_common(monkeypatch):
    """Dask takes two tasks of one name for one task, and gives the answer of the first."""

    class Client:
        def __init__(self):
            self.names = []

        def submit(self, *_, key, **__):
            self.names.append(key)

    monkeypatch.setattr(Pool, "_introduce", lambda _: None)
    client = Client()
    for _ in range(20):  # the places of pools in memory come again
        pool = Pool(client, 1.0)
        pool._submit(worker.ask, "key", worker.Sealed.of(None))
        del pool
    assert len(set(client.names)) == 20
    assert SecondMoment.name not in "".join(client.names)


def test_a_guarantee_says_that_the_cluster_is_trusted(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((9, D)))
    source = open_npy(tmp_path / "X.npy")
    facts = {"hidden": False, "finite": False, "charged": False}
    (said,) = source_of(ClusterTable(source, None, 2), **facts).stated
    assert "without noise" in said
    assert source_of(RowTable(source), **facts).stated == ()
