"""What the coordinator does: it cuts rows into partitions, asks workers, and adds their sums.

A job of rows (rows/sums.py) belongs to the partition in which it begins, and a partition also
knows the rows behind its end that its last job needs. So jobs, and the bits of a sum, are those of
rows in memory, for any number of partitions.

Every partition is asked in every round, also one without rows or jobs: the number of tasks, which
a dashboard shows, then tells nothing of rows.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import count, pairwise
from math import prod
from secrets import token_hex
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from stillspace._typing import FloatArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.rows.cluster import worker
from stillspace.rows.cluster.pool import Pool
from stillspace.rows.file import RowTable
from stillspace.rows.maps import (
    Affine,
    Caps,
    Clip,
    Fill,
    LeaveOut,
    Pairs,
    RowMap,
    Sphere,
    View,
    Without,
    bounded,
    width,
)
from stillspace.rows.memory import MemoryRows
from stillspace.rows.progress import active
from stillspace.rows.protocols import RowSum
from stillspace.rows.sources import RowSource, open_source
from stillspace.rows.sources.chunked import check_shape
from stillspace.rows.sources.protocol import is_sparse, storage_type
from stillspace.rows.stored import NO_INDEX, DenseRows, Scaling, SparseRows
from stillspace.rows.sums import STANDARD, Job, Layout, stretches

WAIT = 600.0
"""Seconds that a fit waits for a worker while none is alive."""


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Arrays on the cluster that hold the rows: futures, and the row where each begins."""

    futures: tuple[Any, ...]
    starts: tuple[int, ...]

    def covering(self, start: int, stop: int) -> tuple[list[Any], int]:
        """Return the arrays that hold these rows, and the first row of the first array."""
        low = bisect_left(self.starts, start + 1) - 1
        high = max(bisect_left(self.starts, stop), low + 1)
        return list(self.futures[low:high]), self.starts[low]


