"""Chosen rows of a source that is read in stretches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from stillspace._typing import IntArray


def take_by_runs(read: Callable[[int, int], Any], numbers: IntArray, gap: int, longest: int) -> Any:
    """Return rows of ascending numbers, from reads of stretches.

    Two rows that are at most `gap` rows apart belong to one stretch, of at most `longest` rows.
    """
    if len(numbers) == 0:
        return read(0, 0)
    ends = (np.diff(numbers) > gap) | (np.diff(numbers // max(longest, 1)) > 0)
    found = []
    for some in np.split(numbers, np.flatnonzero(ends) + 1):
        first = int(some[0])
        found.append(read(first, int(some[-1]) + 1)[some - first])
    return joined(found)


def joined(parts: Sequence[Any]) -> Any:
    """Return blocks of rows, dense or sparse ones, as one."""
    if len(parts) == 1:
        return parts[0]
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )
