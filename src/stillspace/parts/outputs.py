"""What is made of the points of a run (SPEC 3). Post-processing: nothing here sees a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from stillspace._typing import FloatArray
from stillspace.parts.geometry import as_basis, as_matrix


class Output(Protocol):
    """A summary of the points, updated with each."""

    def push(self, memory: Any, point: FloatArray, k: int) -> Any:
        """Return the memory after the point of iteration k (from 0)."""

    def basis(self, memory: Any, r: int) -> FloatArray:
        """Return the answer as an orthonormal basis (D, r)."""


@dataclass(frozen=True, slots=True)
class Last:
    """The last point."""

    def push(self, memory: FloatArray | None, point: FloatArray, k: int) -> FloatArray:  # noqa: ARG002
        return point

    def basis(self, memory: FloatArray, r: int) -> FloatArray:
        """Return the basis, or the top r eigenvectors of the matrix."""
        return as_basis(memory, r)


@dataclass(frozen=True, slots=True)
class Average:
    """The running average of P, or of the projectors VVᵀ; its top r eigenvectors."""

    def push(self, memory: FloatArray | None, point: FloatArray, k: int) -> FloatArray:
        """Return the average of k + 1 matrices."""
        matrix = as_matrix(point)
        return matrix if memory is None else memory + (matrix - memory) / (k + 1)

    def basis(self, memory: FloatArray, r: int) -> FloatArray:
        """Return the top r eigenvectors of the average."""
        return as_basis(memory, r)
