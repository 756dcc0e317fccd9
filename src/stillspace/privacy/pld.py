"""Composition of privacy losses, rounded to the safe side throughout (SPEC 4).

The law of the sum of T discrete losses (`masses.py`), by one FFT power. The losses are tilted
first: with K(λ) = log E e^{λS} and p̃_i ∝ p_i e^{λ l_i},

    δ(ε) = Σ_{l>ε} (1 − e^{ε−l}) p_T(l) = Σ_{l>ε} (1 − e^{ε−l}) e^{K(λ) − λl} p̃_T(l),

with λ near the saddle point K'(λ) = ε. Then every error of the FFT is multiplied by
e^{K(λ) − λε}, which is of the size of δ itself: δ = 1e-100 is as precise as δ = 0.1, and the
window is a few standard deviations wide.

Everything that is lost or uncertain is added to δ: mass beyond the grid of a step (at +∞), mass
beyond the window (a Chernoff bound), rounding of the masses, of the FFT and of the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from stillspace._typing import AnyArray, FloatArray
from stillspace.privacy.gaussian import GaussianCurve, check_delta, check_epsilon
from stillspace.privacy.masses import LossMasses, Steps, loss_scale, step_masses
from stillspace.privacy.profiles import StepProfile
from stillspace.privacy.roots import smallest_root

Cumulants: TypeAlias = tuple[float, float, float]

_U = 2.0**-52
_TIERS = (1e-8, 1e-12, 1e-16, 1e-24, 1e-60, 1e-290)
"""Mass that all steps together may send to +∞. Finer tiers cost more: used on demand."""
_TIER_SHARE = 1e-5
_MAX_WINDOW = 2**22


class Composition:
    """The composed losses of one direction."""

    def __init__(self, steps: Steps, tier: float) -> None:
        self._parts: list[tuple[LossMasses, int]] = step_masses(steps, tier)
        self._log_masses = [_log(part.masses) for part, _ in self._parts]
        self._losses = [part.losses for part, _ in self._parts]
        self._h = self._parts[0][0].h
        self._count = sum(count for _, count in self._parts)
        # 1 − Π(1 − p∞)^T <= Σ T p∞.
        self.infinity = sum(count * part.infinity for part, count in self._parts)
        self._largest = sum(
            count * losses[-1] for (_, count), losses in zip(self._parts, self._losses, strict=True)
        )
        # Thresholds are rounded: each loss may be off by some units of the largest numbers in it.
        self._shift = 32 * _U * sum(n * _magnitude(p) for p, n in steps)

    def _cumulants(self, tilt: float) -> Cumulants:
        """Return K, K', K'' at `tilt` for the sum of all finite losses."""
        k0 = k1 = k2 = 0.0
        for (_, count), losses, log_mass in zip(
            self._parts, self._losses, self._log_masses, strict=True
        ):
            log_terms = log_mass + tilt * losses
            top = float(log_terms.max())
            terms = np.exp(log_terms - top)
            sum0 = float(terms.sum())
            mean = float(terms @ losses) / sum0
            k0 += count * (top + math.log(sum0))
            k1 += count * mean
            k2 += count * max(float(terms @ (losses - mean) ** 2) / sum0, 0.0)
        return k0, k1, k2

    def _saddle(self, epsilon: float) -> tuple[float, Cumulants]:
        """Return a tilt λ >= 0 with K'(λ) near ε. Any λ is valid; a near one is precise."""
        tilt, low, high = 0.0, 0.0, math.inf
        cumulants = self._cumulants(0.0)
        for _ in range(60):
            gap = epsilon - cumulants[1]
            spread = math.sqrt(cumulants[2])
            if abs(gap) <= 0.2 * spread or (gap < 0 and tilt == 0) or spread < 0.1 * self._h:
                break
            low, high = (tilt, high) if gap > 0 else (low, tilt)
            guess = tilt + gap / cumulants[2]
            if not low < guess < min(high, 4 * low + 10 / spread):
                guess = (low + high) / 2 if high < math.inf else 4 * low + 10 / spread
            tilt, cumulants = guess, self._cumulants(guess)
        return tilt, cumulants

    def guess_epsilon(self, delta: float) -> tuple[float, float]:
        """Return about the ε at `delta` and the tilt there, by the saddle-point approximation.

        δ ≈ exp(K − λK') / (λ(1+λ)√(2πK'') + 1) at ε = K'(λ). A start for a search, no bound.
        """
        low, high = -30.0, 30.0  # log of (tilt × standard deviation)
        spread = max(math.sqrt(self._cumulants(0.0)[2]), self._h)
        for _ in range(16):
            middle = (low + high) / 2
            tilt = math.exp(middle) / spread
            k0, k1, k2 = self._cumulants(tilt)
            root = tilt * (1 + tilt) * math.sqrt(2 * math.pi * k2)
            small = k0 - tilt * k1 - math.log1p(root) > math.log(delta)
            low, high = (middle, high) if small else (low, middle)
        return max(k1, 1e-3 * spread, 1e-280), tilt

    def _tilt(self, epsilon: float, spare: float) -> tuple[float, float, Cumulants]:
        """Return the saddle point, and a tilt somewhat below it with its cumulants.

        The lower tilt may cost a factor e^spare of the FFT's precision; under a heavy tail the law
        at the saddle point itself is far wider, mostly one big jump.
        """
        saddle, cumulants = self._saddle(epsilon)
        best = cumulants[0] - saddle * epsilon
        for part in (0.0, 0.25, 0.5, 0.75):
            less = self._cumulants(part * saddle)
            if less[0] - part * saddle * epsilon <= best + spare:
                return saddle, part * saddle, less
        return saddle, saddle, cumulants

    def _window(
        self, epsilon: float, saddle: float, tilt: float, cumulants: Cumulants, log_tail: float
    ) -> tuple[int, int, float]:
        """Return the last place of the window, its length, and a bound on P(S beyond it).

        P(S >= x) <= exp(K(s) − sx) for each s > 0 (Chernoff). The last place is where one of a few
        s makes this negligible beside e^{K(λ) − λε}; what it leaves is added to δ. The FFT wraps
        other mass into the window, from above (seen one period lower) and from below: both only
        add to δ, and the length is such that they add little under the tilted law.
        """
        k0, mean, variance = cumulants
        spread = max(math.sqrt(variance), self._h)
        tries = [tilt + size / spread for size in (0.7, 1.5, 3.0, 4.5, 6.5)]
        tries += [x for x in (saddle, 1.5 * saddle) if x > tilt]
        ups = [(s, self._cumulants(s)[0]) for s in tries]
        last = min((k - k0 + tilt * epsilon - log_tail) / s for s, k in ups)
        above = min((k - k0 - log_tail) / (s - tilt) for s, k in ups)
        downs = [size / spread for size in (0.7, 1.5, 3.0, 4.5, 6.5)]
        # The lower tail mirrors the upper one at K(−1−s) = K(s), exactly or nearly.
        downs += [tilt + 1 + part * saddle for part in (0.5, 1.0)]
        below = max((k0 - self._cumulants(tilt - d)[0] + log_tail) / d for d in downs)
        final = math.ceil(max(last, epsilon + self._h) / self._h)
        length = min(max(self._h * final - min(below, mean), above - epsilon) / self._h, 2e9)
        n = next_fast_len(max(math.ceil(length) + 2, 16), real=True)
        end = self._h * (final + 1)
        return final, n, math.exp(min(0.0, *(k - s * end for s, k in ups)))

    def _composed(self, tilt: float, n: int, wide: bool) -> tuple[FloatArray, float]:
        """Return the tilted law of the sum modulo n·h, and a bound on its error in the 2-norm.

        Each value of an FFT is a tree of log2(n) levels of sums and products with |twiddle| = 1, so
        that rounding, level by level, adds up to at most e = η Σ|p| = η with η = 6·2⁻⁵³·log2(n):
        a butterfly a + wb costs at most √5 units for the product, one for w and one for the sum
        (the lengths are products of 2, 3 and 5, whose butterflies cost less for each factor 2).
        Powers and products: with r = |f| + e,
        |Πf̂ᵀ − Πfᵀ| <= Π rᵀ · Σ T (e/r + rounding of logarithm and angle).
        The inverse is off by η relative in the 2-norm (Higham 2002, theorem 24.2).
        `wide`: in extended precision (where the machine has it), many times slower.
        """
        kind = np.longdouble if wide else np.float64
        unit = float(np.finfo(kind).eps)
        eta = 3 * unit * math.log2(n)
        log_size = log_bound = relative = angle = np.zeros(n // 2 + 1, dtype=kind)
        for (part, count), losses, log_mass in zip(
            self._parts, self._losses, self._log_masses, strict=True
        ):
            log_terms = log_mass + tilt * losses
            terms = np.exp(log_terms - log_terms.max())
            terms /= terms.sum()
            folded = np.bincount(part.places % n, weights=terms, minlength=n).astype(kind)
            transform = rfft(folded)
            e = eta * float(folded.sum())
            size = np.abs(transform)
            log_r = np.log(size + e)
            log_size = log_size + count * _log(size)
            log_bound = log_bound + count * log_r
            angle = angle + count * np.angle(transform)
            relative = relative + count * (e / (size + e) + 4 * unit * (math.pi - log_r))
        spectrum = np.exp(log_size) * (np.cos(angle) + 1j * np.sin(angle))
        composed = np.asarray(irfft(spectrum, n), dtype=np.float64)
        errors = np.exp(log_bound) * relative
        norm = math.sqrt(2 / n) * _norm(errors)
        # Back in double precision each number is off by half a unit of its own.
        return composed, norm + (eta + _U) * (_norm(composed) + norm)

    def get_delta(self, epsilon: float) -> float:
        """Return an upper bound on δ at `epsilon`: the least of at most four, each finer."""
        epsilon -= self._shift
        best, spare, log_tail, wide = 1.0, 12.0, math.log(1e-8), False
        if epsilon >= self._largest:
            return min(self.infinity, 1.0)
        for _ in range(4):
            found, by_fft, chernoff = self._attempt(epsilon, spare, log_tail, wide)
            best = min(best, found)
            precise = by_fft <= (2e-2 if wide else 1e-3) * found
            if precise and 3 * math.exp(log_tail) * chernoff <= 1e-4 * found:
                break
            # Under a heavy tail Chernoff's bound is far above δ: ask for a smaller remainder. If
            # the FFT is the trouble: a tilt nearer the saddle point, then more digits.
            if not precise:
                spare, wide = 4.0, spare == 4.0
            log_tail = min(math.log(found / chernoff) - 12, log_tail)
        return min(best + self.infinity, 1.0)

    def _attempt(
        self, epsilon: float, spare: float, log_tail: float, wide: bool
    ) -> tuple[float, float, float]:
        """Return a bound on δ (finite losses), the FFT's error in it, and Chernoff's bound."""
        saddle, tilt, cumulants = self._tilt(epsilon, spare)
        last, n, beyond = self._window(epsilon, saddle, tilt, cumulants, log_tail)
        chernoff = math.exp(min(cumulants[0] - tilt * epsilon, 0.0)) * (1 + 1e-6)
        if n > _MAX_WINDOW:
            return chernoff, 0.0, chernoff
        composed, error = self._composed(tilt, n, wide)
        places = np.arange(max(last - n, math.floor(epsilon / self._h)) + 1, last + 1)
        losses = self._h * places
        weights = np.exp(cumulants[0] - tilt * losses) * -np.expm1(epsilon - losses)
        inside = float(np.sum(weights * composed[places % n]))
        # Relative rounding of the tilted masses, of K and of the last sum.
        magnitude = 64 + abs(cumulants[0]) + tilt * (abs(epsilon) + self._h * n)
        rounding = _U * (n + (16 * self._count + 4) * magnitude)
        by_fft = _norm(weights) * error
        found = (max(inside, 0.0) + by_fft + beyond) * (1 + rounding + 1e-9)
        return found, by_fft, chernoff


def _norm(values: AnyArray) -> float:
    """2-norm by NumPy's own sum: BLAS threads cost more than they save here."""
    return math.sqrt(float(np.sum(values * values)))


def _log(values: AnyArray) -> AnyArray:
    """log, with −1e5 for 0 (so that no infinity meets a zero)."""
    return np.asarray(np.log(np.maximum(values, 5e-324)) - 1e5 * (values <= 0))


def _magnitude(profile: StepProfile) -> float:
    """The size of the numbers that a threshold is computed from, in units of loss."""
    top = max(profile.mus)
    return 1 + top * (40 + top) - math.log(profile.rate)


@lru_cache(maxsize=16)
def _composition(steps: Steps, tier: float) -> Composition:
    return Composition(steps, tier)


@dataclass(frozen=True, slots=True)
class LossCurve:
    """Upper bound on the curve of sampled steps: the largest δ of all directions.

    Each direction is composed by itself over all steps (SPEC 4: add with add, remove with
    remove); the maximum comes last.
    """

    directions: tuple[Steps, ...]

    @property
    def name(self) -> str:
        """What this curve is, for people."""
        return "privacy loss distribution (upper bound)"

    def get_delta(self, epsilon: float) -> float:
        """Return an upper bound on δ at `epsilon`."""
        check_epsilon(epsilon)
        if epsilon == math.inf:
            return 0.0
        return max(_direction_delta(steps, epsilon) for steps in self.directions)

    def get_epsilon(self, delta: float) -> float:
        """Return an upper bound on ε at `delta` (to about 1e-6), by secants on log δ."""
        check_delta(delta)
        if delta == 0:
            return math.inf
        return _solve_epsilon(self, delta)


def _direction_delta(steps: Steps, epsilon: float) -> float:
    """δ of one direction, with a tier whose mass at +∞ does not matter.

    Each tier gives an upper bound; a guess by the normal law says where to begin.
    """
    delta = 1.0
    guess = GaussianCurve(loss_scale(steps)).get_delta(epsilon)
    likely = sum(tier > _TIER_SHARE * guess for tier in _TIERS[:3])
    for tier in _TIERS[likely:]:
        composition = _composition(steps, tier)
        delta = min(delta, composition.get_delta(epsilon))
        if composition.infinity <= _TIER_SHARE * delta:
            break
    return delta


def _solve_epsilon(curve: LossCurve, delta: float) -> float:
    """Smallest ε with curve.get_delta(ε) <= delta, from above, in log ε."""
    if curve.get_delta(0.0) <= delta:
        return 0.0
    tier = next((t for t in _TIERS if t <= _TIER_SHARE * delta), _TIERS[-1])
    guesses = [_composition(steps, tier).guess_epsilon(delta) for steps in curve.directions]
    start, tilt = max(guesses)
    found = smallest_root(
        lambda x: math.log(max(curve.get_delta(math.exp(x)), 1e-320)) - math.log(delta),
        math.log(start),
        -max(tilt * start, 1e-3),
        1e-6,
    )
    return math.inf if found is None else math.exp(found)
