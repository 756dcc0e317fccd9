"""The median and the MAD of a histogram with noise."""

from __future__ import annotations

import numpy as np

from stillspace._typing import FloatArray

MAD_TO_SD = 1.482602218505602
"""What a normal law's MAD is multiplied with to give its standard deviation."""
ATOM = 0.5
LEVEL = 0.6
TO_SD = 1.1881836
"""A bin with the median and more than this share of all cells holds one repeated value, nearly: the
scale is then that of the other cells. Half would be exact; counts have noise."""


def on_simplex(shares: FloatArray) -> FloatArray:
    """Return the nearest shares that are not negative and add up to 1."""
    sorted_down = np.sort(shares)[::-1]
    excess = (np.cumsum(sorted_down) - 1.0) / np.arange(1.0, len(shares) + 1.0)
    last = np.flatnonzero(sorted_down > excess)[-1]
    return np.asarray(np.maximum(shares - excess[last], 0.0))


def median_and_scale(edges: FloatArray, shares: FloatArray) -> tuple[float, float, float]:
    """Return the median, 1.4826 × MAD, and the share of the cells outside the median's bin.

    `shares` (edges + 1) add up to 1; the first and the last bin are open. Cells are spread evenly
    within their bins. If the bin of the median is an atom the MAD is that of the other cells. The
    scale is infinite where the median or the MAD lies in an open bin.
    """
    below = np.cumsum(shares)[:-1]
    i = int(np.searchsorted(below, 0.5))
    if not 0 < i < len(edges):
        return 0.0, np.inf, 0.0
    share, others = float(shares[i]), 1.0 - float(shares[i])
    median = float(edges[i - 1] + (0.5 - below[i - 1]) / share * (edges[i] - edges[i - 1]))
    if not median < edges[i]:  # rounding: the bin may hold one number alone
        median = float(edges[i - 1])
    if share > ATOM:
        below = np.where(np.arange(len(below)) >= i, below - share, below) / max(others, 1e-9)
    away = np.unique(np.abs(edges - median))
    within = np.interp(median + away, edges, below) - np.interp(median - away, edges, below)
    within = np.maximum.accumulate(within)
    if within[-1] < LEVEL:
        return median, np.inf, others
    mad = max(float(np.interp(LEVEL, within, away)), away[np.searchsorted(within, LEVEL)] / 2.0)
    return median, TO_SD * mad, others
