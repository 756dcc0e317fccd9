"""Rows in memory, kept as the caller stores them, scaled and added up block by block."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels import column_norms, residual_to_basis, scores
from stillspace.kernels.jobs import Span, filled
from stillspace.kernels.storage import inverse_norms
from stillspace.rows.layout import LONGEST_BLOCK, Job, Layout
from stillspace.rows.levels import levels
from stillspace.rows.pairs import PairedRows
from stillspace.rows.protocols import RowSum
from stillspace.rows.regions import Caps
from stillspace.rows.stored import NO_INDEX, DenseRows, Scaling, Stored, stored
from stillspace.rows.threads import each

_LARGE_SUM = 2**22
"""Entries of a sum of which no thread gets a copy of its own."""


class MemoryRows:
    """An array's rows, each centred and scaled to the sphere (or clipped) whenever it is read.

    Beyond the caller's array this holds one number a row. `MemoryRows(XT)` takes rows that are
    scaled already, as columns.
    """

    def __init__(
        self,
        XT: FloatArray,
        *,
        source: Stored | None = None,
        scaling: Scaling | None = None,
        factors: FloatArray | None = None,
    ) -> None:
        self._source = DenseRows(XT.T) if source is None else source
        n, D = self._source.shape
        self._scaling = Scaling.of(D) if scaling is None else scaling
        self._factors = np.ones(n) if factors is None else factors

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
        """Wrap `X` (n, D), row by row: `(x − center) / scale`, then to the unit sphere.

        `X` is a float64, float32, int8 or uint8 array or a sparse matrix; it is neither copied nor
        changed. A cell equal to `missing` sits at the centre. With `norm_bound` a row is clipped
        to that norm, in units of it, instead of scaled to the sphere. A row with a non-finite
        entry becomes a zero row, silently (SPEC 4). With `pairs` (m, 2) the rows are the
        differences of these pairs of rows, in which a centre cancels; see `rows.pairs`.
        """
        source = stored(X)
        if pairs is not None:
            source = PairedRows.of(source, pairs)
        n, D = source.shape
        if missing is not None and X.dtype == np.float32:
            missing = float(np.float32(missing))  # the code as the cells hold it
        rows = cls(np.empty((0, 0)), source=source, scaling=Scaling.of(D, center, scale, missing))
        found = np.empty(n)
        layout = Layout.of(D, D)

        def measure(job: Job) -> None:
            work = np.empty(24)
            for at, XT, width in rows._filled_blocks(NO_INDEX, job, layout):
                out = found[at : at + width]
                D, b = XT.shape
                inverse_norms(XT.reshape(-1), D, b, norm_bound or 0.0, work, out)

        for _ in each(measure, layout.jobs(n)):
            pass
        rows._factors = found
        return rows

    @property
    def n_rows(self) -> int:
        """Number of rows: secret unless the neighbouring relation makes it public."""
        return self._source.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self._source.shape[1]

    def sphered(self, selection: IntArray | None = None) -> FloatArray:
        """Return the selected (or all) scaled rows as a new array, for problems that are small."""
        index = NO_INDEX if selection is None else np.asarray(selection, dtype=np.int64)
        out = np.empty((self.n_rows if selection is None else len(index), self.n_columns))
        layout = Layout.of(self.n_columns, self.n_columns)
        for at, XT in self._blocks(index, (0, len(out)), layout):
            out[at : at + XT.shape[1]] = XT.T
        return out

    def lengths(self, selection: IntArray | None = None) -> FloatArray:
        """Return what the selected (or all) rows were divided by; 0 for zero rows."""
        factors = self._factors if selection is None else self._factors[selection]
        return np.divide(1.0, factors, out=np.zeros_like(factors), where=factors > 0.0)

    def measured(self) -> MemoryRows:
        """Return rows of one column: the level of each row's length; a zero row stays one."""
        return MemoryRows(levels(self._factors)[None])

    def shorter(self, length: float) -> MemoryRows:
        """Return the same rows, those of this length or longer as zero rows."""
        return self.only(self._factors > 1.0 / length)

    def outside(self, region: Caps) -> MemoryRows:
        """Return the same rows, those inside the region as zero rows."""
        kept = np.empty(self.n_rows, dtype=np.bool_)
        layout = Layout.of(self.n_columns, self.n_columns)

        def decide(job: Job) -> None:
            with np.errstate(all="ignore"):  # which warnings appear depends on the rows
                for at, XT in self._blocks(NO_INDEX, job, layout):
                    kept[at : at + XT.shape[1]] = ~region.inside(XT)

        for _ in each(decide, layout.jobs(self.n_rows)):
            pass
        return self.only(kept)

    def distances(self, V: FloatArray) -> FloatArray:
        """Return the distance of every scaled row to the span of V (D, r)."""
        found = np.empty(self.n_rows)
        layout = Layout.of(self.n_columns, self.n_columns)

        def measure(job: Job) -> None:
            for at, XT in self._blocks(NO_INDEX, job, layout):
                R, _ = residual_to_basis(XT, V)
                found[at : at + XT.shape[1]] = column_norms(R)

        for _ in each(measure, layout.jobs(self.n_rows)):
            pass
        return found

    def projected(self, V: FloatArray) -> MemoryRows:
        """Return rows with fewer columns: the scores Vᵀx of every row, scaled to the sphere again.

        Computed coordinate after coordinate, so that a row's scores have the same bits wherever
        it stands.
        """
        found = np.empty((self.n_rows, V.shape[1]))
        layout = Layout.of(self.n_columns, self.n_columns)

        def project(job: Job) -> None:
            with np.errstate(all="ignore"):  # which warnings appear depends on the rows
                for at, XT in self._blocks(NO_INDEX, job, layout):
                    found[at : at + XT.shape[1]] = scores(XT, V).T

        for _ in each(project, layout.jobs(self.n_rows)):
            pass
        return MemoryRows.prepare(found)

    def only(self, kept: npt.NDArray[np.bool_]) -> MemoryRows:
        """Return the same rows with all others than these as zero rows; nothing is copied."""
        factors = np.where(kept, self._factors, 0.0)
        nothing = np.empty((0, 0))
        return MemoryRows(nothing, source=self._source, scaling=self._scaling, factors=factors)

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum of the query's terms at `point` over the selected (or all) rows."""
        count = self.n_rows if selection is None else len(selection)
        total = np.zeros(query.shape)
        if count == 0:
            return total
        index = NO_INDEX if selection is None else np.asarray(selection, dtype=np.int64)
        layout = Layout.of(self.n_columns, prod(query.shape))

        def add_to(out: FloatArray, job: Job) -> FloatArray:
            terms = query.terms(point, out)
            if terms is not None:
                span = Span(index, *job, layout.block)
                self._source.add(terms, self._scaling, self._factors, span)
                return out
            with np.errstate(all="ignore"):  # a thread does not inherit it; see Release.apply
                for _, XT in self._blocks(index, job, layout):
                    query.add_block(XT, point, out)
            return out

        if total.size > _LARGE_SUM and layout.block == LONGEST_BLOCK:
            return add_to(total, (0, count))
        most = 1 if total.size > _LARGE_SUM else None
        for part in each(lambda job: add_to(np.zeros(query.shape), job), layout.jobs(count), most):
            total += part
        return total

    def _blocks(
        self, index: IntArray, job: Job, layout: Layout
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield positions and blocks of scaled rows as columns, all in the same memory."""
        for at, XT, width in self._filled_blocks(index, job, layout):
            yield at, XT if XT.shape[1] == width else np.ascontiguousarray(XT[:, :width])

    def _filled_blocks(
        self, index: IntArray, job: Job, layout: Layout
    ) -> Iterator[tuple[int, FloatArray, int]]:
        """Yield positions, blocks filled up with zero rows to a multiple of 8, and their widths."""
        D = self.n_columns
        start, stop = job
        memory = np.empty(D * filled(min(layout.block, stop - start)))
        for at in range(start, stop, layout.block):
            width = min(layout.block, stop - at)
            XT = memory[: D * filled(width)].reshape(D, filled(width))
            self._source.load(index, at, self._scaling, self._factors, XT[:, :width])
            yield at, XT, width
