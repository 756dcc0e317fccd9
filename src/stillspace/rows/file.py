"""Rows that stay in a file: read a part at a time, with the bits of rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from stillspace._checks import bytes_in_words, checked_bytes
from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.kernels import jobs, scores
from stillspace.rows.maps import Project, RowMap
from stillspace.rows.memory import MemoryRows
from stillspace.rows.pairs import PairedRows, pair_block
from stillspace.rows.reading import BlockCache, Piece, Reader, WindowReader, reader_of
from stillspace.rows.sketch import Sketch
from stillspace.rows.sources import RowSource, open_source
from stillspace.rows.sources.protocol import OtherSource, is_sparse, joined
from stillspace.rows.stored import NO_INDEX, Factors, LoadedFirst, Scaling, Stored, stored
from stillspace.rows.sums import LONGEST_BLOCK, Job, Layout, stretches

DEFAULT_MEMORY = 10**9
"""Bytes for rows in files, unless the user gives another bound."""

LEAST_MEMORY = 2**24
"""The smallest bound that can be kept."""

PIECE_SHARE = 1 / 2
"""Share of the memory that a source may take to decode what it can only decode at once."""

KEPT_SHARE = 1 / 4
"""Share of the memory that narrower rows (of a sketch or a projection) may take."""


class RowTable:
    """A source with a bound on memory. It is sliced by rows, like an array.

    `memory` bounds what reading and adding up take: buffers, windows, and one number per row.
    """

    ndim = 2
    stated: tuple[str, ...] = ()
    """What a guarantee takes for granted about the way in which rows are added up."""

    def __init__(self, source: RowSource, memory: int | str | None = None) -> None:
        self.source = source
        bound = DEFAULT_MEMORY if memory is None else memory
        self.memory = checked_bytes("memory", bound, LEAST_MEMORY)
        self.shape, self.dtype, self.names = source.shape, source.dtype, source.names
        self.reader: Reader = reader_of(source, self.memory)

    @classmethod
    def of(cls, given: Any, memory: int | str | None = None, **options: Any) -> RowTable:
        """Open a path, a handle or a source; no cell is read, but for text files."""
        if isinstance(given, cls):
            return given
        bound = checked_bytes("memory", DEFAULT_MEMORY if memory is None else memory, LEAST_MEMORY)
        found = cls(open_source(given, memory=bound, **options), bound)
        if not options.get("hidden", False):  # what is refused here may tell the number of rows
            found.check_pieces()
        return found

    def check_pieces(self) -> None:
        """Refuse a file whose chunks, row groups or batches are too large to be decoded."""
        needed = int(getattr(self.source, "piece_bytes", 0) / PIECE_SHARE)
        if needed > self.memory:
            raise DataFileError(
                f"{self.source.describe()} is written in pieces that take "
                f"{bytes_in_words(needed)} to decode, and memory is {bytes_in_words(self.memory)}: "
                "write it in smaller chunks or row groups, or give more memory."
            )

    def with_missing(self, code: float) -> RowTable:
        """Return the table with a number in the place of NaN."""
        return RowTable(CodedSource(self.source, code), self.memory)

    def check_memory(self, n: int) -> None:
        """Refuse a table of n rows whose numbers per row do not fit."""
        needed = 8 * n * NUMBERS_PER_ROW
        if getattr(self.source, "in_memory", False) and 16 * n * self.shape[1] > self.memory:
            raise DataFileError(
                f"{self.source.describe()} is read into memory as a whole, and memory="
                f"{bytes_in_words(self.memory)} is too little for {n} rows: write it as Parquet by "
                "stillspace convert, or give more memory."
            )
        if needed > self.memory // 2:
            raise ValueError(
                f"memory={bytes_in_words(self.memory)} is too little: {n} rows take "
                f"{bytes_in_words(needed)} for {NUMBERS_PER_ROW} numbers per row; give "
                f"memory='{2 * needed / 1e9:.3g}GB' or more."
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | IntArray | tuple[slice | IntArray, slice]) -> Any:
        """Return rows of a slice without a step, or of an array of row numbers.

        `table[:, a:b]` are columns of all rows, `table[numbers, a:b]` of chosen rows.
        """
        if isinstance(rows, tuple):
            limits = rows[1].indices(self.shape[1])[:2]
            if not isinstance(rows[0], slice):
                return self._columns(*limits, np.asarray(rows[0], dtype=np.int64))
            if rows[0] != slice(None):
                raise ValueError("Columns of a file are sliced for all rows.")
            return self._columns(*limits)
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step != 1:
                raise ValueError("Rows of a file are sliced without a step.")
            return self._run(start, max(start, stop))
        ascending, back = _in_order(np.asarray(rows, dtype=np.int64))
        return self.reader.take(ascending)[back]

    def _columns(self, start: int, stop: int, numbers: IntArray | None = None) -> Any:
        """Return columns of all or chosen rows: by themselves if the source can, else from rows."""
        columns = getattr(self.source, "columns", None)
        if columns is not None:
            return columns(start, stop) if numbers is None else columns(start, stop, numbers)
        if numbers is not None:
            return self[numbers][:, start:stop]
        step = max(self.reader.rows, 1)
        parts = [
            self[at : at + step][:, start:stop] for at in range(0, max(self.shape[0], 1), step)
        ]
        return joined(parts)

    def chosen(self, numbers: IntArray) -> Any:
        """Return some rows: as they are if columns of them can be read later, else in memory."""
        return ChosenRowsOf(self, numbers) if hasattr(self.source, "columns") else self[numbers]

    def _run(self, start: int, stop: int) -> Any:
        if start == stop:
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        (piece,) = self.reader.pieces(start, stop, stop - start)
        found = piece.X[piece.low : piece.high]
        return found if sparse.issparse(found) else np.ascontiguousarray(found)

    def as_rows(self) -> FileRows:
        return FileRows(self)


def _in_order(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Return ascending row numbers, and where each of the given ones is among them."""
    order = np.argsort(numbers, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return numbers[order], back


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRowsOf:
    """Some rows of a table in a file, in any order, whose columns are read whenever needed."""

    table: RowTable
    numbers: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.numbers), self.table.shape[1]

    def __getitem__(self, which: tuple[slice, slice]) -> Any:
        """Return columns of all chosen rows: `[:, a:b]`."""
        return self.table[self.numbers[which[0]], which[1]]


