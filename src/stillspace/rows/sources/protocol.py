"""What every source of rows offers: shape, type and names first, then rows by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from stillspace._typing import IntArray
from stillspace.exceptions import DataFileError

STORAGE_TYPES = tuple(np.dtype(t) for t in (np.float64, np.float32, np.int8, np.uint8))
"""Types of cells that are read as they are; cells of any other type become float64."""


@runtime_checkable
class RowSource(Protocol):
    """Rows of a table outside memory: a file, several files, an array of another library.

    Whoever makes a source checks everything that can be told without reading a cell: format,
    columns, types and sizes. So a fit refuses a wrong file before a privacy budget is charged.
    Missing cells are NaN. A source that may be read by several threads at once says so by an
    attribute `parallel = True`; all other sources are read by one thread at a time. A source whose
    rows are sparse says so by `sparse = True`. A source that must decode much at once tells how
    much memory that takes by `piece_bytes`.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D): the number of rows and of columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the cells that `read` returns: one of `STORAGE_TYPES`."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, if they have names."""

    def read(self, start: int, stop: int) -> Any:
        """Return the rows start…stop − 1: an array (stop − start, D) or sparse rows (CSR)."""

    def take(self, numbers: IntArray) -> Any:
        """Return the rows of these numbers, which ascend and may repeat."""

    def describe(self) -> str:
        """Return what the source is, in words: no cell, and not the number of rows."""


def is_sparse(source: RowSource) -> bool:
    """Whether a source hands over compressed sparse rows."""
    return bool(getattr(source, "sparse", False))


class OtherSource:
    """What a source has in common with another one that it is made of."""

    def __init__(self, source: RowSource, n: int | None = None) -> None:
        self.source = source
        self.shape = (source.shape[0] if n is None else n, source.shape[1])
        self.dtype, self.names = source.dtype, source.names
        self.parallel, self.sparse = bool(getattr(source, "parallel", False)), is_sparse(source)

    def describe(self) -> str:
        return self.source.describe()


def storage_type(dtype: Any) -> np.dtype[Any]:
    """Return the type in which cells of a real type are handed over."""
    dtype = np.dtype(dtype).newbyteorder("=")
    return dtype if dtype in STORAGE_TYPES else np.dtype(np.float64)


def check_cells(where: str, shape: Sequence[Any], dtype: Any) -> None:
    """Refuse an array that is no table of real numbers."""
    if len(shape) != 2:
        raise DataFileError(
            f"{where} must hold an array with two dimensions (rows and columns), got {len(shape)}."
        )
    if np.dtype(dtype).kind not in "biuf":
        raise DataFileError(f"The cells of {where} must be real numbers, got type {dtype}.")


def take_by_runs(read: Callable[[int, int], Any], numbers: IntArray, gap: int, longest: int) -> Any:
    """Return rows of ascending numbers, from reads of stretches.

    Two rows that are at most `gap` rows apart belong to one stretch, of at most `longest` rows.
    """
    if len(numbers) == 0:
        return read(0, 0)
    ends = (np.diff(numbers) > gap) | (np.diff(numbers // max(longest, 1)) > 0)
    found = []
    for some in np.split(numbers, np.flatnonzero(ends) + 1):
        first = int(some[0])
        found.append(read(first, int(some[-1]) + 1)[some - first])
    return joined(found)


def joined(parts: Sequence[Any]) -> Any:
    """Return blocks of rows, dense or sparse ones, as one."""
    if len(parts) == 1:
        return parts[0]
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )
