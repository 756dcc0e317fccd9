"""Chosen rows of a source that is read in stretches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from stillspace._typing import IntArray


def runs(numbers: IntArray, gap: int, longest: int) -> list[tuple[int, int]]:
    """Return stretches of ascending row numbers that are read at once.

    Two rows that are at most `gap` rows apart belong to one stretch, of at most `longest` rows.
    """
    if len(numbers) == 0:
        return []
    ends = (np.diff(numbers) > gap) | (np.diff(numbers // longest) > 0)
    limits = [0, *(np.flatnonzero(ends) + 1).tolist(), len(numbers)]
    return list(pairwise(limits))


def take_by_runs(read: Callable[[int, int], Any], numbers: IntArray, gap: int, longest: int) -> Any:
    """Return chosen rows of a source, from reads of stretches."""
    found = []
    for low, high in runs(numbers, gap, max(longest, 1)):
        first = int(numbers[low])
        found.append(read(first, int(numbers[high - 1]) + 1)[numbers[low:high] - first])
    return joined(found) if found else read(0, 0)


def joined(parts: Sequence[Any]) -> Any:
    """Return blocks of rows, dense or sparse ones, as one."""
    if len(parts) == 1:
        return parts[0]
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )
