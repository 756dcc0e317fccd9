"""Parts of a plan by the names that users give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from typing import Any, TypeVar

from stillspace._checks import checked_whole, described, is_word_of
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
        msg = f"Unknown {kind} {described(value)}; known: {listed(table)}."
        raise ValueError(msg)
    return table[value]


MOST_ITERATIONS = 10**9
"""More than anybody runs, and few enough for all arithmetic on them."""
_ITERATIONS = "The number of iterations (n_iter; max_iter of RobustPCA)"


def checked_n_iter(options: Options, default: int) -> int:
    """Return the option `n_iter`, or the recipe's own."""
    n_iter = options.get("n_iter", default)
    return checked_whole(_ITERATIONS, n_iter, 1, MOST_ITERATIONS)


def named_sampling(facts: Facts, options: Options, n_iter: int) -> Sampling:
    """Return a sampling by name; the paper's batch is `max(n √(ε/(4T)), 1)` (SPEC 3).

    By default Poisson where its smaller noise counts, else the paper's own, with replacement. The
    bound for sampling with replacement is far from tight (docs/privacy.md, "Accountants").
    """
    n = facts.n
    paper = n * sqrt(facts.epsilon / (4 * n_iter)) if facts.epsilon else 64
    batch_size = options.get("batch_size", min(n, max(1, round(paper))))
    batch_size = checked_whole("batch_size", batch_size, 1, n, why=f"the number of {facts.unit}")
    makers: dict[str, Callable[[], Sampling]] = {
        "poisson": lambda: Poisson(batch_size / n),
        "without-replacement": lambda: WithoutReplacement(batch_size, n),
        "with-replacement": lambda: WithReplacement(batch_size, n),
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
            f"got {described(schedule)}."
        )
        raise TypeError(msg)
    made: Schedule = schedule
    return made


def named_output(options: Options, default: str) -> Output:
    """Return the output rule that the user named."""
    table: dict[str, Output] = {"last": Last(), "average": Average()}
    return choice("output", options.get("output", default), table)
