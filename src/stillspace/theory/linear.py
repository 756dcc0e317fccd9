"""Linear convergence with explicit constants: steps proportional to the bound on the error.

The theorem (docs/theory.md): a run is cut into stages. In each stage the step size is a fixed part
of the bound R on the error f = √(Σ sin² θ_j), and after K iterations R has shrunk by a fixed
factor. Halving the step therefore divides f² and d_r² by 4. The Gaussian noise of private runs and
the noise of random batches are included; no constant is left open.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log2, sqrt

import numpy as np

from stillspace._checks import checked_number
from stillspace._typing import FloatArray
from stillspace.privacy import mu_from_budget
from stillspace.theory._walk import Drift, Noise, chordal_radius, gap_of_radius, least_length
from stillspace.theory.local import LocalStability

ROOM = 0.4
"""Within a stage the error may exceed the stage's first bound by this part of it."""
SLACKS = (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Parts of the drift that may be spent on the random part; the best one is taken."""
RATIOS = tuple(np.geomspace(1.05, 6.0, 12).tolist())
"""Errors over step sizes that are tried, as multiples of the least possible one."""
NEAR = 0.01
"""Once the drift is this close to its limit next to L*, all further stages are copies."""
MOST_STAGES = 60
"""After 60 halvings f is below the rounding of double precision."""
_TRIALS = 100


@dataclass(frozen=True, slots=True)
class Stage:
    """Iterations with one step size, from f ≤ `radius` to f ≤ `factor`·`radius`."""

    radius: float
    factor: float
    step: float
    iterations: float


@dataclass(frozen=True, slots=True)
class LinearConvergence:
    """The stages of a run that converges linearly, and what is proved of their end."""

    stages: tuple[Stage, ...]
    failure: float
    """The probability that the bounds below do not hold is at most this."""

    @property
    def iterations(self) -> float:
        """The number of iterations of all stages; infinite if a stage is not proved to end."""
        return float(sum(stage.iterations for stage in self.stages))

    @property
    def radius(self) -> float:
        """The bound on √(Σ sin² θ_j) at the end."""
        last = self.stages[-1]
        return last.factor * last.radius

    @property
    def error(self) -> float:
        """The bound on d_r² at the end."""
        return gap_of_radius(self.radius)

    def steps(self) -> FloatArray:
        """Return the step size of each iteration."""
        if self.iterations == inf:
            raise ValueError("No finite number of iterations is proved for these numbers.")
        sizes = [stage.step for stage in self.stages]
        return np.repeat(sizes, [int(stage.iterations) for stage in self.stages])


def linear_convergence(
    facts: LocalStability,
    *,
    start: float,
    target: float,
    D: int,
    r: int,
    sigma: float = 0.0,
    batch_size: int | None = None,
    tangential: bool = False,
    failure: float = 0.01,
) -> LinearConvergence:
    """Return step sizes that lead from d_r² ≤ `start` to d_r² ≤ `target` with probability 1 − λ.

    Parameters
    ----------
    facts : LocalStability
        What is known of the rows: `local_stability(...)`, or permeance and alignment as numbers.
    start, target : float
        Bounds on d_r² = 1 − cos θ_max before and after.
    sigma : float
        Standard deviation of the Gaussian noise on each entry of the mean gradient.
    batch_size : int, optional
        Rows that each iteration draws with replacement; by default an iteration reads all rows.
    tangential : bool
        True if a step uses `(I − VVᵀ)B` instead of the noise B itself.
    failure : float
        λ.
    """
    checked_number("start", start, 0.0, 1.0, inside=False)
    checked_number("target", target, 0.0, start)
    checked_number("failure", failure, 0.0, 1.0)
    noise = Noise(D, r, sigma, batch_size, tangential)
    first, last = chordal_radius(start, D, r), sqrt(target * (2.0 - target))
    count = max(1, ceil(log2(first / last) - 1e-12))
    factor = (last / first) ** (1.0 / count)
    stages = _stages(facts, first, factor, count, noise, failure / count)
    return LinearConvergence(stages, failure)


def noise_floor(
    facts: LocalStability,
    *,
    step: float,
    start: float,
    iterations: float,
    D: int,
    r: int,
    sigma: float = 0.0,
    batch_size: int | None = None,
    tangential: bool = False,
    failure: float = 0.01,
) -> float:
    """Return the d_r² below which a run with a *constant* step size is proved to end.

    For long runs this is a floor proportional to step². A run whose steps shrink has no floor: the
    noise enters multiplied by the step. Returns 1 if nothing is proved, because the step is too
    large for the ball around L* in which `facts` give a drift. Parameters as in
    `linear_convergence`; `iterations` is the length of the run.
    """
    checked_number("step", step, 0.0, inf)
    checked_number("start", start, 0.0, 1.0, inside=False)
    noise = Noise(D, r, sigma, batch_size, tangential)
    radius = chordal_radius(start, D, r)
    pull = facts.pull((1.0 + ROOM) * radius, r)
    part = failure if tangential or sigma == 0.0 else failure / 2.0
    drift = Drift.of(pull, noise, noise.tilt(step, iterations, part))
    if drift.s <= 0.0:
        return 1.0
    ends = []
    for share in SLACKS:
        slack = share * drift.s
        way, end = drift.tails(slack, iterations, part)
        if step * way <= ROOM * radius:
            ends.append(_level(drift, radius / step, iterations, slack) + end)
    return gap_of_radius(step * min(ends, default=inf))


def _level(drift: Drift, first: float, iterations: float, slack: float) -> float:
    """Return the least level that the comparison sequence reaches in so many iterations."""
    low, high = drift.floor(slack), first
    if not low < high:
        return inf
    for _ in range(60):
        middle = (low + high) / 2.0
        reached = drift.time(first, middle, slack) <= iterations
        low, high = (low, middle) if reached else (middle, high)
    return high


def most_halvings(
    facts: LocalStability,
    *,
    n: int,
    epsilon: float,
    delta: float,
    start: float,
    D: int,
    r: int,
    tangential: bool = False,
    failure: float = 0.01,
) -> tuple[LinearConvergence | None, float]:
    """Return the longest full-batch run that (ε, δ) on n rows pays for, and its σ.

    The run is one that `linear_convergence` proves; each stage halves f. T iterations under
    replace-one need σ(T) = 2√T/(nμ), and T must be enough for that σ. Such a T is searched from
    below in steps of at least 2 %, so that one halving may be missed. None if not even one stage is
    proved. At most 60 stages.
    """
    mu = mu_from_budget(epsilon, delta)
    radius = chordal_radius(checked_number("start", start, 0.0, 1.0, inside=False), D, r)

    def afforded(count: int) -> tuple[LinearConvergence | None, float]:
        needed = 1.0
        for _ in range(_TRIALS):
            sigma = 2.0 * sqrt(needed) / (n * mu)
            noise = Noise(D, r, sigma, None, tangential)
            stages = _stages(facts, radius, 0.5, count, noise, failure / count)
            found = LinearConvergence(stages, failure)
            if found.iterations <= needed:
                return found, sigma
            if found.iterations == inf:
                break
            needed = 1.02 * found.iterations
        return None, inf

    best: tuple[LinearConvergence | None, float] = (None, inf)
    low, high = 0, MOST_STAGES + 1
    while high - low > 1:
        middle = (low + high) // 2 if low else 1
        found = afforded(middle)
        if found[0] is None:
            high = middle
        else:
            low, best = middle, found
    return best


def _stages(
    facts: LocalStability, first: float, factor: float, count: int, noise: Noise, failure: float
) -> tuple[Stage, ...]:
    """Return so many stages; a stage is also good for any smaller radius, its step scaled."""
    stages: list[Stage] = []
    limit = facts.drift(0.0)
    for k in range(count):
        radius = first * factor**k
        last = stages[-1] if stages else None
        if last is None or facts.drift((1.0 + ROOM) * last.radius) < (1.0 - NEAR) * limit:
            stages.append(_stage(facts, radius, factor, noise, failure))
        else:
            step = last.step * radius / last.radius
            stages.append(Stage(radius, factor, step, last.iterations))
    return tuple(stages)


def _stage(
    facts: LocalStability, radius: float, factor: float, noise: Noise, failure: float
) -> Stage:
    """Return the shortest stage over a grid of step sizes and slacks."""
    pull = facts.pull((1.0 + ROOM) * radius, noise.r)
    best = Stage(radius, factor, 0.0, inf)
    if pull.s <= 0.0:
        return best
    free = Drift.of(pull, noise, 0.0)
    for share in SLACKS:
        slack = share * pull.s
        least = (free.floor(slack) + free.tails(slack, 1.0, failure)[1]) / factor
        for ratio in RATIOS:
            step = radius / (least * ratio)
            iterations = least_length(
                least * ratio,
                factor,
                noise,
                pull,
                step=step,
                share=share,
                room=ROOM,
                failure=failure,
            )
            if iterations < best.iterations:
                best = Stage(radius, factor, step, iterations)
    return best
