"""Several files as one table: the rows of one after those of another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from stillspace._typing import IntArray
from stillspace.exceptions import DataFileError
from stillspace.rows.sources.protocol import RowSource, is_sparse, joined


class StackedSource:
    """Part files with the same columns, in the order of their names. A part may be empty."""

    def __init__(self, parts: Sequence[RowSource], where: str) -> None:
        self._parts, self._where = tuple(parts), where
        first = self._parts[0]
        for part in self._parts[1:]:
            if part.shape[1] != first.shape[1] or part.names != first.names:
                raise DataFileError(
                    f"The part files of {where} have different columns: {part.describe()} does "
                    f"not have those of {first.describe()}; give part files of one table."
                )
            if part.dtype != first.dtype or is_sparse(part) != is_sparse(first):
                raise DataFileError(
                    f"The part files of {where} have different types: {part.describe()} and "
                    f"{first.describe()}; write all of them with one type."
                )
        self._starts = [0, *accumulate(part.shape[0] for part in self._parts)]
        self.shape = (self._starts[-1], first.shape[1])
        self.dtype, self.names = first.dtype, first.names
        self.sparse = is_sparse(first)
        self.parallel = all(getattr(part, "parallel", False) for part in self._parts)
        self.piece_bytes = max(getattr(part, "piece_bytes", 0) for part in self._parts)
        self.in_memory = any(getattr(part, "in_memory", False) for part in self._parts)

    def describe(self) -> str:
        return f"{len(self._parts)} part files in {self._where}, each {self._parts[0].describe()}"

    def read(self, start: int, stop: int) -> Any:
        found = []
        for k in range(bisect_right(self._starts, start) - 1, len(self._parts)):
            base, end = self._starts[k], self._starts[k + 1]
            if base >= stop:
                break
            if max(start, base) < min(stop, end):
                found.append(self._parts[k].read(max(start, base) - base, min(stop, end) - base))
        return self._joined(found)

    def take(self, numbers: IntArray) -> Any:
        limits = np.searchsorted(numbers, self._starts)
        found = [
            part.take(numbers[limits[k] : limits[k + 1]] - self._starts[k])
            for k, part in enumerate(self._parts)
            if limits[k + 1] > limits[k]
        ]
        return self._joined(found)

    def _joined(self, found: list[Any]) -> Any:
        return joined(found) if found else np.empty((0, self.shape[1]), dtype=self.dtype)
