"""A private standardiser: the centre and the scale of every column, without known bounds.

A method as `stillspace.plans.adaptive` defines it (docs/standardiser.md). It sees noisy histograms
of cells, never a row.
"""

from stillspace.methods.standardiser.method import Standardiser, kappa_of
from stillspace.methods.standardiser.rule import (
    LARGEST_SCALE,
    STANDARDISER_RULE,
    StandardiserRule,
)

__all__ = [
    "LARGEST_SCALE",
    "STANDARDISER_RULE",
    "Standardiser",
    "StandardiserRule",
    "kappa_of",
]
