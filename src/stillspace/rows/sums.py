"""Sums over jobs: exact where the terms have a bound, by a fixed tree where they have none.

Either way the bits of a total do not depend on who added which jobs: threads, or machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp, isinf, isnan, prod
from typing import TypeAlias

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.words import CARRY, HIGH, LOW, add_words


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

    def merge(self, other: ExactSum) -> None:
        """Add the total of other jobs."""
        assert (other.shape, other.unit) == (self.shape, self.unit)
        low = self.low + other.low
        self.high = self.high + other.high + (low >> CARRY)
        self.low = low & ((1 << CARRY) - 1)

    def value(self) -> FloatArray:
        """Return the total, rounded to float64 once (and once more where it passes 2⁵³ words)."""
        total = (self.high * HIGH + self.low * LOW) * self.unit
        return np.asarray(total.reshape(self.shape))


class TreeSum:
    """A total of job sums in floating point, added up along a binary tree over the job numbers.

    Node i of level l is the sum of the jobs i·2ˡ … (i + 1)·2ˡ − 1. Whoever has both halves of a
    node adds them, the left one first; so a total depends on the jobs alone. `nodes` are kept from
    left to right: at most two per level.
    """

    def __init__(self, first: int = 0) -> None:
        self._next = first
        self.nodes: list[tuple[int, int, FloatArray]] = []

    def add(self, part: FloatArray) -> None:
        """Add the sum of the next job."""
        self._push(0, self._next, part)
        self._next += 1

    def merge(self, other: TreeSum) -> None:
        """Add the total of the jobs that follow."""
        for level, index, value in other.nodes:
            self._push(level, index, value)
        self._next = other._next

    def _push(self, level: int, index: int, value: FloatArray) -> None:
        while index % 2 and self.nodes and self.nodes[-1][:2] == (level, index - 1):
            value = self.nodes.pop()[2] + value
            level, index = level + 1, index // 2
        self.nodes.append((level, index, value))

    def value(self) -> FloatArray:
        """Return the total: of what is left over, the right parts first."""
        total = self.nodes[-1][2]
        for _, _, left in reversed(self.nodes[:-1]):
            total = left + total
        return total


PartSum: TypeAlias = ExactSum | TreeSum


def sum_of(
    parts: Iterable[FloatArray], shape: tuple[int, ...], norm_bound: float, first: int = 0
) -> PartSum:
    """Return the sum of consecutive jobs, from number `first` on."""
    total: PartSum
    if isinf(norm_bound) or isnan(norm_bound):
        total = TreeSum(first)
    else:
        total = ExactSum(shape, norm_bound)
    for part in parts:
        total.add(part)
    return total
