"""How many iterations and restarts the convergence theorems ask for (SPEC 6).

With step size s = c₁ a T^−ν, ½ < ν < 1, d₀ = d_r²(V*, V₀), m₀ = 2d₀ and stability S, the proofs
need of T, each with probability 1 − λ for the two noisy ones:

    stay    s √T w/√λ ≤ d₀/2  and  s² T c/S ≤ d₀/2        the iterates stay within m₀
    small   s < m₀/S                                      the contraction is one
    settle  s m₀ (w/√λ / √(2sSm₀ − (sS)²) + c/S) ≤ a/2    what noise and steps leave
    shrink  T s S/m₀ ≥ ln(2d₀/a)                          what is left of the start is ≤ a/2

w is the size of the noise in a step: σ(√D + √r) for NGGD (F₁), 1 for SGGD (F₂; a stability is at
most 1 away from its mean on the sphere), their sum for NSGGD (F₃). The constants c₁ and c = c(X)
are not known in numbers: they are arguments. The paper prints the first condition alone as F, with
c₁ for c₁² in one place and without it in the other; here all four are solved exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, inf, log, sqrt
from typing import Literal, TypeAlias

from scipy.optimize import minimize_scalar

from stillspace._shown import is_word_of, shown
from stillspace.privacy import mu_from_budget
from stillspace.theory import _checks

__all__ = ["IterationBound", "RestartSchedule", "iteration_bound", "largest_restarts", "restarts"]

Method: TypeAlias = Literal["nggd", "sggd", "nsggd"]
_MOST = 2.0**200
"""Beyond this a number of iterations is infinite."""
_MOST_RESTARTS = 2**20
_HOPELESS = 1e6


@dataclass(frozen=True, slots=True)
class IterationBound:
    """The least T of each condition; the theorem holds from `iterations` on."""

    stay: float
    small: float
    settle: float
    shrink: float

    @property
    def iterations(self) -> float:
        """The least whole T that meets all of them; infinite if none does."""
        most = max(self.stay, self.small, self.settle, self.shrink, 1.0)
        return inf if most == inf else float(ceil(most))


@dataclass(frozen=True, slots=True)
class RestartSchedule:
    """The linear-convergence theorem: a first run, then runs with half the step each."""

    method: Method
    first: float
    """Iterations of the first run."""
    each: float
    """Iterations of every later run."""
    restarts: int
    radius: float
    """a: the first run ends within d_r² < a."""
    failure: float
    """λ: half of what one run may fail with (a quarter for NSGGD)."""
    step: float
    """Step size of the first run; halved at each restart."""

    @property
    def iterations(self) -> float:
        """In all runs."""
        return self.first + (self.restarts - 1) * self.each if self.restarts else 0.0

    @property
    def error(self) -> float:
        """d_r² at the end: a/2^(R−1) after R runs, the first of which ends within a.

        (The theorem's a/2^R counts the first run as a halving too.)
        """
        return self.radius / 2.0 ** (self.restarts - 1) if self.restarts else inf

    @property
    def probability(self) -> float:
        """1 − 2Rλ, or 1 − 4Rλ for NSGGD."""
        per_run = 4.0 if self.method == "nsggd" else 2.0
        return max(0.0, 1.0 - per_run * self.restarts * self.failure)


def iteration_bound(
    method: Method,
    *,
    radius: float,
    start: float,
    stability: float,
    D: int,
    r: int,
    sigma: float = 0.0,
    failure: float = 0.01,
    nu: float = 0.75,
    c1: float = 1.0,
    c: float = 1.0,
) -> IterationBound:
    """Return F₁ ("nggd"), F₂ ("sggd") or F₃ ("nsggd"), condition by condition.

    Parameters
    ----------
    radius, start : float
        a and d₀ = d_r²(V*, V₀): the run shall go from d₀ to a.
    stability : float
        S_γ, for the stochastic ones S_{γ,E}; positive.
    sigma : float
        Standard deviation of the noise on each entry of the mean gradient.
    failure : float
        λ.
    nu, c1, c : float
        ν of the step size, and the theorem's constants.
    """
    _check(radius, start, stability, failure, nu, c1, c)
    w = _noise(method, sigma, D, r) / sqrt(failure)
    S, m0 = stability, 2.0 * start

    def step(T: float) -> float:
        return float(c1 * radius * T**-nu)

    def stays(T: float) -> bool:
        s = step(T)
        return s * sqrt(T) * w <= start / 2.0 and s * s * T * c / S <= start / 2.0

    def settles(T: float) -> bool:
        s = step(T)
        inside = 2.0 * s * S * m0 - (s * S) ** 2
        return inside > 0.0 and s * m0 * (w / sqrt(inside) + c / S) <= radius / 2.0

    return IterationBound(
        stay=_least(stays),
        small=_least(lambda T: step(T) < m0 / S),
        settle=_least(settles),
        shrink=_least(lambda T: T * step(T) * S / m0 >= log(2.0 * start / radius)),
    )


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
    failure: float = 0.01,
    nu: float = 0.75,
    c1: float = 1.0,
    c: float = 1.0,
) -> RestartSchedule:
    """Return the schedule of `count` runs: from d₀ to a, then each from a/2^(l−1) to a/2^l.

    A later run starts within a and shall end within a/2; its conditions depend on their ratio ½
    alone up to a factor a < 1 that only helps, so that F(½) is computed once, at a.
    """
    if not isinstance(count, int) or count < 1:
        msg = f"The number of runs must be a whole number of at least 1, got {count!r}."
        raise ValueError(msg)
    facts = {"stability": stability, "D": D, "r": r, "sigma": sigma}
    facts |= {"failure": failure, "nu": nu, "c1": c1, "c": c}
    first = iteration_bound(method, radius=radius, start=start, **facts).iterations  # type: ignore[arg-type]
    each = iteration_bound(method, radius=radius / 2.0, start=radius, **facts).iterations  # type: ignore[arg-type]
    step = 0.0 if first == inf else c1 * radius * first**-nu
    return RestartSchedule(method, first, each, count, radius, failure, step)


def largest_restarts(
    *,
    n: int,
    epsilon: float,
    delta: float,
    radius: float,
    start: float,
    stability: float,
    D: int,
    r: int,
    failure: float = 0.01,
    nu: float = 0.75,
    c1: float = 1.0,
    c: float = 1.0,
) -> tuple[RestartSchedule | None, float]:
    """Return NGGD's longest schedule that (ε, δ) allows on n rows, and its σ; None if not even one.

    Full batches under replace-one: T releases with noise σ on the mean gradient (sensitivity 2/n)
    cost μ² = T (2/(nσ))². So T iterations need σ(T) = 2√T/(nμ), and more noise needs more
    iterations: R runs are possible if T ≥ T₁(σ(T)) + (R − 1) T_½(σ(T)) for some T. (Batches cost
    more than their σ tells; make a plan of them and read its guarantee.)
    """
    mu = mu_from_budget(epsilon, delta)

    def schedule(count: int, T: float) -> tuple[RestartSchedule, float]:
        sigma = 2.0 * sqrt(T) / (n * mu)
        found = restarts(
            "nggd",
            count,
            radius=radius,
            start=start,
            stability=stability,
            D=D,
            r=r,
            sigma=sigma,
            failure=failure,
            nu=nu,
            c1=c1,
            c=c,
        )
        return found, sigma

    def affordable(count: int) -> float | None:
        """Return the T whose noise leaves most room for `count` runs, if that is enough."""

        def lack(u: float) -> float:
            needed = schedule(count, exp(u))[0].iterations
            return log(needed) - u if needed < inf else _HOPELESS

        # What is needed is a constant plus powers of T above 1: divided by T it falls, then rises.
        least = log(max(schedule(count, 0.0)[0].iterations, 1.0))
        if least > log(_MOST):
            return None
        best = minimize_scalar(lack, bounds=(least, least + 40.0), method="bounded")
        candidates = [least + 1e-9, float(best.x)]
        u = min(candidates, key=lack)
        return exp(u) if lack(u) <= 0.0 else None

    best: tuple[RestartSchedule | None, float] = (None, inf)
    low, high = 0, 1
    while high < _MOST_RESTARTS and affordable(high) is not None:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if affordable(middle) is not None else (low, middle)
    if low:
        T = affordable(low)
        assert T is not None
        best = schedule(low, T)
    return best


def _noise(method: str, sigma: float, D: int, r: int) -> float:
    noise = sigma * (sqrt(D) + sqrt(r))
    table = {"nggd": noise, "sggd": 1.0, "nsggd": noise + 1.0}
    if not is_word_of(method, table):
        msg = f"method must be one of 'nggd', 'sggd', 'nsggd', got {shown(method)}."
        raise ValueError(msg)
    return table[method]


def _least(holds: Callable[[float], bool]) -> float:
    """Return the least T ≥ 1 from which a condition holds, by doubling and bisection.

    Each condition, once met, stays met: steps shrink with T and T·s grows.
    """
    high = 1.0
    while not holds(high):
        high *= 2.0
        if high > _MOST:
            return inf
    low = high / 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (low, middle) if middle >= 1.0 and holds(middle) else (middle, high)
    return high


def _check(
    radius: float, start: float, stability: float, failure: float, nu: float, c1: float, c: float
) -> None:
    _checks.number("start", start, 0.0, 1.0, inside=False)
    _checks.number("radius", radius, 0.0, start)
    _checks.number("stability", stability, 0.0, inf)
    _checks.number("failure", failure, 0.0, 1.0)
    _checks.number("nu", nu, 0.5, 1.0)
    _checks.number("c1", c1, 0.0, inf)
    _checks.number("c", c, 0.0, inf)
