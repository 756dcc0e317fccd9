"""What the counts of one column say of its median and its spread."""

from __future__ import annotations

from math import nextafter
from typing import NamedTuple

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.standardiser.rule import StandardiserRule

_SMALLEST = nextafter(0.0, 1.0)


class Counts(NamedTuple):
    """Shares of the cells of one column between edges, and what noise did to them."""

    edges: FloatArray
    shares: FloatArray
    """(edges + 1): they add up to 1; the first and the last bin are open."""
    variances: FloatArray
    """(edges + 1): of the noise of the shares."""

    def with_tails(self, outer_edges: FloatArray, outer: FloatArray) -> Counts:
        """Return the counts, their open bins split as other shares `outer` are."""
        low = int(np.searchsorted(outer_edges, self.edges[0]))
        high = int(np.searchsorted(outer_edges, self.edges[-1], side="right"))
        edges = np.concatenate([outer_edges[:low], self.edges, outer_edges[high:]])
        below, above = outer[: low + 1], outer[high:]
        shares, variances = (
            np.concatenate([_divided(v[0], below), v[1:-1], _divided(v[-1], above)])
            for v in (self.shares, self.variances)
        )
        return Counts(edges, shares, variances)


class Spread(NamedTuple):
    """What a histogram says of a column."""

    median: float
    scale: float
    others: float
    """Share of the cells outside the median's bin."""


UNKNOWN = Spread(0.0, np.inf, 0.0)


def on_simplex(shares: FloatArray) -> FloatArray:
    """Return the nearest shares that are not negative and add up to 1."""
    shares = shares - shares.max()  # the same answer; the 1 is not lost in large numbers
    sorted_down = np.sort(shares)[::-1]
    excess = (np.cumsum(sorted_down) - 1.0) / np.arange(1.0, len(shares) + 1.0)
    last = np.flatnonzero(sorted_down > excess)[-1]
    return np.asarray(np.maximum(shares - excess[last], 0.0))


def spread(counts: Counts, rule: StandardiserRule) -> Spread:
    """Return the median and the scale of cells, spread evenly within their bins.

    If the bin of the median holds more than half of the cells, the scale is that of the other
    cells. Some of the cells within the spread lie outside this bin, for certain: noise in the bins
    around a repeated value is no spread.
    """
    edges, shares = counts.edges, counts.shares
    below = np.cumsum(shares)[:-1]
    i = int(np.searchsorted(below, 0.5))
    if not 0 < i < len(edges):
        return UNKNOWN
    share = float(shares[i])
    median = float(edges[i - 1] + (0.5 - below[i - 1]) / share * (edges[i] - edges[i - 1]))
    if not median < edges[i]:  # rounding: the bin may hold one number alone
        median = float(edges[i - 1])
    away = np.unique(np.abs(edges - median))

    def sums(values: FloatArray) -> FloatArray:
        """Return sums of values of bins within these distances of the median."""
        up = np.cumsum(values)[:-1]
        return np.interp(median + away, edges, up) - np.interp(median - away, edges, up)

    beside = np.where(np.arange(len(shares)) == i, 0.0, shares)
    variances = np.where(np.arange(len(shares)) == i, 0.0, counts.variances)
    others, within = 1.0, sums(shares)
    if share > 0.5:  # most cells are one repeated value
        others, within = 1.0 - share, sums(beside)
    for j in np.flatnonzero((beside if share > 0.5 else shares)[1:-1] > rule.heavy):
        low, high = edges[j], edges[j + 1]  # cells of a heavy bin may all be at its far end
        width = np.minimum(high, median + away) - np.maximum(low, median - away)
        part = np.clip(width / (high - low), 0.0, 1.0)
        within -= shares[j + 1] * np.where(part < 1.0, part, 0.0)
    noise = sums(variances)
    noise *= 1.0 - noise / max(variances.sum(), _SMALLEST)  # of a part, if the whole is known
    is_clear = sums(beside) >= rule.sure * np.sqrt(np.maximum(noise, 0.0))
    within = np.maximum.accumulate(np.where(is_clear, within, 0.0))

    level = rule.level * others
    at = int(np.searchsorted(within, level))
    if at == len(within):
        return Spread(median, np.inf, 1.0 - share)
    found = max(float(np.interp(level, within, away)), away[at] / 2.0)
    return Spread(median, rule.to_sd * found, 1.0 - share)


def _divided(whole: float, parts: FloatArray) -> FloatArray:
    """Return a number, divided as these parts are."""
    total = parts.sum()
    return whole * (parts / total if total > 0.0 else np.full(len(parts), 1.0 / len(parts)))
