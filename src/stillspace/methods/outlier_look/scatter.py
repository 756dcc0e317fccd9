"""Whether the rows of a group are like the other rows: how they scatter about the group's axis.

Rows of one population vary along the same directions: goalkeepers differ from other players, but
they are tall or short and old or young as those are. Errors have no reason to. So a wide group that
scatters mostly along the directions in which the other rows vary is natural.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sin, sqrt

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.outlier_look.caps import LeftOut, caps_of
from stillspace.methods.outlier_look.rule import LookRule
from stillspace.methods.spectrum import Moment, drawn_together
from stillspace.parts.queries import CapScatter

_ROUNDING = 1e-9
"""Relative: equal variances differ from their mean by less."""


@dataclass(frozen=True, slots=True, eq=False)
class ScatterPlan:
    """What is asked about groups, and what the answer is compared with."""

    query: CapScatter
    point: FloatArray
    part: float
    """Share of the dimensions across all axes that B has, and so of scatter that is like noise."""
    usual: float
    """Share of the other rows' scatter across all axes that B holds."""

    def alike(
        self, groups: Sequence[LeftOut], answer: FloatArray, sd: float, rule: LookRule
    ) -> list[bool]:
        """Return which groups scatter widely, and along B as the other rows do, beyond noise."""
        least = self.part + rule.alike * (self.usual - self.part)
        found, at = [], 0
        for group in groups:
            sides = 2 if group.two_sided else 1
            largest = 1.0 - self.query.cosines[at] ** 2
            across, along = largest * answer[at : at + sides].sum(axis=0)
            noise, at = rule.doubt * largest * sd * sqrt(sides), at + sides
            wide = across + along - sqrt(2.0) * noise > sin(rule.wide) ** 2 * group.share
            more = (1.0 - least) * along - least * across
            found.append(bool(wide and more > noise * hypot(least, 1.0 - least)))
        return found


def scatter_plan(
    groups: Sequence[LeftOut], others: Sequence[LeftOut], moment: Moment, rest: Moment
) -> ScatterPlan | None:
    """Return what to ask about groups; None if noise hides their axes or the other rows' shape.

    `moment` is that of all rows, `rest` that of the rows outside the groups and the `others`. So
    their difference is the second moment of all these groups. Its leading eigenvectors are nearer
    to the middles of the groups than the directions in which the groups were found.

    Scatter is seen in units in which the other rows vary alike along all columns. In other units
    all rows vary most along the columns with too small a unit, errors as well.
    """
    D = len(rest.value)
    m = _count_lines([*groups, *others])
    values, vectors = np.linalg.eigh(moment.value - rest.value)
    edge = hypot(moment.sd, rest.sd) * sqrt(D / 2.0)
    if D - m < 2 or values[-m] <= 2.0 * edge:
        return None
    caps = caps_of(tuple(groups))
    axes = vectors[:, -m:] @ (vectors[:, -m:].T @ caps.directions.array)
    if (np.linalg.norm(axes, axis=0) < caps.cosines.array).any():  # cosines of axis and direction
        return None
    weights = 1.0 / np.sqrt(np.maximum(np.diag(rest.value), rest.sd))
    weights /= weights.max()
    span, across = np.split(np.linalg.qr(weights[:, None] * vectors[:, -m:], "complete")[0], [m], 1)
    weighted = weights[:, None] * rest.value * weights
    variances, directions = np.linalg.eigh(across.T @ weighted @ across)
    variances = drawn_together(variances, rest.sd * float(np.mean(weights**2)))
    strong = variances > (1.0 + _ROUNDING) * variances.mean()
    if not strong.any():
        return None
    axes = weights[:, None] * axes
    axes /= np.linalg.norm(axes, axis=0)
    query = CapScatter(D, tuple(caps.cosines.array.tolist()), m, int(strong.sum()))
    point = np.hstack([weights[:, None], axes, span, across @ directions[:, strong]])
    usual = float(variances[strong].sum() / variances.sum())
    return ScatterPlan(query, point, float(strong.mean()), usual)


def _count_lines(groups: Sequence[LeftOut]) -> int:
    """Return on how many lines through the origin groups lie."""
    found: list[FloatArray] = []
    for group in groups:
        if all(abs(float(group.direction @ other)) < 1.0 - 1e-9 for other in found):
            found.append(group.direction)
    return len(found)
