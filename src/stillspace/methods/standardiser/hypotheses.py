"""Where a column may lie and how wide it may be: hypotheses about the law of its cells.

A hypothesis is a Student t law with 3 degrees of freedom around `center` with the scale
2^`octave`, or its positive or negative half. Each one stands for a box of centres and scales;
boxes are split where counts in finer bins call for it. Nothing here sees rows.

Arrays are (columns, hypotheses): all columns of a look are weighed at once. Rows of fewer
hypotheses are filled up with ones of weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import pi, sqrt
from typing import Any

import numpy as np

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.methods.standardiser.rule import StandardiserRule

_POINTS = 512
"""Points that stand for all laws of a column when bins are chosen."""
_PLACES = np.array([-0.75, -0.25, 0.25, 0.75])
"""Places that stand for a box of centres, in units of its reach."""
_FARTHEST = 1e18
"""Farther from its centre a law has no mass that a number could hold; the square is a float32."""


def t3_below(t: AnyArray) -> AnyArray:
    """Return the distribution function of Student's t law with 3 degrees of freedom.

    `½ + (a + sin a cos a)/π` with tan a = u = t/√3, so that sin a cos a = u/(1 + u²).
    """
    u = np.clip(t, -_FARTHEST, _FARTHEST)
    u *= 3.0**-0.5
    product = u * u
    product += 1.0
    np.divide(u, product, out=product)
    np.arctan(u, out=u)
    u += product
    u *= 1.0 / np.pi
    u += 0.5
    return u


@cache
def _t3_table() -> tuple[FloatArray, FloatArray]:
    """Return values of this distribution function, and where it has them."""
    t = sqrt(3.0) * np.tan(np.linspace(-pi / 2.0, pi / 2.0, 4 * _POINTS + 1)[1:-1])
    return t3_below(t), t


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """Laws that columns may have: arrays of one shape, the last axis along the hypotheses."""

    center: FloatArray
    reach: FloatArray
    """Half the width of the box of centres."""
    octave: FloatArray
    """The logarithm of the scale, base 2."""
    side: FloatArray
    """0: both sides of the centre; 1 or −1: that side alone."""
    prior: FloatArray
    """Logarithms of prior weights, up to a constant; −∞ where a row is filled up."""

    def each(self, change: Callable[[FloatArray], FloatArray]) -> Hypotheses:
        """Return the hypotheses with the same done to all arrays."""
        return Hypotheses(*(change(getattr(self, name)) for name in self.__slots__))

    def __getitem__(self, index: Any) -> Hypotheses:
        return self.each(lambda values: values[index])

    def taken(self, places: IntArray) -> Hypotheses:
        """Return some hypotheses of each column: `places` (columns, count)."""
        rows = np.arange(len(places))[:, None]
        return self.each(lambda values: values[rows, places])

    @classmethod
    def joined(cls, parts: Iterable[Hypotheses]) -> Hypotheses:
        """Return all of them in one, along the last axis."""
        found = list(parts)
        return cls(
            *(np.concatenate([getattr(p, name) for p in found], axis=-1) for name in cls.__slots__)
        )

    @property
    def scale(self) -> FloatArray:
        """The scale of the law."""
        return np.asarray(np.exp2(self.octave))

    def beyond(self, low: float, high: float) -> FloatArray:
        """Return 1 for laws whose centre, or whose width, does not fit into a range, else 0."""
        outside = (self.center + self.reach < low) | (self.center - self.reach > high)
        return np.where(outside | (self.scale > high - low), 1.0, 0.0)

    def masses(self, edges: FloatArray) -> AnyArray:
        """Return the probabilities of the bins between these edges: (…, hypotheses, edges + 1).

        In single precision: weights of hypotheses need no more.
        """
        with np.errstate(over="ignore"):
            t = edges[..., None, :] - self.center[..., None]
            t *= np.exp2(-self.octave)[..., None]
            inside = t3_below(t.astype(np.float32))
        if self.side.any():
            side = self.side[..., None].astype(np.float32)
            inside *= 1.0 + np.abs(side)
            inside -= np.maximum(side, 0.0)
            np.clip(inside, 0.0, 1.0, out=inside)
        below = np.empty((*inside.shape[:-1], inside.shape[-1] + 2), dtype=np.float32)
        below[..., 0], below[..., 1:-1], below[..., -1] = 0.0, inside, 1.0
        return below[..., 1:] - below[..., :-1]

    def quantiles(self, weights: FloatArray, levels: FloatArray) -> list[FloatArray]:
        """Return quantiles of the mixture of all laws of each column, nearly.

        The hypotheses of a column stand in the order of their weights. A law without weight would
        stretch the outer quantiles to where it lies.
        """
        counts = np.count_nonzero(weights, axis=1)
        return [self[i, :k]._mixed_quantiles(weights[i, :k], levels) for i, k in enumerate(counts)]

    def _mixed_quantiles(self, weights: FloatArray, levels: FloatArray) -> FloatArray:
        """Return quantiles of the mixture of these laws of one column.

        A law has points in proportion to its weight. Heavier points would gather the quantiles.
        """
        center, scale, side = self.center, self.scale, self.side
        if np.any(8.0 * self.reach > scale):
            center = (center[:, None] + self.reach[:, None] * _PLACES).ravel()
            scale, side, weights = (np.repeat(v, len(_PLACES)) for v in (scale, side, weights))
        weights = weights / weights.sum()
        counts = np.ceil(_POINTS * weights).astype(np.int64)
        of = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(of)) - (np.cumsum(counts) - counts)[of]
        t = np.interp((place + 0.5) / counts[of], *_t3_table())
        t = np.where(side[of] == 0.0, t, side[of] * np.abs(t))
        with np.errstate(over="ignore"):
            x = center[of] + scale[of] * t
        return _quantiles_of(x, (weights / counts)[of], levels)

    def split(self, edges: FloatArray, most: int) -> Hypotheses:
        """Return boxes of centres no wider than their scale, or half their bins' width.

        Each box is split into `most` parts, at most.
        """
        low, high = (self.center + sign * self.reach for sign in (-1.0, 1.0))
        rows = zip(edges, low, high, strict=True)
        inside = np.array([np.searchsorted(e, b) - np.searchsorted(e, a) for e, a, b in rows])
        finest = np.maximum(self.scale, self.reach / (inside + 1.0))
        parts = np.clip(np.ceil(2.0 * self.reach / finest), 1, most).astype(np.int64)
        if np.all((parts == 1) | np.isneginf(self.prior)):
            return self
        at, of = _numbered(np.where(np.isneginf(self.prior), 0, parts))
        found, m = self.taken(of), np.take_along_axis(parts, of, axis=1)
        center = found.center + found.reach * ((2.0 * at + 1.0) / m - 1.0)
        prior = np.where(at >= 0, found.prior - np.log(m), -np.inf)
        return replace(found, center=center, reach=found.reach / m, prior=prior)

    def halved(self, step: FloatArray, finest: float) -> Hypotheses:
        """Return two hypotheses for each, with scales that are half as far apart as `step`.

        Columns (steps are one per column) whose step is `finest` keep their hypotheses.
        """
        shared, step = step[:, None] > finest, step[:, None]
        if not shared.any():
            return self
        octave = np.where(shared, self.octave - step / 4.0, self.octave)
        prior = np.where(shared, self.prior - np.log(2.0), self.prior)
        other = np.where(shared, prior, -np.inf)
        low = replace(self, octave=octave, prior=prior)
        return Hypotheses.joined([low, replace(self, octave=self.octave + step / 4.0, prior=other)])


def _quantiles_of(x: FloatArray, weights: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles of weighted points."""
    order = np.argsort(x)
    ordered = weights[order]
    mass = np.cumsum(ordered)
    return np.asarray(np.interp(levels * mass[-1], mass - ordered / 2.0, x[order]))


