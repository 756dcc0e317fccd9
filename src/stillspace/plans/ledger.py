"""What ran, as events in order: recorded before rows are read, compared with the plan after."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from stillspace.exceptions import LedgerError
from stillspace.privacy.events import ComposedEvent, GaussianEvent, Relation, SingleEvent


def checked_event(ran: ComposedEvent, planned: ComposedEvent) -> ComposedEvent:
    """Return what ran, or raise if it is not what was planned."""
    if ran != planned:
        msg = "What ran differs from the plan that was accounted for; the result is withheld."
        raise LedgerError(msg)
    return ran


@dataclass(slots=True)
class Ledger:
    """The events of what ran, in order."""

    events: list[SingleEvent] = field(default_factory=list)

    def record(self, event: SingleEvent, count: int = 1) -> None:
        """Add an event that happens `count` times in a row; called before the rows are read."""
        self.events.extend([event] * count)

    def check(self, planned: ComposedEvent) -> ComposedEvent:
        """Return what ran, or raise if it is not what was planned."""
        return checked_event(ComposedEvent.of(self.events), planned)


@dataclass(slots=True)
class CeilingLedger(Ledger):
    """The events of releases chosen from earlier ones: a privacy filter (SPEC 4).

    A release that would pass the ceiling is refused before its noise is drawn. What is accounted
    for is the ceiling itself, never the sum that was reached: that sum depends on releases.
    """

    ceiling: GaussianEvent = field(kw_only=True)
    relation: Relation = field(kw_only=True)
    spent: Fraction = field(default=Fraction(0), init=False)
    coordinates: int = field(default=0, init=False)
    limit: Fraction = field(init=False)
    """The ceiling's μ² without the margin of `squared_mu`: not above the exact value."""

    def __post_init__(self) -> None:
        exact = Fraction(self.ceiling.sensitivity(self.relation)) / Fraction(self.ceiling.sigma)
        self.limit = exact**2

    def record(self, event: SingleEvent, count: int = 1) -> None:
        """Add an event, or raise if it has no place under the ceiling."""
        if not isinstance(event, GaussianEvent) or event.sampling != "all":
            msg = "Only Gaussian releases of all rows may be chosen from earlier releases."
            raise LedgerError(msg)
        if not event.norm_bound <= event.difference_bound <= 2.0 * event.norm_bound:
            msg = "A ceiling holds queries with norm ≤ difference ≤ 2 norm (AdaptivePlan.ceiling)."
            raise LedgerError(msg)
        spent = self.spent + count * event.squared_mu(self.relation)
        coordinates = self.coordinates + count * event.coordinates
        within = (
            spent <= self.limit
            and coordinates <= self.ceiling.coordinates
            and event.sampler_error <= self.ceiling.sampler_error
            and event.rows_per_person >= self.ceiling.rows_per_person
        )
        if not within:
            msg = "A release would pass the ceiling that was accounted for; the fit is withheld."
            raise LedgerError(msg)
        self.spent, self.coordinates = spent, coordinates
        self.events.extend([event] * count)

    def check(self, planned: ComposedEvent) -> ComposedEvent:
        """Return the ceiling, or raise if it is not what was planned."""
        return checked_event(ComposedEvent.of([self.ceiling]), planned)
