"""A private standardiser: the centre and the scale of every column, without known bounds.

A method as `stillspace.plans.adaptive` defines it (docs/standardiser.md). It sees noisy histograms
of cells, never a row.
"""

from stillspace.methods.standardiser.method import (
    Standardiser,
    can_standardise,
    kappa_of,
    standardiser_share,
)
from stillspace.methods.standardiser.rule import (
    LARGEST_SCALE,
    LEAST_KAPPA,
    RULE,
    SAFE_KAPPA,
    Rule,
)

__all__ = [
    "LARGEST_SCALE",
    "LEAST_KAPPA",
    "RULE",
    "SAFE_KAPPA",
    "Rule",
    "Standardiser",
    "can_standardise",
    "kappa_of",
    "standardiser_share",
]
