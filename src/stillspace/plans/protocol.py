"""What every kind of plan has in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self, runtime_checkable

from stillspace.plans.release import Release
from stillspace.privacy import ComposedEvent
from stillspace.privacy.events import NOTHING, Relation
from stillspace.rows.maps import View


@runtime_checkable
class AnyPlan(Protocol):
    """A plan: what will be done with the rows, as public facts.

    Kinds: `Plan` (the paper's loops), `Reading` (one release at a point that is known by then),
    `AdaptivePlan` (a method under a ceiling), `TestedPlan` (propose-test-release) and `StagedPlan`
    (several plans in a row: a whole fit). `stillspace.run.run` runs any of them. Kinds are told
    apart there, and by the recipes that make them.
    """

    @property
    def name(self) -> str:
        """What it is called, such as "dp-ggd"."""

    @property
    def n_components(self) -> int:
        """Dimension of the subspace; 0 for plans that find something else."""

    @property
    def size(self) -> int:
        """The public number of rows (or of pairs of rows)."""

    @property
    def n_columns(self) -> int:
        """Number of columns of the rows that it takes."""

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of every release."""

    @property
    def rows_per_person(self) -> int:
        """The largest number of rows that one person owns."""

    @property
    def view(self) -> View:
        """What is done to rows that have no bound yet, before the first release."""

    def event(self) -> ComposedEvent:
        """Return what it costs, before it runs."""

    def calibrate(self, epsilon: float, delta: float, *, beside: ComposedEvent = NOTHING) -> Self:
        """Return this plan with the least noise that, composed with `beside`, gives (ε, δ)."""

    def within(self, mu: float) -> Self:
        """Return this plan with just enough noise for its μ to be at most `mu`."""

    def releases(self) -> Iterator[Release]:
        """Yield its releases, as far as they are known before it runs."""

    def showing_last(self) -> Self:
        """Return the plan that gives back its last point, where it would give back another."""

    def in_words(self) -> str:
        """Return one or two sentences that say what it does."""
