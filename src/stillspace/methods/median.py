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


@dataclass(frozen=True, slots=True)
class MedianRule:
    """The numbers of the private median that were chosen, not derived (docs/newton.md, table)."""

    steps: int = 16
    """Passes over the rows, one per step."""
    early: int = 6
    """Of them: steps on the way to the median, with little budget: their noise is forgotten."""
    early_part: float = 0.1
    """Of this stage's μ²: all early steps together."""
    cost_part: float = 0.15
    """Of this stage's μ²: all releases of the mean distance together."""
    reopened: float = 0.3
    """By this part of itself P grows again in an early step: the distance is not yet quadratic."""


MEDIAN_RULE = MedianRule()
"""What fits use."""
HALF = 0.5
"""The public radius in the units of the rows: the centre lies within it."""


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
    rule: MedianRule = MEDIAN_RULE
    """All tuned numbers."""
    name: ClassVar[str] = "private geometric median"
    n_components: ClassVar[int] = 0

    @property
    def n_passes(self) -> int:
        return self.rule.steps

    @property
    def coordinates(self) -> int:
        return self.rule.steps * (self.D + 1)

    def begin(self, allowance: Allowance) -> MedianState:  # noqa: ARG002
        """Start in the middle; the centre lies within ½."""
        return MedianState(np.zeros(self.D), HALF**2 / self.D)

    def ask(self, state: MedianState) -> Ask | None:
        if state.k == self.rule.steps:
            return None
        rule = self.rule
        early = rule.early_part / rule.early
        late = (1.0 - rule.early_part - rule.cost_part) / (rule.steps - rule.early)
        share = early if state.k < rule.early else late
        queries: tuple[tuple[Query, float], ...] = (
            (GeometricMedian(self.D), share),
            (MedianCost(self.D), rule.cost_part / rule.steps),
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
        reopened = self.rule.reopened * P if state.k < self.rule.early else 0.0
        left = P * (1.0 - h * gain) + reopened
        return replace(state, m=m, P=left, k=state.k + 1)

    def outcome(self, state: MedianState) -> Outcome:
        return Outcome(state.m)
