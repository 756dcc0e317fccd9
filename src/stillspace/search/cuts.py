"""Distances to a subspace, and up to which of them a row counts as lying near it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import gamma

from stillspace._typing import FloatArray
from stillspace.parts.queries.base import ROBUST_NEAR

SMALLEST_CUT = 2.0**-26
"""Below this, distances on the sphere are rounding."""

_REACH = 6.0
ROUNDING = 2.0**-40
"""Distances below this part of the rows' length are rounding."""


def distances(U: FloatArray, V: FloatArray) -> FloatArray:
    """Return ‖x − VVᵀx‖ of each row, as √(‖x‖² − ‖Vᵀx‖²) unless the row is near the span of V."""
    Y = U @ V
    whole = squared_lengths(U)
    found = whole - squared_lengths(Y)
    near = ~(found >= ROBUST_NEAR * whole)  # also where squares overflow
    if near.any():
        found[near] = squared_lengths(U[near] - Y[near] @ V.T)
    return np.asarray(np.sqrt(found))


def squared_lengths(S: FloatArray) -> FloatArray:
    """Return the squared length of each row."""
    return np.asarray(np.einsum("ij,ij->i", S, S))


def quantiles(d: FloatArray, *levels: float) -> FloatArray:
    """Return quantiles as `np.quantile` does, in a fifth of its time for few rows."""
    at = np.array(levels) * (len(d) - 1)
    low = at.astype(np.intp)
    high = np.minimum(low + 1, len(d) - 1)
    ordered = np.partition(d, np.concatenate([low, high]))
    return np.asarray(ordered[low] + (at - low) * (ordered[high] - ordered[low]))


def nearest(all_distances: Sequence[FloatArray]) -> int:
    """Return which of several subspaces most rows lie near to, given their distances to each.

    The one with the least median distance. Where medians are within 3 % of each other, as they are
    when fewer than half of the rows are inliers, the least lower quartile decides.
    """
    quartiles = [quantiles(d, 0.25, 0.5) for d in all_distances]
    limit = 1.03 * min(float(q[1]) for q in quartiles)
    close = [k for k, q in enumerate(quartiles) if q[1] <= limit]
    return min(close, key=lambda k: float(quartiles[k][0]))


def cut_of(d: FloatArray) -> float:
    """Return the distance up to which rows count, from the lower quarter of all distances.

    d^(2/3) of Gaussian noise is nearly normal (Wilson and Hilferty), and up to half of the rows
    may be outliers, so that the quantiles .10 and .25 of all rows are the inliers' quantiles
    between .10 and .20 and between .25 and .50. Then `(q25 + 6 (q25 − q10))^1.5` lies 3 (no
    outliers) to 5 (half of the rows) standard deviations above the inliers' centre. At least
    1.2 q25, so that inliers which are all equally far (the subspace is off, they are exact) count.
    """
    low, quarter = quantiles(d, 0.10, 0.25) ** (2.0 / 3.0)
    reached = float((quarter + _REACH * (quarter - low)) ** 1.5)
    return max(reached, 1.2 * float(quarter**1.5), SMALLEST_CUT)


def reach_of(d: FloatArray, size: float) -> float:
    """Return `cut_of` for distances in any unit, of rows that are about `size` long."""
    unit = float(quantiles(d, 0.25)[0])
    floor = ROUNDING * size
    return max(unit * cut_of(d / unit), floor) if unit > floor else floor


def gamma_cutoff(
    d: FloatArray, level: float, rounding: float, rounds: int, core_level: float
) -> float:
    """Return the distance that a share `level` of clean rows exceeds, by a law for the squares.

    Its gamma law is fitted in `rounds` to the rows within its own quantile at `core_level`.
    """
    unit = float(np.quantile(d, 0.25))
    if unit <= rounding:  # a quarter of the rows lie on the subspace exactly
        return rounding
    squares = (d / unit) ** 2
    limit = cut_of(d / unit) ** 2
    law = gamma(1.0)
    for k in range(rounds):
        core = squares[squares <= limit]
        mean, second = float(core.mean()), float((core**2).mean())
        if k > 0:  # put back what cutting the tail took off, as far as the last law knows
            shape, scale = law.args[0], law.kwds["scale"]
            kept = [float(gamma.cdf(limit / scale, shape + j)) for j in range(3)]
            mean, second = mean * kept[0] / kept[1], second * kept[0] / kept[2]
        variance = max(second - mean**2, 1e-12 * mean**2)
        law = gamma(mean**2 / variance, scale=variance / mean)
        limit = float(law.isf(core_level))
    return float(np.sqrt(law.isf(level)) * unit)
