"""Tables in files: checked like arrays, read a part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import frexp
from typing import Any
from warnings import warn

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator

from stillspace._checks import bytes_in_words
from stillspace._typing import AnyArray, FloatArray
from stillspace.rows import RowTable
from stillspace.rows.maps import BLOCK_CELLS

COPIES = 4
"""Copies of a table with missing cells, in float64, that a robust fit in memory makes."""

MISSING = -(2.0**100)
"""What stands for a missing cell while a table is read from a file: float32 has it, too."""

EXTREME = 400
"""Cells beyond 2 to this power, or all below its inverse, are brought to a usual magnitude."""


def check_table(
    estimator: BaseEstimator,
    table: RowTable,
    *,
    reset: bool,
    min_samples: int,
    finite: bool,
    hidden: bool = False,
) -> RowTable:
    """Check the shape and the names of a table in a file as scikit-learn checks those of arrays."""
    check_table_shape(table, min_samples, 2 if reset else 1, hidden=hidden)
    if reset:
        _set_names(estimator, table)
    else:
        _compare_names(estimator, table)
    if finite:
        check_finite_cells(table)
    return table


def check_table_shape(
    table: RowTable, min_samples: int, min_features: int, *, hidden: bool
) -> None:
    """Refuse a table with too few rows or columns."""
    for length, fewest, unit in zip(
        table.shape, (min_samples, min_features), ("row", "column"), strict=True
    ):
        if length < fewest:
            shape = ("n", table.shape[1]) if hidden else table.shape
            msg = (
                f"The table in a file needs at least {fewest} {unit}{'s' if fewest > 1 else ''}, "
                f"got shape {shape}."
            )
            raise ValueError(msg)


def _set_names(estimator: BaseEstimator, table: RowTable) -> None:
    estimator.n_features_in_ = table.shape[1]
    if table.names is not None:
        estimator.feature_names_in_ = np.array(table.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _compare_names(estimator: BaseEstimator, table: RowTable) -> None:
    D = estimator.n_features_in_
    if table.shape[1] != D:
        msg = (
            f"X has {table.shape[1]} features, but {type(estimator).__name__} is expecting {D} "
            "features as input."
        )
        raise ValueError(msg)
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None or table.names is None:
        if (fitted is None) != (table.names is None):
            one, other = ("X", "the fit") if fitted is None else ("The fit", "X")
            msg = f"{one} has column names, but {other} has none; columns are matched by order."
            warn(msg, UserWarning, stacklevel=5)
        return
    if tuple(fitted) != table.names:
        msg = (
            "The names of the columns of X, or their order, differ from those of the fit; choose "
            "the columns by open_source(path, columns=[...])."
        )
        raise ValueError(msg)


def blocks(table: RowTable) -> Iterator[Any]:
    """Yield the rows of a table, a part at a time, as arrays or sparse rows."""
    n, D = table.shape
    step = max(1, BLOCK_CELLS // max(1, D))
    for start in range(0, n, step):
        yield table[start : start + step]


def check_finite_cells(table: RowTable) -> None:
    """Raise if any cell is NaN or infinite, naming none."""
    for block in blocks(table):
        cells = block.data if sparse.issparse(block) else block
        if cells.dtype.kind == "f" and not np.isfinite(cells).all():
            msg = "X contains NaN or infinity; remove or impute these rows first."
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, eq=False)
class CellFacts:
    """What one pass over a table tells a robust fit."""

    empty: npt.NDArray[np.bool_]
    """(D,), whether a column has no number at all."""
    missing: bool
    infinite: bool
    peak: float
    """Largest magnitude of a finite cell."""

    @property
    def extreme(self) -> bool:
        """Whether squares of cells would overflow or vanish."""
        return self.peak > 0.0 and abs(frexp(self.peak)[1]) > EXTREME


def cell_facts(table: RowTable) -> CellFacts:
    """Look at every cell once."""
    D = table.shape[1]
    numbers = np.zeros(D, dtype=np.int64)
    missing = infinite = False
    peak = 0.0
    for block in blocks(table):
        if sparse.issparse(block):
            cells: AnyArray = block.data
            numbers += block.shape[0]
        else:
            cells = block
            numbers += len(block) if cells.dtype.kind != "f" else (~np.isnan(block)).sum(axis=0)
        if cells.dtype.kind != "f":
            continue
        missing = missing or bool(np.isnan(cells).any())
        infinite = infinite or bool(np.isinf(cells).any())
        peak = max(peak, _peak(cells))
    return CellFacts(numbers == 0, missing, infinite, peak)


def _peak(cells: AnyArray) -> float:
    usual = np.abs(np.where(np.isfinite(cells), cells, 0.0))
    return float(usual.max(initial=0.0))


def check_cells(table: RowTable, algorithm: str) -> CellFacts:
    """Refuse infinite cells, and missing cells where the algorithm takes none."""
    facts = cell_facts(table)
    if facts.infinite or (facts.missing and algorithm != "auto"):
        msg = "X contains NaN or infinity; remove or impute these rows first."
        raise ValueError(msg)
    return facts


def in_memory(table: RowTable) -> FloatArray | None:
    """Return the whole table if a fit of it in memory keeps the bound, else None."""
    n, D = table.shape
    if 8 * n * D * COPIES > table.memory:
        return None
    found = table[0:n]
    return np.asarray(found.toarray() if sparse.issparse(found) else found)


def robust_table(table: RowTable, algorithm: str, code: float | None) -> tuple[Any, float | None]:
    """Return what a robust fit reads and the code of a missing cell, after one look at all cells.

    A table with missing cells, or with cells of an extreme magnitude, is read into memory if it
    fits there: the fit is then that of an array. A larger table keeps its missing cells at the
    centre, and is refused if its magnitude is extreme.
    """
    facts = check_cells(table, algorithm)
    if facts.empty.any():
        msg = "X has a column without any number (all cells are missing); drop this column."
        raise ValueError(msg)
    if not facts.missing and not facts.extreme:
        return table, code
    whole = in_memory(table)
    if whole is not None:
        return whole, code
    needed = bytes_in_words(8 * table.shape[0] * table.shape[1] * COPIES)
    if facts.extreme:
        msg = (
            f"The cells are extremely large or small ({facts.peak:.1g}); divide them by a public "
            f"unit, or give memory of {needed} or more."
        )
        raise ValueError(msg)
    msg = (
        "The table does not fit into memory, so its missing cells are set to the centre; to fill "
        f"them from similar rows, give memory of {needed} or more."
    )
    warn(msg, UserWarning, stacklevel=5)
    stand_in = MISSING if code is None else code
    return table.with_missing(stand_in), stand_in
