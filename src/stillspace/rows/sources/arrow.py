"""Parquet and Arrow IPC files, decoded column by column by pyarrow."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from stillspace._typing import AnyArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.rows.sources.files import check_stamp, opened_again, stamp_of

BATCH_CELLS = 2**20
"""Cells that are decoded at a time."""

LARGEST_BUFFERS, LARGEST_BUFFER = 2**24, 2**20
"""Bytes that buffers of a Parquet file take: of all columns together, and of one column."""

PAGE = 2**20
"""Bytes of a page of a column of Parquet, as most programs write them. Pages are decoded whole."""

_SINGLE = ("int8", "uint8", "int16", "uint16", "bool", "halffloat", "float")
"""Types of Arrow whose numbers float32 holds exactly, with NaN for a missing cell."""


class _ArrowSource(ABC):
    """Rows in record batches, with one batch at hand: reads go forward from there or seek."""

    what: str

    def __init__(
        self, path: str | os.PathLike[str], *, columns: Sequence[str] | None = None
    ) -> None:
        self.path = os.fspath(path)
        self._stamp = stamp_of(self.path)
        self._asked = None if columns is None else tuple(columns)
        self._lock = Lock()
        self._first = 0
        self._batch: Any = None
        self._batches: Iterator[Any] | None = None
        try:
            schema, sizes = self._open()
        except (pa.ArrowException, OSError):
            msg = f"{self.path} is not a readable {self.what}; write the file again."
            raise DataFileError(msg) from None
        self.names: tuple[str, ...] = _checked_names(self.path, schema, self._asked)
        self.dtype = _common_type(self.path, schema, self.names)
        self._starts = [0, *accumulate(sizes)]
        largest = max(sizes, default=0) * len(self.names) * self.dtype.itemsize
        self.piece_bytes = getattr(self, "piece_bytes", largest)
        self.shape = (self._starts[-1], len(self.names))

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(type(self), os.path.abspath(self.path), columns=self._asked)
        return opened_again, (again, self._stamp)

    def describe(self) -> str:
        return f"{self.what}, {self.shape[1]} columns of {self.dtype.name}, in {self.path}"

    def read(self, start: int, stop: int) -> AnyArray:
        """Return rows, in Fortran's order."""
        return self.take(np.arange(start, stop))

    def take(self, numbers: IntArray) -> AnyArray:
        """Return chosen rows; batches in between are skipped, of Parquet within a row group."""
        out = np.empty((self.shape[1], len(numbers)), dtype=self.dtype)
        done = 0
        with self._lock:
            check_stamp(self.path, self._stamp)
            try:
                while done < len(numbers):
                    first, batch = self._batch_with(int(numbers[done]))
                    stop = int(np.searchsorted(numbers, first + batch.num_rows))
                    _decode(batch, numbers[done:stop] - first, out[:, done:stop])
                    done = stop
            except (pa.ArrowException, OSError):
                self._batches = self._batch = None
                msg = f"A part of {self.path} cannot be decoded; write the file again."
                raise DataFileError(msg) from None
        return out.T

    def _batch_with(self, number: int) -> tuple[int, Any]:
        """Return the batch that holds a row, and the number of its first row."""
        group = bisect_right(self._starts, number) - 1
        behind = self._batch is None or number < self._first
        if self._batches is None or behind or self._starts[group] > self._end:
            self._batches = self._batches_from(group)
            self._first, self._batch = self._starts[group], None
        while self._batch is None or number >= self._end:
            self._first, self._batch = self._end, next(self._batches)
        return self._first, self._batch

    @property
    def _end(self) -> int:
        return self._first + (0 if self._batch is None else int(self._batch.num_rows))

    @abstractmethod
    def _open(self) -> tuple[Any, list[int]]:
        """Open the file; return its schema and the numbers of rows of its groups."""

    @abstractmethod
    def _batches_from(self, group: int) -> Iterator[Any]:
        """Yield decoded batches from the beginning of a group on."""


