"""Sums over jobs: exact where the terms have a bound, in order where they have none."""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp, isinf, isnan, prod

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.words import HIGH, LOW, add_words


class ExactSum:
    """A total of job sums, kept in whole numbers: the same bits in any order of the jobs.

    `norm_bound` is that of the query's terms. The unit is the power of two that is not below it.
    """

    def __init__(self, shape: tuple[int, ...], norm_bound: float) -> None:
        self.shape = shape
        mantissa, exponent = frexp(norm_bound)
        self.unit = 2.0 ** (exponent - 1 if mantissa == 0.5 else exponent)
        size = prod(shape)
        self.high: IntArray = np.zeros(size, dtype=np.int64)
        self.low: IntArray = np.zeros(size, dtype=np.int64)

    def add(self, part: FloatArray) -> None:
        """Add the sum of one job."""
        add_words(np.ascontiguousarray(part).reshape(-1), self.unit, self.high, self.low)

    def value(self) -> FloatArray:
        """Return the total, rounded to float64 once (and once more where it passes 2⁵³ words)."""
        total = (self.high * HIGH + self.low * LOW) * self.unit
        return np.asarray(total.reshape(self.shape))


def total_of(parts: Iterable[FloatArray], shape: tuple[int, ...], norm_bound: float) -> FloatArray:
    """Return the sum of job sums; of terms without a bound, in the order in which they come."""
    if isinf(norm_bound) or isnan(norm_bound):
        total = np.zeros(shape)
        for part in parts:
            total += part
        return total
    exact = ExactSum(shape, norm_bound)
    for part in parts:
        exact.add(part)
    return exact.value()
