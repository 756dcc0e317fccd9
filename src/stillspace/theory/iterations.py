"""The paper's convergence theorems with their slips repaired: runs with step size c₁ a T^−ν.

The paper's proof bounds m_T = max d_r(V_k, L*) by a bound on the *squared* distance d_r². The
start of its recursion is therefore √(2d₀), not 2d₀, and the number of iterations that halves d_r²
grows as the start gets closer, like a^(−1/(2(1−ν))). So the paper's steps, which are proportional
to a, do not converge linearly; `stillspace.theory.linear` has steps that do.

What holds (theorem 1 of docs/theory.md), with F₀ and F₁ the chordal distances √(Σ sin² θ_j) that
belong to the start d₀ and the radius a: a run of T iterations with η = c₁ a T^−ν ends within
d_r² ≤ a with probability 1 − λ if T meets three conditions.

    stay    no iterate leaves the ball cos θ_max ≥ γ
    settle  what noise and steps leave is below F₁
    shrink  T steps are enough to go from F₀ to F₁

All constants are proved, c(X) of the paper included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, sqrt
from typing import Any, Literal, TypeAlias

from stillspace._checks import checked_choice, checked_number, checked_whole
from stillspace.privacy import mu_from_budget
from stillspace.theory import _checks
from stillspace.theory._walk import Drift, Noise, Pull, chordal_radius

Method: TypeAlias = Literal["nggd", "sggd", "nsggd"]
_MOST = 2.0**200
"""A number of iterations above this counts as infinite."""
_MOST_RESTARTS = 200
_SLACK = 0.25
"""The part of the drift that pays for the random part of the steps."""


@dataclass(frozen=True, slots=True)
class IterationBound:
    """The least T of each condition; the promise holds for `iterations` steps of size `step`."""

    stay: float
    settle: float
    shrink: float
    gamma: float
    """The promise needs S_γ at this γ: all iterates have cos θ_max ≥ γ."""
    scale: float
    """c₁ a."""
    nu: float

    @property
    def iterations(self) -> float:
        """The least whole T that meets all of them; infinite if none does."""
        most = max(self.stay, self.settle, self.shrink, 1.0)
        return inf if most == inf else float(ceil(most))

    @property
    def step(self) -> float:
        """The step size c₁ a T^−ν of a run with `iterations` iterations."""
        return 0.0 if self.iterations == inf else float(self.scale * self.iterations**-self.nu)


@dataclass(frozen=True, slots=True)
class RestartSchedule:
    """A first run from d₀ to a, then runs that halve the bound on d_r² each."""

    runs: tuple[IterationBound, ...]
    radius: float
    """a: the first run ends within d_r² ≤ a."""
    failure: float
    """λ: the probability that one run breaks its promise."""

    @property
    def restarts(self) -> int:
        """The number of runs."""
        return len(self.runs)

    @property
    def iterations(self) -> float:
        """The number of iterations of all runs."""
        return float(sum(run.iterations for run in self.runs))

    @property
    def error(self) -> float:
        """The bound on d_r² at the end: a/2^(R−1) after R runs."""
        return self.radius / 2.0 ** (self.restarts - 1)

    @property
    def probability(self) -> float:
        """The promise holds with this probability: 1 − Rλ."""
        return max(0.0, 1.0 - self.restarts * self.failure)


def iteration_bound(
    method: Method,
    *,
    radius: float,
    start: float,
    stability: float,
    D: int,
    r: int,
    sigma: float = 0.0,
    batch_size: int = 1,
    failure: float = 0.01,
    nu: float = 0.75,
    c1: float = 1.0,
    gamma: float | None = None,
    gradient: float = 1.0,
) -> IterationBound:
    """Return the iterations that lead from d_r² ≤ `start` to d_r² ≤ `radius`, by condition.

    Parameters
    ----------
    method : {"nggd", "sggd", "nsggd"}
        Noise and all rows; random batches; both.
    radius, start : float
        a and d₀ = d_r²(V*, V₀).
    stability : float
        S_γ of all rows; positive. (The mean stability S_{γ,E} of batches is never larger.)
    sigma : float
        Standard deviation of the noise on each entry of the mean gradient; unused by "sggd".
    batch_size : int
        Rows per step, drawn with replacement; unused by "nggd".
    failure : float
        λ, the probability that the promise is broken.
    nu, c1 : float
        The step size is c₁ a T^−ν.
    gamma : float, optional
        The γ of `stability`. By default √(1 − 2F₀²), F₀ = √(r d₀(2 − d₀)): the ball reaches √2
        times as far as the start.
    gradient : float
        An upper bound on the norm of the mean gradient; 1 always holds.
    """
    checked_number("start", start, 0.0, 1.0, inside=False)
    checked_number("radius", radius, 0.0, start)
    checked_number("stability", stability, 0.0, inf)
    checked_number("failure", failure, 0.0, 1.0)
    checked_number("nu", nu, 0.5, 1.0)
    checked_number("c1", c1, 0.0, inf)
    first = chordal_radius(start, D, _checks.dimension(r, D))
    last = sqrt(radius * (2.0 - radius))
    noise = _noise(method, sigma, batch_size, D, r)
    if gamma is None:
        gamma = sqrt(max(1.0 - 2.0 * first**2, 0.0))
    checked_number("gamma", gamma, 0.0, 1.0, inside=False)
    scale = c1 * radius
    if gamma * gamma + first * first >= 1.0:
        return IterationBound(inf, inf, inf, gamma, scale, nu)
    s, room = gamma * stability, sqrt(1.0 - gamma**2) - first
    return _bound(first, last, s, room, gamma, scale, nu, gradient, noise, failure)


def restarts(
    method: Method,
    count: int,
    *,
    radius: float,
    start: float,
    stability: float,
    D: int,
    r: int,
    sigma: float = 0.0,
    batch_size: int = 1,
    failure: float = 0.01,
    nu: float = 0.75,
    c1: float = 1.0,
    gradient: float = 1.0,
) -> RestartSchedule:
    """Return the schedule of `count` runs: from d₀ to a, then each from a/2^(l−1) to a/2^l.

    The later runs get longer: with steps proportional to a, halving d_r² takes more iterations the
    smaller a is.
    """
    checked_whole("The number of runs", count)
    first = iteration_bound(
        method,
        radius=radius,
        start=start,
        stability=stability,
        D=D,
        r=r,
        sigma=sigma,
        batch_size=batch_size,
        failure=failure,
        nu=nu,
        c1=c1,
        gradient=gradient,
    )
    noise, runs = _noise(method, sigma, batch_size, D, r), [first]
    for k in range(1, count):
        a = radius / 2.0**k
        f0, f1 = (sqrt(x * (2.0 - x)) for x in (2.0 * a, a))
        # The run starts within f0, which is known better than d_r² ≤ 2a alone would tell.
        room = sqrt(1.0 - first.gamma**2) - f0
        s = first.gamma * stability
        runs.append(_bound(f0, f1, s, room, first.gamma, c1 * a, nu, gradient, noise, failure))
    return RestartSchedule(tuple(runs), radius, failure)


def largest_restarts(
    *,
    n: int,
    epsilon: float,
    delta: float,
    **facts: Any,
) -> tuple[RestartSchedule | None, float]:
    """Return NGGD's longest schedule that (ε, δ) allows on n rows, and its σ; None if not even one.

    Full batches under replace-one: T releases with noise σ on the mean gradient (sensitivity 2/n)
    cost μ² = T (2/(nσ))². So T iterations need σ(T) = 2√T/(nμ), and more noise needs more
    iterations. The least T that is enough for its own σ is a fixed point, found from below. All
    other facts are those of `restarts`: radius, start, stability, D, r, failure, nu, c1, gradient.
    (Batches cost more than their σ tells; make a plan of them and read its guarantee.)
    """
    mu = mu_from_budget(epsilon, delta)

    def affordable(count: int, needed: float) -> tuple[RestartSchedule | None, float]:
        """Raise `needed`, too few iterations or just enough, until it pays for itself."""
        while needed <= _MOST:
            sigma = 2.0 * sqrt(needed) / (n * mu)
            found = restarts("nggd", count, sigma=sigma, **facts)
            if found.iterations <= needed:
                return found, sigma
            needed = found.iterations
        return None, inf

    best: tuple[RestartSchedule | None, float] = (None, inf)
    needed = 1.0
    for count in range(1, _MOST_RESTARTS):
        found = affordable(count, needed)
        if found[0] is None:
            break
        best, needed = found, found[0].iterations
    return best


def _bound(
    first: float,
    last: float,
    s: float,
    room: float,
    gamma: float,
    scale: float,
    nu: float,
    gradient: float,
    noise: Noise,
    failure: float,
) -> IterationBound:
    """Return the conditions of a run from f ≤ first to f ≤ last (lemma 5)."""
    part = failure if noise.sigma == 0.0 else failure / 2.0

    def at(T: float) -> tuple[float, Drift, float, tuple[float, float]]:
        step = scale * T**-nu
        drift = Drift.of(Pull(s, gradient), noise, noise.tilt(step, T, part))
        slack = _SLACK * drift.s
        tails = drift.tails(slack, T, part) if drift.s > 0.0 else (inf, inf)
        return step, drift, slack, tails

    def stays(T: float) -> bool:
        step, _, _, (way, _) = at(T)
        return step * way <= room

    def settles(T: float) -> bool:
        step, drift, slack, (_, end) = at(T)
        return drift.s > 0.0 and last / step - end > drift.floor(slack)

    def shrinks(T: float) -> bool:
        step, drift, slack, (_, end) = at(T)
        return drift.s > 0.0 and drift.time(first / step, last / step - end, slack) <= T

    stay = _least(stays, 1.0)
    settle = _least(settles, 1.0)
    # Time is finite only where the run settles.
    shrink = _least(shrinks, settle)
    return IterationBound(stay, settle, shrink, gamma, scale, nu)


def _noise(method: str, sigma: float, batch_size: int, D: int, r: int) -> Noise:
    table = {"nggd": (sigma, None), "sggd": (0.0, batch_size), "nsggd": (sigma, batch_size)}
    return Noise(D, r, *table[checked_choice("method", method, table)])


def _least(holds: Callable[[float], bool], low: float) -> float:
    """Return the least T ≥ low from which a condition holds, by doubling and bisection.

    Each condition, once met, stays met: T·s grows and s·log T shrinks. (Below T = 10 the latter may
    grow first, so the doubling starts there unless the condition holds at `low` and up to there.)
    """
    if low == inf:
        return inf
    if all(holds(low * 1.1**k) for k in range(26)):
        return low
    high = 10.0 * low
    while not holds(high):
        high *= 2.0
        if high > _MOST:
            return inf
    for _ in range(55):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
