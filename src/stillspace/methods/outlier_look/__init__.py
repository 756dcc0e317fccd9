"""One look for outliers that sit together on the sphere.

A method as `stillspace.plans.adaptive` defines it (docs/newton.md, "The look for outliers"). It
releases the second moment, fourth moments along its leading directions, and angles to the
directions in which rows gather. If groups are found, it also releases the second moment of the
other rows, and how the rows of the groups scatter about their axes.
"""

from stillspace.methods.outlier_look.caps import LeftOut, clear_gaps, loose_gaps
from stillspace.methods.outlier_look.method import LookState, OutlierLook, Screening
from stillspace.methods.outlier_look.modes import elliptical_moments, gathering_directions
from stillspace.methods.outlier_look.rule import LOOK_RULE, LookRule
from stillspace.methods.outlier_look.units import UnitsAgain

__all__ = [
    "LOOK_RULE",
    "LeftOut",
    "LookRule",
    "LookState",
    "OutlierLook",
    "Screening",
    "UnitsAgain",
    "clear_gaps",
    "elliptical_moments",
    "gathering_directions",
    "loose_gaps",
]
