"""The median and the MAD of a histogram with noise."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.standardiser.rule import StandardiserRule


class Spread(NamedTuple):
    """What a histogram says of a column."""

    median: float
    scale: float
    others: float
    """Share of the cells outside the median's bin."""
    doubt: float
    """Octaves between the scales that noise leaves open; infinite where the scale is unknown."""


UNKNOWN = Spread(0.0, np.inf, 0.0, np.inf)


def on_simplex(shares: FloatArray) -> FloatArray:
    """Return the nearest shares that are not negative and add up to 1."""
    sorted_down = np.sort(shares)[::-1]
    excess = (np.cumsum(sorted_down) - 1.0) / np.arange(1.0, len(shares) + 1.0)
    last = np.flatnonzero(sorted_down > excess)[-1]
    return np.asarray(np.maximum(shares - excess[last], 0.0))


def spread(
    edges: FloatArray, shares: FloatArray, sd: float, rule: StandardiserRule, looked: FloatArray
) -> Spread:
    """Return the median and the scale of cells, spread evenly within their bins.

    `shares` (edges + 1) add up to 1; the first and the last bin are open. If the bin of the median
    is an atom the scale is that of the other cells. `sd` is the noise of one share between edges of
    `looked`; other edges divide such a share without more noise. The scale is read a second and a
    third time, `rule.clear` standard deviations of the counts within it away.
    """
    below = np.cumsum(shares)[:-1]
    i = int(np.searchsorted(below, 0.5))
    if not 0 < i < len(edges):
        return UNKNOWN
    share = float(shares[i])
    median = float(edges[i - 1] + (0.5 - below[i - 1]) / share * (edges[i] - edges[i - 1]))
    if not median < edges[i]:  # rounding: the bin may hold one number alone
        median = float(edges[i - 1])
    others = 1.0
    if share > rule.atom:
        others = 1.0 - share
        below = np.where(np.arange(len(below)) >= i, below - share, below)
    away = np.unique(np.abs(edges - median))
    within = np.interp(median + away, edges, below) - np.interp(median - away, edges, below)
    within = np.maximum.accumulate(within)

    level = rule.level * others
    at = _crossing(within, level)
    if at is None:
        return Spread(median, np.inf, 1.0 - share, np.inf)
    found = max(float(np.interp(level, within, away)), away[at] / 2.0)
    off = rule.clear * sd * sqrt(np.count_nonzero(np.abs(looked - median) <= found) + 1)
    low, high = _crossing(within, level - off), _crossing(within, level + off)
    if not low or high is None:  # nearer than the first edge, or beyond the last one
        return Spread(median, rule.to_sd * found, 1.0 - share, np.inf)
    doubt = float(np.log2(away[high] / away[low - 1]))
    return Spread(median, rule.to_sd * found, 1.0 - share, doubt)


def _crossing(within: FloatArray, level: float) -> int | None:
    """Return the first edge within which this share of the cells lies, if there is one."""
    at = int(np.searchsorted(within, level))
    return at if at < len(within) else None
