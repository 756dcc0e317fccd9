"""When a run ends early (SPEC 3). A run with noise never does: its length is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stillspace._typing import FloatArray


class Stop(Protocol):
    """A rule that looks at two successive points and at the costs so far."""

    def __call__(self, before: FloatArray, after: FloatArray, costs: Sequence[float]) -> bool:
        """Return whether to stop; `costs` ends with the cost at `before`, where one is known."""


@dataclass(frozen=True, slots=True)
class Never:
    """Run all iterations."""

    def __call__(self, before: FloatArray, after: FloatArray, costs: Sequence[float]) -> bool:  # noqa: ARG002
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

    def __call__(self, before: FloatArray, after: FloatArray, costs: Sequence[float]) -> bool:
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
