"""What the damped Newton method knows between two passes: public facts and releases alone."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import TypeAlias

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.newton.belief import Belief
from stillspace.methods.spectrum import Spectrum
from stillspace.parts.geometry import top_eigenvectors
from stillspace.plans.adaptive import Allowance, Answer

SCALAR_SHARE = MATRIX_SHARE = 0.03
"""Of the curvature and of the curvature matrix, in all steps together."""

FIRST_STEPS, LAST_STEPS, MOST_FIRST_STEPS = 8, 10, 20
"""Steps of the first phase, at least; of the second; and of the first, at most."""
CHECKED_AFTER, SHARPER, MORE_STEPS = 3, 1.5, 40
"""If after so many steps of the second phase the gradient still moves, and the curvature has grown
by this factor, there are so many more."""
MOST_STEPS = MOST_FIRST_STEPS + CHECKED_AFTER + MORE_STEPS
FIRST_PART = 0.1
"""What FIRST_STEPS of the first phase take of the gradient's share."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The mean of all releases of the second moment, weighed by their shares."""

    value: FloatArray
    share: float
    sd: float
    """Of the noise on a diagonal entry."""

    def plus(self, answer: Answer, share: float) -> Moment:
        """Return the mean with one release more."""
        total = self.share + share
        value = (self.share * self.value + share * answer.value) / total
        return Moment(value, total, self.sd * sqrt(self.share / total))

    def without(self, mean: FloatArray | None, r: int) -> FloatArray:
        """Return the second moment without a cluster that has this mean, beside r directions.

        A tight cluster of a share p has the mean pc and the second moment pccᵀ. As long as p is
        not known, it is the one that leaves r of the r + 1 leading directions: p = mᵀS⁺m, S⁺ the
        inverse along these.
        """
        if mean is None:
            return self.value
        U = top_eigenvectors(self.value, r + 1)
        within = U.T @ mean
        weight = 1.0 / float(np.sum(within**2 / Spectrum.of(self.value, self.sd, r + 1).signal))
        inside = U @ within
        return np.asarray(self.value - weight * np.outer(inside, inside))


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Before the steps: a release of the second moment is asked for."""

    allowance: Allowance
    share: float
    moment: Moment | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MeanLook:
    """Between the second moment and the steps: the mean is asked for."""

    allowance: Allowance
    moment: Moment


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """There is a mean: rows near the start with it are counted, then near the one without."""

    allowance: Allowance
    moment: Moment
    aside: FloatArray
    near: Answer | None = None
    """How many are near the start with the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """In the loop."""

    allowance: Allowance
    moment: Moment
    aside: FloatArray | None
    """The mean of a cluster that the start is without, if any."""
    better: bool
    """Whether clearly more rows are near this start than near the one with the mean."""
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
    spent: float
    k: int = 0
    cut: float = inf
    end: int | None = None
    """The step after which the second phase ends; None in the first."""
    check: tuple[int, float] | None = None
    """The step that tells whether the second phase must be longer, and s when it began."""
    doubt: bool = False
    route: str = "newton"

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

    moment: Moment
    share: float
    size: int
    route: str
    steps: Steps | None = None
    aside: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The end."""

    V: FloatArray
    moment: Moment
    error: float
    route: str


State: TypeAlias = Look | MeanLook | Steps | Comparison | LastLook | Found
