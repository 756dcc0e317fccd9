"""Rows whose missing cells are filled from a basis."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels import fill
from stillspace.rows.stored import Factors, LoadedFirst, Ones, Scaling, Stored, row_numbers

LEAST_WEIGHT = 0.5
"""If rows are not shortened to their weights: the least weight of a row whose cells are filled."""


@dataclass(frozen=True, slots=True)
class FilledRows(LoadedFirst):
    """Centred and scaled rows whose missing cells are filled from a basis, whenever they are read.

    A row without missing cells has the bits that it has in `source`.
    """

    source: Stored
    scaling: Scaling
    before: Factors
    """Not a number for a row that has lost its cells."""
    V: FloatArray
    weighed: bool = False
    """Whether a row is shortened to its weight, from the bound on."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, X: FloatArray
    ) -> None:
        """Fill `X` (b, width); these cells are never centred again."""
        assert scaling.plain
        n, D = self.shape
        numbers, own = row_numbers(index, start, len(X)), self.scaling
        self.source.load(index, start, Scaling.of(D), Ones(n), X)
        some = factors[numbers]
        some = np.where(np.isnan(self.before[numbers]) & (some != 0.0), nan, some)
        least = 0.0 if self.weighed else LEAST_WEIGHT
        weighed = self.weighed and not isinstance(factors, Ones)  # rows without a bound have ones
        cells = own.center, own.unit, own.missing, own.holes
        fill.fill_rows(X, *cells, self.V, least, weighed, some)
