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
from stillspace.search.cuts import squared_lengths

_Mask = npt.NDArray[np.bool_]
_Octaves = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ClumpRule:
    """When a ball of rows is a clump; radii are in units of the median distance between two rows.

    A ball of radius ρ is isolated if the ball of radius 2ρ holds hardly more rows. Rows that fill r
    dimensions evenly are not isolated: there the larger ball holds about 2^r times as many.
    """

    rows: int = 500
    """Most rows whose distances to each other are computed."""
    least_share: float = 0.05
    """Smallest share of the rows; smaller groups cannot capture a component."""
    least_rows: int = 12
    """Fewest rows, so that a handful of neighbours in a small table is no clump."""
    most_share: float = 0.45
    """Largest share of the rows; beside a far cluster the body of the rows may look isolated."""
    growth: float = 1.2
    """Most rows in twice the radius, per row in the radius."""
    equal: int = -20
    """Rows within 2 to this power count as equal; equal rows need not be isolated or a minority."""
    widest: int = -2
    """The largest ball that is tried has a radius of 2 to this power; the smallest is `equal`."""

    @property
    def beyond(self) -> int:
        """Number of radii; the last one is twice the widest."""
        return self.widest - self.equal + 2


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
    apart = _squared_distances(S)
    if not apart.any():
        return []
    unit = float(np.median(apart[:100])) or float(apart.max())  # 0 if most pairs are equal rows
    octaves = _octaves(apart / unit, rule)
    alive = np.ones(len(S), dtype=bool)
    found = []
    while (ball := _largest_ball(octaves, alive, rule)) is not None:
        at, octave = ball
        members = octaves[at] <= octave
        share = np.count_nonzero(members & alive) / len(S)
        radius = 2.0 ** (rule.equal + octave) * float(np.sqrt(unit))
        found.append(Clump(S[at].copy(), radius, share))
        alive &= ~members
    return sorted(found, key=lambda clump: -clump.share)


def outside(S: FloatArray, clumps: list[Clump]) -> _Mask:
    """Return which rows count: those in no clump, and the first row of each clump."""
    counts = np.ones(len(S), dtype=bool)
    for clump in clumps:
        members = np.flatnonzero(np.linalg.norm(S - clump.center, axis=1) <= clump.radius)
        counts[members[1:]] = False
    return counts


def _largest_ball(octaves: _Octaves, alive: _Mask, rule: ClumpRule) -> tuple[int, int] | None:
    """Return the middle row and the octave of the radius of the largest clump, if there is one."""
    m, beyond = len(alive), rule.beyond
    place = octaves[:, alive] + (beyond + 1) * np.arange(m)[:, None]
    counts = np.bincount(place.ravel(), minlength=m * (beyond + 1)).reshape(m, beyond + 1)
    counts = counts[:, :beyond].cumsum(axis=1) * alive[:, None]  # (m, radii)
    most = np.minimum(rule.growth * counts[:, 1:-1], rule.most_share * m)
    isolated = np.where(counts[:, 2:] <= most, counts[:, 1:-1], 0)
    rows_in = np.concatenate([counts[:, :1], isolated], axis=1)
    radius, at = np.unravel_index(int(np.argmax(rows_in.T)), rows_in.T.shape)
    if rows_in[at, radius] < max(rule.least_share * m, rule.least_rows):
        return None
    return int(at), int(radius) + int(radius > 0)  # an isolated ball is as wide as its gap


def _octaves(squares: FloatArray, rule: ClumpRule) -> _Octaves:
    """Return for each squared distance which of the radii is the first to reach it.

    `rule.beyond` if none does.
    """
    exponent = (np.frexp(squares)[1] + 1) >> 1
    exponent[squares == 0.0] = rule.equal
    return np.asarray(np.clip(exponent - rule.equal, 0, rule.beyond))


def _squared_distances(S: FloatArray) -> FloatArray:
    """Return the squared distances (m, m) of rows to each other; 0 where rows are equal."""
    square = squared_lengths(S)
    sums = np.add.outer(square, square)
    found = -2.0 * (S @ S.T)
    found += sums
    sums *= 2.0**-44
    found[found <= sums] = 0.0  # rounding of the products
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)
