"""The worst pair of output laws of one sampled step, as a function of the privacy loss (SPEC 4).

A step is described by a pair (P, Q) whose hockey-stick divergence

    H(α) = sup_S P(S) − α Q(S) = P(L > log α) − α Q(L > log α),      L = log dP/dQ,

is at least that of the step, for every α >= 0, every pair of neighbouring data sets and every
earlier output. Such pairs compose: H of a product of pairs bounds H of the adaptive composition
(Dong, Roth and Su 2022; Zhu, Dong and Wang 2022). All pairs here are mixtures of normals of
standard deviation 1, and only the masses of {L > l} are ever needed. μ = 1/z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import bdtrc, ndtr

from stillspace._typing import FloatArray
from stillspace.privacy.events import GaussianEvent, Relation
from stillspace.privacy.gaussian import log_delta

Shape: TypeAlias = Literal["amplified", "reversed", "antipodal"]

_NEGLIGIBLE = 1e-300
_LEAST = 1e-12
_U = 2.0**-52


@dataclass(frozen=True, slots=True)
class StepProfile:
    """One step's dominating pair.

    "amplified" at rate γ with weights w_k (Σ w_k = γ) and μ_k, for α = 1 − γ + γα':
    H(α) = Σ_k w_k H_Gauss(α'; μ_k). With one k it is P = (1−γ)N(0,1) + γN(μ,1), Q = N(0,1).
    "reversed" is that pair with P and Q exchanged.
    "antipodal" is P = (1−γ)N(0,1) + γN(+μ,1), Q = (1−γ)N(0,1) + γN(−μ,1).

    `mirrored`: H is as said for α >= 1 only, and H(α) = 1 − α + αH(1/α) for α < 1. (A bound on
    H(α), α >= 1, for *both* orders of a pair bounds H(α), α < 1, by exactly this, because
    H_{P‖Q}(α) = 1 − α + αH_{Q‖P}(1/α). Composing each order alone and taking the larger at the
    end would be wrong: the orders may differ from step to step, SPEC 4.)
    `infinity` is mass of P that Q does not have: H(∞).
    """

    shape: Shape
    rate: float
    mus: tuple[float, ...]
    weights: tuple[float, ...]
    mirrored: bool = False
    infinity: float = 0.0

    @classmethod
    def gaussian(cls, mu: float) -> StepProfile:
        """N(μ,1) against N(0,1): full-batch releases that are composed with sampled ones."""
        return cls("amplified", 1.0, (mu,), (1.0,))

    def truncated(self, floor: float) -> StepProfile:
        """Move the last components, of mass at most `floor` together, to infinity.

        H_Gauss <= 1, so that w_k H_Gauss(·; μ_k) <= w_k: an upper bound.
        """
        lost, keep = 0.0, len(self.weights)
        while keep > 1 and lost + self.weights[keep - 1] <= floor:
            keep -= 1
            lost += self.weights[keep]
        if keep == len(self.weights):
            return self
        kept = {"mus": self.mus[:keep], "weights": self.weights[:keep]}
        return replace(self, **kept, infinity=self.infinity + lost * (1 + 1e-12))  # type: ignore[arg-type]

    @property
    def p_weights(self) -> FloatArray:
        """Weight in P of each component of `thresholds`."""
        w, g = np.array(self.weights), self.rate
        if self.shape == "amplified":
            return np.concatenate([w, (1 - g) / g * w])
        return np.array([1.0, 0.0] if self.shape == "reversed" else [g, 1 - g, 0.0])

    @property
    def q_weights(self) -> FloatArray:
        """Weight in Q of each component of `thresholds`."""
        w, g = np.array(self.weights), self.rate
        if self.shape == "amplified":
            return np.concatenate([0 * w, w / g])
        return np.array([1 - g, g] if self.shape == "reversed" else [0.0, 1 - g, g])

    def thresholds(self, losses: FloatArray) -> FloatArray:
        """Return t (components × losses): component c has mass Φ(−t[c, i]) on {L > losses[i]}.

        For "amplified", differentiating H gives Q(L > l) = −H'(α) = Σ (w_k/γ) Φ(−t'_k) and
        P(L > l) = H + αQ(L > l) = Σ w_k Φ(−t_k) + (1−γ) Q(L > l), with t_k = L'/μ_k − μ_k/2,
        t'_k = L'/μ_k + μ_k/2 and L' = log α'.
        """
        mus = np.array(self.mus)[:, None]
        if self.shape == "antipodal":
            log_y = _antipodal_point(losses, self.rate, self.mus[0])
            return np.asarray(log_y / mus - mus * np.array([1.0, 0.0, -1.0])[:, None])
        if self.shape == "reversed":
            # L is now decreasing in the output: {L > l} is a left half-line.
            scaled = _base_loss(-losses, self.rate) / mus
            return -np.concatenate([scaled + mus / 2, scaled - mus / 2])
        scaled = _base_loss(losses, self.rate) / mus
        return np.concatenate([scaled - mus / 2, scaled + mus / 2])

    def upper_mass(self, losses: FloatArray) -> FloatArray:
        """P(l < L < ∞) for each loss (approximate: for choosing grids)."""
        return np.asarray(self.p_weights @ ndtr(-self.thresholds(losses)))

    def lower_mass(self, losses: FloatArray) -> FloatArray:
        """P(L < −l) for each loss l >= 0 (approximate: for choosing grids)."""
        if self.mirrored:
            return np.asarray(self.q_weights @ ndtr(-self.thresholds(losses)))
        return np.asarray(self.p_weights @ ndtr(self.thresholds(-losses)))

    @property
    def rounding(self) -> float:
        """How far a threshold may be off, in units of loss: some units of its largest terms.

        All maps from a loss to a threshold stretch (|d log α'/dl| >= 1, |d log y/dl| >= 1/2), so
        that rounding of the one is at most twice as much rounding of the other.
        """
        top = max(self.mus)
        return 32 * _U * (1 + top * (40 + top) - math.log(self.rate))

    def get_delta(self, epsilon: float) -> float:
        """Return H(e^ε) for ε >= 0, rounded up: δ of a single step, without any grid.

        Differences of tails are replaced by sums of Gaussian curves δ_G(·; μ), which are rounded
        up themselves. With α = e^ε:
        "amplified": Σ w_k δ_G(log α'; μ_k), the definition.
        "reversed": on {L > ε}, P − αQ = (1 − α(1−γ)) N(0) − αγ N(μ) = c (N(0) − βN(μ)) with
        c = 1 − α(1−γ) = αγ/β, which is c·δ_G(log β; μ); zero once α >= 1/(1−γ).
        "antipodal": at the threshold x = log(y)/μ of L > ε put A = e^(μx − μ²/2) and
        C = e^(−μx − μ²/2). The densities there say γA + (1−γ) = α(γC + (1−γ)), hence
        P − αQ = γ[N(μ) − A N(0)] + γα[C N(0) − N(−μ)] and both brackets, taken beyond the x where
        their own densities are equal, are Gaussian curves: δ_G(log A; μ) and C δ_G(−log C; μ).

        Directions: all these fall in ε (and in the thresholds), so a smaller ε gives an upper
        bound. At ε − 2 roundings the thresholds that are computed belong to a loss below ε.
        """
        at = np.array([epsilon - 2 * self.rounding])
        log_gamma, mu = math.log(self.rate), self.mus[0]
        if self.shape == "amplified":
            base = float(_base_loss(at, self.rate)[0])
            total = sum(
                w * math.exp(_log_gauss(base, m))
                for w, m in zip(self.weights, self.mus, strict=True)
            )
        elif self.shape == "reversed":
            log_beta = -float(_base_loss(-at, self.rate)[0])
            if log_beta == math.inf:
                return self.infinity
            slack = 8 * _U * (abs(epsilon) + abs(log_beta))
            log_c = log_gamma + epsilon - log_beta + slack
            total = math.exp(min(log_c + _log_gauss(log_beta, mu), 0.0))
        else:
            log_y, half = float(_antipodal_point(at, self.rate, mu)[0]), mu * mu / 2
            slack = 8 * _U * (abs(log_y) + half)
            log_a, minus_log_c = log_y - half - slack, log_y + half - slack
            total = self.rate * math.exp(_log_gauss(log_a, mu))
            log_second = log_gamma + epsilon - minus_log_c + _log_gauss(minus_log_c, mu)
            total += math.exp(min(log_second, 0.0))
        # 1e-9: what is left of rounding, of logarithms above −745 and of the sum. Then underflow.
        return min(total * (1 + 1e-9) + self.infinity + 2 * len(self.mus) * 5e-324, 1.0)

    @property
    def largest_loss(self) -> float:
        """A loss beyond which no component has mass (40 standard deviations)."""
        top = max(self.mus)
        return 2 * top * (40 + 2 * top)


def _log_gauss(epsilon: float, mu: float) -> float:
    """log δ_G(ε; μ) for any ε, rounded up: δ_G(ε) = 1 − e^ε + e^ε δ_G(−ε) where ε < 0."""
    if epsilon >= 0:
        return log_delta(epsilon, mu)
    kept = -math.expm1(epsilon) + math.exp(epsilon + log_delta(-epsilon, mu))
    return min(math.log(kept) + 8 * _U, 0.0)


def _base_loss(losses: FloatArray, rate: float) -> FloatArray:
    """log α' with α = 1 − γ + γα' = e^l; −∞ where α <= 1 − γ.

    Near l = 0 through expm1 (small losses keep their relative precision), elsewhere through
    l − log γ + log1p(−(1−γ)e^−l), which neither overflows nor cancels for γ near 1.
    """
    with np.errstate(all="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(losses, 1.0)) / rate, -1.0))
        inner = np.maximum(-(1 - rate) * np.exp(np.minimum(-losses, 709.0)), -1.0)
        large = losses - math.log(rate) + np.log1p(inner)
    return np.where(np.abs(losses) < 0.5, small, large)


def _antipodal_point(losses: FloatArray, rate: float, mu: float) -> FloatArray:
    """log y = μx where the antipodal pair has loss l at output x.

    (1−q + cy)/(1−q + c/y) = e^l with c = q e^(−μ²/2) is, for log y = l/2 + s,
    sinh(s) = (1−q) sinh(l/2)/c. Odd in l. In logarithms: c may be as small as e^−5000.
    """
    half = np.abs(losses) / 2
    with np.errstate(all="ignore"):
        log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
        log_arg = log_sinh + (np.log1p(-rate) - math.log(rate) + mu * mu / 2)
        big = log_arg + np.log1p(np.sqrt(1 + np.exp(-2 * np.maximum(log_arg, 0.0))))
        shift = np.where(log_arg > 0, big, np.arcsinh(np.exp(np.minimum(log_arg, 0.0))))
    return np.asarray(np.copysign(half + shift, losses))


def step_profiles(event: GaussianEvent, relation: Relation) -> tuple[StepProfile, ...]:
    """Return one profile a direction for a sampled event (SPEC 4, table of accountants).

    Poisson, add/remove: given the other rows, the output law is N(s, z²) without the row and
    (1−q)N(s, z²) + qN(s+v, z²), ‖v‖ <= 1, with it; ‖v‖ = 1 is the worst, and both orders are kept.

    Poisson, replace-one: (1−q)N(0) + qN(v) against (1−q)N(0) + qN(w); v = −w, ‖v‖ = 1, is the
    worst for every α, by an interpolation of Gaussian covariances (proof in docs/privacy.md).

    Fixed size, replace-one (Balle, Barthe and Gaboardi 2018, theorems 9 and 10): what is amplified
    is the step's own *substitution* profile on the batch. Write the two output laws as
    (1−γ)ω₀ + γω₁ and (1−γ)ω₀ + γω₁', where ω₀ is given that the changed row was not drawn. With
    α = 1 − γ + γα', advanced joint convexity gives H_α <= γ((1−β)H_α'(ω₁‖ω₀) + βH_α'(ω₁‖ω₁')),
    β = α/α'. Without replacement a batch with the row and one without it can be coupled so that
    they differ by one substitution, as ω₁ and ω₁' do; a substitution moves the sum by at most the
    difference bound (2 for GLAD, √2 for REAPER), hence H_α <= γ H_Gauss(α'; Δ/σ), γ = B/n. With
    replacement the row is drawn k times with binomial probability and each draw is a
    substitution: H_α <= Σ_k P(k) H_Gauss(α'; kΔ/σ), γ = P(k >= 1). Both orders have this bound.
    """
    # H grows with μ and with the rate: a least size keeps the grids away from underflow.
    mu = max(event.sensitivity(relation) / event.sigma, _LEAST)
    if event.sampling == "poisson":
        rate = max(event.rate, _LEAST)
        if relation == "replace-one":
            return (StepProfile("antipodal", rate, (mu,), (rate,)),)
        return (
            StepProfile("amplified", rate, (mu,), (rate,)),
            StepProfile("reversed", rate, (mu,), (rate,)),
        )
    if event.sampling == "without-replacement":
        rate = event.batch_size / event.population
        return (StepProfile("amplified", rate, (mu,), (rate,), mirrored=True),)
    return (_with_replacement(event.batch_size, event.population, mu),)


def _with_replacement(draws: int, n: int, mu: float) -> StepProfile:
    """Binomial weights w_k = C(B,k) n^−k (1−1/n)^(B−k), k >= 1, cut where 1e-300 is left."""
    if n == 1:
        return StepProfile("amplified", 1.0, (mu * draws,), (1.0,), mirrored=True)
    rate = -math.expm1(draws * math.log1p(-1 / n))
    last = draws
    while last > 1 and float(bdtrc(last // 2, draws, 1 / n)) < _NEGLIGIBLE:
        last //= 2
    k = np.arange(1, last + 1, dtype=np.float64)
    # w_k / w_(k−1) = (B−k+1) / (k(n−1)), in logarithms: precise, and nothing underflows on the way.
    ratios = np.log((draws - k + 1) / (k * (n - 1)))
    weights = np.exp(np.cumsum(ratios) + draws * math.log1p(-1 / n))
    # Rounded so that they sum to the rate, which every formula of the profile assumes.
    weights *= rate / weights.sum()
    rest = float(bdtrc(last, draws, 1 / n)) if last < draws else 0.0
    return StepProfile(
        "amplified",
        rate,
        tuple(float(mu * i) for i in k),
        tuple(float(w) for w in weights),
        mirrored=True,
        infinity=rest,
    )
