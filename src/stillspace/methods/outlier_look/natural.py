"""Which groups of rows are outliers, and which belong to the table: from released moments."""

from __future__ import annotations

from math import tan

import numpy as np
from scipy.special import betainc

from stillspace.methods.outlier_look.caps import LeftOut
from stillspace.methods.outlier_look.rule import LookRule
from stillspace.methods.spectrum import Moment


def is_foreign(group: LeftOut, mean: float, rest: Moment, rule: LookRule) -> bool:
    """Whether a group is to be left out, from the second moment of the rows outside all groups.

    `mean` is that of the rows outside this group along its direction. A loose group, which has no
    empty ring, must also hold many times the rows that an elliptical law would put into its cap.
    """
    variance = relative_variance(rest, group, mean, rule)
    if group.loose and group.share < rule.dense * _elliptical(group, rest, variance):
        return False
    if float(np.max(group.direction**2)) >= rule.one_column:
        variance = max(variance, rule.clumps)
    return group.share * group.angle * variance**2 < rule.natural


def relative_variance(rest: Moment, group: LeftOut, mean: float, rule: LookRule) -> float:
    """Return the other rows' variance along a group's direction, over that along an average one.

    A group moves the centre towards itself, so that the other rows have a mean on its other
    side, which does not count. The mean is that of the rows outside this group. If other groups
    are left out besides, it may say clearly more than these rows can have, and then says nothing.
    The noise of the variance is taken off: a group is natural if the releases show it.
    """
    rows = max(float(np.trace(rest.value)), rest.sd)
    inside = float(group.direction @ rest.value @ group.direction)
    of_mean = mean**2 / rows
    if of_mean > inside + rule.sure * rest.sd:
        of_mean = 0.0
    own = max(inside - of_mean - rule.doubt * rest.sd, 0.0)
    return own * len(rest.value) / max(rows - of_mean, rest.sd)


def _elliptical(group: LeftOut, rest: Moment, variance: float) -> float:
    """Return the share of all rows that an elliptical law would put into a group's cap."""
    rows = max(float(np.trace(rest.value)), rest.sd)
    return rows * elliptical_share(variance, len(rest.value), _others(group, rest), group.angle)


def elliptical_share(variance: float, D: int, others: float, angle: float) -> float:
    """Return the share of an elliptical law's rows within `angle` < π/2 of a direction, one side.

    The rows are normal, with this variance along the direction and D − variance in all others
    together, which count as `others` directions of equal variance. So cos² of the angle has the
    law of v/(v + w), with v and w independent multiples of χ² of 1 and of `others` degrees.
    """
    ratio = variance * others / max(D - variance, 1e-12) * tan(angle) ** 2
    return 0.5 * float(betainc(others / 2.0, 0.5, ratio / (1.0 + ratio)))


def _others(group: LeftOut, rest: Moment) -> float:
    """Return the number of equally strong directions across a group's that count as all of them.

    It is (Σλ)²/Σλ² over the eigenvalues λ across, at most D − 1. Noise adds its own mean square
    to Σλ², which is taken off.
    """
    D = len(rest.value)
    across = np.eye(D) - np.outer(group.direction, group.direction)
    moment = across @ rest.value @ across
    total = max(float(np.trace(moment)), rest.sd)
    squares = float(np.sum(moment**2)) - D * (D - 1) / 2.0 * rest.sd**2
    return total**2 / max(squares, total**2 / (D - 1))
