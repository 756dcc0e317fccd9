"""Rows in memory, kept as the caller stores them, scaled and added up block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jobs import Runs, Span, filled
from stillspace.kernels.measuring import Measure
from stillspace.kernels.storage import NORM_WORK, inverse_norms
from stillspace.rows.filled import FilledRows
from stillspace.rows.maps import (
    BLOCK_CELLS,
    Affine,
    Caps,
    Clip,
    Fill,
    LeaveOut,
    Lengths,
    Project,
    RowMap,
    Sphere,
    Without,
    levels,
)
from stillspace.rows.pairs import PairedRows
from stillspace.rows.protocols import RowSum
from stillspace.rows.sketch import Sketch
from stillspace.rows.stored import (
    NO_INDEX,
    DenseRows,
    Factors,
    Norms,
    Ones,
    Scaling,
    Stored,
    code_as_stored,
    several,
    stored,
    with_code_as_stored,
)
from stillspace.rows.sums import (
    LONGEST_BLOCK,
    STANDARD,
    Job,
    Layout,
    PartSum,
    each,
    empty_sum,
    grouped,
)

_LARGE_SUM = 2**22
"""Entries of a sum of which no two threads get a copy of their own."""

DISTANCES_NEAR = 2.0**-10
"""Squared distances below this are those of computed residuals, as in robust fits."""

MOST_NUMBERS = 2**20
"""Rows whose inverse norms are kept. Those of longer dense tables are computed in every pass: this
takes less than a fifth of a pass, and changes no bit."""

_NOTHING: FloatArray = np.empty((0, 0))


class MemoryRows:
    """An array's rows, mapped (centred, scaled to the sphere, …) whenever they are read.

    Beyond the caller's array this holds one number per row, but for long dense tables; a sketch and
    a projection hold their narrower rows. `MemoryRows(XT)` takes rows of length at most 1, as
    columns. `MemoryRows.of(X)` takes an array as it is; its rows have no bound until they go
    through `Sphere` or `Clip`.
    """

    summation = STANDARD
    in_memory = True
    """Whether rows that lie far apart are read as fast as neighbours."""

    def __init__(
        self,
        XT: FloatArray,
        *,
        source: Stored | None = None,
        scaling: Scaling | None = None,
        factors: Factors | None = None,
        bounded: bool = True,
    ) -> None:
        self._source = DenseRows(XT.T) if source is None else source
        n, D = self._source.shape
        self._scaling = Scaling.of(D) if scaling is None else scaling
        self._touched = factors is not None or not self._scaling.plain
        self._factors: Factors = Ones(n) if factors is None else factors
        self.bounded = bounded

    @classmethod
    def of(cls, X: Any) -> MemoryRows:
        """Wrap a float64, float32, int8 or uint8 array or a sparse matrix (n, D) as it is.

        It is neither copied nor changed.
        """
        as_rows = getattr(X, "as_rows", None)  # of a table in a file
        if as_rows is not None:
            return cast("MemoryRows", as_rows())
        return cls(_NOTHING, source=stored(X), bounded=False)

    def _like(self, **facts: Any) -> MemoryRows:
        """Return rows of the same kind with other facts."""
        return MemoryRows(_NOTHING, **facts)

    @classmethod
    def prepare(
        cls,
        X: Any,
        *,
        center: FloatArray | None = None,
        scale: FloatArray | None = None,
        norm_bound: float | None = None,
        missing: float | None = None,
        pairs: IntArray | None = None,
    ) -> MemoryRows:
        """Return the rows of `X` behind the usual view: affine, pairs, then sphere or clip."""
        rows = cls.of(X).through(Affine.of(center, scale, missing))
        rows = rows if pairs is None else rows.paired(pairs)
        return rows.through(Sphere() if norm_bound is None else Clip(norm_bound))

    def through(self, row_map: RowMap) -> MemoryRows:
        if isinstance(row_map, Affine):
            return self._scaled(row_map)
        if isinstance(row_map, Sphere | Clip):
            return self._bounded(row_map.norm if isinstance(row_map, Clip) else 0.0)
        if isinstance(row_map, LeaveOut | Caps):
            return self.only(self._kept(row_map))
        if isinstance(row_map, Without | Fill):
            return self._emptied(row_map) if isinstance(row_map, Without) else self._filled(row_map)
        if isinstance(row_map, Lengths):
            return MemoryRows(levels(self._factors[:])[None])
        return self._like(source=self._narrowed(row_map), bounded=False)

    def _narrowed(self, row_map: RowMap) -> Stored:
        """Return rows with fewer columns, as an array of their own."""
        if isinstance(row_map, Sketch):
            return DenseRows(row_map.project(self._source, self._scaling))
        if not isinstance(row_map, Project):
            msg = f"Rows in memory do not know the row map {type(row_map).__name__}."
            raise TypeError(msg)
        V = row_map.basis.array
        found = np.empty((self.n_rows, V.shape[1]))

        def keep(at: int, Y: FloatArray, _: FloatArray) -> None:
            found[at : at + Y.shape[1]] = Y.T  # the bits of a row's scores are its own

        self._each_measured(Measure(V, None), keep)
        return DenseRows(found)

    def _kept(self, row_map: LeaveOut | Caps) -> npt.NDArray[np.bool_]:
        """Return which rows are not left out."""
        if isinstance(row_map, LeaveOut):
            return self._factors[:] > 1.0 / row_map.length
        kept, cosines = np.empty(self.n_rows, dtype=np.bool_), row_map.cosines.array

        def decide(at: int, Y: FloatArray, _: FloatArray) -> None:
            kept[at : at + Y.shape[1]] = ~np.any(cosines[:, None] <= Y, axis=0)

        self._each_measured(Measure(row_map.directions.array, None), decide)
        return kept

    def _emptied(self, row_map: Without) -> MemoryRows:
        """Return raw rows of which some have no cells: a factor that is not a number says so."""
        if self.scaled or self.bounded:
            msg = "Rows are left out by their cells before these are centred, scaled or bounded."
            raise ValueError(msg)
        earlier = self.through(row_map.affine).through(Sphere())
        factors = np.where(earlier._kept(row_map.caps), 1.0, np.nan)
        return self._like(source=self._source, factors=factors, bounded=False)

    def _filled(self, row_map: Fill) -> MemoryRows:
        """Return rows with filled cells; complete ones as they are, which have the same bits.

        Sparse rows stay as they are: their jobs are those of their storage.
        """
        if self.bounded:
            msg = "Missing cells are filled before rows are bounded."
            raise ValueError(msg)
        if row_map.basis.shape[0] != self.n_columns:
            msg = f"The basis has {row_map.basis.shape[0]} rows for {self.n_columns} columns."
            raise ValueError(msg)
        if self._source.sparse or self._complete:
            return self
        facts = self._source, self._scaling, self._factors, row_map.basis.array, row_map.weighed
        return self._like(source=FilledRows(*facts), bounded=False)

    @cached_property
    def _complete(self) -> bool:
        """Whether an array in memory has no missing cell; what is read again is not looked at."""
        source = self._source
        return isinstance(source, DenseRows) and not source.has_missing(self._scaling, BLOCK_CELLS)

    def paired(self, pairs: IntArray) -> MemoryRows:
        """Return the differences of pairs (m, 2) of rows; a centre cancels in them."""
        source = PairedRows.of(self._source, pairs)
        return self._like(source=source, scaling=self._scaling, bounded=False)

    def _scaled(self, affine: Affine) -> MemoryRows:
        if self.scaled:
            msg = "Rows are centred and scaled once; combine the two into one Affine."
            raise ValueError(msg)
        center, scale = (None if a is None else a.array for a in (affine.center, affine.scale))
        code = code_as_stored(affine.missing, self._source.dtype)
        scaling = Scaling.of(self.n_columns, center, scale, code, holes=affine.holes)
        facts: dict[str, Any] = {"source": self._source, "scaling": scaling}
        return self._like(**facts, factors=self._factors, bounded=False)

    def _bounded(self, norm_bound: float) -> MemoryRows:
        """Measure every row; a row with a non-finite entry becomes a zero row, silently (SPEC 4).

        With a norm bound above 0 a row is clipped to it, in units of it, instead of scaled to 1.
        """
        if self.bounded:  # the factors that are found would be those of scaled rows
            msg = "These rows have a bound already; bound them again after a projection alone."
            raise ValueError(msg)
        facts: dict[str, Any] = {"source": self._source, "scaling": self._scaling}
        whole = isinstance(self._source, DenseRows) and isinstance(self._factors, Ones)
        if whole and self.n_rows > MOST_NUMBERS:
            norms = Norms(self._source, self._scaling, norm_bound)
            return self._like(**facts, factors=norms, bounded=True)
        found = np.empty(self.n_rows)
        layout = replace(Layout.of(self.n_columns, self.n_columns), block=several(self.n_columns))

        def measure(job: Job) -> None:
            work = np.empty(NORM_WORK)
            for at, X in self._blocks(NO_INDEX, job, layout):
                inverse_norms(X.reshape(-1), X.shape[1], len(X), norm_bound, found[at:], work)

        for _ in each(measure, layout.jobs(self.n_rows)):
            pass
        return self._like(**facts, factors=found, bounded=True)

    @property
    def scaled(self) -> bool:
        """Whether the cells were centred or scaled already, which is done once."""
        return not self._scaling.plain

    @property
    def n_rows(self) -> int:
        return self._source.shape[0]

    @property
    def n_columns(self) -> int:
        return self._source.shape[1]

    def sphered(self, selection: IntArray | None = None) -> FloatArray:
        """Return the selected (or all) scaled rows as a new array, for problems that are small."""
        index = NO_INDEX if selection is None else np.asarray(selection, dtype=np.int64)
        out = np.empty((self.n_rows if selection is None else len(index), self.n_columns))
        layout = Layout.of(self.n_columns, self.n_columns)
        for at, X in self._blocks(index, (0, len(out)), layout):
            out[at : at + len(X)] = X[:, : self.n_columns]
        return out

    def lengths(self, selection: IntArray | None = None) -> FloatArray:
        """Return what the selected (or all) rows were divided by; 0 for zero rows."""
        factors = self._factors[:] if selection is None else self._factors[selection]
        return np.divide(1.0, factors, out=np.zeros_like(factors), where=factors > 0.0)

    def distances(self, V: FloatArray) -> FloatArray:
        """Return the distance of every scaled row to the span of V (D, r)."""
        found = np.empty(self.n_rows)

        def keep(at: int, _: FloatArray, distances: FloatArray) -> None:
            found[at : at + len(distances)] = distances

        self._each_measured(Measure(V, DISTANCES_NEAR), keep)
        return found

    def _each_measured(
        self, wanted: Measure, use: Callable[[int, FloatArray, FloatArray], None]
    ) -> None:
        """Measure all rows, some at a time, and hand over positions, scores and distances."""

        def work(job: Job) -> None:
            with np.errstate(all="ignore"):  # which warnings appear depends on the rows
                for found in self._measured(wanted, NO_INDEX, job):
                    use(*found)

        for _ in each(work, Layout.of(self.n_columns, self.n_columns).jobs(self.n_rows)):
            pass

    def _measured(
        self, wanted: Measure, index: IntArray, job: Job, longest: int = LONGEST_BLOCK
    ) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield positions, scores and distances of at most `longest` rows at a time.

        More rows are measured at once: what is found of a row depends on no other row.
        """
        start, stop = job
        block = Layout.of(self.n_columns, self.n_columns).block
        length = max(several(self.n_columns) // LONGEST_BLOCK, 1) * LONGEST_BLOCK
        step = max(min(longest, length) // LONGEST_BLOCK, 1) * LONGEST_BLOCK
        for first in range(start, stop, length):
            span = Span(index, first, min(first + length, stop), block)
            Y, distances = self._source.measure(wanted, self._scaling, self._factors, span)
            for at in range(0, span.stop - first, step):
                here = slice(at, at + step)
                yield first + at, Y[:, here], distances[here]

    def only(self, kept: npt.NDArray[np.bool_]) -> MemoryRows:
        """Return the same rows with all others than these as zero rows; nothing is copied."""
        facts: dict[str, Any] = {"source": self._source, "scaling": self._scaling}
        before = self._factors
        if isinstance(before, Norms):
            both = kept if before.kept is None else kept & before.kept
            factors: Factors = replace(before, kept=both)
        else:
            factors = np.where(kept, before[:], 0.0)
        return self._like(**facts, factors=factors, bounded=self.bounded)

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        count = self.n_rows if selection is None else len(selection)
        index = NO_INDEX if selection is None else np.asarray(selection, dtype=np.int64)
        layout = Layout.of(self.n_columns, prod(query.shape), sparse=self._source.sparse)
        jobs = layout.jobs(count) if selection is None else layout.jobs_of(index, self.n_rows)
        found = self.partial(query, point, jobs, index=index)
        return np.zeros(query.shape) if count == 0 else found.value()

    def partial(
        self,
        query: RowSum,
        point: FloatArray,
        jobs: list[Job],
        *,
        first: int = 0,
        index: IntArray = NO_INDEX,
    ) -> PartSum:
        """Return the sum over some jobs, the first of which has the number `first`."""
        if not self.bounded and getattr(query, "needs_bound", True):
            msg = "This query needs rows of length at most 1: put them through Sphere or Clip."
            raise ValueError(msg)
        query = with_code_as_stored(query, self._source.dtype)
        shape, entries = query.shape, prod(query.shape)
        layout = Layout.of(self.n_columns, entries)

        def job_sums(group: list[Job]) -> FloatArray:
            """Return the sums of some jobs: compiled code adds them up without a stop between."""
            out = np.zeros((len(group), *shape))
            terms = query.terms(point, out)
            if terms is not None:
                runs = Runs(index, np.array(group, dtype=np.int64), layout.block)
                self._source.add(terms, self._scaling, self._factors, runs)
                return out
            with np.errstate(all="ignore"):  # a thread does not inherit it; see Release.apply
                for k, job in enumerate(group):
                    self._add_job(query, point, index, job, layout, out[k, ...])
            return out

        most = 1 if entries > _LARGE_SUM else None
        total = empty_sum(shape, query.norm_bound, first)
        for parts in each(job_sums, grouped(jobs, entries), most):
            total.add_all(parts)
        return total

    def _add_job(
        self, query: Any, point: FloatArray, index: IntArray, job: Job, layout: Layout,
        out: FloatArray,
    ) -> None:  # fmt: skip
        """Add the terms of one job: from cells as they are, from what is measured, or by blocks."""
        if (
            hasattr(query, "add_cells")
            and isinstance(self._source, DenseRows)
            and not self._touched
        ):
            chosen = slice(*job) if len(index) == 0 else index[slice(*job)]
            query.add_cells(self._source.X[chosen], out)
            return
        wanted = query.measure(point) if hasattr(query, "measure") else None
        if wanted is None:
            for _, X in self._blocks(index, job, layout):
                query.add_block(X[:, : self.n_columns].T, point, out)
            return
        longest = getattr(query, "longest", LONGEST_BLOCK)
        for _, Y, distances in self._measured(wanted, index, job, longest):
            query.add_measured(Y, distances, point, out)

    def _blocks(
        self, index: IntArray, job: Job, layout: Layout
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield positions and blocks of scaled rows, with zero columns up to a multiple of 8."""
        start, stop = job
        memory = np.empty((min(layout.block, stop - start), filled(self.n_columns)))
        for at in range(start, stop, layout.block):
            X = memory[: min(layout.block, stop - at)]
            self._source.load(index, at, self._scaling, self._factors, X)
            yield at, X
