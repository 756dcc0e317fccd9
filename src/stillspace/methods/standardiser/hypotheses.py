"""Where a column may lie and how wide it may be: hypotheses about the law of its cells.

A hypothesis is a Student t law with 3 degrees of freedom around `center` with the scale
2^`octave`, or its positive or negative half. Each one stands for a box of centres and scales;
boxes are split where counts in finer bins call for it. Nothing here sees rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp, stdtrit

from stillspace._typing import FloatArray, IntArray

RELATIVE = range(-4, 4)
"""Octaves of the scale relative to the centre. A smaller scale makes an octave a heavy bin, which
brings hypotheses of its own (`within`)."""
FAMILIAR, FAMILIAR_WIDTH = 3.0, 8.0
"""People choose units in which numbers are near 2³: a Cauchy prior of the octave, and its width."""
RARE = 2.0
"""What the prior's logarithm loses for negative centres, which few columns have."""
DEPTH = 10
"""Octaves of the scale below the width of a heavy bin."""
MOST_PARTS = 128
"""Parts that a box of centres is split into, at most."""

_QUANTILES = stdtrit(3.0, (np.arange(8) + 0.5) / 8.0)
"""Places that stand for a t law when bins are chosen."""
_PLACES = np.array([-0.75, -0.25, 0.25, 0.75])
"""Places that stand for a box of centres, in units of its reach."""


def t3_below(t: FloatArray) -> FloatArray:
    """Return the distribution function of Student's t law with 3 degrees of freedom.

    `½ + (a + sin a cos a)/π` with a = arctan(t/√3): right at infinity, too.
    """
    angle = np.arctan(t / np.sqrt(3.0))
    return np.asarray(0.5 + (angle + 0.5 * np.sin(2.0 * angle)) / np.pi)


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """Laws that a column may have: arrays of one length."""

    center: FloatArray
    reach: FloatArray
    """Half the width of the box of centres."""
    octave: FloatArray
    """The logarithm of the scale, base 2."""
    side: FloatArray
    """0: both sides of the centre; 1 or −1: that side alone."""
    prior: FloatArray
    """Logarithms of prior weights, up to a constant."""

    def __len__(self) -> int:
        return len(self.center)

    def __getitem__(self, index: Any) -> Hypotheses:
        return Hypotheses(*(getattr(self, name)[index] for name in self.__slots__))

    @classmethod
    def joined(cls, parts: Iterable[Hypotheses]) -> Hypotheses:
        """Return all of them in one."""
        found = list(parts)
        return cls(*(np.concatenate([getattr(p, name) for p in found]) for name in cls.__slots__))

    @property
    def scale(self) -> FloatArray:
        """The scale of the law."""
        return np.asarray(np.exp2(self.octave))

    def beyond(self, low: float, high: float) -> FloatArray:
        """Return 1 for laws whose centre, or whose width, does not fit into a range, else 0."""
        outside = (self.center + self.reach < low) | (self.center - self.reach > high)
        return np.where(outside | (self.scale > high - low), 1.0, 0.0)

    def masses(self, edges: FloatArray) -> FloatArray:
        """Return the probabilities of the bins between these edges: (hypotheses, edges + 1)."""
        with np.errstate(over="ignore"):
            t = (edges - self.center[:, None]) / self.scale[:, None]
        side = self.side[:, None]
        below = np.clip((1.0 + np.abs(side)) * t3_below(t) - np.maximum(side, 0.0), 0.0, 1.0)
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def quantiles(self, weights: FloatArray, levels: FloatArray) -> FloatArray:
        """Return quantiles of the mixture of all laws, nearly."""
        places = self.reach[:, None, None] * _PLACES[:, None]
        with np.errstate(over="ignore"):
            x = self.center[:, None, None] + places + self.scale[:, None, None] * _QUANTILES
        weight = weights[:, None, None] * (self.side[:, None, None] * _QUANTILES >= 0.0)
        weight = np.broadcast_to(weight, x.shape).ravel()
        order = np.argsort(x, axis=None)
        mass = np.cumsum(weight[order]) - weight[order] / 2.0
        return np.asarray(np.interp(levels, mass / weight.sum(), x.ravel()[order]))

    def split(self, edges: FloatArray) -> Hypotheses:
        """Return boxes of centres no wider than their scale, or half their bins' width."""
        low, high = self.center - self.reach, self.center + self.reach
        inside = np.searchsorted(edges, high) - np.searchsorted(edges, low)
        finest = np.maximum(self.scale, self.reach / (inside + 1.0))
        parts = np.clip(np.ceil(2.0 * self.reach / finest), 1, MOST_PARTS).astype(np.int64)
        at, of = _numbered(parts)
        found, m = self[of], parts[of]
        center = found.center + found.reach * ((2.0 * at + 1.0) / m - 1.0)
        return replace(found, center=center, reach=found.reach / m, prior=found.prior - np.log(m))

    def halved(self, step: float) -> Hypotheses:
        """Return two hypotheses for each, with scales that are half as far apart as `step`."""
        shared = replace(self, prior=self.prior - np.log(2.0))
        low = replace(shared, octave=self.octave - step / 4.0)
        return Hypotheses.joined([low, replace(shared, octave=self.octave + step / 4.0)])


def _numbered(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return 0…counts[i]−1 for each i, one after another, and the i of each."""
    of = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts), of


def first_hypotheses(least: int, most: int) -> Hypotheses:
    """Return the hypotheses of a first look at octaves 2^least … 2^most, with the public prior.

    Centres are ±2^k at four places per octave, off the octave's ends, and 0.
    """
    where: FloatArray = np.asarray(least + (np.arange(4 * (most - least)) + 0.5) / 4.0)
    octaves: FloatArray = np.arange(float(least), float(most), 0.5)
    parts = []
    for sign in (1.0, -1.0):
        center = sign * np.exp2(where)
        reach = np.exp2(where) * (2.0**0.125 - 2.0**-0.125) / 2.0
        weight = _familiar(where) - (RARE if sign < 0 else 0.0)
        parts += [_filled(center, reach, where + relative, 0.0, weight) for relative in RELATIVE]
    zero = np.zeros(len(octaves))
    for side in (0.0, 1.0, -1.0):
        weight = _familiar(octaves) - (RARE if side < 0 else 0.0)
        parts.append(_filled(zero, zero, octaves, side, weight))
    found = Hypotheses.joined(parts)
    return replace(found, prior=found.prior - logsumexp(found.prior))


LEAST_OCTAVE = -1000.0
"""Of the scale of a law: a bin may be as narrow as 2⁻¹⁰⁷⁴, and no scale may be 0."""


def within(low: float, high: float, prior: float) -> Hypotheses:
    """Return hypotheses of cells that are all in one bin, with this weight together."""
    octave = np.maximum(np.log2(high - low) - np.arange(1.0, DEPTH + 1.0), LEAST_OCTAVE)
    one = np.ones(DEPTH)
    return _filled(one * (low + high) / 2.0, (high - low) / 2.0, octave, 0.0, prior - np.log(DEPTH))


def _familiar(octave: FloatArray) -> FloatArray:
    """Return the logarithm of the prior of a magnitude."""
    return np.asarray(-np.log1p(np.square((octave - FAMILIAR) / FAMILIAR_WIDTH)))


def _filled(center: FloatArray, *rest: FloatArray | float) -> Hypotheses:
    return Hypotheses(center, *(np.broadcast_to(value, center.shape) for value in rest))
