"""The exact privacy curve of the Gaussian mechanism (Balle and Wang 2018; SPEC 4).

    δ(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ),      μ = sensitivity / σ

T releases with μ_1 … μ_T have the curve of one with μ² = Σ μ_k², also when each depends on the
earlier ones. Both terms are nearly equal for small μ or small δ, so the formula is not used as
it stands. With x = ε/μ − μ/2 and the Mills ratio R(t) = Φ(−t)/φ(t), e^ε φ(x+μ) = φ(x) gives

    δ = φ(x) · (R(x) − R(x+μ)) = φ(x) · ∫_x^{x+μ} G(t) dt,      G(t) = −R'(t) = 1 − t R(t) > 0,

where nothing cancels. What is returned is rounded to the safe side: δ and ε up, μ down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from stillspace._checks import check_delta, check_epsilon
from stillspace._typing import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_SMALLEST = 5e-324
_U = 2.0**-52


def _mills(t: float) -> float:
    """R(t) = Φ(−t)/φ(t)."""
    return _SQRT_HALF_PI * float(erfcx(t / math.sqrt(2)))


def _minus_mills_slope(t: FloatArray) -> FloatArray:
    """G(t) = 1 − t R(t).

    Beyond 25, where this cancels, the asymptotic series 1/t² − 3/t⁴ + 15/t⁶ − …, cut after a
    positive term: the series envelops G, so this is an upper bound (by less than 1e-10).
    """
    t = np.maximum(t, -1.0)  # never lower in the quadrature (x >= -μ/2 >= -1/2)
    far = np.maximum(t, 25.0) ** -2.0
    series = far * (1 - far * (3 - far * (15 - far * (105 - far * 945))))
    near = np.minimum(t, 25.0)
    direct = 1 - near * _SQRT_HALF_PI * erfcx(near / math.sqrt(2))
    result: FloatArray = np.where(t > 25.0, series, direct)
    return result


def log_delta(epsilon: float, mu: float) -> float:
    """log δ(ε; μ) for ε >= 0, rounded up.

    The last line adds a bound on the rounding error: x is known to about 3u(μ/2 + ε/μ), and
    |d log δ / dx| <= |x| + 2; G loses at most t² <= 625 units (t < 25).
    """
    if mu <= 0:
        return -math.inf
    if mu == math.inf:
        return 0.0
    x = epsilon / mu - mu / 2
    if not math.isfinite(x * x):
        return -math.inf if x > 0 else 0.0
    if mu <= max(1.0, x):
        t = x + mu / 2 * (1 + _NODES)
        area = mu / 2 * float(_WEIGHTS @ _minus_mills_slope(t))
        value = -x * x / 2 - _LOG_SQRT_2PI + math.log(area) if area > 0 else -math.inf
    elif x >= 0:
        # μ > max(1, x): R(x + μ) is well below R(x).
        value = -x * x / 2 - _LOG_SQRT_2PI + math.log(_mills(x) - _mills(x + mu))
    else:
        # δ is not small: Φ(−x) >= 1/2 and what is taken away is positive and smaller.
        log_lost = -x * x / 2 - _LOG_SQRT_2PI + math.log(_mills(x + mu))
        log_kept = float(log_ndtr(-x))
        value = log_kept + math.log1p(-math.exp(log_lost - log_kept))
    rounding = _U * (1500 + 4 * (abs(x) + 2) * (mu / 2 + epsilon / mu + 1))
    return min(value + rounding, 0.0)


def _settle(candidate: float, holds: Callable[[float], bool], direction: int) -> float:
    """Move `candidate` in `direction` by a few units in the last place until `holds`."""
    step = 2 * _U
    while not holds(candidate) and step < 1:
        candidate += direction * (step * abs(candidate) + _SMALLEST)
        step *= 2
    return candidate


@dataclass(frozen=True, slots=True)
class GaussianCurve:
    """Exact curve of Gaussian releases with total μ (SPEC 4, full batch)."""

    mu: float

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise ValueError(f"mu is {self.mu!r}; it must not be negative.")

    @property
    def name(self) -> str:
        return "exact Gaussian"

    def get_delta(self, epsilon: float) -> float:
        check_epsilon(epsilon)
        if self.mu == 0 or (epsilon == math.inf and self.mu < math.inf):
            return 0.0
        return min(max(math.exp(log_delta(epsilon, self.mu)), _SMALLEST), 1.0)

    def get_epsilon(self, delta: float) -> float:
        check_delta(delta)
        if delta >= 1 or self.get_delta(0.0) <= delta:
            return 0.0
        if delta == 0 or self.mu == math.inf:
            return math.inf
        target = math.log(delta)
        # δ(ε) <= Φ(−x) <= exp(−x²/2) for x >= 0; twice over for rounding.
        top = self.mu**2 / 2 + self.mu * (math.sqrt(-2 * target) + 1)
        if not math.isfinite(top):
            return math.inf
        root = brentq(lambda e: log_delta(e, self.mu) - target, 0.0, top, xtol=1e-300, rtol=1e-14)
        return _settle(float(root), lambda e: self.get_delta(e) <= delta, +1)


@lru_cache(maxsize=4096)
def mu_from_budget(epsilon: float, delta: float) -> float:
    """Return the largest μ with δ(ε; μ) <= delta, rounded down: the inverse of the curve."""
    check_epsilon(epsilon)
    check_delta(delta)
    if delta >= 1 or epsilon == math.inf:
        return math.inf
    if delta == 0:
        return 0.0
    target = math.log(delta)

    def excess(log_mu: float) -> float:
        # Finite ends for the root finder: only the sign matters so far out.
        return max(log_delta(epsilon, math.exp(log_mu)), -1e300) - target

    guess = _rough_log_mu(epsilon, delta)
    low, high, step = guess, guess, 0.25
    while excess(low) > 0 and low > -744:
        low, step = max(low - step, -744.0), 2 * step
    step = 0.25
    while excess(high) <= 0 and high < 700:
        high, step = min(high + step, 700.0), 2 * step
    if excess(low) > 0:
        return 0.0
    root = math.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-14))
    return _settle(root, lambda mu: GaussianCurve(mu).get_delta(epsilon) <= delta, -1)


def _rough_log_mu(epsilon: float, delta: float) -> float:
    """Return log of the μ with μ²/2 + μ √(2 log 1/δ) = ε, or of the total-variation one.

    Only where the search starts: nothing rests on it.
    """
    root = math.sqrt(-2 * math.log(delta))
    by_tail = 2 * epsilon / (root + math.sqrt(root**2 + 2 * epsilon)) if root > 0 else 1.0
    return math.log(max(by_tail, math.sqrt(2 * math.pi) * delta, _SMALLEST))
