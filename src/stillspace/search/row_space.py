"""Rows of a wide table (fewer rows than columns) in coordinates of the space that they span.

Distances, angles and subspaces depend on the products of rows alone. So m rows with D > m columns
become rows with at most m coordinates, and everything is searched there. Small tables take a QR
factor of the rows. Large ones take a Cholesky factor of the m × m Gram matrix, and directions are
brought back as combinations of the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf

from stillspace._typing import FloatArray, IntArray

BLOCK_CELLS = 2**22
"""Cells that are converted at a time."""

MAD_TO_SD = 1.4826
"""Standard deviation of a Gaussian law, per median absolute deviation."""

_DEPENDENT = 2.0**-40
"""Rows whose distance to the span of the others is below this part of the median length (squared
distance and length for products of rows) add no dimension: the rest is rounding."""

_SPARSE_PAYS = 64
"""Products of sparse rows cost about this much per product, in units of those of dense rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells of a table about a middle and in units of a scale; missing cells are in the middle."""

    X: Any
    middle: FloatArray
    unit: FloatArray
    missing: float | None

    @classmethod
    def of(
        cls,
        X: Any,
        middle: FloatArray | None,
        scale: FloatArray | str | None,
        missing: float | None,
        some: IntArray | None = None,
    ) -> Cells:
        """Return the cells about `middle`, or else about the medians of some (or all) rows.

        With a name as `scale`, the scale is their median absolute deviation.
        """
        D = X.shape[1]
        found, unit = np.zeros(D), np.ones(D)
        if middle is None or isinstance(scale, str):
            for at, block in _columns(X, some):
                here = slice(at, at + block.shape[1])
                if missing is not None:
                    block[block == missing] = np.nan
                found[here] = medians(block)
                if isinstance(scale, str):
                    unit[here] = mad(np.nan_to_num(block - found[here]))
        if scale is not None and not isinstance(scale, str):
            unit = scale
        return cls(X, found if middle is None else middle, unit, missing)

    def gram(self) -> FloatArray:
        """Return the products (n, n) of all rows."""
        if self._stays_sparse:
            Z, middle = self.X.multiply(1.0 / self.unit).tocsr(), self.middle / self.unit
            along = Z @ middle
            return np.asarray(
                (Z @ Z.T).toarray() - along[:, None] - along[None, :] + middle @ middle
            )
        total = np.zeros((self.X.shape[0],) * 2)
        for _, block in self.blocks():
            total += block @ block.T
        return total

    def combined(self, weights: FloatArray) -> FloatArray:
        """Return the sums (k, D) of all rows with weights (n, k)."""
        if self._stays_sparse:
            whole = np.asarray(self.X.T @ weights).T - np.outer(weights.sum(axis=0), self.middle)
            return np.asarray(whole / self.unit)
        found = np.empty((weights.shape[1], self.X.shape[1]))
        for at, block in self.blocks():
            found[:, at : at + block.shape[1]] = weights.T @ block
        return found

    def rows(self) -> FloatArray:
        """Return all rows."""
        return np.concatenate([block for _, block in self.blocks()], axis=1)

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield positions and blocks of columns (n, b)."""
        for at, block in _columns(self.X):
            here = slice(at, at + block.shape[1])
            mapped = (block - self.middle[here]) / self.unit[here]
            if self.missing is not None:
                mapped[block == self.missing] = 0.0
            yield at, mapped

    @property
    def _stays_sparse(self) -> bool:
        if not sparse.issparse(self.X) or self.missing is not None:
            return False
        n, D = self.X.shape
        return _SPARSE_PAYS * float(self.X.nnz) ** 2 <= float(n * D) ** 2


