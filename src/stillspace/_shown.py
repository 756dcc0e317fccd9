"""What an error message says of a value that a user gave: never the cells of an array."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from numbers import Integral, Real
from typing import Any

_LONGEST, _LARGEST = 60, 2**62


def shown(value: Any) -> str:
    """Return a word or a number as it is, of anything else the type alone: it may hold records."""
    if isinstance(value, Integral) and abs(int(value)) >= _LARGEST:
        return "a whole number of 2**62 or more in size"  # Python would not even print the longest
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"a text of {len(value)} characters"
    if value is None or isinstance(value, str | Real):
        return repr(value)
    return f"a value of type {type(value).__name__}"


def is_word_of(value: Any, allowed: Container[str]) -> bool:
    """Whether it is one of the allowed words; an array, to which `in` gives no answer, is not."""
    return isinstance(value, str) and value in allowed


def checked_words(name: str, value: Any, allowed: Collection[str]) -> tuple[str, ...]:
    """Return a word, or several different ones, as a tuple."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    words = tuple(value) if several else (value,)
    wrong = [word for word in words if not is_word_of(word, allowed)]
    if wrong or len(set(words)) < len(words):
        typed = wrong and isinstance(value, list | tuple) and isinstance(wrong[0], str)
        got = shown(wrong[0]) if typed else shown(value)
        known = ", ".join(map(repr, allowed))
        msg = f"{name} must hold different ones of {known}, got {got}."
        raise ValueError(msg)
    return words
