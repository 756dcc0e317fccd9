"""One run with a constant step size: the inequalities that docs/theory.md proves, as functions.

The error of a basis V is its chordal distance f = √(Σ sin² θ_j) to L*, and u = f/η measures the
error in units of the step size η. As long as the iterates stay in a ball around L*,

    E f(V_{k+1})² ≤ f² − 2ηsf + η²v²           (drift s, energy v²),

and f(V_{k+1}) is sub-Gaussian around its mean with parameter η·spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log, sqrt

from stillspace._checks import checked_number, checked_whole
from stillspace.theory import _checks

__all__ = ["Drift", "Noise", "chordal_radius", "gap_of_radius"]

_TRIALS = 200
"""Trials of the fixed point that makes a run's length and its logarithm agree."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What is random in one step.

    `sigma` is the standard deviation of the Gaussian noise on each entry of the mean gradient.
    `batch_size` is the number of rows that a step draws with replacement; None means all rows.
    `tangential` says that a step uses only the part `(I − VVᵀ)B` of the noise B.
    """

    D: int
    r: int
    sigma: float = 0.0
    batch_size: int | None = None
    tangential: bool = False

    def __post_init__(self) -> None:
        _checks.dimension(self.r, self.D)
        checked_number("sigma", self.sigma, 0.0, 1e300, inside=False)
        if self.batch_size is not None:
            checked_whole("batch_size", self.batch_size)

    def energy(self, gradient: float) -> float:
        """Return v² = E‖G_k‖² + E‖(I − VVᵀ)B‖², where `gradient` bounds ‖E G_k‖_F."""
        batch = 0.0 if self.batch_size is None else 1.0 / self.batch_size
        return min(gradient**2 + batch, 1.0) + self.sigma**2 * self.r * (self.D - self.r)

    @property
    def spread(self) -> float:
        """The sub-Gaussian parameter of one step, in units of the step size."""
        batch = 0.0 if self.batch_size is None else 1.0 / self.batch_size
        return sqrt(self.sigma**2 + batch)

    def tilt(self, step: float, iterations: float, failure: float) -> float:
        """Return θ: with probability 1 − failure, ‖η VᵀB_k‖ ≤ θ in each of the iterations."""
        if self.tangential or self.sigma == 0.0:
            return 0.0
        size = 2.0 * sqrt(self.r) + sqrt(2.0 * log(max(iterations, 1.0) / failure))
        return step * self.sigma * size


@dataclass(frozen=True, slots=True)
class Drift:
    """Drift s, energy v² and spread of a run whose steps have one size."""

    s: float
    energy: float
    spread: float

    @classmethod
    def of(cls, s: float, gradient: float, noise: Noise, tilt: float) -> Drift:
        """Return them after the part VᵀB of the noise took its share (lemma 3)."""
        if tilt >= 1.0:
            return cls(-inf, inf, inf)
        loss = gradient * tilt / (1.0 - tilt)
        energy = noise.energy(gradient) / (1.0 - tilt) ** 2
        return cls(s - loss, energy, noise.spread / (1.0 - tilt))

    def tail(self, slack: float, iterations: float, failure: float) -> float:
        """Return x with P(f_k > η(u_k + x) for some k ≤ iterations) ≤ failure (lemma 4)."""
        if self.spread == 0.0:
            return 0.0
        count = max(iterations, 1.0)
        return self.spread**2 / (2.0 * slack) * log(count * (count + 1.0) / (2.0 * failure))

    def floor(self, slack: float) -> float:
        """Return the least level below which the comparison sequence u_k stays (lemma 5)."""
        if self.s - slack <= 0.0:
            return inf
        rest = max(self.energy - self.s**2, 0.0) / 2.0
        v = max(sqrt(self.energy), self.s)
        return max(self.s + rest / (self.s - slack), 2.0 * self.s, v + slack)

    def time(self, first: float, last: float, slack: float) -> float:
        """Return iterations after which u_k ≤ last, from u_0 = first (lemma 5)."""
        if not last > self.floor(slack):
            return inf
        if first <= last:
            return 0.0
        d, rest = self.s - slack, max(self.energy - self.s**2, 0.0) / 2.0
        w0, w1 = first - self.s, last - self.s
        if not d * w1 > rest:
            return inf
        logarithm = log((d * w0 - rest) / (d * w1 - rest))
        return (w0 - w1) / d + rest / d**2 * logarithm


def chordal_radius(gap: float, D: int, r: int) -> float:
    """Return the largest f = √(Σ sin² θ_j) of a subspace with d_r² = 1 − cos θ_max ≤ gap."""
    return sqrt(min(r, D - r) * gap * (2.0 - gap))


def gap_of_radius(f: float) -> float:
    """Return the largest d_r² of a subspace with √(Σ sin² θ_j) ≤ f."""
    return 1.0 if f >= 1.0 else f * f / (1.0 + sqrt(1.0 - f * f))


def least_length(
    first: float,
    factor: float,
    noise: Noise,
    *,
    s: float,
    gradient: float,
    step: float,
    share: float,
    room: float,
    failure: float,
) -> float:
    """Return the least whole K after which f ≤ factor · first · step, from u_0 = first.

    `share` is the slack as a part of s, `room` the part of `first` by which the error may exceed
    its start. The length enters its own failure probability through a logarithm, so K is found as a
    fixed point from below.
    """
    length = 1.0
    for _ in range(_TRIALS):
        found = run_length(
            length,
            first,
            factor * first,
            noise,
            s=s,
            gradient=gradient,
            step=step,
            share=share,
            room=room * first,
            failure=failure,
        )
        if found <= length:
            return length
        if found == inf:
            return inf
        length = float(ceil(found))
    return inf


def run_length(
    iterations: float,
    first: float,
    last: float,
    noise: Noise,
    *,
    s: float,
    gradient: float,
    step: float,
    share: float,
    room: float,
    failure: float,
) -> float:
    """Return the iterations from u = first to u = last in a run of that many, or infinity."""
    part = failure if noise.tangential or noise.sigma == 0.0 else failure / 2.0
    drift = Drift.of(s, gradient, noise, noise.tilt(step, iterations, part))
    if drift.s <= 0.0:
        return inf
    slack = share * drift.s
    tail = drift.tail(slack, iterations, part)
    return drift.time(first, last - tail, slack) if tail <= room else inf
