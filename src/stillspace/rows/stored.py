"""The caller's array as it is, and how blocks of scaled rows are read from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isnan, nan
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels import jobs, measuring, storage
from stillspace.rows.sums import LONGEST_BLOCK

NO_INDEX: IntArray = np.empty(0, dtype=np.int64)

Factors: TypeAlias = "FloatArray | Ones | Norms"
"""One factor per row."""

SEVERAL_CELLS = 2**16
"""Cells that are handled at once where rows are measured: they stay in a core's second cache."""

Loader: TypeAlias = tuple[Any, tuple[Any, ...]]
"""A compiled function of `storage` and the arrays that it reads."""


@dataclass(frozen=True)
class Scaling:
    """Public facts about the cells: `(x − center) / scale`, and the code of a missing cell."""

    center: FloatArray
    unit: FloatArray
    """1 / scale."""
    missing: float = nan
    plain: bool = False
    """Whether the cells are taken as they are."""
    holes: bool = False
    """Whether NaN is a missing cell."""

    @classmethod
    def of(
        cls,
        D: int,
        center: FloatArray | None = None,
        scale: FloatArray | None = None,
        missing: float | None = None,
        *,
        holes: bool = False,
    ) -> Scaling:
        """Return a scaling of D columns; what is None does nothing."""
        return cls(
            np.zeros(D) if center is None else np.array(center, dtype=np.float64),
            np.ones(D) if scale is None else np.asarray(1.0 / scale),
            nan if missing is None else float(missing),
            center is None and scale is None and missing is None and not holes,
            holes,
        )

    @cached_property
    def zeros_stay(self) -> bool:
        """Whether a cell that sparse rows do not store, a zero, is still one when it is scaled."""
        return self.missing == 0.0 or not self.center.any()

    @cached_property
    def cells(self) -> jobs.Cells:
        """As compiled code takes it: it reads whole groups of 8 entries, so both are filled up."""
        kind = storage.FILLED if self.holes else storage.PLACED
        how = storage.AS_STORED if self.plain else kind
        center, unit = jobs.filled_up(self.center), jobs.filled_up(self.unit)
        return jobs.Cells(center, unit, self.missing, how)


