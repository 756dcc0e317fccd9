"""One step's privacy loss on a grid: connect-the-dots (Doroshenko et al. 2022; SPEC 4).

H(α) is replaced by its piecewise-linear interpolation at points α_i = exp(h·i), which lies above a
convex function and is H of a discrete pair. The dots are dense near loss 0 and a 512th of the loss
apart further out. All rounding is to the safe side: mass may be added and may move to larger
losses, never the reverse. (Masses may then sum to a little over 1: the composition theorem that
is used, ∫ a(y) H(α b(y)/a(y)) dy, holds for any non-negative measures.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import ndtr

from stillspace._typing import FloatArray, IntArray
from stillspace.privacy.profiles import StepProfile

Steps: TypeAlias = tuple[tuple[StepProfile, int], ...]

_U = 2.0**-52
_DOTS = 512
_ROUND_UP_FROM = 600.0
_HALF = 256
"""Half the places on each side of a block of `BlockLaw`."""


def _survey(profile: StepProfile) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a wide geometric grid of losses with the masses of P above l and below −l."""
    losses = profile.largest_loss * np.geomspace(1e-18, 1.0, 360)
    return losses, profile.upper_mass(losses), profile.lower_mass(losses)


def _moment(survey: tuple[FloatArray, FloatArray, FloatArray], k: int) -> float:
    """E |L|^k = ∫ k l^(k−1) (P(L > l) + P(L < −l)) dl, trapezoid in log l."""
    losses, upper, lower = survey
    return float(np.trapezoid(k * losses**k * (upper + lower), np.log(losses)))


def loss_scale(steps: Steps) -> float:
    """Return the root of the summed second moments of the losses (a rough size, no bound)."""
    return math.sqrt(sum(count * _moment(_survey(p), 2) for p, count in steps))


def loss_shape(steps: Steps) -> tuple[float, float]:
    """Return `loss_scale` and about the excess kurtosis of the sum: is its tail heavy?"""
    surveys = [(_survey(p), count) for p, count in steps]
    second, fourth = (sum(count * _moment(s, k) for s, count in surveys) for k in (2, 4))
    return math.sqrt(second), fourth / max(second * second, 5e-324)


@dataclass(frozen=True, slots=True, eq=False)
class LossMasses:
    """Mass `masses[i]` at loss `h·places[i]`, `infinity` at +∞; Q has `e^−l` times that."""

    h: float
    places: IntArray
    masses: FloatArray
    infinity: float

    @property
    def losses(self) -> FloatArray:
        return np.asarray(self.h * self.places, dtype=np.float64)


def _dots(last: int) -> IntArray:
    """Return places 0 … last: each one, then a 512th of themselves apart.

    Interpolation between dots at l and l + Δ adds at most Δ²/4 to the variance of the loss: with
    Δ = l/512 at most a millionth of E L², whatever the tail.
    """
    dense = np.arange(min(last, _DOTS) + 1)
    if last <= _DOTS:
        return dense
    sparse = np.geomspace(_DOTS, last, 2 + math.ceil(_DOTS * math.log(last / _DOTS)))
    return np.unique(np.concatenate([dense, np.rint(sparse).astype(np.int64)]))


def _block_dots(last: int) -> IntArray:
    """Return places 0 … last or just beyond: 0 … 2N, then N+1 … 2N times 2, 4, 8, …"""
    dots, unit = [np.arange(2 * _HALF + 1)], 1
    while dots[-1][-1] < last:
        unit *= 2
        dots.append(unit * np.arange(_HALF + 1, 2 * _HALF + 1))
    return np.concatenate(dots)


