"""Parts of a plan by the names that users give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from typing import Any, TypeVar

import numpy as np

from stillspace._shown import is_word_of, shown
from stillspace.parts.outputs import Average, Last, Output
from stillspace.parts.sampling import Poisson, Sampling, WithoutReplacement, WithReplacement
from stillspace.parts.schedules import Schedule
from stillspace.recipes.facts import Facts, Options

_T = TypeVar("_T")


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    return ", ".join(map(repr, names)) or "none"


def choice(kind: str, value: Any, table: Mapping[str, _T]) -> _T:
    """Return the entry of a table that the user named."""
    if not is_word_of(value, table):
        msg = f"Unknown {kind} {shown(value)}; known: {listed(table)}."
        raise ValueError(msg)
    return table[value]


MOST_ITERATIONS = 10**9
"""More than anybody runs, and few enough for all arithmetic on them."""
_ITERATIONS = "The number of iterations (n_iter; max_iter of RobustPCA)"


def checked_n_iter(options: Options, default: int) -> int:
    """Return the option `n_iter`, or the recipe's own."""
    n_iter = options.get("n_iter", default)
    if not isinstance(n_iter, int | np.integer) or isinstance(n_iter, bool) or n_iter < 1:
        msg = f"{_ITERATIONS} must be a whole number of at least 1, got {shown(n_iter)}."
        raise ValueError(msg)
    if n_iter > MOST_ITERATIONS:
        msg = f"{_ITERATIONS} is more than {MOST_ITERATIONS}; give fewer."
        raise ValueError(msg)
    return int(n_iter)


def checked_positive(name: str, value: Any) -> float:
    """Return a positive number, none of Python's endless ones."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or not 0.0 < value < 2.0**1000:
        msg = f"{name} must be a number in (0, ∞), got {shown(value)}."
        raise ValueError(msg)
    return float(value)


def named_sampling(facts: Facts, options: Options, n_iter: int) -> Sampling:
    """Return a sampling by name; the paper's batch is `max(n √(ε/(4T)), 1)` (SPEC 3).

    By default Poisson where its smaller noise counts, else the paper's own, with replacement. The
    bound for sampling with replacement is far from tight (docs/privacy.md, "Accountants").
    """
    n = facts.n
    paper = n * sqrt(facts.epsilon / (4 * n_iter)) if facts.epsilon else 64
    batch_size = options.get("batch_size", min(n, max(1, round(paper))))
    if not isinstance(batch_size, int | np.integer) or not 1 <= batch_size <= n:
        msg = (
            f"batch_size must be a whole number in 1…{n} (the number of {facts.unit}), "
            f"got {shown(batch_size)}."
        )
        raise ValueError(msg)
    makers: dict[str, Callable[[], Sampling]] = {
        "poisson": lambda: Poisson(batch_size / n),
        "without-replacement": lambda: WithoutReplacement(int(batch_size), n),
        "with-replacement": lambda: WithReplacement(int(batch_size), n),
    }
    honest = facts.private and facts.calibration == "honest"
    name = options.get("sampling", "poisson" if honest else "with-replacement")
    return choice("sampling", name, makers)()


def checked_schedule(options: Options, default: Schedule) -> Schedule:
    """Return the option `schedule`, or the recipe's own."""
    schedule = options.get("schedule", default)
    if not hasattr(schedule, "step"):
        msg = (
            "schedule must be one of stillspace.parts.schedules, such as Halving(1.0, every=50), "
            f"got {shown(schedule)}."
        )
        raise TypeError(msg)
    made: Schedule = schedule
    return made


def named_output(options: Options, default: str) -> Output:
    """Return the output rule that the user named."""
    table: dict[str, Output] = {"last": Last(), "average": Average()}
    return choice("output", options.get("output", default), table)
