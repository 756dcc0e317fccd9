"""Arithmetic on blocks of rows; `tests/kernels/reference.py` specifies it in plain NumPy."""

from stillspace.kernels.compiled import (
    column_norms,
    residual_to_basis,
    residual_to_matrix,
    scores,
    unit_columns,
)
from stillspace.kernels.jobs import (
    ORTHONORMAL,
    Terms,
    add_block,
    moment_terms,
)
from stillspace.kernels.measuring import Measure, measured
from stillspace.kernels.passes import GLAD, IRLS, NEWTON, SCORES

__all__ = [
    "GLAD",
    "IRLS",
    "NEWTON",
    "ORTHONORMAL",
    "SCORES",
    "Measure",
    "Terms",
    "add_block",
    "column_norms",
    "measured",
    "moment_terms",
    "residual_to_basis",
    "residual_to_matrix",
    "scores",
    "unit_columns",
]
