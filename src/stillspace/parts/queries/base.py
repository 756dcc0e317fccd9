"""What a query is, and the bounds that all private ones share."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

from stillspace import kernels
from stillspace._typing import FloatArray
from stillspace.parts.noise import GaussianNoise, IidGaussian, SymmetricGaussian

PRIVATE_FLOOR = 2.0**-26
"""φ of SPEC 2: the public, continuous floor of a residual in private fits."""

ROBUST_FLOOR = 2.0**-50
"""The floor without privacy: at the rounding of a residual of a unit row."""

UNIT_ROUNDOFF = 2.0**-53

PRIVATE_NEAR = 2.0**-16
"""Below this ‖Qx‖² is that of a computed residual in private fits; above, `‖x‖² − ‖Vᵀx‖²`."""

ROBUST_NEAR = 2.0**-10
"""The same without privacy, where distances are right to 1e-12."""

LARGEST_POINT = 1e6
"""Points are bases, matrices of H or centres in units of a radius: terms cannot overflow."""


# A release looks at the law of its noise again and again.
_independent = lru_cache(maxsize=64)(IidGaussian)
_symmetric = lru_cache(maxsize=64)(SymmetricGaussian)


class Query(Protocol):
    """A sum of row terms with bounds that are public facts."""

    name: ClassVar[str]

    @property
    def norm_bound(self) -> float:
        """Bound on the norm of a term."""

    @property
    def difference_bound(self) -> float:
        """Bound on the norm of the difference of two terms."""

    @property
    def D(self) -> int:
        """Number of columns of the rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    @property
    def noise(self) -> GaussianNoise:
        """The law of the noise that hides one term."""

    @property
    def term_error(self) -> float:
        """How far rounding can carry a computed term past its exact bounds (SPEC 4)."""

    @property
    def summand_bound(self) -> float:
        """Bound on the norm of what is added up inside a job, before a map of the job's sum."""

    @property
    def job_error(self) -> float:
        """How far rounding moves that map's result, relative to the norms of all summands."""

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        """Add the terms of a block of rows, given as columns, to `out`."""

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:
        """Return what compiled runs of blocks need to add to `out` (jobs, …), if there are any."""

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        """Return the direction and, where the query carries it along, the cost at the point."""


class Blockwise:
    """A query whose blocks are added by `add_block`."""

    __slots__ = ()

    @property
    def summand_bound(self) -> float:
        """Terms are added up as they are, unless a query says otherwise."""
        return float(self.norm_bound)  # type: ignore[attr-defined]

    @property
    def job_error(self) -> float:
        """Nothing is done to the sum of a job, unless a query says otherwise."""
        return 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """A number, unless a query says otherwise."""
        return ()

    @property
    def noise(self) -> GaussianNoise:
        """Independent on all entries, unless a query says otherwise."""
        return _independent(self.shape)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms | None:  # noqa: ARG002
        """Return None: there is no compiled run of blocks."""
        return None


class Bounded(Blockwise):
    """Terms that are scaled or clipped to norm 1 as the last step of their computation."""

    __slots__ = ()
    D: int

    @property
    def term_error(self) -> float:
        """The norms behind the clip are sums of at most D squares, right to (D + 8) u."""
        return 2.0 * (self.D + 8) * UNIT_ROUNDOFF

    def unpack(self, released: FloatArray) -> tuple[FloatArray, float | None]:
        return released, None


class Symmetric(Blockwise):
    """A sum of symmetric matrices."""

    __slots__ = ()

    @property
    @abstractmethod
    def side(self) -> int:
        """Number of rows of the matrices."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.side, self.side)

    @property
    def noise(self) -> GaussianNoise:
        """Isotropic on symmetric matrices, unless a query says otherwise."""
        return _symmetric(self.side)


class FromScores(Bounded):
    """Terms that depend on a row's scores at the point, and on its distance, alone."""

    __slots__ = ()
    near: ClassVar[float | None] = None
    """Where distances are needed: see `PRIVATE_NEAR`."""

    @abstractmethod
    def add_measured(
        self, Y: FloatArray, distances: FloatArray, point: FloatArray, out: FloatArray
    ) -> None:
        """Add the terms of rows with the scores Y (columns, b) and these distances to `out`.

        At most one block of rows at a time. A query that adds up in blocks of its own, of which
        512 is a multiple, may take more rows: it says how many by `longest`.
        """

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        self.add_measured(*kernels.measured(XT, self._measured_at(point), self.near), point, out)

    def measure(self, point: FloatArray) -> kernels.Measure | None:
        """Return what rows in memory may measure at once; a subclass may have other blocks."""
        if type(self).add_block is not FromScores.add_block:
            return None
        return kernels.Measure(self._measured_at(point), self.near)

    def _measured_at(self, point: FloatArray) -> FloatArray:
        check_point(point, (self.D, point.shape[-1] if point.ndim == 2 else 0))
        return point


def check_point(point: FloatArray, shape: tuple[int, ...]) -> None:
    """Refuse a point of another shape or size: compiled kernels do not look."""
    if point.shape != shape:
        msg = f"This query is asked at a point of shape {shape}, got {point.shape}."
        raise ValueError(msg)
    if not np.abs(point).max() <= LARGEST_POINT:
        msg = f"The entries of a point must be finite and at most {LARGEST_POINT:g}."
        raise ValueError(msg)
