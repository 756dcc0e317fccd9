"""Arithmetic on blocks of rows. `reference` is the specification, `compiled` is what runs."""

from stillspace.kernels.compiled import (
    column_norms,
    residual_to_basis,
    residual_to_matrix,
    unit_columns,
)

__all__ = ["column_norms", "residual_to_basis", "residual_to_matrix", "unit_columns"]
