"""The centre and the scale that a private fit uses: given, found privately, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from warnings import warn

import numpy as np
import numpy.typing as npt

from stillspace._checks import described
from stillspace._frozen import FrozenArray
from stillspace.exceptions import AsItIsWarning
from stillspace.methods.standardiser import SAFE_KAPPA, kappa_of

WORDS = ("auto", "private")


class Units(NamedTuple):
    """Centre and scale as a fit takes them: a vector, a word other than "auto", or None."""

    center: Any
    scale: Any


def chosen_units(
    center: Any, scale: Any, *, mu: float, n: int, D: int, wide: bool, plain: bool
) -> Units:
    """Return what "auto" stands for; only public facts decide.

    "auto" is "private", unless the other of the two is given as something else: then it is None.
    Where a private centre and scale cannot be expected to work (few rows for the budget, or rows so
    `wide` that they are sketched) both are None, and a warning says so. `plain` fits have no place
    for a further stage: the paper's own noise, propose-test-release, and a start in the units of
    the table.
    """
    if not (is_auto(center) or is_auto(scale)):
        return Units(center, scale)
    others = [value for value in (center, scale) if not is_auto(value)]
    if plain or not all(is_private(value) for value in others):
        return Units(*(None if is_auto(value) else value for value in (center, scale)))
    kappa = kappa_of(mu, n, D)
    if others or (kappa >= SAFE_KAPPA and not wide):
        return Units("private", "private")
    reason = (
        "it has more columns than rows"
        if wide
        else f"kappa = mu * n / sqrt(columns) is {kappa:.3g}, and {SAFE_KAPPA:g} is needed"
    )
    msg = (
        f"This table is too small to find center and scale privately ({reason}). So columns are "
        "taken in their own units, around 0. If they have different units or offsets, give center "
        "and scale as public numbers. If not, center=None and scale=None silence this warning."
    )
    warn(msg, AsItIsWarning, stacklevel=5)
    return Units(None, None)


def checked_bounds(bounds: npt.ArrayLike | None, D: int) -> FrozenArray | None:
    """Return public ranges of the columns, an array (D, 2); NaN where nothing is known."""
    if bounds is None:
        return None
    try:
        found = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(0)
    if found.shape != (D, 2):
        got = f"shape {found.shape}" if found.size > 0 else described(bounds)
        msg = (
            f"bounds must hold two numbers (smallest, largest) per column, that is, be an array of "
            f"shape ({D}, 2), got {got}."
        )
        raise ValueError(msg)
    known = np.asarray(np.isfinite(found).all(axis=1))
    wrong = np.flatnonzero(known & ~(found[:, 0] < found[:, 1]))
    if len(wrong) > 0:
        low, high = found[wrong[0]]
        msg = (
            f"bounds of column {wrong[0]} must have the smaller number first, got ({low:g}, "
            f"{high:g}); use NaN where a range is not known."
        )
        raise ValueError(msg)
    return FrozenArray.of(np.where(known[:, None], found, np.nan))


def is_auto(value: Any) -> bool:
    """Whether public facts are to decide about a centre or a scale."""
    return isinstance(value, str) and value == "auto"


def is_private(value: Any) -> bool:
    """Whether a centre or a scale is to be found privately."""
    return isinstance(value, str) and value == "private"


def has_given_start(options: Mapping[str, Any]) -> bool:
    """Whether the user gives a basis to start from, which is in the units of the table."""
    start = options.get("start")
    return start is not None and not isinstance(start, str)
