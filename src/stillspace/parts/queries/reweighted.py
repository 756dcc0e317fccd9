"""What the classic solvers sum: weights 1/‖Qx‖ that no constant bounds, never private."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.queries.base import ROBUST_FLOOR, ROBUST_NEAR, Blockwise


class _Unbounded(Blockwise):
    """Terms that no constant bounds: the classic solvers, never private.

    Their sums are flat: the direction, then the sum of distances (n times the cost at the
    point), which a pass has at hand anyway and which tells when to stop.
    """

    __slots__ = ()
    norm_bound: ClassVar[float] = inf
    difference_bound: ClassVar[float] = inf
    D: int

    @property
    def columns(self) -> int:
        """Columns of the direction."""
        return self.D

    @property
    def shape(self) -> tuple[int, ...]:
        """The direction's entries and one more."""
        return (self.D * self.columns + 1,)

    @property
    def term_error(self) -> float:
        """Of no use: there is no bound to exceed."""
        return inf

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        """Return the direction as a matrix, and the cost."""
        return released[:-1].reshape(self.D, self.columns), float(released[-1])


@dataclass(frozen=True, slots=True)
class IrlsPower(_Unbounded):
    """`Σ x (Vᵀx)ᵀ / max(‖Qx‖, floor)`: one power step on the reweighted second moment.

    With a `cut`, over the rows with ‖Qx‖ < cut: a step for the cost `mean(min(‖Qx‖, cut))`. Both
    steps minimise a quadratic above the cost that touches it at V, so neither lets it rise.
    """

    D: int
    r: int
    floor: float = ROBUST_FLOOR
    cut: float = inf
    name: ClassVar[str] = "reweighted power step"

    @property
    def columns(self) -> int:
        return self.r

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        kernels.add_block(self._stock_terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        return self._stock_terms(point, out) if type(self) is IrlsPower else None

    def _stock_terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        direction = out[:-1].reshape(self.D, self.r)
        facts = (self.floor, direction, out[-1:], self.cut, 0.0, ROBUST_NEAR)
        return kernels.Terms(kernels.IRLS, point, *facts)


@dataclass(frozen=True, slots=True)
class ReweightedMoment(_Unbounded):
    """`Σ xxᵀ / max(dist(x), floor)`, dist from a basis V (FMS) or a matrix P (REAPER-IRLS).

    With a `cut`, over the rows with dist < cut, as in `IrlsPower`.
    """

    D: int
    floor: float = ROBUST_FLOOR
    cut: float = inf
    name: ClassVar[str] = "reweighted second moment"

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        if point.shape[1] < self.D:
            R, _ = kernels.residual_to_basis(XT, point)
        else:
            R = kernels.residual_to_matrix(XT, point)
        distance = kernels.column_norms(R)
        weight = np.where(distance < self.cut, 1.0 / np.maximum(distance, self.floor), 0.0)
        out[:-1] += ((XT * weight) @ XT.T).ravel()
        out[-1] += np.minimum(distance, self.cut).sum()
