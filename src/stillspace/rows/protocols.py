"""What a query asks of rows, and rows of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jobs import Terms
from stillspace.rows.regions import Caps


class RowSum(Protocol):
    """A sum of row terms, as the rows see it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the terms of a block of rows, given as columns, to `out`."""

    def terms(self, point: FloatArray, out: FloatArray) -> Terms | None:
        """Return what a compiled run of blocks needs to add to `out`, if there is one."""


class Rows(Protocol):
    """A way to add a query over the data. Only a `Release` may call it."""

    @property
    def n_rows(self) -> int:
        """Number of rows: secret unless the neighbouring relation makes it public."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum of the query's terms at `point` over the selected (or all) rows."""

    def outside(self, region: Caps) -> Rows:
        """Return the same rows, those inside the region as zero rows."""


@dataclass(slots=True)
class OnceAdded:
    """Rows that keep the sums of queries which do not depend on the point, for a second release.

    It lives as long as one fit and shows nothing by itself: the sums leave it with noise only.
    """

    rows: Rows
    kept: dict[RowSum, FloatArray] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.rows.n_columns

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum, from memory if it was asked for before."""
        if selection is not None or point.size > 0:
            return self.rows.add(query, point, selection)
        if query not in self.kept:
            self.kept[query] = self.rows.add(query, point, None)
        return self.kept[query].copy()

    def outside(self, region: Caps) -> OnceAdded:
        """Return the rows outside the region, with a memory of their own."""
        return OnceAdded(self.rows.outside(region))
