"""The methods that are compared, all at the same (ε, δ) under replace-one."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from benchmarks.utility import coinpress, power
from benchmarks.utility.problems import DELTA, Data, Problem, budget, work
from stillspace import PrivateRobustPCA
from stillspace._typing import FloatArray
from stillspace.exceptions import SeededNoiseWarning
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.noise import seeded_generator
from stillspace.parts.schedules import Geometric
from stillspace.plan import Plan
from stillspace.recipes import Facts, make_plan
from stillspace.reproduce.cells import seed_from
from stillspace.rows import MemoryRows
from stillspace.run import run

Answer: TypeAlias = tuple[FloatArray, dict[str, Any]]
"""A basis (D, r), and what else the method says."""
Method: TypeAlias = Callable[[Problem, Data, list[int]], Iterator[Answer]]
"""Runs once a seed."""

OURS, GAUSSIAN, FIXED = "stillspace auto", "Gaussian-noise PCA", "fixed plan"

FIXED_STEPS = 30
FIXED_SHARE = 0.2
REAPER_STEPS = 200
"""Chosen once, on nine drawn regimes, of 20, 60 and 200; so was their start, private PCA."""


def facts_of(problem: Problem) -> Facts:
    return Facts(problem.n, problem.D, problem.r, epsilon=problem.epsilon, delta=DELTA)


def ours(problem: Problem, data: Data, seeds: list[int]) -> Iterator[Answer]:
    """The library as a user calls it; only the noise is seeded."""
    for seed in seeds:
        estimator = PrivateRobustPCA(
            problem.r, epsilon=problem.epsilon, delta=DELTA, sketch=None, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            estimator.fit(data.X)
        says = {"route": estimator.route_, "estimate": estimator.error_estimate_}
        yield estimator.components_.T, says


def planned(
    algorithm: str, options: Callable[[], dict[str, Any]], problem: Problem, data: Data,
    seeds: list[int],
) -> Iterator[Answer]:  # fmt: skip
    """A named algorithm of the library, calibrated once."""
    plan = make_plan(algorithm, facts_of(problem), **options())
    assert isinstance(plan, Plan)
    yield from ran(plan, data, seeds)


def ran(plan: Plan, data: Data, seeds: list[int]) -> Iterator[Answer]:
    rows = MemoryRows.prepare(data.X)
    for seed in seeds:
        yield run(plan, rows, seeded_generator(seed)).V, {}


def noisy_power(problem: Problem, data: Data, seeds: list[int]) -> Iterator[Answer]:
    S = data.X.T @ data.X / problem.n
    for seed in seeds:
        rng = np.random.default_rng(seed)
        yield power.noisy_power(S, problem.n, problem.r, budget(problem), rng), {}


def coin_press(problem: Problem, data: Data, seeds: list[int]) -> Iterator[Answer]:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        S = coinpress.second_moment(data.X, budget(problem), rng)
        yield top_eigenvectors(S, problem.r), {}


def _fixed_options() -> dict[str, Any]:
    schedule = Geometric(1.0, 0.01, FIXED_STEPS)
    return {"n_iter": FIXED_STEPS, "schedule": schedule, "share": FIXED_SHARE}


def _reaper_options() -> dict[str, Any]:
    return {"n_iter": REAPER_STEPS, "start": "pca", "share": FIXED_SHARE}


REAPERS = {
    "dp-GD-REAP": "dp-gd-reap",
    "dp-MD-REAP": "dp-md-reap",
    "dp-SGD-REAP": "dp-sgd-reap",
    "dp-SMD-REAP": "dp-smd-reap",
}

CONTENDERS: dict[str, Method] = {
    OURS: ours,
    GAUSSIAN: partial(planned, "dp-pca", dict),
    FIXED: partial(planned, "dp-ggd", _fixed_options),
    "noisy power method": noisy_power,
    "CoinPress": coin_press,
    **{name: partial(planned, algorithm, _reaper_options) for name, algorithm in REAPERS.items()},
}


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
    largest_grid: float = 1.1e8
    """Regimes with a larger n·D·max(r, 3) have no grid."""
    reaper_seconds: float = 3.0
    """A REAPER run that would take longer is done with one seed."""
    longest_reaper: float = 70.0
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


def reaper_seconds(contender: str, problem: Problem) -> float:
    """Return roughly the seconds of one run on one core."""
    rows = problem.n if contender in ("dp-GD-REAP", "dp-MD-REAP") else problem.n / 10
    return REAPER_STEPS * (1.6e-10 * rows * problem.D**2 + 1.5e-9 * problem.D**3 + 3e-5)


def seeds_of(contender: str, problem: Problem, count: int, first: int = 0) -> list[int]:
    """Return seeds of the noise that no other contender or problem has."""
    return [seed_from(contender, problem.name, first + i) for i in range(count)]
