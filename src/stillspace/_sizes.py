"""Sizes of memory in words: "512MB" is 512 · 10⁶ bytes, "1GiB" is 2³⁰ bytes."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

from stillspace._shown import shown

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 10 ** (3 * k) for k, letter in enumerate("KMGT", start=1)}
_UNITS |= {f"{letter}IB": 2 ** (10 * k) for k, letter in enumerate("KMGT", start=1)}


def checked_bytes(name: str, value: Any, least: int = 1) -> int:
    """Return a number of bytes, given as a whole number or in words."""
    found = None
    if isinstance(value, Integral):
        found = None if value is True else int(value)
    elif isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        found = None if match is None or unit is None else int(float(match[1]) * unit)
    if found is None or not least <= found < 2**62:
        msg = (
            f"{name} must be a number of bytes of at least {in_words(least)}, such as '512MB' or "
            f"'2GiB', got {shown(value)}."
        )
        raise ValueError(msg)
    return found


def in_words(size: float) -> str:
    """Return a number of bytes as a person says it."""
    for unit, word in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {word}"
    return f"{size:.0f} bytes"
