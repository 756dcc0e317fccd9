"""Arithmetic on blocks of rows. `reference` is the specification, the rest is what runs."""

from stillspace.kernels.compiled import (
    column_norms,
    residual_to_basis,
    residual_to_matrix,
    scores,
    unit_columns,
)
from stillspace.kernels.jobs import (
    ORTHONORMAL,
    Measure,
    Terms,
    add_block,
    measured,
    moment_terms,
)
from stillspace.kernels.passes import GLAD, IRLS, NEWTON, SCORES
from stillspace.kernels.reference import clip_weights, curvature_weights

__all__ = [
    "GLAD",
    "IRLS",
    "NEWTON",
    "ORTHONORMAL",
    "SCORES",
    "Measure",
    "Terms",
    "add_block",
    "clip_weights",
    "column_norms",
    "curvature_weights",
    "measured",
    "moment_terms",
    "residual_to_basis",
    "residual_to_matrix",
    "scores",
    "unit_columns",
]
