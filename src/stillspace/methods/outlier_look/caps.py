"""Groups of rows around a direction, behind an empty ring: from noisy counts of angles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import cos, pi, sqrt
from typing import Literal, TypeAlias

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.outlier_look.rule import LookRule
from stillspace.rows.maps import Caps

Side: TypeAlias = Literal[1, -1, 0]
"""Around the direction, around its opposite, or around both as one."""


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """A group of rows within `angle` of a direction."""

    direction: FloatArray
    """(D,), a unit vector; the group is on this side."""
    two_sided: bool
    """Whether rows around the opposite direction belong to it, too."""
    angle: float
    """Radians."""
    share: float
    """Of all rows, as released."""
    sd: float
    """Standard deviation of the noise on the share."""
    loose: bool = False
    """Whether it only outnumbers the rows on the other side, without an empty ring around it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An empty ring around one side of a direction, `bins` bins away from it.

    The ring of a loose group is empty once the rows on the other side are taken off.
    """

    at: int
    """Number of the direction."""
    side: Side
    bins: int
    share: float
    sd: float
    clear: float
    """Standard deviations between group and ring."""
    mean: float = 0.0
    """Sum of the cosines of the rows outside the group, divided by the number of all rows."""
    loose: bool = False


def clear_gaps(counts: FloatArray, sd: float, size: float, rule: LookRule, r: int) -> list[Gap]:
    """Return the groups that the counts (m, bins) of m directions show.

    `counts` are means of |cos| of the angle, `sd` the standard deviation of their noise. For each
    direction the clearest way to look at it counts: one side, or both as one. For r = 1 inliers
    themselves lie around both sides of one direction, so only a group on one side counts.
    """
    found: list[Gap] = []
    for at, histogram in enumerate(counts):
        found += [
            replace(gap, mean=_mean_outside(gap, histogram))
            for gap in _clear_sides(at, histogram, sd, size, rule, r)
        ]
    return found


def loose_gaps(counts: FloatArray, sd: float, size: float, rule: LookRule) -> list[Gap]:
    """Return the groups that show once each count is lowered by that of the opposite angle.

    So rows that lie on both sides alike do not fill the ring. A natural table may be skewed, so
    the cap must be narrow, and the cap on the other side must have hardly any rows.
    """
    return [
        replace(gap, mean=_mean_outside(gap, histogram), loose=True)
        for at, histogram in enumerate(counts)
        for gap in (
            _gap(at, 1, histogram, sd, size, rule, histogram[::-1]),
            _gap(at, -1, histogram[::-1], sd, size, rule, histogram),
        )
        if gap is not None
    ]


def _mean_outside(gap: Gap, histogram: FloatArray) -> float:
    """Return the mean of cos over the rows outside a group, which lies on the positive side."""
    signed = np.where(np.arange(len(histogram)) < len(histogram) // 2, histogram, -histogram)
    if gap.side == -1:
        signed = -signed[::-1]
    return float(signed[gap.bins : len(signed) - gap.bins * (gap.side == 0)].sum())


def _clear_sides(
    at: int, histogram: FloatArray, sd: float, size: float, rule: LookRule, r: int
) -> list[Gap]:
    """Return the groups around one direction."""
    one = _gap(at, 1, histogram, sd, size, rule)
    other = _gap(at, -1, histogram[::-1], sd, size, rule)
    half = rule.bins // 2
    folded = (histogram + histogram[::-1])[:half]
    both = _gap(at, 0, folded, sqrt(2.0) * sd, size, rule)
    sides = [gap for gap in (one, other) if gap is not None]
    if len(sides) == 1 and _is_axis(sides[0], histogram, rule):
        sides = []
    if r == 1:
        return sides if len(sides) == 1 else []
    if both is not None and all(both.clear > gap.clear for gap in sides):
        return [both]
    return sides


def _is_axis(gap: Gap, histogram: FloatArray, rule: LookRule) -> bool:
    """Whether the cap on the other side holds many rows, too: then rows lie along a line."""
    mirrored = histogram if gap.side == -1 else histogram[::-1]
    cosines = _cosines(gap.bins, rule.bins)
    return float((mirrored[: gap.bins] / cosines).sum()) >= rule.mirrored * gap.share


def _gap(
    at: int,
    side: Side,
    weighted: FloatArray,
    sd: float,
    size: float,
    rule: LookRule,
    opposite: FloatArray | None = None,
) -> Gap | None:
    """Return the clearest gap around one side, whose bins come first; None if there is none.

    A row of the bin k has |cos| about that of the bin's middle, so dividing by it counts rows. The
    densest block inside the cap is compared with the ring that follows the cap. If the counts of
    the other side are given, they are taken off first: this finds loose groups.
    """
    n_bins = rule.widest + rule.block
    cosines = _cosines(n_bins, rule.bins)
    counts, sds = weighted[:n_bins] / cosines, sd / cosines
    behind = np.zeros(n_bins) if opposite is None else opposite[:n_bins] / cosines
    noise = sds if opposite is None else sqrt(2.0) * sds
    ones = np.ones(rule.block)
    density = np.convolve(counts - behind, ones, mode="valid").tolist()
    rows = np.convolve(counts + behind, ones, mode="valid").tolist()
    variance = np.convolve(noise**2, ones, mode="valid").tolist()
    best: Gap | None = None
    top = 0
    widest = rule.widest if opposite is None else min(rule.narrow, rule.widest)
    for bins in range(rule.block, widest + 1):
        last = bins - rule.block
        top = last if density[last] > density[top] else top
        group, ring = density[top], density[bins]
        sampling = (max(rows[top], 0.0) + max(rows[bins], 0.0)) / size
        clear = (group - ring) / sqrt(variance[top] + variance[bins] + sampling)
        empty = ring + rule.doubt * sqrt(variance[bins]) <= rule.depth * group
        if not (clear >= rule.sure and empty) or (best is not None and clear <= best.clear):
            continue
        share, spread = float(counts[:bins].sum()), sqrt(float(np.sum(sds[:bins] ** 2)))
        other = float(behind[:bins].sum())
        alone = other + rule.doubt * spread <= rule.depth * share and share >= rule.smallest
        if share <= rule.minority and (opposite is None or alone):
            best = Gap(at, side, bins, share, spread, clear)
    return best


@cache
def _cosines(count: int, bins: int) -> FloatArray:
    """Return the cosines of the middles of the first bins."""
    return np.array([cos(pi * (k + 0.5) / bins) for k in range(count)])


def caps_of(groups: tuple[LeftOut, ...]) -> Caps:
    """Return the row map that leaves out all groups."""
    directions, cosines = [], []
    for group in groups:
        for sign in (1.0, -1.0) if group.two_sided else (1.0,):
            directions.append(sign * group.direction)
            cosines.append(cos(group.angle))
    return Caps(FrozenArray.of(np.array(directions).T), FrozenArray.of(cosines))
