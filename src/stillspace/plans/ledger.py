"""What ran, as events in order: recorded before rows are read, compared with the plan after."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from stillspace.exceptions import LedgerError
from stillspace.parts.sampling import All, RowPart, Sampling
from stillspace.privacy.events import ComposedEvent, GaussianEvent, Relation, SingleEvent

ALL = All()


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

    def record(self, event: SingleEvent, count: int = 1, read: Sampling = ALL) -> None:  # noqa: ARG002
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
    whole: Fraction = field(default=Fraction(0), init=False)
    """Σμ² of the releases that read all rows, and of the rounding of those that read parts."""
    parts: dict[RowPart, Fraction] = field(default_factory=dict, init=False)
    """Σμ² of the releases of each part of the rows, all parts of one division."""
    coordinates: int = field(default=0, init=False)
    limit: Fraction = field(init=False)
    """The ceiling's μ² without the margin of `squared_mu`: not above the exact value."""

    def __post_init__(self) -> None:
        exact = Fraction(self.ceiling.sensitivity(self.relation)) / Fraction(self.ceiling.sigma)
        self.limit = exact**2

    @property
    def spent(self) -> Fraction:
        """Σμ² of the releases that one row may be in: of all rows, and of its own part.

        A row lies in one part. Releases of the other parts have the same law with another row in
        its place, up to rounding (docs/privacy.md, "Parts of the rows").
        """
        return self.whole + max(self.parts.values(), default=Fraction(0))

    def record(self, event: SingleEvent, count: int = 1, read: Sampling = ALL) -> None:
        """Add an event, or raise if it has no place under the ceiling."""
        if not isinstance(event, GaussianEvent) or event.sampling != "all":
            msg = "Only Gaussian releases of public rows may be chosen from earlier releases."
            raise LedgerError(msg)
        if not event.norm_bound <= event.difference_bound <= 2.0 * event.norm_bound:
            msg = "A ceiling holds queries with norm ≤ difference ≤ 2 norm (AdaptivePlan.ceiling)."
            raise LedgerError(msg)
        whole, parts = self._with(event, count, read)
        coordinates = self.coordinates + count * event.coordinates
        within = (
            (whole + max(parts.values()) if parts else whole) <= self.limit
            and coordinates <= self.ceiling.coordinates
            and event.sampler_error <= self.ceiling.sampler_error
            and event.rows_per_person >= self.ceiling.rows_per_person
        )
        if not within:
            msg = "A release would pass the ceiling that was accounted for; the fit is withheld."
            raise LedgerError(msg)
        self.whole, self.parts, self.coordinates = whole, parts, coordinates
        self.events.extend([event] * count)

    def _with(
        self, event: GaussianEvent, count: int, read: Sampling
    ) -> tuple[Fraction, dict[RowPart, Fraction]]:
        """Return what was spent on all rows and on each part, with `count` releases more."""
        cost = event.squared_mu(self.relation)
        cost = cost if count == 1 else count * cost
        if not isinstance(read, RowPart):
            return self.whole + cost, self.parts
        if self.relation != "replace-one" or event.rows_per_person != 1:
            msg = "Parts of the rows compose in parallel for replace-one and one row per person."
            raise LedgerError(msg)
        if any(part.parts != read.parts for part in self.parts):
            msg = "All parts of the rows must belong to one division."
            raise LedgerError(msg)
        # The rows of another part may stand in another order: its sum moves by rounding alone.
        moved = count * (Fraction(event.slack) / Fraction(event.sigma)) ** 2
        parts = {**self.parts, read: self.parts.get(read, Fraction(0)) + cost}
        return self.whole + moved, parts

    def check(self, planned: ComposedEvent) -> ComposedEvent:
        """Return the ceiling, or raise if it is not what was planned."""
        return checked_event(ComposedEvent.of([self.ceiling]), planned)
