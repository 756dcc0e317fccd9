"""How many columns a fit looks at: the sketch of wide rows, and the narrowing behind it."""

from __future__ import annotations

from math import sqrt
from typing import Any
from warnings import warn

from stillspace._checks import bytes_in_words, described, is_whole
from stillspace.rows import Sketch

SKETCH_WIDTH, NARROWED_WIDTH = 0.36, 0.8
"""Columns of a sketch for each unit of nμ, where one release must do with them, and where rows are
narrowed further. A sketch of m columns blurs a direction of variance λ by about λ/√m in each other
direction, noise by 1/(nμ), so that m grows with nμ. The factors were measured (docs/wide.md)."""
LEAST_WIDTH, SEED, NONZEROS = 32, 0, 8
NARROWING = 4
"""Rows of a sketch are narrowed to so many times fewer columns…"""
LEAST_PER_COMPONENT = 8
"""…if these are at least LEAST_WIDTH, and this many for each component."""


COPIES_OF_MOMENT = 6
"""Arrays of the size of a second moment that a release and its eigenvectors hold at once."""

USUAL_MEMORY = 8 * 10**9
"""Bytes from which the widest sketch follows, for rows in memory without a bound of their own."""


def auto_width(n: int, mu: float, factor: float = NARROWED_WIDTH) -> int:
    """Return the width of a sketch that suits the budget."""
    return max(LEAST_WIDTH, round(factor * n * mu))


def widest(memory: int) -> int:
    """Return the width of a sketch whose second moment takes at most half of the memory."""
    return max(LEAST_WIDTH, int(sqrt(memory / 2 / (8 * COPIES_OF_MOMENT))))


def too_narrow(width: int, limit: int) -> str:
    """Return what a sketch loses by a limit on memory, as a sentence."""
    needed = bytes_in_words(2 * 8 * COPIES_OF_MOMENT * width**2)
    return (
        f"sketch='auto' takes {limit} columns instead of {width}, because memory is limited: it "
        f"blurs directions {sqrt(width / limit):.1f} times as much. All columns need about "
        f"memory='{needed.replace(' ', '')}'."
    )


def narrowed_width(columns: int, r: int) -> int | None:
    """Return to how many columns rows of a sketch are narrowed; None if there are too few."""
    width = columns // NARROWING
    return width if width >= max(LEAST_WIDTH, LEAST_PER_COMPONENT * r) else None


def chosen_sketch(
    sketch: Any,
    D: int,
    n: int,
    mu: float,
    factor: float = SKETCH_WIDTH,
    memory: int = USUAL_MEMORY,
) -> Sketch | None:
    """Return the sketch that a user asked for, or that wide rows need.

    "auto" projects where there are more columns than rows, to `factor` · nμ columns, or to as many
    as `memory` allows; a warning then says what that costs. All of this follows from public facts.
    """
    if sketch is None:
        return None
    if type(sketch) is Sketch:  # a subclass might mix rows
        if sketch.n_features != D:
            msg = f"The sketch is made for {sketch.n_features} columns; X has {D}."
            raise ValueError(msg)
        return sketch
    if isinstance(sketch, str) and sketch == "auto":
        wanted, limit = auto_width(n, mu, factor), widest(memory)
        width = min(wanted, limit)
        if n >= D or 2 * width > D:
            return None
        if width < wanted:
            warn(too_narrow(wanted, limit), UserWarning, stacklevel=6)
        return Sketch(D, width, SEED)
    if not is_whole(sketch) or not 2 <= sketch < D:
        msg = (
            "sketch must be None, 'auto', a Sketch, or a whole number of columns below the number "
            f"of features, got {described(sketch)}."
        )
        raise ValueError(msg)
    return Sketch(D, int(sketch), SEED, nonzeros=min(NONZEROS, int(sketch)))
