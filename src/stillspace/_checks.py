"""Checks of numbers and words that users give: one place, one wording. It imports no library."""

from __future__ import annotations

from collections.abc import Collection
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

from stillspace._limits import LARGEST_EPSILON, SMALLEST_DELTA
from stillspace._shown import is_word_of, shown

MOST = 2**62
"""Whole numbers below this size are ones that other arithmetic can take: Python's have no end."""


def is_whole(value: Any) -> bool:
    """Whether it is a whole number (no bool) that other arithmetic can take."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and abs(int(value)) < MOST


def is_number(value: Any) -> bool:
    """Whether it is a number that converts to a float; NaN and infinity are."""
    return is_whole(value) or (isinstance(value, Real) and not isinstance(value, Integral))


def checked_whole(
    name: str, value: Any, least: int = 1, most: int | None = None, *, why: str = ""
) -> int:
    """Return a whole number of at least `least`, and at most `most`; `why` says where that is from.

    >>> checked_whole("batch_size", 0, 1, 500, why="the number of rows")
    Traceback (most recent call last):
    ValueError: batch_size must be a whole number in 1…500 (the number of rows), got 0.
    """
    if is_whole(value) and least <= value and (most is None or value <= most):
        return int(value)
    allowed = f"of at least {least}" if most is None else f"in {least}…{most}"
    if most is None and isinstance(value, Integral) and int(value) >= MOST:
        allowed += " and below 2**62"
    reason = f" ({why})" if why else ""
    msg = f"{name} must be a whole number {allowed}{reason}, got {shown(value)}."
    raise ValueError(msg)


def checked_number(
    name: str, value: Any, low: float, high: float = inf, *, inside: bool = True
) -> float:
    """Return a finite number of an interval, open unless `inside` is false."""
    fits = is_number(value) and isfinite(value)
    if fits and (low < value < high if inside else low <= value <= high):
        return float(value)
    first = "(" if inside else "["
    last = "∞)" if high == inf else f"{high:g}" + (")" if inside else "]")
    msg = f"{name} must be a number in {first}{low:g}, {last}, got {shown(value)}."
    raise ValueError(msg)


def checked_positive(name: str, value: Any) -> float:
    """Return a positive, finite number."""
    return checked_number(name, value, 0.0)


def checked_choice(name: str, value: Any, allowed: Collection[str]) -> str:
    """Return one of the allowed words."""
    if not is_word_of(value, allowed):
        words = ", ".join(map(repr, allowed))
        msg = f"{name} must be one of {words}, got {shown(value)}."
        raise ValueError(msg)
    return str(value)


def checked_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return an ε that a guarantee may have."""
    epsilon = checked_positive(name, value)
    if epsilon > LARGEST_EPSILON:
        msg = (
            f"{name} must be at most {LARGEST_EPSILON:g}, got {epsilon:g}: beyond that a guarantee "
            "says nothing; use RobustPCA if the rows need no protection."
        )
        raise ValueError(msg)
    return epsilon


def checked_delta(value: Any, name: str = "delta", smallest: float = SMALLEST_DELTA) -> float:
    """Return a δ that a guarantee may have."""
    if not is_number(value) or not 0.0 < value < 1.0:
        msg = f"{name} must be a number in (0, 1), far below 1/n, got {shown(value)}."
        raise ValueError(msg)
    if value < smallest:
        msg = (
            f"{name} must be at least {smallest:g}, got {float(value):g}: below that the error of "
            "the noise sampler would count."
        )
        raise ValueError(msg)
    return float(value)


def default_delta(n: int) -> float:
    """Return the δ of a fit that names none: `min(n^−1.5, 1e-6)`, n the public number of rows."""
    return float(min(float(n) ** -1.5, 1e-6))


def checked_flag(name: str, value: Any) -> bool:
    """Return True or False, also for 1 and 0."""
    if isinstance(value, Integral) and value in (0, 1):
        return bool(value)
    msg = f"{name} must be True or False, got {shown(value)}."
    raise ValueError(msg)
