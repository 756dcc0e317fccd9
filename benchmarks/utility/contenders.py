"""The methods that are compared, all at the same (ε, δ) under replace-one."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from reproduction.seeds import seed_from

from benchmarks.utility import coinpress, power
from benchmarks.utility.problems import DELTA, Data, Problem, budget
from stillspace import PrivateRobustPCA
from stillspace._typing import FloatArray
from stillspace.exceptions import SeededNoiseWarning
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.noise import seeded_generator
from stillspace.parts.schedules import Geometric
from stillspace.plans.fixed import Plan
from stillspace.recipes import Facts, make_plan
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
            problem.r,
            epsilon=problem.epsilon,
            delta=DELTA,
            sketch=None,
            random_state=seed,
            center=None,
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


def seeds_of(contender: str, problem: Problem, count: int, first: int = 0) -> list[int]:
    """Return seeds of the noise that no other contender or problem has."""
    return [seed_from(contender, problem.name, first + i) for i in range(count)]
