"""Arrays of HDF5, Zarr and Dask, and compressed sparse rows of AnnData files.

AnnData's groups are read by h5py or zarr alone: `X` is an array, or a group of the arrays `data`,
`indices` and `indptr`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from stillspace._typing import AnyArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.rows.sources.files import Stamp, check_stamp, stamp_of
from stillspace.rows.sources.protocol import is_real, storage_type
from stillspace.rows.sources.runs import take_by_runs

RUN_BYTES = 2**22
"""Bytes that are read at once when rows are chosen, at most."""


class _Held:
    """An array or a group of another library, with the file that it comes from."""

    names: tuple[str, ...] | None = None
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    row_bytes: int
    chunk: int
    piece_bytes: int

    def __init__(self, what: str, path: str, again: Callable[[], Any] | None) -> None:
        self.what, self.path, self._again = what, path, again
        is_file = bool(path) and os.path.isfile(path)
        self._stamp: Stamp | None = stamp_of(path) if is_file else None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._again is None:
            msg = f"{self.describe()} cannot be sent to another process; give its path."
            raise TypeError(msg)
        return _opened_again, (self._again, self._stamp)

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
            msg = (
                f"A part of {self.describe()} cannot be decoded ({type(error).__name__}); write "
                "it again."
            )
            raise DataFileError(msg) from None

    def take(self, numbers: IntArray) -> Any:
        """Return chosen rows; those of one chunk by one read."""
        longest = RUN_BYTES // max(self.row_bytes, 1)
        return take_by_runs(self.read, numbers, self.chunk, max(longest, self.chunk))

    def _rows(self, start: int, stop: int) -> Any:
        raise NotImplementedError


class ArraySource(_Held):
    """A two-dimensional array that gives a NumPy array for a slice of its rows."""

    sparse = False

    def __init__(
        self, array: Any, what: str, path: str = "", again: Callable[[], Any] | None = None
    ) -> None:
        super().__init__(what, path, again)
        where = path or what
        if len(array.shape) != 2:
            msg = (
                f"{where} holds an array of {len(array.shape)} dimensions; rows and columns are "
                "needed."
            )
            raise DataFileError(msg)
        if not is_real(array.dtype):
            msg = f"{where} holds cells of type {array.dtype}; real numbers are needed."
            raise DataFileError(msg)
        self._array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = storage_type(array.dtype)
        self.row_bytes = self.shape[1] * self.dtype.itemsize
        self.chunk = int((getattr(array, "chunks", None) or (1,))[0])
        # A chunk is decoded as a whole, and then copied.
        stored = self.chunk * self.shape[1] * np.dtype(array.dtype).itemsize
        self.piece_bytes = 2 * stored if self.chunk > 1 else 0

    def _rows(self, start: int, stop: int) -> AnyArray:
        with np.errstate(all="ignore"):  # a warning of a cast would tell of the rows
            return np.asarray(self._array[start:stop]).astype(self.dtype, copy=False)


class CsrSource(_Held):
    """Compressed sparse rows in a group with `data`, `indices`, `indptr` and a shape."""

    sparse = True

    def __init__(
        self, group: Any, what: str, path: str = "", again: Callable[[], Any] | None = None
    ) -> None:
        super().__init__(what, path, again)
        where = path or what
        kind = group.attrs.get("encoding-type", "csr_matrix")
        if kind != "csr_matrix":
            msg = f"{where} holds a {kind}; write the matrix as compressed sparse rows (CSR)."
            raise DataFileError(msg)
        try:
            self._data, self._columns, self._limits = (
                group[name] for name in ("data", "indices", "indptr")
            )
            n, D = (int(length) for length in group.attrs["shape"])
        except (KeyError, ValueError, TypeError):
            msg = f"{where} holds no sparse matrix of AnnData; write it again."
            raise DataFileError(msg) from None
        whole = self._limits.shape == (n + 1,) and self._data.shape == self._columns.shape
        if not whole or not is_real(self._data.dtype):
            msg = f"{where}: the parts of its sparse matrix do not fit together; write it again."
            raise DataFileError(msg)
        self.shape, self.dtype = (n, D), storage_type(self._data.dtype)
        stored = self._data.shape[0]
        per_cell = self.dtype.itemsize + 8  # column numbers become int64
        self._per_cell = per_cell
        self.row_bytes = stored * per_cell // max(n, 1) + 8
        chunk = int((getattr(self._data, "chunks", None) or (1,))[0])
        self.chunk = max(chunk * n // max(stored, 1), 1)
        self.piece_bytes = 2 * chunk * per_cell

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


def _opened_again(again: Callable[[], Any], stamp: Stamp | None) -> Any:
    source = again()
    if stamp is not None:
        check_stamp(source.path, stamp)
    return source
