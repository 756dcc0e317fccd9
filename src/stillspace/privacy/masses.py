"""One step's privacy loss on a grid: connect-the-dots (Doroshenko et al. 2022; SPEC 4).

H(α) is replaced by its piecewise-linear interpolation at points α_i = exp(h·i), which lies above a
convex function and is H of a discrete pair. The dots are dense near loss 0 and a 512th of the loss
apart further out. All rounding is to the safe side: mass may be added and may move to larger
losses, never the reverse. (Masses may then sum to a little over 1: the composition theorem that
is used, ∫ a(y) H(α b(y)/a(y)) dy, holds for any non-negative measures.)
"""

from __future__ import annotations

import math
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


def _survey(profile: StepProfile) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a wide geometric grid of losses with the masses of P above l and below −l."""
    losses = profile.largest_loss * np.geomspace(1e-18, 1.0, 360)
    return losses, profile.upper_mass(losses), profile.lower_mass(losses)


def _second_moment(survey: tuple[FloatArray, FloatArray, FloatArray]) -> float:
    """E L² = ∫ 2l (P(L > l) + P(L < −l)) dl, trapezoid in log l."""
    losses, upper, lower = survey
    return float(np.trapezoid(2 * losses**2 * (upper + lower), np.log(losses)))


def loss_scale(steps: Steps) -> float:
    """Return the root of the summed second moments of the losses (a rough size, no bound)."""
    return math.sqrt(sum(count * _second_moment(_survey(p)) for p, count in steps))


@dataclass(frozen=True, slots=True, eq=False)
class LossMasses:
    """Mass `masses[i]` at loss `h·places[i]`, `infinity` at +∞; Q has `e^−l` times that."""

    h: float
    places: IntArray
    masses: FloatArray
    infinity: float

    @property
    def losses(self) -> FloatArray:
        """The losses of `masses`."""
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


def discretise(profile: StepProfile, h: float, low: float, high: float) -> LossMasses:
    """Connect the dots of `profile` on the grid hℤ from about `low` to `high`.

    The mass P_j, Q_j of the cell between the losses l and l + Δ goes to its two ends so that both
    totals are kept: p_right = (P_j − e^l Q_j)/(1 − e^−Δ), p_left = P_j − p_right. That is the
    interpolation of H written without H, whose second differences would cancel. Directions:
    more mass on the right end is safe (H = Σ p_i (1 − αe^−l_i)⁺ grows with l_i), so e^l Q_j is
    rounded down; mass below the grid moves up to its first point, mass above it to +∞.
    """
    places = _dots(max(math.ceil(high / h), 1))
    if not profile.mirrored:
        places = np.concatenate([-_dots(max(math.ceil(-low / h), 1))[:0:-1], places])
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
    # p_right may be too small by this much; an excess on the right covers a want on the left.
    right_error = (error + growth * q_error) / -np.expm1(-shrink)
    masses = np.zeros(len(edges))
    masses[1:] += right + np.minimum(right_error, cells - right + error)
    masses[:-1] += cells - right + error
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
    steps = tuple((p.truncated(tier / total), count) for p, count in steps)
    surveys = [_survey(p) for p, _ in steps]
    moments = [_second_moment(s) * n for s, (_, n) in zip(surveys, steps, strict=True)]
    scale = math.sqrt(sum(moments))
    h = scale * min(1 / 1000, 1 / (40 * math.sqrt(total)))
    # The error bounds of the masses add up to about 16u·T·(scale/√T)/h² of δ: at most 1e-3.
    h = max(h, math.sqrt(16e3 * _U * math.sqrt(total) * scale))
    masses = []
    for (profile, count), (losses, upper, lower) in zip(steps, surveys, strict=True):
        high = float(losses[np.argmax(upper <= tier / total)])
        low = -float(losses[np.argmax(lower <= 1e-7 / total)])
        masses.append((discretise(profile, h, low, high), count))
    return masses