class ParquetSource(_ArrowSource):
    """A Parquet file; `columns` chooses and orders columns by name."""

    what = "Parquet file"

    def _open(self) -> tuple[Any, list[int]]:
        facts = pq.read_metadata(self.path)
        buffer = min(LARGEST_BUFFER, max(LARGEST_BUFFERS // max(facts.num_columns, 1), 2**12))
        # Without pre_buffer=False all row groups that are asked for are brought into memory.
        self._file = pq.ParquetFile(
            self.path,
            metadata=facts,
            buffer_size=buffer,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        groups = [facts.row_group(k) for k in range(facts.num_row_groups)]
        self.piece_bytes = max((self._decoded(group) for group in groups), default=0)
        return self._file.schema_arrow, [group.num_rows for group in groups]

    def _decoded(self, group: Any) -> int:
        """Return about how many bytes one page of every column takes, packed and unpacked."""
        sizes = (group.column(j).total_uncompressed_size for j in range(group.num_columns))
        return sum(2 * min(size, PAGE) for size in sizes)

    def _batches_from(self, group: int) -> Iterator[Any]:
        rows = max(BATCH_CELLS // self.shape[1], 1)
        groups = list(range(group, len(self._starts) - 1))
        batches = self._file.iter_batches(
            rows, row_groups=groups, columns=list(self.names), use_threads=False
        )
        for batch in batches:
            yield batch.select(self.names)


class IpcSource(_ArrowSource):
    """An Arrow IPC file (also called Feather version 2)."""

    what = "Arrow IPC file"

    def _open(self) -> tuple[Any, list[int]]:
        file = pa.OSFile(self.path)
        self._reader = pa.ipc.open_file(file)
        # the sizes alone: one column of each batch
        one = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=[0]))
        sizes = [one.get_batch(k).num_rows for k in range(one.num_record_batches)]
        return self._reader.schema, sizes

    def _batches_from(self, group: int) -> Iterator[Any]:
        for k in range(group, self._reader.num_record_batches):
            yield self._reader.get_batch(k).select(self.names)


def _checked_names(path: str, schema: Any, asked: tuple[str, ...] | None) -> tuple[str, ...]:
    names = tuple(schema.names) if asked is None else asked
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise DataFileError(f"{path} has no column {unknown[0]!r}; choose columns of the file.")
    twice = len(set(schema.names)) < len(schema.names)
    if twice or not names:
        raise DataFileError(f"{path} must have at least one column, and no two of the same name.")
    return names


def _common_type(path: str, schema: Any, names: tuple[str, ...]) -> np.dtype[Any]:
    """Return float32 if it holds the cells of all columns exactly, else float64."""
    single = True
    for name in names:
        kind = schema.field(name).type
        number = kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)
        if not number and not kinds.is_boolean(kind) and not kinds.is_null(kind):
            raise DataFileError(
                f"Column {name!r} of {path} must hold numbers, got type {kind}; convert the "
                "column, or choose other columns by columns=[...]."
            )
        single = single and str(kind) in _SINGLE
    return np.dtype(np.float32 if single else np.float64)


def _decode(batch: Any, which: IntArray, out: AnyArray) -> None:
    """Write chosen rows of a batch as columns; nulls become NaN."""
    low, high = int(which[0]), int(which[-1]) + 1
    run = high - low == len(which) and bool((np.diff(which) == 1).all())
    with np.errstate(all="ignore"):  # a warning of a cast would tell of the rows
        for j, column in enumerate(batch.columns):
            out[j] = _cells(column.slice(low, high - low)) if run else _cells(column)[which]


def _cells(column: Any) -> AnyArray:
    if kinds.is_decimal(column.type) or kinds.is_null(column.type) or kinds.is_boolean(column.type):
        column = column.cast(pa.float64() if not kinds.is_boolean(column.type) else pa.uint8())
    cells = column.to_numpy(zero_copy_only=False)
    return np.asarray(cells)
