"""What raw cells tell: one histogram per column, and how many rows have a missing cell."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nan, nextafter, sqrt
from typing import ClassVar

import numpy as np

from stillspace._typing import AnyArray, FloatArray
from stillspace.kernels.counts import count_cells
from stillspace.parts.queries.base import Blockwise


@dataclass(frozen=True, slots=True)
class ColumnCounts(Blockwise):
    """How many rows have their cell in each bin, for k of the D columns: the sum is (k, bins).

    Rows are *raw*: neither centred nor scaled, and of any length. Column j has m inner edges; bin
    i holds `edges[i − 1] ≤ x < edges[i]`. The last bin holds the missing cells (NaN and the missing
    code). Infinite cells lie in the outermost bins. So each row is in exactly one bin per
    column: a term has norm √k, and two terms differ by at most √(2k). A bin is found by exact
    comparisons of the cell with public numbers, and counts below 2⁵³ are added exactly. So the sum
    depends neither on the order of the rows nor on the blocks.
    """

    D: int
    columns: tuple[int, ...]
    """The columns that are counted, ascending."""
    data: bytes
    """The inner edges (k, m), float64 by rows: bytes, because queries are hashed."""
    missing: float | None = None
    """The public code of a missing cell, if there is one; NaN is always missing."""
    name: ClassVar[str] = "counts of the cells of each column"
    needs_bound: ClassVar[bool] = False
    """Rows may have any length: a bin is a bin."""

    def __post_init__(self) -> None:
        columns = self.columns
        ascending = list(columns) == sorted(set(columns))
        if not columns or not ascending or not 0 <= columns[0] <= columns[-1] < self.D:
            msg = f"The counted columns must be ascending numbers from 0 to {self.D - 1}."
            raise ValueError(msg)
        if len(self.data) % (8 * len(columns)):
            msg = "Every counted column needs the same number of edges, as float64."
            raise ValueError(msg)
        edges = self.edges
        if np.isnan(edges).any() or (edges[:, 1:] < edges[:, :-1]).any():
            msg = "The edges of every column must be ascending numbers."
            raise ValueError(msg)
        if self.missing is not None and not isfinite(self.missing):
            msg = f"The missing code must be a finite number, got {self.missing!r}."
            raise ValueError(msg)

    @classmethod
    def of(
        cls,
        D: int,
        edges: FloatArray,
        *,
        columns: tuple[int, ...] | None = None,
        missing: float | None = None,
    ) -> ColumnCounts:
        """Return the query with edges (k, m) for these columns; None means all D columns."""
        chosen = tuple(range(D)) if columns is None else tuple(map(int, columns))
        edges = np.ascontiguousarray(edges, dtype=np.float64)
        if edges.shape[:1] != (len(chosen),) or edges.ndim != 2:
            msg = f"The edges must have the shape ({len(chosen)}, m), got {edges.shape}."
            raise ValueError(msg)
        return cls(D, chosen, edges.tobytes(), missing)

    @property
    def edges(self) -> FloatArray:
        """The inner edges (k, m)."""
        return np.frombuffer(self.data, dtype=np.float64).reshape(len(self.columns), -1)

    @property
    def shape(self) -> tuple[int, ...]:
        """(k, m + 2): the last bin is that of the missing cells."""
        k = len(self.columns)
        return (k, len(self.data) // (8 * k) + 2)

    @property
    def norm_bound(self) -> float:
        """√k: one bin per counted column."""
        return sqrt(len(self.columns))

    @property
    def difference_bound(self) -> float:
        """√(2k): two bins per counted column."""
        return sqrt(2.0 * len(self.columns))

    @property
    def term_error(self) -> float:
        """Terms are made of zeros and ones."""
        return 0.0

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:  # noqa: ARG002
        self.add_cells(np.ascontiguousarray(XT.T), out)

    def add_cells(self, X: AnyArray, out: FloatArray) -> None:
        """Add the terms of rows (b, D) as they are stored: no cell is converted or copied."""
        code = nan if self.missing is None else self.missing
        count_cells(X, np.array(self.columns, dtype=np.int64), self.data, code, out)

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        return released, None


@dataclass(frozen=True, slots=True)
class IncompleteRows(Blockwise):
    """How many rows have a missing cell. A row adds 0 or 1, exactly, so both bounds are 1.

    Rows are *raw*, as for `ColumnCounts`.
    """

    D: int
    missing: float | None = None
    """The public code of a missing cell, if there is one."""
    holes: bool = True
    """Whether NaN is a missing cell."""
    name: ClassVar[str] = "count of rows with missing cells"
    needs_bound: ClassVar[bool] = False
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = 1.0
    term_error: ClassVar[float] = 0.0

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:  # noqa: ARG002
        self.add_cells(XT.T, out)

    def add_cells(self, X: AnyArray, out: FloatArray) -> None:
        """Add the terms of rows (b, D) as they are stored."""
        empty = np.zeros(len(X), dtype=np.bool_)
        # most tables have no NaN, which the largest number of a block tells
        if self.holes and X.dtype.kind == "f" and np.isnan(X.max(initial=-inf)):
            empty |= np.isnan(X).any(axis=1)
        if self.missing is not None:
            empty |= np.equal(X, self.missing).any(axis=1)
        out += np.count_nonzero(empty)

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        return released, None


def octave_edges(least: int, most: int) -> FloatArray:
    """Return edges between sign × octave: ±2^least … ±2^most, and around the number 0.

    A bin holds `2^k ≤ |x| < 2^(k+1)` on either side. Between −2^least and 2^least there are three
    bins: below 0, the number 0 alone (−0 is the same number), above 0. The outermost bins are open.
    """
    powers = np.exp2(np.arange(least, most + 1.0))
    below = np.nextafter(-powers[::-1], inf)  # −2^k itself belongs to the longer numbers
    return np.concatenate([below, [0.0, nextafter(0.0, 1.0)], powers])
