"""Composition of privacy losses, rounded to the safe side throughout (SPEC 4).

The law of the sum of T discrete losses (`masses.py`), by one FFT power. The losses are tilted
first: with K(λ) = log E e^{λS} and p̃_i ∝ p_i e^{λ l_i},

    δ(ε) = Σ_{l>ε} (1 − e^{ε−l}) p_T(l) = Σ_{l>ε} (1 − e^{ε−l}) e^{K(λ) − λl} p̃_T(l),

with λ near the saddle point K'(λ) = ε. Then every error of the FFT is multiplied by
e^{K(λ) − λε}, which is of the size of δ itself: δ = 1e-100 is as precise as δ = 0.1, and the
window is a few standard deviations wide.

Everything that is lost or uncertain is added to δ: mass beyond the grid of a step (at +∞), mass
beyond the window (a Chernoff bound), rounding of the masses, of the FFT and of the sums.

Under a heavy tail (few steps, small rates, draws with replacement) no tilt is good: E e^{λS} is
ruled by jumps that hardly ever happen, Chernoff's bounds are useless, and windows, if any, long.
There the sum is composed directly, on blocks of growing coarseness (`masses.BlockLaw`). One step
needs neither. Each of these is an upper bound, so the least of those at hand is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from stillspace._checks import check_delta, check_epsilon
from stillspace._typing import AnyArray, FloatArray
from stillspace.privacy.gaussian import GaussianCurve
from stillspace.privacy.masses import (
    BlockLaw,
    LossMasses,
    Steps,
    compose_blocks,
    loss_shape,
    step_masses,
)
from stillspace.privacy.roots import smallest_root

Cumulants: TypeAlias = tuple[float, float, float]

_U = 2.0**-52
_TIERS = (1e-8, 1e-12, 1e-16, 1e-24, 1e-60, 1e-290)
"""Mass that all steps together may send to +∞. Finer tiers cost more: used on demand."""
_TIER_SHARE = 1e-5
_MAX_WINDOW = 2**18
_FEW = 32
"""Up to so many steps, blocks come first: they cost as much as one FFT."""
_HEAVY = 3.0
"""From this excess kurtosis of the sum on, too: the FFT would get through for some ε only."""
_SMALLEST = 5e-324
_UNDERFLOW = 1e-300
"""More than all masses below the least number can add up to: added to every composed δ."""


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
        self._shift = sum(n * p.rounding for p, n in steps)

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

    def get_delta(self, epsilon: float, wide: bool) -> tuple[float, bool]:
        """Return an upper bound on δ at `epsilon`, the least of at most three, and if it is tight.

        `wide`: with more digits, which may help where that without them is not tight.
        """
        epsilon -= self._shift
        best, spare, log_tail = 1.0, 4.0 if wide else 12.0, math.log(1e-8)
        if epsilon >= self._largest:
            return min(self.infinity + _UNDERFLOW, 1.0), True
        tight = False
        for _ in range(3):
            found, by_fft, chernoff = self._attempt(epsilon, spare, log_tail, wide)
            best = min(best, found)
            precise = by_fft <= (2e-2 if wide else 1e-3) * found
            tight = precise and 3 * math.exp(log_tail) * chernoff <= 1e-4 * found
            if tight or by_fft == math.inf or not 0 < found < chernoff:
                break
            # Under a heavy tail Chernoff's bound is far above δ: ask for a smaller remainder. If
            # the FFT is the trouble: a tilt nearer the saddle point.
            if not precise:
                if spare == 4.0:
                    break
                spare = 4.0
            log_tail = min(math.log(found / chernoff) - 12, log_tail)
        return min(best + self.infinity + _UNDERFLOW, 1.0), tight

    def _attempt(
        self, epsilon: float, spare: float, log_tail: float, wide: bool
    ) -> tuple[float, float, float]:
        """Return a bound on δ (finite losses), the FFT's error in it, and Chernoff's bound.

        Where the window would be too long: Chernoff's bound alone, and an infinite error.
        """
        saddle, tilt, cumulants = self._tilt(epsilon, spare)
        last, n, beyond = self._window(epsilon, saddle, tilt, cumulants, log_tail)
        chernoff = math.exp(min(cumulants[0] - tilt * epsilon, 0.0)) * (1 + 1e-6)
        if n > _MAX_WINDOW:
            return chernoff, math.inf, chernoff
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


class Blocks:
    """The composed losses of one direction as blocks: one law for every ε."""

    def __init__(self, steps: Steps, tier: float) -> None:
        self._law: BlockLaw = compose_blocks(steps, tier)
        self._count = sum(count for _, count in steps)
        self._shift = sum(n * p.rounding for p, n in steps)
        self.infinity = self._law.infinity

    def get_delta(self, epsilon: float) -> float:
        """Return an upper bound on δ: H of the law, at an ε below, plus all that rounding loses.

        A relative error of the masses is one of H, which is linear in them and has no minus sign.
        """
        below = epsilon * (1 - 4 * _U) - self._shift
        found = self._law.hockey_stick(below) * (1 + self._law.rounding(self._count) + 1e-12)
        return min(found + self._law.underflow(self._count) + _UNDERFLOW, 1.0)

    def looseness(self, epsilon: float) -> float:
        """Return about the relative error of δ: no bound, to decide whether to try the FFT.

        Interpolation over Δ adds Δ²/8·(δ''/δ) at most, with Δ about ε/384 and δ ≈ e^−(slope·ε)
        nearby, once for each squaring or product.
        """
        here, there = self.get_delta(epsilon), self.get_delta(epsilon * (1 + 1 / 256))
        slope = 256 * math.log(max(here, _SMALLEST) / max(there, _SMALLEST))
        return 1.5 * math.log2(2 * self._count) * (slope / 384) ** 2 / 8

    def guess_epsilon(self, delta: float) -> tuple[float, float]:
        """Return about log ε at `delta` and d log δ / d log ε there: a start for a search."""
        low, high = math.log(self._law.h) - 20, math.log(self._law.largest)
        for _ in range(24):
            middle = (low + high) / 2
            small = self.get_delta(math.exp(middle)) > delta
            low, high = (middle, high) if small else (low, middle)
        here, there = (self.get_delta(math.exp(high + d)) for d in (0.0, 1e-3))
        slope = 1e3 * math.log(max(there, _SMALLEST) / max(here, _SMALLEST))
        return high, min(slope, -1e-3)


@lru_cache(maxsize=16)
def _composition(steps: Steps, tier: float) -> Composition:
    return Composition(steps, tier)


_loss_shape = lru_cache(maxsize=64)(loss_shape)


@lru_cache(maxsize=16)
def _blocks(steps: Steps, tier: float) -> Blocks:
    # A finer tier costs a block or two: 1e-4 of it leaves nothing to see at +∞.
    return Blocks(steps, 1e-4 * tier)


@dataclass(frozen=True, slots=True)
class LossCurve:
    """Upper bound on the curve of sampled steps: the largest δ of all directions.

    Each direction is composed by itself over all steps (SPEC 4: add with add, remove with
    remove); the maximum comes last.
    """

    directions: tuple[Steps, ...]

    @property
    def name(self) -> str:
        return "privacy loss distribution (upper bound)"

    def get_delta(self, epsilon: float) -> float:
        check_epsilon(epsilon)
        if epsilon == math.inf:
            return 0.0
        found = max(_direction_delta(steps, epsilon) for steps in self.directions)
        # The loss of a sampled step has no upper end: δ > 0, also where it is below all numbers.
        return max(found, _SMALLEST)

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
    if sum(count for _, count in steps) == 1:
        return steps[0][0].get_delta(epsilon)
    delta = 1.0
    scale, kurtosis = _loss_shape(steps)
    blocks_first = sum(count for _, count in steps) <= _FEW or kurtosis > _HEAVY
    guess = GaussianCurve(scale).get_delta(epsilon)
    likely = sum(tier > _TIER_SHARE * guess for tier in _TIERS[:3])
    for tier in _TIERS[likely:]:
        found, infinity = _tier_delta(steps, tier, epsilon, blocks_first)
        delta = min(delta, found)
        if infinity <= _TIER_SHARE * delta:
            break
    return delta


def _tier_delta(
    steps: Steps, tier: float, epsilon: float, blocks_first: bool
) -> tuple[float, float]:
    """Return an upper bound on δ, and the mass at +∞ in it.

    Few steps or heavy tails: blocks, then the FFT if δ falls so fast that interpolation shows.
    Otherwise the FFT, then blocks if it did not get through. Last the FFT with more digits, if
    neither is near.
    """
    found, tight = 1.0, False
    if not blocks_first:
        composition = _composition(steps, tier)
        found, tight = composition.get_delta(epsilon, wide=False)
        if tight:
            return found, composition.infinity
    blocks = _blocks(steps, tier)
    by_blocks, looseness = blocks.get_delta(epsilon), blocks.looseness(epsilon)
    if blocks_first and looseness > 1e-3:
        found, tight = _composition(steps, tier).get_delta(epsilon, wide=False)
    # Where the FFT is off by far, some digits more do not help.
    if not tight and looseness > 2e-2 and by_blocks > 1e-2 * found:
        found = min(found, _composition(steps, tier).get_delta(epsilon, wide=True)[0])
    return min(found, by_blocks), blocks.infinity


def _solve_epsilon(curve: LossCurve, delta: float) -> float:
    """Smallest ε with curve.get_delta(ε) <= delta, from above, in log ε."""
    if curve.get_delta(0.0) <= delta:
        return 0.0
    tier = next((t for t in _TIERS if t <= _TIER_SHARE * delta), _TIERS[-1])
    start, slope = max(_blocks(steps, tier).guess_epsilon(delta) for steps in curve.directions)
    found = smallest_root(
        lambda x: math.log(curve.get_delta(math.exp(x))) - math.log(delta), start, slope, 1e-6
    )
    return math.inf if found is None else math.exp(found)
