"""How often each method runs. It changes no result: what is stored for a cell stays valid."""

from dataclasses import dataclass

import numpy as np

from benchmarks.utility.contenders import GAUSSIAN, OURS, REAPER_STEPS, REAPERS
from benchmarks.utility.problems import Problem, work


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is run: how many seeds, how large a grid, how dear a REAPER run may be."""

    least_seeds: int = 9
    most_seeds: int = 99
    table_seeds: int = 99
    other_seeds: int = 9
    reaper_seeds: int = 3
    every_plan: int = 1
    """1 runs the whole grid of plans, 8 each eighth of it."""
    largest_grid: float = 4e7
    """Regimes with a larger n·D·max(r, 3) have no grid."""
    reaper_seconds: float = 3.0
    """A REAPER run that would take longer is done with one seed."""
    longest_reaper: float = 15.0
    """One that would take longer than this is left out."""


WHOLE = Effort()
QUICK = Effort(
    least_seeds=5, most_seeds=15, table_seeds=15, other_seeds=3, reaper_seeds=1, every_plan=8,
    largest_grid=1e6, reaper_seconds=0.5, longest_reaper=0.5,
)  # fmt: skip


def n_seeds(contender: str, problem: Problem, effort: Effort) -> int:
    """Return how often a contender runs: 0 where it would take too long.

    Medians of few runs are noisy where (D − r)r is small; there the runs are cheap too.
    """
    if contender in REAPERS:
        seconds = reaper_seconds(contender, problem)
        if seconds > effort.longest_reaper:
            return 0
        return effort.reaper_seeds if seconds <= effort.reaper_seconds else 1
    if contender not in (OURS, GAUSSIAN):
        return effort.other_seeds
    if problem.group == "tables":
        return effort.table_seeds
    return int(np.clip(3e7 / work(problem), effort.least_seeds, effort.most_seeds))


def has_grid(problem: Problem, effort: Effort) -> bool:
    """Return whether the best plan in hindsight is looked for."""
    return problem.group != "tables" and work(problem) <= effort.largest_grid


def reaper_seconds(contender: str, problem: Problem) -> float:
    """Return roughly the seconds of one run on one core."""
    rows = problem.n if contender in ("dp-GD-REAP", "dp-MD-REAP") else problem.n / 10
    return REAPER_STEPS * (1.6e-10 * rows * problem.D**2 + 1.5e-9 * problem.D**3 + 3e-5)
