"""What the damped Newton method knows between two passes: public facts and releases alone."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from stillspace._typing import FloatArray
from stillspace.methods.newton.belief import Belief
from stillspace.methods.newton.routes import NEWTON
from stillspace.methods.newton.spread import Spread
from stillspace.methods.outlier_look import Looked, LookState
from stillspace.plans.adaptive import Allowance

SCALAR_SHARE = MATRIX_SHARE = 0.03
"""Of the curvature and of the curvature matrix, in all steps together."""

FIRST_STEPS, LAST_STEPS, MOST_FIRST_STEPS = 8, 10, 20
"""Steps of the first phase, at least; of the second; and of the first, at most."""
CHECKED_AFTER, SHARPER, MORE_STEPS, LAST_FEW = 3, 1.5, 40, 2
"""If after so many steps of the second phase the gradient still moves, and the curvature has grown
by this factor, there are so many more. If not, what is left is spent on the last few: near the
optimum a few precise steps find as much as many noisy ones, and each reads all rows."""
MOST_STEPS = MOST_FIRST_STEPS + CHECKED_AFTER + MORE_STEPS
FIRST_PART = 0.1
"""What FIRST_STEPS of the first phase take of the gradient's share."""


@dataclass(frozen=True, slots=True, eq=False)
class Looking:
    """Before the steps: the look for outliers goes on."""

    allowance: Allowance
    look: LookState


@dataclass(frozen=True, slots=True, eq=False)
class TopUp:
    """After the look: a second release of the second moment is asked for."""

    allowance: Allowance
    looked: Looked
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """In the loop."""

    allowance: Allowance
    looked: Looked
    start: FloatArray
    weight_unit: float
    """Mean of ‖y‖² at the start: s over it is the mean weight."""
    weakest_unit: float
    """Mean of y² along the weakest direction of the start."""
    pca_error: float
    """d² that private PCA would have with the whole budget, as far as noise goes."""
    kappa: float
    """κ̂ of the start."""
    parts: tuple[float, float, float]
    """Shares of gradient, scalar and matrix over the whole loop, in the usual number of steps."""
    belief: Belief
    spread: Spread
    """What the noise so far makes of the error; no step depends on it."""
    spent: float
    k: int = 0
    cut: float = inf
    end: int | None = None
    """The step after which the second phase ends; None in the first."""
    check: tuple[int, float] | None = None
    """The step that tells whether the second phase must be longer, and s when it began."""
    doubt: bool = False
    route: str = NEWTON

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of the next step's three releases."""
        gradient, scalar, matrix = self.parts
        if self.end is None:
            each = 1.0 / (FIRST_STEPS + LAST_STEPS)
            return FIRST_PART * gradient / FIRST_STEPS, scalar * each, matrix * each
        each = (1.0 - self.spent) / (self.end - self.k) / (gradient + scalar + matrix)
        return gradient * each, scalar * each, matrix * each


@dataclass(frozen=True, slots=True, eq=False)
class LastLook:
    """All that is left goes to one more second moment; `steps` is what the loop found, if any."""

    looked: Looked
    share: float
    route: str
    steps: Steps | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The end."""

    V: FloatArray
    looked: Looked
    error: float
    route: str


State: TypeAlias = Looking | TopUp | Steps | LastLook | Found
