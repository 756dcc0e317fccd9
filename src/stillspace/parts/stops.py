"""When a run ends early (SPEC 3). A run with noise never does: its length is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stillspace._typing import FloatArray


class Stop(Protocol):
    """A rule that looks at two successive points, the costs so far and the last direction."""

    def __call__(
        self,
        before: FloatArray,
        after: FloatArray,
        costs: Sequence[float],
        direction: FloatArray | None = None,
    ) -> bool:
        """Return whether to stop.

        `costs` ends with the cost at `before`, where one is known. `direction` is what was released
        at `before`.
        """


@dataclass(frozen=True, slots=True)
class Never:
    """Run all iterations."""

    def __call__(
        self,
        before: FloatArray,  # noqa: ARG002
        after: FloatArray,  # noqa: ARG002
        costs: Sequence[float],  # noqa: ARG002
        direction: FloatArray | None = None,  # noqa: ARG002
    ) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, slots=True)
class Converged:
    """Stop when the point moved by no more than `tol`, or the cost no longer falls.

    The move of a basis is the sine of the largest principal angle, that of a matrix the
    Frobenius norm. The cost stalls at a relative fall of `cost_tol`: where it is flat the point
    may wander for thousands of passes that change nothing anybody could measure. The fall of the
    step just made is not known before the next one; it is foretold from the two before it, which
    under linear convergence fall by a constant factor.
    """

    tol: float
    cost_tol: float = 1e-13

    def __call__(
        self,
        before: FloatArray,
        after: FloatArray,
        costs: Sequence[float],
        direction: FloatArray | None = None,  # noqa: ARG002
    ) -> bool:
        """Return whether to stop."""
        if len(costs) > 1:
            fall = costs[-2] - costs[-1]
            if len(costs) > 2 and costs[-3] - costs[-2] > fall > 0.0:
                fall *= fall / (costs[-3] - costs[-2])
            if fall <= self.cost_tol * costs[-2]:
                return True
        if after.shape[0] == after.shape[1]:
            return bool(np.linalg.norm(after - before) <= self.tol)
        return bool(np.linalg.norm(after - before @ (before.T @ after), 2) <= self.tol)


@dataclass(frozen=True, slots=True)
class Settled(Converged):
    """Stop as `Converged` does, or when the gradient is below a part of its own sampling error.

    For steps on bases whose direction `A = mean(w x (Vᵀx)ᵀ)` has the weights `w = 1/‖Qx‖`. Then
    `QA` is minus the gradient: the mean of n terms `g_i = Qx(Vᵀx)ᵀ/‖Qx‖` of length `‖Vᵀx‖`. Its
    sampling error is `√(Σ‖g_i‖²)/n` over all dimensions, of which rows span min(n, D). With c the
    cost, which is the mean of ‖Qx‖, unit rows have `Σ‖g_i‖² = Σ(1 − ‖Qx‖²) ≤ n(1 − c²)`. Power
    steps leave an error in few directions, so it is compared with the sampling error per dimension.
    """

    n_rows: int = 1
    part: float = 0.3
    """The gradient may be this part of its sampling error per dimension."""

    def __call__(
        self,
        before: FloatArray,
        after: FloatArray,
        costs: Sequence[float],
        direction: FloatArray | None = None,
    ) -> bool:
        """Return whether to stop."""
        if direction is not None and costs and direction.shape == before.shape:
            gradient = direction - before @ (before.T @ direction)
            spanned = min(self.n_rows, len(before))
            error = np.sqrt(max(1.0 - costs[-1] ** 2, 0.0) / self.n_rows / spanned)
            if float(np.linalg.norm(gradient)) <= self.part * error:
                return True
        return Converged.__call__(self, before, after, costs)
