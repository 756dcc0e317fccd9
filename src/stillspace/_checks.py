"""Checks of numbers and words that users give: one place, one wording. It imports no library.

So the command can refuse an option before anything slow is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

Relation: TypeAlias = Literal["replace-one", "add-or-remove-one"]
RELATIONS: tuple[Relation, ...] = ("replace-one", "add-or-remove-one")

LARGEST_EPSILON = 50.0
"""Up to this ε the sampler's error, (1 + e^ε) τ per coordinate, stays far below any usual δ."""

SMALLEST_DELTA = 1e-30
"""Below this δ the error of the sampler (about 1e-36 for a small fit) would count."""

MOST = 2**62
"""Whole numbers below this size are ones that other arithmetic can take: Python's have no end."""

_LONGEST = 60
"""Characters of a text that an error message repeats."""

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 10 ** (3 * k) for k, letter in enumerate("KMGT", start=1)}
_UNITS |= {f"{letter}IB": 2 ** (10 * k) for k, letter in enumerate("KMGT", start=1)}


def described(value: Any) -> str:
    """Return what an error message says of a value: a word or a number as it is.

    Of anything else it says the type alone, never the cells of an array: they may be records.
    """
    if isinstance(value, Integral) and abs(int(value)) >= MOST:
        return "a whole number of 2**62 or more in size"  # Python would not even print the longest
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"a text of {len(value)} characters"
    if value is None or isinstance(value, str | Real):
        return repr(value)
    return f"a value of type {type(value).__name__}"


def is_word_of(value: Any, allowed: Container[str]) -> bool:
    """Whether it is one of the allowed words; an array, to which `in` gives no answer, is not."""
    return isinstance(value, str) and value in allowed


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
    raise ValueError(f"{name} must be a whole number {allowed}{reason}, got {described(value)}.")


def checked_number(
    name: str, value: Any, low: float, high: float = inf, *, inside: bool = True
) -> float:
    """Return a finite number of an interval, open unless `inside` is false."""
    fits = is_number(value) and isfinite(value)
    if fits and (low < value < high if inside else low <= value <= high):
        return float(value)
    first = "(" if inside else "["
    last = "∞)" if high == inf else f"{high:g}" + (")" if inside else "]")
    raise ValueError(f"{name} must be a number in {first}{low:g}, {last}, got {described(value)}.")


def checked_positive(name: str, value: Any) -> float:
    """Return a positive, finite number."""
    return checked_number(name, value, 0.0)


def checked_choice(name: str, value: Any, allowed: Collection[str]) -> str:
    """Return one of the allowed words."""
    if not is_word_of(value, allowed):
        words = ", ".join(map(repr, allowed))
        raise ValueError(f"{name} must be one of {words}, got {described(value)}.")
    return str(value)


def checked_words(name: str, value: Any, allowed: Collection[str]) -> tuple[str, ...]:
    """Return a word, or several different ones, as a tuple."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    words = tuple(value) if several else (value,)
    wrong = [word for word in words if not is_word_of(word, allowed)]
    if wrong or len(set(words)) < len(words):
        typed = wrong and isinstance(value, list | tuple) and isinstance(wrong[0], str)
        got = described(wrong[0]) if typed else described(value)
        known = ", ".join(map(repr, allowed))
        raise ValueError(f"{name} must be chosen from {known} without repetition, got {got}.")
    return words


def checked_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return an ε that a guarantee may have."""
    epsilon = checked_positive(name, value)
    if epsilon > LARGEST_EPSILON:
        raise ValueError(
            f"{name} must be at most {LARGEST_EPSILON:g}, got {epsilon:g}: beyond that a guarantee "
            "says nothing; use RobustPCA if the rows need no protection."
        )
    return epsilon


def checked_delta(value: Any, name: str = "delta", smallest: float = SMALLEST_DELTA) -> float:
    """Return a δ that a guarantee may have."""
    if not is_number(value) or not 0.0 < value < 1.0:
        msg = f"{name} must be a number in (0, 1), far below 1/n, got {described(value)}."
        raise ValueError(msg)
    if value < smallest:
        raise ValueError(
            f"{name} must be at least {smallest:g}, got {float(value):g}: below that the error of "
            "the noise sampler would count."
        )
    return float(value)


def check_epsilon(epsilon: float) -> None:
    """Refuse an ε that no accountant knows; a guarantee's own is narrower (`checked_epsilon`)."""
    if not epsilon >= 0:
        raise ValueError(f"epsilon is {epsilon!r}; it must be a number that is not negative.")


def check_delta(delta: float) -> None:
    """Refuse a δ outside [0, 1]; a guarantee's own is narrower (`checked_delta`)."""
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is {delta!r}; it must lie between 0 and 1.")


def default_delta(n: int) -> float:
    """Return the δ of a fit that names none: `min(n^−1.5, 1e-6)`, n the public number of rows."""
    return float(min(float(n) ** -1.5, 1e-6))


def checked_flag(name: str, value: Any) -> bool:
    """Return True or False, also for 1 and 0."""
    if isinstance(value, Integral) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} must be True or False, got {described(value)}.")


def checked_bytes(name: str, value: Any, least: int = 1) -> int:
    """Return a number of bytes: a whole number, or words such as "512MB" (512 · 10⁶) or "1GiB"."""
    found = None
    if isinstance(value, Integral):
        found = None if value is True else int(value)
    elif isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        found = None if match is None or unit is None else int(float(match[1]) * unit)
    if found is None or not least <= found < MOST:
        raise ValueError(
            f"{name} must be a number of bytes of at least {bytes_in_words(least)}, such as "
            f"'512MB' or '2GiB', got {described(value)}."
        )
    return found


def bytes_in_words(size: float) -> str:
    """Return a number of bytes as a person says it."""
    for unit, word in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {word}"
    return f"{size:.0f} bytes"
