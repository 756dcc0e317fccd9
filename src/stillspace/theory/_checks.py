"""Checks that all of `stillspace.theory` shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stillspace._checks import checked_number, checked_whole
from stillspace._typing import FloatArray

UNIT_ROUNDOFF = 2.0**-53


def rows(name: str, value: npt.ArrayLike, D: int | None = None) -> FloatArray:
    """Return rows (m, D) of finite numbers; m may be zero."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] < 2 or not np.isfinite(array).all():
        msg = f"{name} must be a table (rows, features) of finite numbers, got shape {array.shape}."
        raise ValueError(msg)
    if D is not None and array.shape[1] != D:
        raise ValueError(f"{name} has {array.shape[1]} features; the other rows have {D}.")
    return array


def labelled(
    inliers: npt.ArrayLike, outliers: npt.ArrayLike, r: int = 1, gamma: float = 1.0
) -> tuple[FloatArray, FloatArray, int]:
    """Return both tables and the number of all rows; r and γ are checked, too."""
    inner = rows("inliers", inliers)
    outer = rows("outliers", outliers, inner.shape[1])
    if len(inner) == 0:
        raise ValueError("inliers must hold at least one row.")
    dimension(r, inner.shape[1])
    checked_number("gamma", gamma, 0.0, 1.0, inside=False)
    return inner, outer, len(inner) + len(outer)


def dimension(r: Any, D: int) -> int:
    """Return the dimension of the subspace."""
    return checked_whole("r", r, 1, D - 1, why="below the number of features")


def eigenvalue(X: FloatArray, k: int) -> float:
    """Return the k-th largest eigenvalue of XᵀX, for instance 0 if there are fewer rows."""
    values = np.linalg.svd(X, compute_uv=False) ** 2
    return float(values[k - 1]) if len(values) >= k else 0.0


def norms(X: FloatArray) -> FloatArray:
    """Return the length of each row."""
    return np.asarray(np.linalg.norm(X, axis=1))


def upwards(value: float, operations: int) -> float:
    """Return the value raised by the rounding of a computation with so many operations.

    For sums of products of like sign; eigenvalues are backward stable to the same order. With
    this an "upper bound" is one of the numbers as given, not only of an idealised computation.
    """
    return value * (1.0 + 16.0 * operations * UNIT_ROUNDOFF)


def downwards(value: float, size: float, operations: int) -> float:
    """Return the value lowered by such rounding, absolute in a quantity of this size."""
    return value - 16.0 * operations * UNIT_ROUNDOFF * size
