"""One run with a constant step size: the inequalities that docs/theory.md proves, as functions.

The error of a basis V is its chordal distance f = √(Σ sin² θ_j) to L*, and u = f/η measures the
error in units of the step size η. As long as the iterates stay in a ball around L*,

    E f(V_{k+1})² ≤ f² − 2ηsf + η²v²           (drift s, energy v²),

and f(V_{k+1}) is sub-Gaussian around its mean with parameter η·spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, inf, log, sqrt

from stillspace._checks import checked_number, checked_whole
from stillspace.theory import _checks

_TRIALS = 200
"""Trials of the fixed point that makes a run's length and its logarithm agree."""


@dataclass(frozen=True, slots=True)
class Pull:
    """What is proved of the gradients in a ball around L* (lemma 1)."""

    s: float
    """⟨E, G⟩ ≤ −s f for the mean gradient G."""
    gradient: float = 1.0
    """‖G‖_F is at most this."""
    square: float = 1.0
    """The mean of the squared norms of the rows' terms is at most this."""


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

    def energy(self, pull: Pull) -> float:
        """Return v² = E‖G_k‖² + E‖(I − VVᵀ)B‖²."""
        batch = 0.0 if self.batch_size is None else pull.square / self.batch_size
        steps = min(pull.gradient**2 + batch, pull.square)
        return steps + self.sigma**2 * self.r * (self.D - self.r)

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
    """Of the Gaussian noise, in units of the step size."""
    rows: float = inf
    """The size b of a batch: one row of it can move a step by 2/b."""
    square: float = 1.0
    """The mean squared norm of a row's term: the batch adds a variance of `square`/b."""

    @classmethod
    def of(cls, pull: Pull, noise: Noise, tilt: float) -> Drift:
        """Return them after the part VᵀB of the noise took its share (lemma 3)."""
        if tilt >= 1.0:
            return cls(-inf, inf, inf)
        loss = pull.gradient * tilt / (1.0 - tilt)
        energy = noise.energy(pull) / (1.0 - tilt) ** 2
        larger = 1.0 / (1.0 - tilt)  # all lengths of a step grow by this factor at most
        return cls(
            pull.s - loss,
            energy,
            noise.sigma * larger,
            (noise.batch_size or inf) / larger**2,
            pull.square,
        )

    def tails(self, slack: float, iterations: float, failure: float) -> tuple[float, float]:
        """Return x and y of lemma 4, for runs of so many iterations.

        Except with probability `failure`, f_k ≤ η(u_k + x) on the way and f_k ≤ η(u_k + y) at the
        end.
        """
        T, unit = max(iterations, 1.0), self.variance(slack) / (2.0 * slack)
        return unit * log(T * T / failure), unit * log(2.0 * T / failure)

    def variance(self, slack: float) -> float:
        """Return ς² with E exp(t(Φ − EΦ)) ≤ exp(t²η²ς²/2) at ηt = 2·slack/ς² (lemma 3).

        Hoeffding's ς² always holds. Bennett's is searched between it and the plain variance.
        """
        noise, most = self.spread**2, 1.0 / self.rows

        def holds(variance: float) -> bool:
            x = 2.0 * most * 2.0 * slack / variance
            if x > 500.0:
                return False
            growth = 2.0 * (expm1(x) - x) / x**2 if x > 1e-4 else 1.0 + x
            return noise + self.square * most * growth <= variance

        low, high = noise, noise + most
        if most == 0.0 or not holds(high):
            return high
        for _ in range(40):
            middle = (low + high) / 2.0
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

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
    pull: Pull,
    *,
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
    part = failure if noise.tangential or noise.sigma == 0.0 else failure / 2.0
    length = 1.0
    for _ in range(_TRIALS):
        drift = Drift.of(pull, noise, noise.tilt(step, length, part))
        if drift.s <= 0.0:
            return inf
        way, end = drift.tails(share * drift.s, length, part)
        if way > room * first:
            return inf
        found = drift.time(first, factor * first - end, share * drift.s)
        if found <= length:
            return length
        if found == inf:
            return inf
        length = float(ceil(found))
    return inf
