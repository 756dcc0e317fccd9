"""Checks of parameters, before a cell of X is read."""

from __future__ import annotations

import os
from collections.abc import Sized
from math import isfinite, isnan
from numbers import Real
from typing import Any
from warnings import warn

import numpy as np

from stillspace._checks import (
    checked_delta,
    checked_epsilon,
    checked_whole,
    default_delta,
    described,
    is_number,
)
from stillspace._typing import FloatArray
from stillspace.exceptions import JournalError, PrivacyWarning

MOST_LABELS = 32
"""Labels that one map may have: each one makes a picture of its own."""


def checked_components(n_components: Any, D: int, n: int, unit: str = "rows") -> int:
    """Return r; None means min(2, D − 1). `unit` is what there are n of."""
    if n_components is None:
        return min(2, D - 1)
    r = checked_whole("n_components", n_components, 1, D - 1, why="below the number of features")
    if n < r:
        msg = f"n_components={r} needs at least as many {unit}; there are {n}."
        raise ValueError(msg)
    return r


def checked_vector(
    name: str, value: Any, D: int, *, positive: bool = False, words: tuple[str, ...] = ()
) -> FloatArray | None:
    """Return a public vector of length D, or None; an error lists the `words` besides."""
    if value is None:
        return None
    allowed = ", ".join(["None", *map(repr, words)])
    if isinstance(value, str):
        msg = f"{name} must be {allowed} or an array of {D} public numbers, got {described(value)}."
        raise ValueError(msg)
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        msg = f"{name} must be {allowed} or an array of {D} public numbers."
        raise ValueError(msg) from None
    if vector.shape != (D,):
        msg = f"{name} must hold {D} finite numbers, one per feature, got shape {vector.shape}."
        raise ValueError(msg)
    if not np.isfinite(vector).all():
        msg = f"{name} must hold {D} finite numbers, one per feature, got NaN or infinity."
        raise ValueError(msg)
    if positive and not (vector > 0.0).all():
        msg = f"{name} must hold {D} positive numbers, one per feature; some are 0 or negative."
        raise ValueError(msg)
    return vector


def checked_code(name: str, value: Any) -> float | None:
    """Return the number that stands for a missing cell, or None."""
    if value is None:
        return None
    if not is_number(value) or not isfinite(value):
        msg = (
            f"{name} must be None or the number that stands for a missing cell, "
            f"got {described(value)}."
        )
        raise ValueError(msg)
    return float(value)


def checked_type(name: str, value: Any, kind: type) -> None:
    """Refuse what is neither None nor of the type."""
    if value is not None and not isinstance(value, kind):
        msg = f"{name} must be a stillspace.{kind.__name__} or None, got {type(value).__name__}."
        raise TypeError(msg)


def checked_budget(epsilon: Any, delta: Any, n: int) -> tuple[float, float]:
    """Return (ε, δ), δ by default `min(n^−1.5, 1e-6)`; warn where a promise is hardly one."""
    epsilon = checked_epsilon(epsilon)
    delta = default_delta(n) if delta is None else checked_delta(delta)
    if epsilon > 20.0:
        msg = f"epsilon={epsilon:g} is hardly a guarantee; usual values are between 0.1 and 3."
        warn(msg, PrivacyWarning, stacklevel=4)
    if delta >= 1.0 / n:
        msg = (
            f"delta={delta:g} is at least 1/n = {1.0 / n:g}. So large a delta would even allow "
            "publishing the row of one person; use a delta far below 1/n."
        )
        warn(msg, PrivacyWarning, stacklevel=4)
    return epsilon, delta


def checked_public_size(relation: str, public_size: Any, n_rows: int) -> int:
    """Return the public number of rows; the true one only if the relation makes it public."""
    if relation == "replace-one":
        if public_size is not None:
            msg = (
                f"public_size={described(public_size)} is only for neighboring_relation="
                "'add-or-remove-one'. Under 'replace-one' the number of rows itself is public; "
                "leave public_size out."
            )
            raise ValueError(msg)
        return n_rows
    if public_size is None:
        msg = (
            "neighboring_relation='add-or-remove-one' keeps the number of rows secret: give "
            "public_size, a rough number of rows that is public knowledge."
        )
        raise ValueError(msg)
    return checked_whole("public_size", public_size)


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
        msg = "labels are only for the map of scores; add summaries=('scores',) or leave them out."
        raise ValueError(msg)
    if not isinstance(y, Sized) or isinstance(y, str | bytes):
        msg = f"With labels, fit(X, y) needs the label of every row as y, got {described(y)}."
        raise ValueError(msg)
    if getattr(y, "ndim", 1) != 1 or len(y) != n_rows:
        msg = "y must be a one-dimensional array with one label per row of X."
        raise ValueError(msg)


def _is_label(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Real) and not isnan(value))


def checked_journal(journal: Any) -> str | None:
    """Return the absolute path of a journal, whose folder must be there."""
    if journal is None:
        return None
    if not isinstance(journal, str | os.PathLike):
        msg = f"journal must be a path or None, got {described(journal)}."
        raise TypeError(msg)
    path = os.path.abspath(os.fspath(journal))
    if not os.path.isdir(os.path.dirname(path)):
        msg = f"The folder of the journal {path} does not exist; create it first."
        raise JournalError(msg)
    return path
