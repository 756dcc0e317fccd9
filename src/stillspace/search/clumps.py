"""Clumps: groups of nearly identical rows, each of which counts as one row.

A clump is evidence for a point, not for a direction. In a noisy table a tight cluster of a fifth of
the rows lies nearer to a line through it than the honest rows lie to their own subspace, so that
no loss based on distances alone leaves the cluster out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClumpRule:
    """When a ball of rows is a clump; radii are in units of the median distance between two rows.

    A ball of radius ρ is isolated if the ball of radius 2ρ holds hardly more rows. Rows that fill r
    dimensions evenly are not isolated: there the larger ball holds about 2^r times as many.
    """

    rows: int = 800
    """Most rows whose distances to each other are computed."""
    least_share: float = 0.05
    """Smallest share of the rows; smaller groups cannot capture a component."""
    least_rows: int = 12
    """Fewest rows, so that a handful of neighbours in a small table is no clump."""
    most_share: float = 0.45
    """Largest share of the rows; beside a far cluster the body of the rows may look isolated."""
    growth: float = 1.2
    """Most rows in twice the radius, per row in the radius."""
    equal: float = 2.0**-20
    """Radius within which rows count as equal; equal rows need not be isolated or a minority."""
    radii: tuple[float, ...] = (2.0**-6, 2.0**-5, 2.0**-4, 2.0**-3, 2.0**-2)
    """Radii of balls that are tried, each twice the one before."""


RULE = ClumpRule()


@dataclass(frozen=True, slots=True, eq=False)
class Clump:
    """Nearly identical rows."""

    center: FloatArray
    """(D,), the middle row of the clump."""
    radius: float
    """Rows within this distance of the middle belong to the clump, in units of `scale_`."""
    share: float
    """Share of the sampled rows."""


def find_clumps(S: FloatArray, rule: ClumpRule = RULE) -> list[Clump]:
    """Return the clumps of rows (m, D) in random order, the largest first."""
    S = S[: rule.rows]
    apart = _distances(S)
    if not apart.any():
        return []
    unit = float(np.median(apart[:100])) or float(apart.max())  # 0 if most pairs are equal rows
    apart /= unit
    alive = np.ones(len(S), dtype=bool)
    found = []
    while (ball := _largest_ball(apart, alive, rule)) is not None:
        at, radius = ball
        members = apart[at] <= radius
        share = np.count_nonzero(members & alive) / len(S)
        found.append(Clump(S[at].copy(), radius * unit, share))
        alive &= ~members
    return sorted(found, key=lambda clump: -clump.share)


def outside(S: FloatArray, clumps: list[Clump]) -> _Mask:
    """Return which rows count: those in no clump, and the first row of each clump."""
    counts = np.ones(len(S), dtype=bool)
    for clump in clumps:
        members = np.flatnonzero(np.linalg.norm(S - clump.center, axis=1) <= clump.radius)
        counts[members[1:]] = False
    return counts


def _largest_ball(apart: FloatArray, alive: _Mask, rule: ClumpRule) -> tuple[int, float] | None:
    """Return the middle row and the radius of the largest clump, if there is one."""
    least = max(rule.least_share * len(alive), rule.least_rows)
    among = apart if alive.all() else apart[:, alive]
    radii = (rule.equal, *rule.radii, 2.0 * rule.radii[-1])
    counts = [np.where(alive, np.count_nonzero(among <= radius, axis=1), 0) for radius in radii]
    best, largest = None, 0
    for k, radius in enumerate(radii[:-1]):
        inner, reach = counts[k], radius
        if k > 0:  # balls that are isolated, and a minority
            most = np.minimum(rule.growth * inner, rule.most_share * len(alive))
            inner, reach = np.where(counts[k + 1] <= most, inner, 0), radii[k + 1]
        at = int(np.argmax(inner))
        if inner[at] >= least and inner[at] > largest:
            best, largest = (at, reach), int(inner[at])
    return best


def _distances(S: FloatArray) -> FloatArray:
    """Return the distances (m, m) of rows to each other; 0 where rows are equal."""
    square = np.einsum("ij,ij->i", S, S)
    found = square[:, None] + square[None, :] - 2.0 * (S @ S.T)
    found[found <= 2.0**-44 * (square[:, None] + square[None, :])] = 0.0  # rounding of the products
    np.fill_diagonal(found, 0.0)
    return np.asarray(np.sqrt(found))