class Ones:
    """A factor of 1 for each of n rows, without the memory of n numbers."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        """Return the factors of some rows."""
        count = len(range(*rows.indices(self._n))) if isinstance(rows, slice) else len(rows)
        return np.ones(count)


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """Inverse norms of rows, computed whenever they are needed, without the memory of n numbers.

    As `storage.inverse_norms` computes them from the centred and scaled cells of a row.
    """

    source: Stored
    scaling: Scaling
    bound: float
    """As in `Clip`; 0 for `Sphere`."""
    kept: npt.NDArray[np.bool_] | None = None
    """The other rows are zero rows, with the factor 0."""

    def __len__(self) -> int:
        return self.source.shape[0]

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        """Return the factors of some rows."""
        n, D = self.source.shape
        numbers = np.arange(*rows.indices(n)) if isinstance(rows, slice) else rows
        found, step = np.empty(len(numbers)), several(D)
        memory = np.empty((min(step, len(numbers)), jobs.filled(D)))
        work = np.empty(storage.NORM_WORK)
        for at in range(0, len(numbers), step):
            some = numbers[at : at + step]
            X, out = memory[: len(some)], found[at : at + step]
            self.source.load(some, 0, self.scaling, Ones(n), X)
            storage.inverse_norms(X.reshape(-1), X.shape[1], len(X), self.bound, out, work)
            if self.kept is not None:
                out[~self.kept[some]] = 0.0
        return found


def several(D: int) -> int:
    """Return how many rows are handled at once where nothing is added up: a multiple of 8."""
    return max(SEVERAL_CELLS // max(D, 1) // 8, 1) * 8


def compiled(factors: Factors) -> jobs.Scales:
    """Return factors as compiled code takes them."""
    if isinstance(factors, Norms):
        kept = jobs.Scales().kept if factors.kept is None else factors.kept
        return jobs.Scales(kept=kept, bound=factors.bound)
    return jobs.Scales() if isinstance(factors, Ones) else jobs.Scales(factors)


class Stored(Protocol):
    """An array of rows in some storage type."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored cells."""

    @property
    def sparse(self) -> bool:
        """Whether the rows are stored as compressed sparse rows, which have longer jobs."""

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, X: FloatArray
    ) -> None:
        """Fill `X` (b, width) with scaled rows, from position `start` of `index`, or of the array.

        The width is the number of columns or more; what is beyond them becomes zero.
        """

    def add(self, terms: jobs.Terms, scaling: Scaling, factors: Factors, runs: jobs.Runs) -> None:
        """Add the terms of some jobs, each to its own sum."""

    def measure(
        self, wanted: measuring.Measure, scaling: Scaling, factors: Factors, span: jobs.Span
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores (r, b) and distances (b), or no distances, of a run of blocks."""


@dataclass(frozen=True, slots=True)
class _Loaded(ABC):
    """Rows that a compiled loader reads."""

    X: Any

    @property
    def sparse(self) -> bool:
        """Whether these are compressed sparse rows."""
        return False

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D)."""
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored cells."""
        found: np.dtype[Any] = self.X.dtype
        return found

    @property
    @abstractmethod
    def loader(self) -> Loader:
        """The loader and what it reads from."""

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, X: FloatArray
    ) -> None:
        """Fill `X`."""
        numbers = row_numbers(index, start, len(X))
        jobs.load_rows(*self.loader, scaling.cells, factors[numbers], numbers, X)

    def add(self, terms: jobs.Terms, scaling: Scaling, factors: Factors, runs: jobs.Runs) -> None:
        """Add the terms of some jobs."""
        adder = jobs.RowAdder(terms, runs.longest)
        adder.add(*self.loader, scaling.cells, compiled(factors), runs)
        adder.finish()

    def measure(
        self, wanted: measuring.Measure, scaling: Scaling, factors: Factors, span: jobs.Span
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores and distances of a run of blocks."""
        return measuring.measure_rows(*self.loader, wanted, scaling.cells, compiled(factors), span)


@dataclass(frozen=True, slots=True)
class DenseRows(_Loaded):
    """A NumPy array (n, D) of any real type and any strides."""

    @property
    def loader(self) -> Loader:
        """An array in Fortran's order is read along its columns."""
        if self.X.flags.f_contiguous and not self.X.flags.c_contiguous:
            return storage.load_columns, (self.X.T,)
        return storage.load_dense, (self.X,)

    def has_missing(self, scaling: Scaling, cells: int) -> bool:
        """Whether a cell is missing; so many cells are looked at together."""
        step = max(1, cells // max(1, self.shape[1]))
        parts = [self.X[at : at + step] for at in range(0, self.shape[0], step)]
        holes, coded = scaling.holes and self.dtype.kind == "f", not isnan(scaling.missing)
        return any(
            (holes and isnan(x.min(initial=inf))) or (coded and (x == scaling.missing).any())
            for x in parts
        )


@dataclass(frozen=True, slots=True)
class SparseRows(_Loaded):
    """Compressed sparse rows; a block at a time is made dense where a query needs it.

    Sums of the compiled passes cost what is stored, if a cell that is not stored stays a zero.
    """

    @property
    def sparse(self) -> bool:
        return True

    @property
    def loader(self) -> Loader:
        """Data, columns and limits of the rows."""
        return storage.load_sparse, (self.X.data, self.X.indices, self.X.indptr)

    def add(self, terms: jobs.Terms, scaling: Scaling, factors: Factors, runs: jobs.Runs) -> None:
        """Add the terms of some jobs; the blocks of sparse rows are long."""
        if not jobs.SparseAdder.knows(terms, zeros_stay=scaling.zeros_stay):
            _Loaded.add(self, terms, scaling, factors, runs)
            return
        every = factors if isinstance(factors, np.ndarray) else factors[:]
        for k, span in enumerate(runs._replace(block=LONGEST_BLOCK).spans()):
            adder = jobs.SparseAdder(terms.of_job(k), LONGEST_BLOCK)
            adder.add(self.loader[1], scaling.cells, every, span)
            adder.finish()


class LoadedFirst(ABC):
    """Rows that no compiled function loads: a block is loaded, then added or measured."""

    __slots__ = ()

    @property
    def sparse(self) -> bool:
        """What is loaded is dense, unless a subclass says otherwise."""
        return False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, D)."""

    @abstractmethod
    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, X: FloatArray
    ) -> None:
        """Fill `X` (b, width) with scaled rows."""

    def add(self, terms: jobs.Terms, scaling: Scaling, factors: Factors, runs: jobs.Runs) -> None:
        """Add the terms of some jobs."""
        memory = np.empty((runs.longest, self.shape[1]))
        for k, span in enumerate(runs.spans()):
            adder = jobs.RowAdder(terms.of_job(k), min(span.block, span.stop - span.start))
            for at in range(span.start, span.stop, span.block):
                X = memory[: min(span.block, span.stop - at)]
                self.load(span.chosen, at, scaling, factors, X)
                adder.add_block(X)
            adder.finish()

    def measure(
        self, wanted: measuring.Measure, scaling: Scaling, factors: Factors, span: jobs.Span
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores and distances of a run of blocks."""
        X = np.empty((span.stop - span.start, self.shape[1]))
        self.load(span.chosen, span.start, scaling, factors, X)
        return measuring.measured(X.T, *wanted)


def code_as_stored(missing: float | None, dtype: Any) -> float | None:
    """Return the code of a missing cell as cells of this type hold it."""
    return float(np.float32(missing)) if missing is not None and dtype == np.float32 else missing


def with_code_as_stored(query: Any, dtype: Any) -> Any:
    """Return a query over raw cells with its missing code as cells of this type hold it."""
    missing = getattr(query, "missing", None)
    if missing is None or dtype != np.float32:
        return query
    return replace(query, missing=code_as_stored(missing, dtype))


def row_numbers(index: IntArray, start: int, count: int) -> IntArray:
    """Return the numbers of the rows at these positions of `index`, or of the array."""
    return index[start : start + count] if len(index) > 0 else np.arange(start, start + count)


def stored(X: Any) -> DenseRows | SparseRows:
    """Return the rows of an array or a sparse matrix, without a copy where there need be none."""
    return SparseRows(_each_once(compressed(X))) if sparse.issparse(X) else DenseRows(X)


def compressed(X: Any) -> Any:
    """Return a sparse array as compressed rows (CSR). A cell that stands twice still does.

    SciPy would add up what stands twice, in an order that may depend on other rows.
    """
    if X.format in ("csr", "csc"):
        return X.tocsr()
    X = X.tocoo()
    rows, columns = X.coords
    limits = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))])
    order = np.argsort(rows, kind="stable")
    return sparse.csr_array((X.data[order], columns[order], limits), shape=X.shape)


def _each_once(X: Any) -> Any:
    """Return compressed rows whose columns ascend; what stands twice is added as it is stored.

    SciPy sorts all rows as soon as one row is not sorted, and its sort does not keep the order of
    equal columns. So one row could change how the cells of another one are rounded when they are
    added up. This sort keeps that order.
    """
    if X.has_canonical_format:
        return X
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    order = np.lexsort((X.indices[: X.indptr[-1]], rows))
    parts = X.data[order], X.indices[order], X.indptr.copy()
    found = sparse.csr_array(parts, shape=X.shape)
    found.has_sorted_indices = True
    found.sum_duplicates()
    return found