def _cell_masses(t: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mass of each cell between thresholds, and a bound on its rounding error.

    Differences of the smaller tail, so that the error is relative to that tail: a few units for
    ndtr and (t² units) for the rounding of t itself.
    """
    used = weights > 0
    t, weights = t[used], weights[used]
    tail = ndtr(-np.abs(t))
    left, right = tail[:, :-1], tail[:, 1:]
    cells = np.where(
        t[:, :-1] >= 0, left - right, np.where(t[:, 1:] <= 0, right - left, 1 - left - right)
    )
    units = tail * (16 + 4 * np.minimum(t * t, 1e4))
    # 1e-322: numbers below 1e-308 have no relative precision.
    return weights @ cells, 1e-322 + _U * (weights @ np.maximum(units[:, :-1], units[:, 1:]))


def discretise(
    profile: StepProfile,
    h: float,
    low: float,
    high: float,
    dots: Callable[[int], IntArray] = _dots,
) -> LossMasses:
    """Connect the dots of `profile` on the grid hℤ from about `low` to `high`.

    The mass P_j, Q_j of the cell between the losses l and l + Δ goes to its two ends so that both
    totals are kept: p_right = (P_j − e^l Q_j)/(1 − e^−Δ), p_left = P_j − p_right. That is the
    interpolation of H written without H, whose second differences would cancel. Directions:
    more mass on the right end is safe (H = Σ p_i (1 − αe^−l_i)⁺ grows with l_i), so e^l Q_j is
    rounded down; mass below the grid moves up to its first point, mass above it to +∞.
    """
    places = dots(max(math.ceil(high / h), 1))
    if not profile.mirrored:
        places = np.concatenate([-dots(max(math.ceil(-low / h), 1))[:0:-1], places])
    edges = np.asarray(h * places, dtype=np.float64)
    t = profile.thresholds(edges)
    p_weights = profile.p_weights
    cells, error = _cell_masses(t, p_weights)
    q_cells, q_error = _cell_masses(t, profile.q_weights)
    growth = np.exp(np.minimum(edges[:-1], _ROUND_UP_FROM))
    # Where e^l is huge, Q_j may underflow: all mass to the right end (e^l Q_j >= e^−Δ P_j).
    reversed_mass = np.where(edges[:-1] < _ROUND_UP_FROM, growth * q_cells, 0.0)
    shrink = np.diff(edges)
    least = np.exp(-shrink) * cells
    right = (cells - np.clip(reversed_mass, least, cells)) / -np.expm1(-shrink)
    right = np.minimum(right, cells)
    # p_right may be too small by right_error, P_j by error. With f = (1 − αe^−l)⁺, growing in l,
    # a cell adds P_j f(left) + p_right (f(right) − f(left)) to H: it is enough that both P_j and
    # p_right (never above P_j) are upper bounds. So mass is moved to the right, hardly added.
    right_error = (error + growth * q_error) / -np.expm1(-shrink)
    right = np.minimum(right + right_error, cells + error)
    masses = np.zeros(len(edges))
    masses[1:] += right
    masses[:-1] += cells + error - right
    infinity = profile.infinity + float(p_weights @ ndtr(-t[:, -1])) * (1 + 1e-10)
    if profile.mirrored:
        whole = _mirror(profile, LossMasses(h, places, masses, infinity))
        kept = int(np.searchsorted(whole.losses, low))
        whole.masses[kept] += whole.masses[:kept].sum()
        return LossMasses(h, whole.places[kept:], whole.masses[kept:], infinity)
    masses[0] += float(p_weights @ ndtr(t[:, 0])) * (1 + 1e-10)
    return LossMasses(h, places, np.maximum(masses, 0.0), infinity)


def _mirror(profile: StepProfile, half: LossMasses) -> LossMasses:
    """Add the side α < 1, where P has the mass that Q has at 1/α, and the atom at α = 1.

    A measure that is its own mirror image has H'(α) = (1−α)·P'(everything) + αH'(1/α). As
    H'(1/α) >= H(1/α) by construction, H'(α) >= 1 − α + αH(1/α) follows once the total is at least
    1: that is what the atom at loss 0 is for (it does not touch α >= 1). Q's mass above the grid
    becomes P's mass below it, and moves up to the first point.
    """
    losses = half.losses
    reversed_masses = half.masses * np.exp(-losses)
    both = np.concatenate([reversed_masses[:0:-1], half.masses])
    both[0] += float(profile.q_weights @ ndtr(-profile.thresholds(losses[-1:])[:, 0]))
    centre = len(losses) - 1
    total = float(both.sum()) + half.infinity
    both[centre] += max(1 - total, 0.0) + 4 * len(both) * _U
    places = np.concatenate([-half.places[:0:-1], half.places])
    return LossMasses(half.h, places, np.maximum(both, 0.0), half.infinity)


def step_masses(steps: Steps, tier: float) -> list[tuple[LossMasses, int]]:
    """Discretise all steps on one grid that suits their sum.

    Interpolation adds at most h²/4 to the variance of a step near loss 0. h is a 40th of the root
    mean square of a step, so that this is some 1e-4 of the whole, and at most a 1000th of that of
    the sum. The few steps below the grid are moved up to its first point: 1e-7 of all runs.
    """
    total = sum(count for _, count in steps)
    steps, surveys, ends = _ends(steps, tier)
    moments = [_moment(s, 2) * n for s, (_, n) in zip(surveys, steps, strict=True)]
    scale = math.sqrt(sum(moments))
    h = scale * min(1 / 1000, 1 / (40 * math.sqrt(total)))
    # The error bounds of the masses move Σ 16u over the cells up by h: 16uT(scale/√T)/h·h in all,
    # which is to be a 1000th of the whole.
    h = max(h, 16e3 * _U * math.sqrt(total))
    return [
        (discretise(profile, h, *end), count)
        for (profile, count), end in zip(steps, ends, strict=True)
    ]


def _ends(
    steps: Steps, tier: float
) -> tuple[Steps, list[tuple[FloatArray, FloatArray, FloatArray]], list[tuple[float, float]]]:
    """Return the steps without negligible components, their surveys, and ends of their grids."""
    total = sum(count for _, count in steps)
    steps = tuple((p.truncated(tier / total), count) for p, count in steps)
    surveys = [_survey(p) for p, _ in steps]
    ends = []
    for losses, upper, lower in surveys:
        high = float(losses[np.argmax(upper <= tier / total)])
        low = -float(losses[np.argmax(lower <= 1e-7 / total)])
        ends.append((low, high))
    return steps, surveys, ends


@dataclass(frozen=True, slots=True, eq=False)
class BlockLaw:
    """A law of the loss whose resolution is a fixed part of the loss: for heavy tails.

    `blocks[b, 2N + k]` is mass at loss h·2^b·k, |k| <= 2N = 512 (a loss may occur in several
    blocks: the masses add up), `infinity` is mass at +∞, and Q has e^−l times the mass of P.
    Block b is meant for losses of N to 2N units 2^b, the first for all smaller ones.

    Composing needs no FFT, window or tilt: only sums and products of non-negative numbers, so that
    every mass keeps its *relative* precision, however small. It needs some 25 small convolutions,
    whatever the ratio of the largest loss to the typical one.

    Why it is an upper bound. The one inexact operation, `_coarsen`, replaces mass p at loss l by
    masses at l − Δ and l + Δ with the same totals of P and Q. Merging the two undoes this, so the
    old pair is a post-processing of the new one and has a smaller H at every α; domination
    survives composition (see `profiles.py`). Sums of losses beyond the blocks get a new block.

    How loose it is: Δ is at most a 256th of |l| or of the loss of a step that was added to it, so
    one composition adds at most 4e-6 of E L² to the variance, and as many times that as there are
    squarings and products.
    """

    h: float
    blocks: FloatArray
    infinity: float

    @classmethod
    def of_step(cls, profile: StepProfile, h: float, low: float, high: float) -> BlockLaw:
        """Connect the dots of one step on the places of the blocks."""
        step = discretise(profile, h, low, high, _block_dots)
        size = np.abs(step.places)
        level = np.maximum(np.ceil(np.log2(np.maximum(size, 1) / (2 * _HALF))), 0).astype(np.int64)
        blocks = np.zeros((int(level.max()) + 1, 4 * _HALF + 1))
        # Places of level b are multiples of 2^b: the shift is exact, also below zero.
        np.add.at(blocks, (level, 2 * _HALF + (step.places >> level)), step.masses)
        return cls(h, blocks, step.infinity)

    def __mul__(self, other: BlockLaw) -> BlockLaw:
        """Return the law of the sum (finite losses; the masses at +∞ are added, an upper bound).

        A block of one meets the same and all smaller blocks of the other, made as coarse as it is.
        """
        x, y = self._padded(len(other.blocks)), other._padded(len(self.blocks))
        same = self is other
        size = 4 * _HALF + 1
        result = np.zeros((len(x) + 1, size))
        small_x = small_y = np.zeros(size)
        for b in range(len(x)):
            if b > 0:
                step = self.h * 2.0 ** (b - 1)
                small_y = _coarsen(small_y, step)
                small_x = small_y if same else _coarsen(small_x, step)
            if same:
                both = _convolve(x[b], x[b] + 2 * small_x)
            else:
                both = _convolve(x[b], y[b] + small_y) + _convolve(small_x, y[b])
            small_y = small_y + y[b]
            small_x = small_y if same else small_x + x[b]
            result[b] += both[2 * _HALF : 6 * _HALF + 1]
            both[2 * _HALF : 6 * _HALF + 1] = 0.0
            result[b + 1] += _coarsen(both, self.h * 2.0**b)
        if not result[-1].any():
            result = result[:-1]
        return BlockLaw(self.h, result, self.infinity + other.infinity)

    def __pow__(self, count: int) -> BlockLaw:
        """Return the law of the sum of `count` losses, by squaring."""
        power = self
        for bit in bin(count)[3:]:
            power = power * power
            if bit == "1":
                power = power * self
        return power

    @property
    def largest(self) -> float:
        return self.h * 2.0 ** len(self.blocks) * _HALF

    def _padded(self, least: int) -> FloatArray:
        short = max(least - len(self.blocks), 0)
        return np.pad(self.blocks, ((0, short), (0, 0))) if short else self.blocks

    def hockey_stick(self, epsilon: float) -> float:
        """H(e^ε) = Σ p (1 − e^(ε−l))⁺ + p∞, in floating point."""
        units = self.h * 2.0 ** np.arange(len(self.blocks))
        losses = units[:, None] * np.arange(-2 * _HALF, 2 * _HALF + 1)
        weights = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return float(np.sum(weights * self.blocks)) + self.infinity

    @staticmethod
    def rounding(count: int) -> float:
        """A bound on the relative rounding of all masses of a `count`-fold composition.

        Products and sums of non-negative terms: a composition costs as many units as its longest
        chain of additions, 4N + 1 in a convolution and a few for each of at most 100 blocks; the
        masses of a step cost some 64. A mass of the sum has the errors of all its factors.
        """
        return 2 * _U * count * (4 * _HALF + 1000)

    @staticmethod
    def underflow(count: int) -> float:
        """A bound on all mass that products below 1e-308 lose: 5e-324 each, 1e9 a composition."""
        return 2 * count * 1e9 * 5e-324


def _coarsen(masses: FloatArray, step: float) -> FloatArray:
    """Move masses at odd multiples of `step` to their neighbours, then count in double steps.

    p_right + p_left = p and e^−Δ p_right + e^Δ p_left = p (P and Q are kept) give
    p_right = p/(1 + e^−Δ). The result has 4N + 1 places, whatever the length of `masses`.
    """
    middle = len(masses) // 2  # even: the middle, loss 0, is an even multiple
    odd = masses[1::2]
    result = np.zeros(4 * _HALF + 1)
    view = result[2 * _HALF - middle // 2 : 2 * _HALF + middle // 2 + 1]
    view += masses[::2]
    view[1:] += odd / (1 + math.exp(-step))
    # 1/(1 + e^Δ), which is 0 to all purposes (a mass below e^−700 of its own) for a huge Δ.
    view[:-1] += odd / (1 + math.exp(min(step, 700.0)))
    return result


def _convolve(x: FloatArray, y: FloatArray) -> FloatArray:
    """Direct convolution: no FFT, hence relative precision; only where there is any mass."""
    result = np.zeros(len(x) + len(y) - 1)
    at_x, at_y = np.flatnonzero(x), np.flatnonzero(y)
    if len(at_x) and len(at_y):
        i, j = at_x[0], at_y[0]
        part = np.convolve(x[i : at_x[-1] + 1], y[j : at_y[-1] + 1])
        result[i + j : i + j + len(part)] = part
    return result


def compose_blocks(steps: Steps, tier: float) -> BlockLaw:
    """Return the law of the sum of all steps, as blocks; `tier` bounds the mass at +∞."""
    steps, surveys, ends = _ends(steps, tier)
    scales = [math.sqrt(_moment(survey, 2)) for survey in surveys]
    # Finer than each step needs: a halving costs one block. The second is the rounding of the
    # masses (see `step_masses`), the third keeps places within integers.
    total = sum(count for _, count in steps)
    h = max(min(scales) / _HALF, 16e3 * _U * math.sqrt(total), max(e[1] for e in ends) * 2.0**-55)
    laws = [
        BlockLaw.of_step(profile, h, *end) ** count
        for (profile, count), end in zip(steps, ends, strict=True)
    ]
    result = laws[0]
    for law in laws[1:]:
        result = result * law
    return result
