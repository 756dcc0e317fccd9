"""Rows on a Dask cluster: bits, partitions, faults, proofs. One cluster of two processes."""

import os
import signal
import threading
import time
import warnings

import dask.array
import dask.dataframe
import distributed
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from stillspace import Budget, PrivateRobustPCA, RobustPCA
from stillspace._frozen import FrozenArray
from stillspace.exceptions import DataFileError, ResumedWarning, SeededNoiseWarning
from stillspace.parts.queries import Glad, IrlsPower, SecondMoment
from stillspace.rows import Affine, Fill, LeaveOut, Lengths, MemoryRows, Project, Sphere, progress
from stillspace.rows.cluster import on_cluster, pool, worker
from stillspace.run.journal import Journal
from tests.conftest import random_basis
from tests.rows.test_progress import Terminal

N, D = 7001, 300
"""Several jobs, also behind a projection."""
CODE = 2.5
"""Some cells hold it; one view takes it for the code of a missing cell."""

PART = np.random.default_rng(7).integers(4, size=N)
"""In which part of the rows each row lies."""


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 4)) @ rng.standard_normal((4, D)) + rng.standard_normal((N, D))
    X[::50, 7] = CODE
    return X.astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("cluster") / "X.npy"
    np.save(path, cells)
    return path


def sums(rows):
    """Sums of several kinds behind several maps."""
    rng = np.random.default_rng(1)
    V, chosen = random_basis(rng, D, 2), rng.integers(0, N, 300)
    bounded = rows.through(Affine.of(np.full(D, 0.1))).through(Sphere())
    narrow = bounded.through(Project(FrozenArray.of(random_basis(rng, D, 9)))).through(Sphere())
    short = bounded.through(LeaveOut(float(np.sqrt(5 * D))))
    filled = rows.through(Affine.of(np.full(D, 0.1), missing=CODE))
    filled = filled.through(Fill(FrozenArray.of(V))).through(Sphere())
    return [
        filled.add(Glad(D, 2), V, None),
        bounded.add(Glad(D, 2), V, None),
        bounded.add(Glad(D, 2), V, chosen),
        bounded.add(Glad(D, 2), V, np.flatnonzero(PART == 1)),
        bounded.add(IrlsPower(D, 2), V, None),
        narrow.add(SecondMoment(9), np.empty((0, 0)), None),
        short.add(Glad(D, 2), V, None),
        short.through(Lengths()).sphered(),
        bounded.distances(V),
        bounded.only(np.arange(N) % 3 > 0).add(Glad(D, 2), V, None),
    ]


@pytest.fixture(scope="module")
def wanted(cells):
    return sums(MemoryRows.of(cells))


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_any_number_of_partitions_gives_the_bits_of_memory(client, path, wanted, partitions):
    table = on_cluster(path, client, partitions=partitions)
    for got, want in zip(sums(table.as_rows()), wanted, strict=True):
        assert np.array_equal(got, want)


def test_collections_of_dask_give_the_bits_of_memory(client, cells, wanted, monkeypatch):
    monkeypatch.setattr(pool, "TREE_BYTES", 0)  # and sums that workers add up
    monkeypatch.setattr(pool, "BRANCHES", 2)
    array = dask.array.from_array(cells, chunks=(1201, 151))
    for got, want in zip(sums(on_cluster(array, partitions=3).as_rows()), wanted, strict=True):
        assert np.array_equal(got, want)
    frame = dask.dataframe.from_pandas(
        pd.DataFrame(cells[:, :9]).rename(columns=str), npartitions=3
    )
    table = on_cluster(frame, partitions=2)
    assert table.names == tuple(map(str, range(9)))
    got, want = (rows.through(Sphere()) for rows in (table.as_rows(), MemoryRows.of(cells[:, :9])))
    V = np.eye(9, 2)
    assert np.array_equal(got.add(Glad(9, 2), V, None), want.add(Glad(9, 2), V, None))