def _numbered(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return 0…counts[c, i]−1 for each i of a row, one after another, and the i of each.

    Rows are filled up with −1, which stands for no part.
    """
    columns, k = counts.shape
    totals = counts.sum(axis=1)
    of = np.repeat(np.arange(columns * k), counts.ravel())
    starts = np.cumsum(counts.ravel()) - counts.ravel()
    first = np.cumsum(totals) - totals
    row = of // k
    place = np.arange(len(of)) - first[row]
    at = np.full((columns, max(int(totals.max()), k)), -1)
    owner = np.zeros_like(at)
    at[row, place] = np.arange(len(of)) - starts[of]
    owner[row, place] = of % k
    return at, owner


def first_hypotheses(rule: StandardiserRule) -> Hypotheses:
    """Return the hypotheses of a first look at octaves of the cells, with the public prior.

    Centres are ±2^k at four places per octave, off the octave's ends, and 0.
    """
    least, most = -rule.octaves, rule.octaves
    where: FloatArray = np.asarray(least + (np.arange(4 * (most - least)) + 0.5) / 4.0)
    octaves: FloatArray = np.arange(float(least), float(most), 0.5)
    parts = []
    for sign in (1.0, -1.0):
        center, weight = sign * np.exp2(where), _familiar(where, rule)
        reach = np.exp2(where) * (2.0**0.125 - 2.0**-0.125) / 2.0
        relative = range(-rule.relative, rule.relative + 1)
        parts += [_filled(center, reach, where + octave, 0.0, weight) for octave in relative]
    zero = np.zeros(len(octaves))
    weight = _familiar(octaves, rule)
    parts += [_filled(zero, zero, octaves, side, weight) for side in (0.0, 1.0, -1.0)]
    found = Hypotheses.joined(parts)
    return replace(found, prior=found.prior - log_sum(found.prior))


LEAST_OCTAVE = -1000.0
"""Of the scale of a law: a bin may be as narrow as 2⁻¹⁰⁷⁴, and no scale may be 0."""


def within(low: FloatArray, high: FloatArray, prior: FloatArray, depth: int) -> Hypotheses:
    """Return hypotheses of cells that are all in one bin, with this weight together.

    One bin per column; scales are down to `depth` octaves below its width. Where the ends of a bin
    are no numbers, the hypotheses have no weight.
    """
    none = np.isnan(low)[..., None]
    low, high = np.where(none, 0.0, low[..., None]), np.where(none, 1.0, high[..., None])
    octave = np.maximum(np.log2(high - low) - np.arange(1.0, depth + 1.0), LEAST_OCTAVE)
    prior = np.where(none, -np.inf, prior[..., None] - np.log(depth))
    one = np.ones(octave.shape)
    return _filled(one * (low + high) / 2.0, (high - low) / 2.0, octave, 0.0, prior)


def astride(
    edge: FloatArray,
    below: FloatArray,
    above: FloatArray,
    width: FloatArray,
    prior: FloatArray,
    depth: int,
) -> Hypotheses:
    """Return hypotheses of cells on both sides of an edge, with this weight together.

    One edge per column, and the shares of the cells in the bins `below` and `above` it. A law lies
    so that the edge divides its cells as these shares say; scales are down to `depth` octaves below
    `width`. Where a share is not positive, the hypotheses have no weight.
    """
    none = ~((below > 0.0) & (above > 0.0) & (width > 0.0))[..., None]
    part = np.where(none, 0.5, (below / (below + above))[..., None])
    width = np.where(none, 1.0, width[..., None])
    octave = np.maximum(np.log2(width) - np.arange(1.0, depth + 1.0), LEAST_OCTAVE)
    scale = np.exp2(octave)
    center = np.where(none, 0.0, edge[..., None]) - scale * np.interp(part, *_t3_table())
    prior = np.where(none, -np.inf, prior[..., None] - np.log(depth))
    return _filled(center, scale / 2.0, octave, 0.0, prior)


def log_sum(logarithms: FloatArray) -> FloatArray:
    """Return the logarithm of the sum along the last axis."""
    largest = np.max(logarithms, axis=-1, keepdims=True)
    total = np.log(np.sum(np.exp(logarithms - largest), axis=-1))
    return np.asarray(largest[..., 0] + total)


def _familiar(octave: FloatArray, rule: StandardiserRule) -> FloatArray:
    """Return the logarithm of the prior of a magnitude."""
    return np.asarray(-np.log1p(np.square(octave / rule.familiar)))


def _filled(center: FloatArray, *rest: FloatArray | float) -> Hypotheses:
    return Hypotheses(center, *(np.broadcast_to(value, center.shape) for value in rest))