@dataclass(frozen=True, slots=True, eq=False)
class RowSpace:
    """Coordinates of rows in an orthonormal basis of their span, and the way back.

    A small table has the basis itself, which is right to the last digits. A large one has the rows
    that span the space; their coordinates are a lower triangle.
    """

    coordinates: FloatArray
    """(n, k)"""
    cells: Cells
    pivots: IntArray
    """(k,), rows that span the space."""
    pull: FloatArray
    """(n,), factors by which rows that are far too long were shortened."""
    basis: FloatArray | None = None
    """(D, k)"""

    @classmethod
    def of(cls, cells: Cells, longest: float) -> RowSpace:
        """Return the space of all rows; rows beyond `longest` median lengths are shortened to it.

        By a triangular factor with pivoting, which ends where the other rows are combinations: of
        the rows themselves, or of their products.
        """
        if cells.X.shape[0] * cells.X.shape[1] <= BLOCK_CELLS:
            return cls._small(cells, longest)
        G = cells.gram()
        pull = shortening(np.sqrt(np.maximum(np.diag(G), 0.0)), longest)
        if (pull < 1.0).any():
            G *= pull[:, None] * pull[None, :]
        limit = _DEPENDENT * float(np.median(np.diag(G)))
        factor, order, rank, _ = dpstrf(G.T, tol=limit, lower=1, overwrite_a=1)
        rank = max(int(rank), 1)
        coordinates = np.empty((len(G), rank))
        coordinates[order - 1] = factor[:, :rank]
        pivots = np.asarray(order[:rank] - 1, dtype=np.int64)
        for k, pivot in enumerate(pivots):  # above the diagonal there is something else
            coordinates[pivot, k + 1 :] = 0.0
        return cls(coordinates, cells, pivots, pull)

    @classmethod
    def _small(cls, cells: Cells, longest: float) -> RowSpace:
        Z = cells.rows()
        lengths = np.linalg.norm(Z, axis=1)
        pull = shortening(lengths, longest)
        Q, R, order = qr((Z * pull[:, None]).T, mode="economic", pivoting=True)
        limit = _DEPENDENT * float(np.median(lengths))
        rank = max(int(np.count_nonzero(np.abs(np.diag(R)) > limit)), 1)
        coordinates = np.empty((len(Z), rank))
        coordinates[order] = R[:rank].T
        pivots = np.asarray(order[:rank], dtype=np.int64)
        return cls(coordinates, cells, pivots, pull, Q[:, :rank])

    def lifted(self, vectors: FloatArray) -> FloatArray:
        """Return vectors (k, j) of coordinates as vectors (j, D) of columns."""
        if self.basis is not None:
            return np.asarray((self.basis @ vectors).T)
        weights = np.zeros((len(self.coordinates), vectors.shape[1]))
        weights[self.pivots] = solve_triangular(
            self.coordinates[self.pivots], vectors, lower=True, trans="T"
        )
        return self.cells.combined(weights * self.pull[:, None])


def unit_rows(S: FloatArray) -> FloatArray:
    """Scale rows to the sphere; a zero row stays zero."""
    lengths = np.linalg.norm(S, axis=1)
    return np.asarray(S / np.where(lengths > 0.0, lengths, 1.0)[:, None])


def shortening(lengths: FloatArray, longest: float) -> FloatArray:
    """Return the factors that bring rows to at most `longest` times the median length."""
    limit = longest * float(np.median(lengths)) or float(lengths.max(initial=0.0))
    return np.divide(limit, lengths, out=np.ones(len(lengths)), where=lengths > limit)


def medians(block: FloatArray) -> FloatArray:
    """Return the median of each column without NaN; 0 for a column without any number."""
    columns = np.ascontiguousarray(block.T)
    found = np.median(columns, axis=1)
    if np.isnan(found).any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number
            found = np.nan_to_num(np.nanmedian(columns, axis=1))
    return np.asarray(found)


def mad(S: FloatArray) -> FloatArray:
    """Return the median absolute deviation of each column about 0, for Gaussian columns their SD.

    Where more than half of a column is 0, of the other cells; 1 for a constant column.
    """
    size = np.abs(S)
    found = MAD_TO_SD * np.median(size, axis=0)
    for j in np.flatnonzero(found == 0.0):
        others = size[:, j][size[:, j] > 0.0]
        found[j] = np.median(others) if len(others) else 1.0
    return np.asarray(found)


def _columns(X: Any, some: IntArray | None = None) -> Iterator[tuple[int, FloatArray]]:
    """Yield positions and blocks of columns of a table (or of some rows), as new float64 arrays."""
    D = X.shape[1]
    step = max(BLOCK_CELLS // max(X.shape[0] if some is None else len(some), 1), 16)
    if sparse.issparse(X):
        X, some = X if some is None else X[some], None
        X = X.tocsc() if step < D else X
    elif some is not None and not isinstance(X, np.ndarray):
        X, some = chosen_rows(X, some), None
    for at in range(0, D, step):
        block = X[:, at : at + step] if some is None else X[some, at : at + step]
        if sparse.issparse(block):
            block = block.toarray()
        yield at, np.array(block, dtype=np.float64)


def chosen_rows(X: Any, numbers: IntArray) -> Any:
    """Return some rows: in memory, or those of a file that gives columns of them when needed."""
    return X.chosen(numbers) if hasattr(X, "chosen") else X[numbers]