@pytest.mark.parametrize("center", [None, 0.1])
def test_sparse_rows_on_a_cluster_have_the_bits_of_memory(client, tmp_path, center):
    X = sparse.random(N, D, 0.02, format="csr", random_state=1, dtype=np.float32)
    with h5py.File(tmp_path / "X.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
        group["data"], group["indices"], group["indptr"] = X.data, X.indices, X.indptr
    V, chosen = random_basis(np.random.default_rng(1), D, 2), np.arange(5000)[::-1].copy()
    view = Affine.of(None if center is None else np.full(D, center)), Sphere()
    table = on_cluster(tmp_path / "X.h5ad", client, partitions=3).as_rows()
    got, want = (r.through(view[0]).through(view[1]) for r in (table, MemoryRows.of(X)))
    for numbers in (None, chosen, np.flatnonzero(PART == 0)):
        assert np.array_equal(*(r.add(Glad(D, 2), V, numbers) for r in (got, want)))


def fit(X, **facts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return PrivateRobustPCA(2, epsilon=1.0, random_state=5, **facts).fit(X).components_


@pytest.mark.parametrize("center", [None, "pairs"])
def test_private_fits_have_the_bits_of_fits_in_memory(client, path, cells, center):
    want = fit(cells, center=center)
    assert np.array_equal(fit(on_cluster(path, partitions=3), center=center), want)


def test_robust_fits_have_the_bits_of_fits_in_memory(client, tmp_path, cells):
    X, path = np.ascontiguousarray(cells[:, :12]), tmp_path / "X.npy"
    np.save(path, X)
    want, got = RobustPCA(2).fit(X), RobustPCA(2).fit(on_cluster(path, partitions=3))
    assert np.array_equal(got.components_, want.components_)
    assert np.array_equal(got.explained_variance_, want.explained_variance_)


def killed_during(client, work, workers=1, at=0.3):
    """Kill workers with −9 while something runs."""
    pids = list(client.run(os.getpid).values())[:workers]

    def kill():
        time.sleep(at)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return work()
    finally:
        killer.join()
        client.wait_for_workers(2, timeout=300)


def test_a_fit_survives_killed_workers_with_the_same_bits(client, path, cells):
    """Both are killed: no worker is left for a while."""
    table = on_cluster(path, partitions=4)
    got = killed_during(client, lambda: fit(table), 2)
    assert np.array_equal(got, fit(cells))


def test_a_fit_with_a_killed_worker_is_charged_once(client, path, tmp_path):
    budget = Budget(tmp_path / "ledger", epsilon=2.0, delta=1e-5)
    private = PrivateRobustPCA(2, epsilon=1.0, delta=1e-6, budget=budget)
    table = on_cluster(path, partitions=4)
    killed_during(client, lambda: private.fit(table))
    assert len(budget.entries()) == 1


def test_a_fit_of_a_lost_coordinator_goes_on_elsewhere(client, tmp_path, cells, monkeypatch):
    """Begun on the cluster, resumed on a file: a journal knows of answers, not of rows."""
    np.save(tmp_path / "X.npy", cells[:, :12])
    budget = Budget(tmp_path / "ledger", epsilon=9.0, delta=1e-5)
    private = PrivateRobustPCA(
        2, epsilon=4.0, delta=1e-6, budget=budget, journal=tmp_path / "journal", center=None
    )
    keep, kept = Journal.keep, []

    def die_after_two(journal, *facts):
        if len(kept) == 2:
            raise KeyboardInterrupt
        keep(journal, *facts)
        kept.append(facts[-1])

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", die_after_two)
        with pytest.raises(KeyboardInterrupt):
            private.fit(on_cluster(tmp_path / "X.npy", partitions=3))
    with pytest.warns(ResumedWarning, match="2 answers"):
        private.fit(tmp_path / "X.npy")
    assert len(budget.entries()) == 1
    with pytest.warns(ResumedWarning):
        again = PrivateRobustPCA(**private.get_params()).fit(on_cluster(tmp_path / "X.npy"))
    assert np.array_equal(again.components_, private.components_)


def test_a_terminal_sees_the_passes_of_a_cluster(client, path, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    stream = Terminal()
    with progress.progress(True, 3, stream):
        rows = on_cluster(path, partitions=2).as_rows().through(Sphere())
        rows.add(Glad(D, 2), np.eye(D, 2), None)
    assert "of at most 3" in stream.getvalue()
    assert str(N) not in stream.getvalue()


def test_pairs_of_rows_that_are_spread_over_workers_are_refused(client, cells):
    table = on_cluster(dask.array.from_array(cells[:50], chunks=(20, D)))
    with pytest.raises(ValueError, match="write the rows to Parquet or Zarr"):
        fit(table, center="pairs")


def test_a_worker_with_other_bits_is_refused(client, path, monkeypatch):
    monkeypatch.setattr(worker, "proof", lambda: "other")
    with pytest.raises(RuntimeError, match=r"does not compute the same bits.*processor"):
        on_cluster(path)
    monkeypatch.undo()
    table = on_cluster(path)
    monkeypatch.setattr(table.pool, "_own", "other")
    with pytest.raises(RuntimeError, match="joined during the fit"):
        sums(table.as_rows())


def test_a_worker_without_the_package_or_without_a_connection(client, path):
    """The first is refused in words; the second one died, and others do its work."""
    table = on_cluster(path)
    with pytest.raises(RuntimeError, match=r"cannot run stillspace \(ModuleNotFoundError\)"):
        table.pool.everywhere(__import__, "no_such_package")
    run = table.pool.client.run

    def lost(*_, **facts):
        assert facts == {"on_error": "return"}
        return {"tcp://gone": OSError("reset by peer"), "tcp://here": None}

    table.pool.client.run = lost
    try:
        assert table.pool.everywhere(os.getpid) == {"tcp://here": None}
        table.forget()
    finally:
        table.pool.client.run = run


def test_a_file_that_a_worker_does_not_have(client, path, tmp_path):
    copy = tmp_path / "X.npy"
    copy.write_bytes(path.read_bytes())
    table = on_cluster(copy)
    copy.unlink()
    with pytest.raises(DataFileError, match=r"X\.npy cannot be opened \(No such file"):
        sums(table.as_rows())


def test_words_are_refused_before_the_fit(client, tmp_path):
    frame = dask.dataframe.from_pandas(pd.DataFrame({"a": [1.0], "b": ["x"]}), npartitions=1)
    with pytest.raises(DataFileError, match="Column 'b' has type"):
        on_cluster(frame)
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "X.parquet")
    with pytest.raises(DataFileError, match="Column 'a'"):
        on_cluster(tmp_path / "X.parquet")


def test_a_fit_waits_for_a_worker_as_long_as_was_stated(path):
    with (
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        table = on_cluster(path, partitions=1, wait=0.5)
        rows = table.as_rows().through(Sphere())
        with pytest.raises(RuntimeError, match=r"No worker was alive for 0\.5 seconds"):
            rows.distances(np.eye(D, 2))


def test_a_round_that_was_asked_while_no_worker_was_alive_goes_on(path):
    """Dask lets tasks wait for a worker that is gone, although others may do them."""
    with (
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        rows = on_cluster(path, partitions=2).as_rows().through(Sphere())
        cluster.scale(1)
        want = rows.distances(np.eye(D, 2))
        pool = rows.table.pool
        pool._kept = dict.fromkeys(pool._kept, "inproc://a-worker-that-is/gone")
        cluster.scale(0)
        while cluster.scheduler.workers:
            time.sleep(0.01)
        found = []
        asking = threading.Thread(target=lambda: found.append(rows.distances(np.eye(D, 2))))
        asking.start()
        time.sleep(0.5)
        cluster.scale(1)
        asking.join(timeout=60)
        assert not asking.is_alive()
        assert np.array_equal(found[0], want)
