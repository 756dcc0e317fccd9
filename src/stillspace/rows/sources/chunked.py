"""Arrays of HDF5, Zarr and Dask, and compressed sparse rows of AnnData files.

AnnData's groups are read by h5py or zarr alone: `X` is an array, or a group of the arrays `data`,
`indices` and `indptr`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from stillspace._typing import AnyArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.rows.sources.files import Stamp, check_stamp, opened_again, stamp_of
from stillspace.rows.sources.protocol import check_cells, storage_type, take_by_runs

RUN_BYTES = 2**22
"""Bytes that are read at once when rows are chosen, at most."""


class _Held(ABC):
    """An array or a group of another library, with the file that it comes from."""

    names: tuple[str, ...] | None = None
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    row_bytes: int
    chunk: int
    piece_bytes: int

    def __init__(
        self, held: Any, what: str, path: str = "", again: Callable[[], Any] | None = None
    ) -> None:
        self.what, self.path, self._again = what, path, again
        self._stamp: Stamp | None = stamp_of(path) if os.path.isfile(path) else None
        self._take_over(held, path or what)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._again is None:
            raise TypeError(f"{self.describe()} cannot be sent to another process; pass its path.")
        return opened_again, (self._again, self._stamp)

    def describe(self) -> str:
        where = f", in {self.path}" if self.path else ""
        return f"{self.what}, {self.shape[1]} columns of {self.dtype.name}{where}"

    def read(self, start: int, stop: int) -> Any:
        if self._stamp is not None:
            check_stamp(self.path, self._stamp)
        try:
            return self._rows(start, stop)
        except DataFileError:
            raise
        except Exception as error:  # the libraries have no error in common
            raise DataFileError(
                f"A part of {self.describe()} cannot be decoded ({type(error).__name__}); write "
                "it again."
            ) from None

    def take(self, numbers: IntArray) -> Any:
        """Return chosen rows; those of one chunk by one read."""
        longest = RUN_BYTES // max(self.row_bytes, 1)
        return take_by_runs(self.read, numbers, self.chunk, max(longest, self.chunk))

    @abstractmethod
    def _take_over(self, held: Any, where: str) -> None:
        """Check what is held and note its facts; `where` is its name in messages."""

    @abstractmethod
    def _rows(self, start: int, stop: int) -> Any: ...


class ArraySource(_Held):
    """A two-dimensional array that gives a NumPy array for a slice of its rows."""

    sparse = False

    def _take_over(self, held: Any, where: str) -> None:
        check_cells(where, held.shape, held.dtype)
        self._array = held
        self.shape = (int(held.shape[0]), int(held.shape[1]))
        self.dtype = storage_type(held.dtype)
        self.row_bytes = self.shape[1] * self.dtype.itemsize
        self.chunk = int((getattr(held, "chunks", None) or (1,))[0])
        # A chunk is decoded as a whole, and then copied.
        stored = self.chunk * self.shape[1] * np.dtype(held.dtype).itemsize
        self.piece_bytes = 2 * stored if self.chunk > 1 else 0

    def _rows(self, start: int, stop: int) -> AnyArray:
        with np.errstate(all="ignore"):  # a warning of a cast would tell of the rows
            return np.asarray(self._array[start:stop]).astype(self.dtype, copy=False)


class CsrSource(_Held):
    """Compressed sparse rows in a group with `data`, `indices`, `indptr` and a shape."""

    sparse = True

    def _take_over(self, held: Any, where: str) -> None:
        kind = held.attrs.get("encoding-type", "csr_matrix")
        if kind != "csr_matrix":
            msg = f"{where} holds a {kind}; write the matrix as compressed sparse rows (CSR)."
            raise DataFileError(msg)
        try:
            self._data, self._columns, self._limits = (
                held[name] for name in ("data", "indices", "indptr")
            )
            n, D = (int(length) for length in held.attrs["shape"])
        except (KeyError, ValueError, TypeError):
            msg = f"{where} does not hold a sparse matrix of AnnData; write the file again."
            raise DataFileError(msg) from None
        check_cells(where, (n, D), self._data.dtype)
        if self._limits.shape != (n + 1,) or self._data.shape != self._columns.shape:
            msg = f"{where}: the parts of its sparse matrix do not fit together; write it again."
            raise DataFileError(msg)
        self.shape, self.dtype = (n, D), storage_type(self._data.dtype)
        stored = self._data.shape[0]
        self._per_cell = self.dtype.itemsize + 8  # column numbers become int64
        self.row_bytes = stored * self._per_cell // max(n, 1) + 8
        chunk = int((getattr(self._data, "chunks", None) or (1,))[0])
        self.chunk = max(chunk * n // max(stored, 1), 1)
        self.piece_bytes = 2 * chunk * self._per_cell

    def heaviest(self, rows: int) -> int:
        """Return the bytes of the heaviest window of so many rows: some rows store more cells."""
        edges = [*np.asarray(self._limits[::rows]).tolist(), self._data.shape[0]]
        most = max(high - low for low, high in pairwise(edges))
        return int(most) * self._per_cell + 8 * rows

    def _rows(self, start: int, stop: int) -> Any:
        limits = np.asarray(self._limits[start : stop + 1]).astype(np.int64)
        low, high = int(limits[0]), int(limits[-1])
        if (np.diff(limits) < 0).any() or not 0 <= low <= high <= self._data.shape[0]:
            msg = f"{self.describe()}: the limits of its rows do not ascend; write it again."
            raise DataFileError(msg)
        with np.errstate(all="ignore"):
            data = np.asarray(self._data[low:high]).astype(self.dtype, copy=False)
        found = sparse.csr_matrix((stop - start, self.shape[1]), dtype=self.dtype)
        found.data, found.indptr = data, limits - low
        found.indices = np.asarray(self._columns[low:high]).astype(np.int64)
        if high > low and not 0 <= found.indices.min() <= found.indices.max() < self.shape[1]:
            msg = f"{self.describe()}: a column number is outside of its shape; write it again."
            raise DataFileError(msg)
        return found


def source_of(
    part: Any, library: str, path: str, again: Callable[[], Any] | None
) -> ArraySource | CsrSource:
    """Return an array of HDF5 or Zarr, or a group that holds a sparse matrix, as a source."""
    if hasattr(part, "keys"):
        return CsrSource(part, f"sparse rows of {library}", path, again)
    return ArraySource(part, f"{library} array", path, again)


class _Computed:
    """A Dask array whose slices are computed, by the scheduler in use."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.chunks = (max(array.chunks[0], default=1),)

    def __getitem__(self, rows: slice) -> AnyArray:
        return np.asarray(self.array[rows].compute())


def open_dask_array(array: Any) -> ArraySource:
    """Take a Dask array with a known shape; nothing is computed."""
    check_shape(array)
    source = ArraySource(_Computed(array), "Dask array", again=partial(open_dask_array, array))
    source.sparse = sparse.issparse(getattr(array, "_meta", None))
    return source


def check_shape(array: Any) -> None:
    """Refuse a Dask array that does not know its number of rows."""
    if any(np.isnan(length) for length in array.shape):
        raise DataFileError(
            "The Dask array does not know its number of rows; call compute_chunk_sizes() on it "
            "before the fit."
        )
