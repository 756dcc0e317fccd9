"""Arithmetic on blocks of rows. `reference` is the specification, `compiled` is what runs."""

from stillspace.kernels.compiled import (
    column_norms,
    residual_to_basis,
    residual_to_matrix,
    scores,
    unit_columns,
)
from stillspace.kernels.jobs import GLAD, IRLS, NEWTON, SCORES, Terms, scratch_rows
from stillspace.kernels.passes import (
    clip_weights,
    curvature_weights,
    glad_block,
    irls_block,
    score_block,
)

__all__ = [
    "GLAD",
    "IRLS",
    "NEWTON",
    "SCORES",
    "Terms",
    "clip_weights",
    "column_norms",
    "curvature_weights",
    "glad_block",
    "irls_block",
    "residual_to_basis",
    "residual_to_matrix",
    "score_block",
    "scores",
    "scratch_rows",
    "unit_columns",
]
