"""One Dask cluster for all tests of rows on a cluster: starting one takes seconds."""

import pytest

from stillspace.rows import sums


@pytest.fixture(scope="session")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def job_cells(monkeypatch):
    """Return a function that sets the cells of a job for one test; layouts are kept otherwise."""

    def set_cells(cells):
        monkeypatch.setattr(sums, "JOB_CELLS", cells)
        sums.Layout.of.cache_clear()

    yield set_cells
    monkeypatch.undo()
    sums.Layout.of.cache_clear()
