"""A private geometric median: damped Newton steps from the middle of a public ball (SPEC 5).

Rows are given in units of twice the public radius and lie in the unit ball; so does the centre, in
half of it. The mean of `(x − m)/‖x − m‖` is minus the gradient of the mean distance, whose second
derivative is about 1/d̄, d̄ the mean distance. Each step weighs the noisy gradient against what is
known already, as a Kalman filter does: the error of one coordinate is believed to have variance P.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.queries import GeometricMedian, MedianCost, Query
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome

STEPS = 16
EARLY = 6
"""Steps on the way to the median, at a tenth of the budget: their noise is forgotten."""
EARLY_PART = 0.1
COST_PART = 0.15
"""Share of all releases of the mean distance."""
REOPENED = 0.3
"""While on the way P grows again by this part of itself: the distance is not yet quadratic."""
HALF = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class MedianState:
    """The centre, and the believed variance of one of its coordinates."""

    m: FloatArray
    P: float
    k: int = 0


@dataclass(frozen=True, slots=True)
class PrivateMedian:
    """The geometric median of rows in a ball around the origin."""

    D: int
    name: ClassVar[str] = "private geometric median"

    @property
    def n_components(self) -> int:
        """A centre has no components."""
        return 0

    @property
    def n_passes(self) -> int:
        """The steps."""
        return STEPS

    @property
    def coordinates(self) -> int:
        """A step and a distance each pass."""
        return STEPS * (self.D + 1)

    def begin(self, allowance: Allowance) -> MedianState:  # noqa: ARG002
        """Start in the middle; the centre lies within ½."""
        return MedianState(np.zeros(self.D), HALF**2 / self.D)

    def ask(self, state: MedianState) -> Ask | None:
        """Ask for the step and for the mean distance."""
        if state.k == STEPS:
            return None
        early = EARLY_PART / EARLY
        late = (1.0 - EARLY_PART - COST_PART) / (STEPS - EARLY)
        share = early if state.k < EARLY else late
        queries: tuple[tuple[Query, float], ...] = (
            (GeometricMedian(self.D), share),
            (MedianCost(self.D), COST_PART / STEPS),
        )
        return Ask(state.m, queries)

    def take(self, state: MedianState, answers: tuple[Answer, ...]) -> MedianState:
        """Move along the released step by the gain that the noise allows."""
        step, cost = answers
        distance = max(2.0 * float(cost.value), 2.0 * cost.sd, 1e-6)
        h, P = 1.0 / distance, state.P
        gain = h * P / (h * h * P + step.sd**2)
        m = state.m + gain * step.value
        length = sqrt(float(m @ m))
        m = m * min(1.0, HALF / length) if length > 0.0 else m
        left = P * (1.0 - h * gain) + (REOPENED * P if state.k < EARLY else 0.0)
        return replace(state, m=m, P=left, k=state.k + 1)

    def outcome(self, state: MedianState) -> Outcome:
        """Return the centre, in units of twice the radius."""
        return Outcome(state.m)
