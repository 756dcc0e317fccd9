"""Rows in memory, scaled once, added up in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from stillspace import kernels
from stillspace._typing import AnyArray, FloatArray, IntArray

BLOCK_ROWS = 512
"""Rows in a block: small enough for a block of a few hundred columns to stay in cache."""


def chain_length(n: int) -> int:
    """Return the longest chain of additions behind a sum over `n` rows (SPEC 4 b).

    One product and up to `BLOCK_ROWS` additions inside a block, then one addition a block.
    """
    return 1 + BLOCK_ROWS + -(-n // BLOCK_ROWS)


class RowSum(Protocol):
    """A sum of row terms, as the rows see it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the terms of a block of rows, given as columns, to `out`."""


class MemoryRows:
    """An array's rows, each centred, scaled to the sphere (or clipped) and kept as a column."""

    def __init__(self, XT: FloatArray) -> None:
        self._XT = XT

    @classmethod
    def prepare(
        cls,
        X: AnyArray,
        *,
        center: FloatArray | None = None,
        scale: FloatArray | None = None,
        norm_bound: float | None = None,
    ) -> MemoryRows:
        """Wrap `X` (n, D), row by row: `(x − center) / scale`, then to the unit sphere.

        With `norm_bound` a row is clipped to that norm, in units of it, instead. A row with a
        non-finite entry becomes a zero row, silently (SPEC 4). `X` is not changed.
        """
        n, D = X.shape
        XT = np.empty((D, n))
        for start in range(0, n, BLOCK_ROWS):
            with np.errstate(all="ignore"):  # a warning would tell of the rows
                block = np.array(X[start : start + BLOCK_ROWS].T, dtype=np.float64, order="C")
                if center is not None:
                    block -= center[:, None]
                if scale is not None:
                    block /= scale[:, None]
            XT[:, start : start + BLOCK_ROWS] = kernels.unit_columns(block, norm_bound or 0.0)
        return cls(XT)

    @property
    def n_rows(self) -> int:
        """Number of rows: secret unless the neighbouring relation makes it public."""
        return int(self._XT.shape[1])

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum of the query's terms at `point` over the selected (or all) rows."""
        total = np.zeros(query.shape)
        for block in self._blocks(selection):
            query.add_block(block, point, total)
        return total

    def _blocks(self, selection: IntArray | None) -> Iterator[FloatArray]:
        count = self.n_rows if selection is None else len(selection)
        for start in range(0, count, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, count)
            if selection is None:
                yield np.ascontiguousarray(self._XT[:, start:stop])
            else:
                yield np.take(self._XT, selection[start:stop], axis=1)