class ClusterTable(RowTable):
    """A table whose rows workers of a Dask cluster add up. Make it by `on_cluster`."""

    stated = (
        "the scheduler, the workers and the network of the cluster are trusted: sums leave the "
        "workers without noise",
    )

    def __init__(
        self,
        source: RowSource,
        pool: Pool,
        partitions: int,
        memory: int | str | None = None,
        chunks: Chunks | None = None,
    ) -> None:
        super().__init__(source, memory)
        n = self.shape[0]
        self.edges = [k * n // partitions for k in range(partitions + 1)]
        self.pool, self.chunks = pool, chunks
        self.run = f"stillspace-{token_hex(8)}"
        self.numbers = count()

    def as_rows(self) -> ClusterRows:  # type: ignore[override]
        return ClusterRows(self)

    def with_missing(self, code: float) -> RowTable:
        """Refuse: what stands for a missing cell is put in when rows are read from a file."""
        raise ValueError(
            "RobustPCA does not take missing cells on a cluster; put a number in their place and "
            f"give missing_code (here {code:g} would do), or fit without the cluster."
        )

    def forget(self) -> None:
        """Drop what the workers keep of this table."""
        self.pool.everywhere(worker.forget, self.run)


def on_cluster(
    X: Any,
    client: Any = None,
    *,
    partitions: int | None = None,
    memory: int | str | None = None,
    wait: float = WAIT,
    **options: Any,
) -> ClusterTable:
    """Return a table that a Dask cluster adds up; give it to `fit` in the place of an array.

    Parameters
    ----------
    X : path, source, dask.array or dask.dataframe
        A path must lead to the same file on every worker. A Dask collection is computed once and
        stays in the memory of the workers; the lengths of the partitions of a data frame are
        counted here.
    client : distributed.Client, default=None
        None takes the client that is active.
    partitions : int, default=None
        None means one per thread of the workers. It does not change a bit of a sum.
    memory : int or str, default=None
        Bound for the coordinator and for each worker.
    wait : float
        Seconds to wait for a worker while none is alive.
    **options
        As for `open_source`.
    """
    pool = Pool(client, wait)
    names = None
    if hasattr(X, "to_dask_array"):  # a data frame
        names = tuple(str(name) for name in X.columns)
        for name, dtype in X.dtypes.items():
            if getattr(dtype, "kind", "") not in "biuf":
                msg = f"Column {name!r} has type {dtype}, which is no number; convert or drop it."
                raise DataFileError(msg)
        X = X.to_dask_array(lengths=True)
    chunks = None
    if hasattr(X, "__dask_graph__"):
        X, chunks = _persisted(X, pool)
    source = open_source(X, **options)
    if names is not None:
        source.names = names  # type: ignore[misc]
    return ClusterTable(source, pool, partitions or pool.size(), memory, chunks)


def _persisted(X: Any, pool: Pool) -> tuple[Any, Chunks]:
    """Compute a Dask array on the workers, in chunks of whole rows and of a storage type."""
    check_shape(X)
    whole = X.rechunk({1: -1}).astype(storage_type(X.dtype)).persist(scheduler=pool.client)
    futures = pool.futures_of(whole)
    starts = np.concatenate([[0], np.cumsum(whole.chunks[0])])[:-1]
    filled = [k for k, length in enumerate(whole.chunks[0]) if length > 0] or [0]
    return whole, Chunks(tuple(futures[k] for k in filled), tuple(int(starts[k]) for k in filled))


@dataclass(frozen=True, slots=True, eq=False)
class ClusterRows:
    """Rows on a cluster, behind a view. It sends queries out, and sums of jobs come back."""

    table: ClusterTable
    view: View = ()
    pairs: IntArray | None = None
    kept: npt.NDArray[np.bool_] | None = None
    number: int = field(default=-1)

    summation = STANDARD

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", next(self.table.numbers))

    @property
    def n_rows(self) -> int:
        return self.table.shape[0] if self.pairs is None else len(self.pairs)

    @property
    def n_columns(self) -> int:
        return width(self.view, self.table.shape[1])

    @property
    def bounded(self) -> bool:
        return bounded(self.view)

    def through(self, row_map: RowMap) -> ClusterRows:
        """Return the rows behind a row map; workers apply it when they are asked."""
        return ClusterRows(self.table, (*self.view, row_map), self.pairs, self.kept)

    def paired(self, pairs: IntArray) -> Any:
        if self.table.chunks is not None:
            raise ValueError(
                "Pairs of rows of a Dask collection lie on different workers; write the rows to "
                "Parquet or Zarr and give the path, or use another center."
            )
        return ClusterRows(self.table, (*self.view, Pairs()), np.asarray(pairs, dtype=np.int64))

    def only(self, kept: npt.NDArray[np.bool_]) -> ClusterRows:
        both = kept if self.kept is None else kept & self.kept
        return ClusterRows(self.table, self.view, self.pairs, both)

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        layout = Layout.of(self.n_columns, prod(query.shape), sparse=self._sparse)
        index = NO_INDEX if selection is None else np.asarray(selection, dtype=np.int64)
        n = self.n_rows
        jobs = layout.jobs(n) if selection is None else layout.jobs_of(index, n)
        if selection is not None and not stretches(index, n):
            few = self._chosen(index)
            return few.partial(query, point, jobs).value() if jobs else np.zeros(query.shape)
        tasks = self._tasks(layout, jobs, index)
        found = self._asked(("add", query, point), tasks, entries=prod(query.shape))
        if not jobs:
            return np.zeros(query.shape)
        counter = active()
        if counter is not None:  # a line per pass: workers do not tell how far they are
            found = list(counter.watched(iter(found), len(found)))
        total = found[0]
        for other in found[1:]:
            total.merge(other)
        return np.asarray(total.value())

    def _tasks(
        self, layout: Layout, jobs: list[Job], index: IntArray
    ) -> dict[int, tuple[Any, ...]]:
        """Return which jobs each part does: positions among its own rows, or its chosen ones."""
        rows = index if len(index) > 0 else None
        # a job of chosen rows has those of one job of all rows, and belongs where that one begins
        starts = [(s if rows is None else int(rows[s])) // layout.job * layout.job for s, _ in jobs]
        tasks: dict[int, tuple[Any, ...]] = {}
        for part, (low, high) in enumerate(pairwise(self._edges())):
            first, last = bisect_left(starts, low), bisect_left(starts, high)
            at, end = low, low
            if rows is not None and first < last:
                at, end = jobs[first][0], jobs[last - 1][1]
            mine = [(start - at, stop - at) for start, stop in jobs[first:last]]
            chosen = index if rows is None else rows[at:end] - low
            tasks[part] = (mine, first, worker.marked(chosen))
        return tasks

    @property
    def _sparse(self) -> bool:
        """Whether what workers add up are compressed sparse rows, as they would be in memory."""
        same = all(
            isinstance(m, Affine | Fill | Sphere | Clip | LeaveOut | Caps | Without)
            for m in self.view
        )
        return same and is_sparse(self.table.source)

    def _chosen(self, selection: IntArray) -> MemoryRows:
        """Return some mapped rows in memory, stored as they were before they were mapped."""
        cells = self.sphered(selection)
        affine = next((m for m in self.view if isinstance(m, Affine)), Affine.of())
        center = None if affine.center is None else affine.center.array
        scaling = Scaling.of(self.n_columns, center, missing=affine.missing)
        thin = self._sparse and scaling.zeros_stay
        source = SparseRows(csr_matrix(cells)) if thin else DenseRows(cells)
        return MemoryRows(cells.T, source=source, bounded=self.bounded)

    def sphered(self, selection: IntArray | None = None) -> FloatArray:
        """Return the selected (or all) mapped rows: the coordinator then holds them."""
        numbers = np.arange(self.n_rows) if selection is None else np.asarray(selection)
        out = np.empty((len(numbers), self.n_columns))
        edges = self._edges()
        which = np.searchsorted(edges, numbers, side="right") - 1
        parts = {k: np.flatnonzero(which == k) for k in range(len(edges) - 1)}
        tasks = {k: (numbers[at] - edges[k],) for k, at in parts.items()}
        for at, rows in zip(parts.values(), self._asked(("mapped",), tasks), strict=True):
            out[at] = rows
        return out

    def distances(self, V: FloatArray) -> FloatArray:
        tasks = {k: (high - low,) for k, (low, high) in enumerate(pairwise(self._edges()))}
        return np.concatenate(self._asked(("distances", V), tasks))

    def _edges(self) -> list[int]:
        if self.pairs is None:
            return self.table.edges
        parts = len(self.table.edges) - 1
        return [k * len(self.pairs) // parts for k in range(parts + 1)]

    def _asked(
        self, question: tuple[Any, ...], tasks: dict[int, tuple[Any, ...]], entries: int = 0
    ) -> list[Any]:
        """Return what the workers found for each part, in the order of the parts."""
        keys = {part: f"{self.table.run}-{self.number}-{part}" for part in tasks}
        sealed = {part: worker.Sealed.of(task) for part, task in tasks.items()}
        return self.table.pool.ask(keys, worker.Sealed.of(question), sealed, self._recipe, entries)

    def _recipe(self, part: int) -> tuple[worker.Sealed, list[Any]]:
        """Return what a part is made of: a recipe, and arrays on the cluster."""
        low, high = self._edges()[part : part + 2]
        stop = min(high + STANDARD.job_rows(self.n_columns), self.n_rows)
        facts: dict[str, Any] = {"view": self.view, "memory": self.table.memory}
        futures: list[Any] = []
        if self.kept is not None:
            facts["kept"] = self.kept[low:stop]
        if self.pairs is not None:
            facts["pairs"] = self.pairs[low:stop]
        if self.table.chunks is None:
            facts["source"] = self.table.source
        else:
            futures, first = self.table.chunks.covering(low, stop)
            facts["begin"] = low - first
        return worker.Sealed.of(worker.Recipe(self.table.run, low, stop, **facts)), futures