NUMBERS_PER_ROW = 4
"""Numbers per row that a fit keeps at most: factors behind two views, lengths and distances."""


class CodedSource(OtherSource):
    """Another source, with a number in the place of NaN."""

    def __init__(self, source: RowSource, code: float) -> None:
        super().__init__(source)
        self.code = code

    def read(self, start: int, stop: int) -> Any:
        return self._coded(self.source.read(start, stop))

    def take(self, numbers: IntArray) -> Any:
        return self._coded(self.source.take(numbers))

    def columns(self, start: int, stop: int, rows: IntArray | None = None) -> Any:
        table = RowTable(self.source)
        return self._coded(table[:, start:stop] if rows is None else table[rows, start:stop])

    def _coded(self, rows: Any) -> Any:
        cells = rows.data if sparse.issparse(rows) else rows
        cells[np.isnan(cells)] = self.code
        return rows


@dataclass(frozen=True, slots=True)
class FileStored(LoadedFirst):
    """Rows of a table in a file, as `Stored`."""

    table: RowTable
    cache: BlockCache | None = None
    """Where chosen rows come from, if they are the rows of pairs."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.table.dtype

    @property
    def sparse(self) -> bool:
        return is_sparse(self.table.source)

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, X: FloatArray
    ) -> None:
        b, done = len(X), 0
        for piece, chosen, some in self.pieces(index, factors, start, start + b, max(b, 1)):
            part = stored(piece.X)
            count = piece.high - piece.low
            rows = chosen if len(chosen) else np.arange(piece.low, piece.high)
            part.load(rows, 0, scaling, some, X[done : done + count])
            done += count

    def add(self, terms: jobs.Terms, scaling: Scaling, factors: Factors, runs: jobs.Runs) -> None:
        """Add the terms of some jobs, in the way of rows in memory."""
        for k, span in enumerate(runs.spans()):
            self._add_job(terms.of_job(k), scaling, factors, span)

    def _add_job(
        self, terms: jobs.Terms, scaling: Scaling, factors: Factors, span: jobs.Span
    ) -> None:
        thin = self.sparse and jobs.SparseAdder.knows(terms, zeros_stay=scaling.zeros_stay)
        block = span.block
        if thin:
            block = LONGEST_BLOCK
            adder: Any = jobs.SparseAdder(terms, block)
        else:
            adder = jobs.RowAdder(terms, min(block, span.stop - span.start))
        for piece, chosen, some in self.pieces(span.chosen, factors, *span[1:3], block):
            load, cells = stored(piece.X).loader
            if thin:
                part = jobs.Span(chosen, piece.low, piece.high, block)
                adder.add(cells, scaling.cells, some, part)
            else:
                runs = jobs.Runs(chosen, np.array([[piece.low, piece.high]]), block)
                adder.add(load, cells, scaling.cells, jobs.Scales(some), runs)
        adder.finish()

    def pieces(
        self, index: IntArray, factors: Factors, start: int, stop: int, block: int
    ) -> Iterator[tuple[Piece, IntArray, FloatArray]]:
        """Yield pieces of whole blocks, the chosen rows in them, and the factors of their rows."""
        reader = self.table.reader
        if len(index) == 0:
            for piece in reader.pieces(start, stop, block):
                yield piece, NO_INDEX, factors[piece.first : piece.first + piece.X.shape[0]]
            return
        step = max(reader.rows // block, 1) * block
        for at in range(start, stop, step):
            ascending, back = _in_order(index[at : min(at + step, stop)])
            piece = Piece(self._taken(ascending), 0, 0, len(ascending))
            yield piece, back, factors[ascending]

    def _taken(self, numbers: IntArray) -> Any:
        """Return chosen rows: by windows that are read anyway, where many of a stretch are."""
        if self.cache is not None:
            return self.cache.take(numbers)
        low, high = int(numbers[0]), int(numbers[-1]) + 1
        windows = isinstance(self.table.reader, WindowReader)
        if windows and stretches(numbers - low, high - low):
            return self.table[low:high][numbers - low]
        return self.table.reader.take(numbers)


@dataclass(frozen=True, slots=True)
class NarrowedRows(LoadedFirst):
    """Scores in a basis, or a sketch, of rows that are read again whenever they are needed."""

    source: Stored
    scaling: Scaling
    factors: Factors
    row_map: Project | Sketch

    @property
    def shape(self) -> tuple[int, int]:
        row_map = self.row_map
        m = row_map.n_components if isinstance(row_map, Sketch) else row_map.basis.shape[1]
        return self.source.shape[0], m

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, X: FloatArray
    ) -> None:
        """Fill `X` (b, width); the cells of narrower rows are never centred."""
        assert scaling.plain
        b, m = len(X), self.shape[1]
        numbers = index[start : start + b] if len(index) > 0 else np.arange(start, start + b)
        wide, scales = np.empty((b, self.source.shape[1])), factors[numbers][:, None]
        with np.errstate(all="ignore"):  # which warnings appear depends on the rows
            self.source.load(index, start, self.scaling, self.factors, wide)
            X[:, :m] = np.where(scales == 0.0, 0.0, self._narrow(wide) * scales)
        X[:, m:] = 0.0

    def _narrow(self, wide: FloatArray) -> AnyArray:
        if isinstance(self.row_map, Sketch):
            return self.row_map.block(wide)
        return scores(wide.T, self.row_map.basis.array).T


class FileRows(MemoryRows):
    """Rows of a table in a file. Sums have the bits of `MemoryRows` over the same cells.

    `FileRows.open(path)` opens a file; what else it takes is that of `open_source`.
    """

    in_memory = False

    def __init__(
        self,
        table: RowTable,
        *,
        source: Stored | None = None,
        bounded: bool = False,
        **facts: Any,
    ) -> None:
        self.table = table
        stored_rows = FileStored(table) if source is None else source
        super().__init__(np.empty((0, 0)), source=stored_rows, bounded=bounded, **facts)

    @classmethod
    def open(cls, given: Any, *, memory: int | str | None = None, **options: Any) -> FileRows:
        return cls(RowTable.of(given, memory, **options))

    def _like(self, **facts: Any) -> FileRows:
        return FileRows(self.table, **facts)

    def _blocks(
        self, index: IntArray, job: Job, layout: Layout
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield positions and blocks of scaled rows; several blocks are read at a time."""
        source = self._source
        if not isinstance(source, FileStored):
            yield from super()._blocks(index, job, layout)
            return
        at, block = job[0], layout.block
        memory = np.empty((min(block, job[1] - at), jobs.filled(self.n_columns)))
        for piece, chosen, some in source.pieces(index, self._factors, *job, block):
            part = stored(piece.X)
            rows = chosen if len(chosen) else np.arange(piece.low, piece.high)
            for first in range(0, len(rows), block):
                X = memory[: min(block, len(rows) - first)]
                part.load(rows, first, self._scaling, some, X)
                yield at, X
                at += len(X)

    def paired(self, pairs: IntArray) -> FileRows:
        """Return the differences of pairs of rows; both blocks of rows of a pair are read once."""
        source = self._source
        if isinstance(source, FileStored):
            length = pair_block(*source.shape)
            source = FileStored(self.table, BlockCache.of(self.table.source, length))
        paired = PairedRows.of(source, pairs)
        return self._like(source=paired, scaling=self._scaling, bounded=False)

    def _narrowed(self, row_map: RowMap) -> Stored:
        """Return narrower rows: in memory if they are few, else read again for every pass."""
        if isinstance(row_map, Project | Sketch):
            kept = NarrowedRows(self._source, self._scaling, self._factors, row_map)
            if 8 * kept.shape[0] * kept.shape[1] > self.table.memory * KEPT_SHARE:
                return kept
        return super()._narrowed(row_map)
