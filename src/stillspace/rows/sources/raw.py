"""Arrays in files, .npy or raw, read by position and never mapped into memory.

A map of a file that another program shortens ends the process (SIGBUS). A read ends in an error.
"""

from __future__ import annotations

import io
import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.lib.format as npy

from stillspace._typing import AnyArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.rows.sources.files import OpenFile
from stillspace.rows.sources.protocol import check_cells, storage_type, take_by_runs

GAP_BYTES = 2**14
"""Two chosen rows that are nearer than this are read by one call of the system."""

RUN_BYTES = 2**22
"""Bytes per call of the system when rows are chosen."""

_HEADER_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class RawSource:
    """Rows (n, D) of one type, one after another or column by column, from an offset on."""

    file: OpenFile
    offset: int
    shape: tuple[int, int]
    stored: np.dtype[Any]
    by_columns: bool = False
    what: str = "a raw array"
    names: tuple[str, ...] | None = None
    parallel = True

    def __post_init__(self) -> None:
        check_cells(self.file.path, self.shape, self.stored)
        needed = self.offset + self.shape[0] * self.shape[1] * self.stored.itemsize
        if self.file.size < needed:
            # No sizes here: they tell the number of rows, which may be secret.
            raise DataFileError(
                f"{self.file.path} is truncated: it is shorter than its shape and type need; write "
                "the file again."
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        return storage_type(self.stored)

    def read(self, start: int, stop: int) -> AnyArray:
        D = self.shape[1]
        if self.by_columns:
            columns = np.empty((D, stop - start), dtype=self.stored)
            step = self.shape[0] * self.stored.itemsize
            for j in range(D):
                at = self.offset + j * step + start * self.stored.itemsize
                self.file.read_into(at, _bytes(columns[j]))
            return self._converted(columns.T)
        cells = np.empty((stop - start, D), dtype=self.stored)
        self.file.read_into(self._position(start), _bytes(cells))
        return self._converted(cells)

    def take(self, numbers: IntArray) -> AnyArray:
        """Return chosen rows: near ones by one read."""
        gap, longest = GAP_BYTES // self._row_bytes + 1, RUN_BYTES // self._row_bytes
        return np.asarray(take_by_runs(self.read, numbers, gap, longest))

    def columns(self, start: int, stop: int, rows: IntArray | None = None) -> AnyArray:
        """Return columns of all or chosen rows: a stretch of each row, or of the file."""
        n = self.shape[0]
        if self.by_columns and rows is not None:
            parts = [self.columns(j, j + 1)[rows] for j in range(start, stop)]
            return np.concatenate(parts, axis=1)
        if self.by_columns:
            found = np.empty((stop - start, n), dtype=self.stored)
            self.file.read_into(self.offset + start * n * self.stored.itemsize, _bytes(found))
            return self._converted(found.T)
        numbers = range(n) if rows is None else rows.tolist()
        found = np.empty((len(numbers), stop - start), dtype=self.stored)
        for cells, i in zip(found, numbers, strict=True):
            self.file.read_into(self._position(i) + start * self.stored.itemsize, _bytes(cells))
        return self._converted(found)

    def describe(self) -> str:
        return f"{self.what}, {self.shape[1]} columns of {self.stored.name}, in {self.file.path}"

    def announce(self, start: int, stop: int) -> None:
        if not self.by_columns:
            self.file.announce(self._position(start), (stop - start) * self._row_bytes)

    @property
    def _row_bytes(self) -> int:
        return self.shape[1] * self.stored.itemsize

    def _position(self, row: int) -> int:
        return self.offset + row * self._row_bytes

    def _converted(self, cells: AnyArray) -> AnyArray:
        if cells.dtype == self.dtype and cells.dtype.isnative:
            return cells
        with np.errstate(all="ignore"):  # a warning of a cast would tell of the rows
            return cells.astype(self.dtype)


def _bytes(cells: AnyArray) -> AnyArray:
    """Return the memory of a contiguous array; bytes know no order of their own."""
    return cells.reshape(-1).view(np.uint8)


def open_npy(path: str | os.PathLike[str]) -> RawSource:
    """Open a .npy file of two dimensions; its header is checked, no cell is read."""
    file = OpenFile(path)
    header = io.BytesIO(file.read(0, min(file.size, _HEADER_BYTES)))
    try:
        version = npy.read_magic(header)
        # Version 3 is for structured arrays, whose cells are no numbers.
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, by_columns, dtype = readers[version](header)
    except (ValueError, OSError, KeyError):
        msg = f"{file.path} is not a .npy file of numbers; write it with numpy.save."
        raise DataFileError(msg) from None
    check_cells(file.path, shape, dtype)
    n, D = shape
    order = by_columns and D > 1
    return RawSource(file, header.tell(), (n, D), dtype, order, what="a .npy array")


def open_raw(
    path: str | os.PathLike[str],
    *,
    dtype: Any = None,
    columns: int | None = None,
    shape: tuple[int, int] | None = None,
    offset: int = 0,
    order: str = "C",
) -> RawSource:
    """Open a file that holds nothing but cells; give its type, and its shape or columns."""
    file = OpenFile(path)
    if dtype is None or (shape is None and columns is None):
        raise DataFileError(
            f"{file.path} states neither the type nor the shape of its cells; open it in Python by "
            "open_source(path, dtype=..., columns=...), or save the array with numpy.save."
        )
    stored = np.dtype(dtype)
    if shape is None:
        assert columns is not None
        rows, rest = divmod(file.size - offset, columns * stored.itemsize)
        if rest:
            msg = (
                f"The size of {file.path} is not a whole number of rows of {columns} cells of type "
                f"{stored}; check columns and dtype."
            )
            raise DataFileError(msg)
        shape = rows, columns
    return RawSource(file, offset, shape, stored, order == "F")


def open_map(mapped: np.memmap[Any, Any]) -> RawSource | None:
    """Return the file behind a memory map of whole rows; None where only the map has its cells."""
    base, path = getattr(mapped, "_mmap", None), getattr(mapped, "filename", None)
    if base is None or path is None or mapped.mode == "c" or mapped.ndim != 2:
        return None
    if not (mapped.flags.c_contiguous or mapped.flags.f_contiguous):
        return None
    # A view keeps the offset of the map that it was cut from, so its own one is counted here.
    begin = np.frombuffer(base, dtype=np.uint8).__array_interface__["data"][0]
    page = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY
    offset = mapped.__array_interface__["data"][0] - begin + page
    facts = OpenFile(path), offset, mapped.shape, mapped.dtype, not mapped.flags.c_contiguous
    return RawSource(*facts, what="a mapped array")
