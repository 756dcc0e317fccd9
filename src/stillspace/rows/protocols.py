"""What a query asks of rows, and rows of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from stillspace._typing import FloatArray, IntArray
from stillspace.exceptions import NotAccountedError
from stillspace.kernels.jobs import Terms
from stillspace.rows.maps import Pairs, RowMap, View
from stillspace.rows.sums import STANDARD, Summation


class RowSum(Protocol):
    """A sum of row terms, as the rows see it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    @property
    def norm_bound(self) -> float:
        """Bound on the norm of a term; infinite where there is none."""

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the terms of a block of rows, given as columns, to `out`."""

    def terms(self, point: FloatArray, out: FloatArray) -> Terms | None:
        """Return what compiled runs of blocks need to add to `out` (jobs, …), if there are any."""


class Adds(Protocol):
    """What can add a query over the data. Only a `Release` may call it."""

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum of the query's terms at `point` over the selected (or all) rows."""


@runtime_checkable
class Rows(Adds, Protocol):
    """Rows of a table, wherever they are kept (docs/extending.md, "A new kind of rows")."""

    @property
    def n_rows(self) -> int:
        """Number of rows: secret unless the neighbouring relation makes it public."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""

    @property
    def bounded(self) -> bool:
        """Whether every row has length at most 1, as most queries need."""

    @property
    def summation(self) -> Summation:
        """How sums are made: `run` refuses rows with longer chains than a plan accounts for."""

    def through(self, row_map: RowMap) -> Rows:
        """Return the rows behind a row map other than `Pairs`."""

    def paired(self, pairs: IntArray) -> Rows:
        """Return the differences of pairs of rows, given as an array (m, 2) of row numbers."""


_R = TypeVar("_R", bound=Rows)


def accounted(rows: _R) -> _R:
    """Return rows whose sums have no larger floating-point error than releases account for."""
    if not STANDARD.covers(rows.summation):
        msg = (
            f"These rows are added up by longer chains ({rows.summation}) than a plan accounts for "
            f"({STANDARD}); shorten their jobs."
        )
        raise NotAccountedError(msg)
    return rows


def through_view(rows: Rows, view: View, pairs: IntArray | None = None) -> Rows:
    """Return the rows behind all maps of a view; `pairs` is the secret pairing, if there is one."""
    for row_map in view:
        if isinstance(row_map, Pairs):
            assert pairs is not None
            rows = rows.paired(pairs)
        else:
            rows = rows.through(row_map)
    return rows


def block_columns(rows: Rows) -> int | None:
    """Return the number of columns if pairs of rows are made of blocks of rows, else None.

    Rows in memory (`in_memory`) are read one by one as fast as in order, so that any row may be
    paired with any other.
    """
    return None if getattr(rows, "in_memory", False) else rows.n_columns


@dataclass(frozen=True, slots=True, eq=False)
class RowsAround:
    """Other rows, with something done to them or known of them."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def n_columns(self) -> int:
        return self.rows.n_columns

    @property
    def bounded(self) -> bool:
        return self.rows.bounded

    @property
    def summation(self) -> Summation:
        return self.rows.summation


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRows(RowsAround):
    """Some of the rows, by their numbers, as rows of their own."""

    numbers: IntArray

    @property
    def n_rows(self) -> int:
        return len(self.numbers)

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum over the chosen rows."""
        numbers = self.numbers if selection is None else self.numbers[selection]
        return self.rows.add(query, point, numbers)

    def through(self, row_map: RowMap) -> ChosenRows:
        """Map all rows and choose the same ones."""
        return ChosenRows(self.rows.through(row_map), self.numbers)

    def paired(self, pairs: IntArray) -> Rows:
        """Return differences of chosen rows."""
        return self.rows.paired(self.numbers[pairs])


@dataclass(slots=True)
class OnceAdded:
    """Sums over rows, of which those that do not depend on the point are kept for a second release.

    It lives as long as one fit and shows nothing by itself: the sums leave it with noise only.
    """

    rows: Rows
    kept: dict[RowSum, FloatArray] = field(default_factory=dict)

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum, from memory if it was asked for before."""
        if selection is not None or point.size > 0:
            return self.rows.add(query, point, selection)
        if query not in self.kept:
            self.kept[query] = self.rows.add(query, point, None)
        return self.kept[query].copy()
