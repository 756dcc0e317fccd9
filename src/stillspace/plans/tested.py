"""Propose-test-release: many robust fits without noise vote; a clear winner is shown.

The paper holds that its method is private without noise on stable data. As it stands that is not
so (SPEC 9.9); this is a mechanism in its spirit that is. Rows are dealt to disjoint blocks without
looking at them. Each block has one vote: the lattice cell in which the projector of its own robust
fit lies. With c₁ ≥ c₂ the two largest counts and `d = (c₁ − c₂)/2`, the centre of the winning cell
is released if `d + L > t`, L discrete Laplace noise on ½ℤ, P(L) ∝ exp(−ε|L|), else nothing.

(ε, δ)-differential privacy under replace-one, t = 1 + ln(1/((1 + a)δ))/ε, a = e^(−ε/2): a replaced
row changes one vote. *The winner stays:* d moves by at most 1, so what is seen of `d + L > t` is
ε-private, and the centre is the same. *The winner changes:* then c₁ − c₂ ≤ 2 in both data sets,
d ≤ 1, and anything is shown only if 2L > x = 2(t − 1): with probability at most
a^(⌊x⌋+1)/(1 + a) ≤ a^x/(1 + a) = δ.

Blocks are stretches of a random order of the rows and are added up in that order: so the law of a
vote does not depend on the order of the table, to the last bit. A block that happens to be in
ascending order is added up by stretches of the table; its probability, 1/b! for b rows, is taken
off δ (`ASCENDING`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, exp, factorial, log

from stillspace.exceptions import NotAccountedError
from stillspace.plans.release import Release
from stillspace.privacy.events import NOTHING, ComposedEvent, Relation, TestedEvent
from stillspace.rows.maps import SPHERE, View

WIDTH = 1e-3
"""Side of a cell, in units of a projector's entries."""
CLEAR = 2.5
"""Blocks for each vote that a clear majority needs."""
ASCENDING = 2.0**-10
"""Part of δ that is kept for blocks which happen to be in ascending order."""
ROWS_PER_COMPONENT = 8
"""The fewest rows of a block, per component and once more."""


@dataclass(frozen=True, slots=True)
class TestedPlan:
    """Blocks, their width and the budget: all public."""

    name: str
    n_components: int
    size: int
    n_columns: int
    width: float = WIDTH
    epsilon: float | None = None
    delta: float | None = None
    relation: Relation = "replace-one"

    __test__ = False  # the name is none of pytest's business

    def __post_init__(self) -> None:
        if self.relation != "replace-one":
            msg = (
                "Propose-test-release deals rows to blocks and is proved for replace-one only; use "
                "another algorithm for add-or-remove-one."
            )
            raise NotAccountedError(msg)

    @property
    def rows_per_person(self) -> int:
        """A person with several rows could change several votes: one row each."""
        return 1

    @property
    def view(self) -> View:
        return SPHERE

    @property
    def threshold(self) -> float:
        """t."""
        epsilon, delta = self.budget
        delta *= 1.0 - ASCENDING
        exact = 1.0 + log(1.0 / ((1.0 + exp(-epsilon / 2.0)) * delta)) / epsilon
        return exact * (1.0 + 1e-13) + 2.0**-49 / epsilon  # rounding may not lower it

    @property
    def n_blocks(self) -> int:
        """As many as make the threshold easy to pass where all blocks agree."""
        return ceil(2.0 * CLEAR * self.threshold)

    @property
    def budget(self) -> tuple[float, float]:
        """(ε, δ) of the test."""
        if self.epsilon is None or self.delta is None:
            msg = "This plan has no budget yet: calibrate it first."
            raise ValueError(msg)
        return self.epsilon, self.delta

    def event(self) -> ComposedEvent:
        """Return what is accounted for: one test, (ε, δ)."""
        return ComposedEvent.of([TestedEvent(*self.budget)])

    def calibrate(
        self, epsilon: float, delta: float, *, beside: ComposedEvent = NOTHING
    ) -> TestedPlan:
        """Return the plan at this budget; it must have it for itself."""
        if beside != NOTHING:
            msg = "Propose-test-release has no proof together with other releases; leave them out."
            raise NotAccountedError(msg)
        if delta >= 0.5:
            msg = f"delta must be below 1/2 for propose-test-release, got {delta}."
            raise ValueError(msg)
        plan = replace(self, epsilon=epsilon, delta=delta)
        rows = ROWS_PER_COMPONENT * (self.n_components + 1)
        while plan.n_blocks > factorial(min(rows, 100)) * delta * ASCENDING:
            rows += 1
        least = plan.n_blocks * rows
        if self.size < least:
            msg = (
                f"Propose-test-release needs {plan.n_blocks} blocks here, at least {least} rows "
                f"(pairs of rows with center='pairs'), and there are {self.size}; use "
                "algorithm='auto'."
            )
            raise ValueError(msg)
        return plan

    def within(self, mu: float) -> TestedPlan:
        """Refuse: a test is no Gaussian release."""
        msg = f"Propose-test-release takes no share of a fit (mu={mu:g}); it needs it all."
        raise NotAccountedError(msg)

    def releases(self) -> Iterator[Release]:
        """Yield nothing: a vote is no sum of bounded terms."""
        yield from ()

    def showing_last(self) -> TestedPlan:
        return self

    def in_words(self) -> str:
        return (
            f"{self.name}: robust fits without noise of {self.n_blocks} disjoint blocks of rows "
            "vote; the winner is released by a private test, or nothing."
        )
