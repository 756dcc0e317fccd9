"""Rows that carry a label each, for counts that are kept apart by label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.rows.maps import RowMap
from stillspace.rows.protocols import Rows, RowsAround, RowSum


def label_codes(labels: Iterable[Any], listed: Sequence[Any]) -> IntArray:
    """Return the place of each row's label in a public list; the list's length for any other.

    Labels are looked up one by one, so that a row's code depends on that row alone. No label is an
    error.
    """
    places = {value: k for k, value in enumerate(listed)}

    def place(value: Any) -> int:
        try:
            return places.get(value, len(places))
        except TypeError:  # a list, for instance, is no label
            return len(places)

    plain = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return np.array([place(value) for value in plain], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows(RowsAround):
    """Rows with one label each. A query with `groups` counts every row in the group of its label.

    Its last group is that of labels which are not listed. To all other queries these are plain
    rows.
    """

    codes: IntArray
    """(n,): the group of each row."""

    @property
    def in_memory(self) -> bool:
        return bool(getattr(self.rows, "in_memory", False))

    def add(self, query: RowSum, point: FloatArray, selection: IntArray | None) -> FloatArray:
        """Return the sum; of a query with groups, one sum per group."""
        groups = getattr(query, "groups", 1)
        if groups == 1:
            return self.rows.add(query, point, selection)
        alone: RowSum = replace(query, groups=1)  # type: ignore[type-var]
        numbers = np.arange(self.n_rows) if selection is None else selection
        codes = self.codes[numbers]
        return np.stack(
            [self.rows.add(alone, point, numbers[codes == group]) for group in range(groups)]
        )

    def through(self, row_map: RowMap) -> LabelledRows:
        return LabelledRows(self.rows.through(row_map), self.codes)

    def paired(self, pairs: IntArray) -> Rows:
        """Return differences of rows: they have no label."""
        return self.rows.paired(pairs)
