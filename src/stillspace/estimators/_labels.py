"""Labels of rows: a public list of values, and one private value per row."""

from __future__ import annotations

from collections.abc import Sized
from math import isnan
from numbers import Real
from typing import Any

from stillspace._checks import described

MOST_LABELS = 32
"""Labels that one map may have: each one makes a picture of its own."""


def check_labels(
    y: Any, labels: tuple[Any, ...] | None, n_rows: int, summaries: tuple[str, ...]
) -> None:
    """Refuse a list of labels that is not one, or rows without a label each. No label is read."""
    if labels is None:
        return
    if not isinstance(labels, tuple | list) or not 1 <= len(labels) <= MOST_LABELS:
        msg = (
            f"labels must be a tuple of 1 to {MOST_LABELS} different texts or numbers, which are "
            f"public knowledge, got {described(labels)}."
        )
        raise ValueError(msg)
    wrong = [value for value in labels if not _is_label(value)]
    if wrong or len(set(labels)) < len(labels):
        what = f"{described(wrong[0])} in it" if wrong else "one of them twice"
        msg = f"labels must hold different texts or numbers, got {what}."
        raise ValueError(msg)
    if "scores" not in summaries:
        msg = "labels are for the map of the scores: add summaries=('scores',), or leave them out."
        raise ValueError(msg)
    if not isinstance(y, Sized) or isinstance(y, str | bytes):
        msg = f"With labels, fit(X, y) needs the label of every row as y, got {described(y)}."
        raise ValueError(msg)
    if getattr(y, "ndim", 1) != 1 or len(y) != n_rows:
        msg = "y must hold one label per row of X, in one dimension."
        raise ValueError(msg)


def _is_label(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Real) and not isnan(value))
