"""What a private fit takes: a table, a file or any `Rows`, whose shape is known first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from stillspace._checks import checked_whole
from stillspace.estimators._files import check_table
from stillspace.estimators._tables import (
    as_array,
    checked_array,
    checked_shape,
    stated_shape,
)
from stillspace.plans.staged import StagedPlan
from stillspace.rows import ChosenRows, FileRows, MemoryRows, Rows, RowTable
from stillspace.run import check_rows


@dataclass(frozen=True, slots=True)
class ArrayTable:
    """An array, a sparse matrix, a data frame or a list of rows; it is read by `rows`."""

    X: Any
    shape: tuple[int, int]
    finite: bool
    hidden: bool
    stated: tuple[str, ...] = ()
    """What a guarantee takes for granted about the way in which rows are added up."""

    def check(self, plan: StagedPlan) -> None:
        """Do nothing: rows in memory suit every plan."""

    def rows(self, estimator: BaseEstimator) -> Rows:
        """Return the rows; cells are converted here, and looked at if they must be finite."""
        least = 0 if self.hidden else 2
        facts: dict[str, Any] = {"min_samples": least, "finite": self.finite, "hidden": self.hidden}
        X = checked_array(estimator, self.X, reset=True, **facts)
        if X.shape != self.shape:
            msg = "X changed its shape between two reads; pass a NumPy array."
            raise ValueError(msg)
        return MemoryRows.of(X)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """`Rows` that enter a fit as they are."""

    given: Rows
    shape: tuple[int, int]

    @property
    def stated(self) -> tuple[str, ...]:
        """The sums of rows that are not the library's own are taken on trust."""
        kind = _inner(self.given)
        if type(kind) in (MemoryRows, FileRows):
            return ()
        return (f"the sums and the row maps of {type(kind).__name__} are the user's word",)

    def check(self, plan: StagedPlan) -> None:
        """Refuse rows that the plan does not account for, and rows that are mapped already."""
        check_rows(plan, self.given)
        kind = _inner(self.given)
        if isinstance(kind, MemoryRows) and kind.scaled:
            msg = (
                "These rows are already centred or scaled; pass the original rows, by "
                "MemoryRows.of(X), and pass center and scale to the estimator."
            )
            raise ValueError(msg)

    def rows(self, estimator: BaseEstimator) -> Rows:
        """Return the rows, and tell the estimator their number of columns. They have no names."""
        estimator.n_features_in_ = self.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return self.given


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table in a file: its header was read, no cell. It is read by `rows`."""

    table: RowTable
    shape: tuple[int, int]
    finite: bool
    hidden: bool
    stated: tuple[str, ...]

    def check(self, plan: StagedPlan) -> None:
        """Refuse a table whose numbers per row do not fit into memory, by the public size."""
        self.table.check_memory(plan.size)

    def rows(self, estimator: BaseEstimator) -> Rows:
        """Return the rows; cells are looked at if they must be finite."""
        least = 0 if self.hidden else 2
        facts: dict[str, Any] = {"min_samples": least, "finite": self.finite, "hidden": self.hidden}
        check_table(estimator, self.table, reset=True, **facts)
        return self.table.as_rows()


Source: TypeAlias = ArrayTable | GivenRows | FileTable


def source_of(X: Any, *, hidden: bool, finite: bool, charged: bool) -> Source:
    """Return what a fit will read, with its shape; no cell of a table with a shape is read.

    `hidden`: the number of rows is secret. `finite`: an entry that is not finite is an error.
    `charged`: a budget will be charged, and nothing may be converted before that.
    """
    if type(X) is np.ndarray:
        return ArrayTable(X, checked_shape(X, hidden=hidden), finite, hidden)
    if isinstance(X, Rows):
        return GivenRows(X, _shape_of_rows(X, hidden, finite))
    if isinstance(X, RowTable):
        return FileTable(X, checked_shape(X, hidden=hidden), finite, hidden, X.stated)
    if stated_shape(X) is None:
        if charged:
            msg = (
                f"The shape of a {type(X).__name__} is not known before it is read, and with a "
                "budget nothing is read before the fit is charged; pass an array or a data frame."
            )
            raise TypeError(msg)
        X = as_array(X)
    return ArrayTable(X, checked_shape(X, hidden=hidden), finite, hidden)


def _shape_of_rows(rows: Rows, hidden: bool, finite: bool) -> tuple[int, int]:
    if finite:
        msg = (
            "nonfinite='raise' must check every cell, which Rows do not allow; use "
            "nonfinite='zero', which counts rows with NaN or infinite cells as zero rows."
        )
        raise ValueError(msg)
    n, D = rows.n_rows, checked_whole("n_columns of the rows", rows.n_columns, 2)
    if not hidden:  # otherwise no message may depend on the number of rows
        checked_whole("n_rows of the rows", n, 2)
    return int(n), D


def _inner(rows: Rows) -> Rows:
    """Return the rows from which others are chosen."""
    while type(rows) is ChosenRows:
        rows = rows.rows
    return rows
