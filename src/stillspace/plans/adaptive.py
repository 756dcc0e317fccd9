"""An `AdaptivePlan`: a method that chooses each release from the earlier ones, under a ceiling.

The total Σμ² is fixed before the first release, and every release names its *share* of it. Which
query is asked next, at which point and with which share, may depend on what was released so far;
the rows are seen through releases alone. As long as the shares add up to at most 1 the whole is as
private as one Gaussian release with that μ (a privacy filter: SPEC 4, docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from types import MappingProxyType
from typing import Any, Protocol

from stillspace._typing import FloatArray
from stillspace.parts.noise import SAMPLER_ERROR
from stillspace.parts.queries import Query
from stillspace.parts.sampling import All, RowPart
from stillspace.plans.ledger import ALL
from stillspace.plans.release import JointRelease, Release
from stillspace.privacy import ComposedEvent, GaussianEvent, calibrate
from stillspace.privacy.events import NOTHING, Relation
from stillspace.rows.maps import SPHERE, View

_SAFE = 1.0 - 2.0**-40
"""What a share's μ is multiplied with, so that shares which add up to 1 but for rounding fit."""

LEAST_SHARE = 2.0**-12
"""The least share of μ² that a release of a part may have: below, its lattice would be coarse."""

PART_MARGIN = 2.0**-12
"""By how much a share's μ is lowered where a part of the rows is read: room for what rounding
moves in the sums of the other parts (`CeilingLedger`)."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a method may know before it asks: public facts, and the noise that a share buys."""

    mu: float
    """√Σμ² of the whole run."""
    size: int
    """The public number of rows."""
    relation: Relation = "replace-one"
    rows_per_person: int = 1
    resumable: bool = False
    """Whether another process may go on with the run. It would not know this one's division."""

    def part(self, share: float) -> Allowance:
        """Return the allowance of a method that gets this share of μ²."""
        return replace(self, mu=self.mu * sqrt(share))

    def divides(self, parts: int, *queries: Query) -> bool:
        """Whether releases of these queries may read so many parts of the rows (`RowPart`).

        A person with several rows may be in several parts. Where rounding may need more room than
        `PART_MARGIN` (very many rows, or hardly any budget) the rows are not divided.
        """
        alone = self.relation == "replace-one" and self.rows_per_person == 1
        return alone and not self.resumable and all(self._has_room(parts, q) for q in queries)

    def _has_room(self, parts: int, query: Query) -> bool:
        release = self.release(query)
        unit = release.unit
        lattice = query.noise.slack(unit / (self.mu * sqrt(LEAST_SHARE)))
        return parts * ((release.rounding + lattice) / unit) ** 2 <= PART_MARGIN

    def release(self, query: Query, sampling: All | RowPart = ALL) -> Release:
        """Return a release without noise yet."""
        return Release(query, self.size, None, sampling, self.relation, self.rows_per_person)

    def sd(self, query: Query, share: float) -> float:
        """Return the standard deviation of the noise on the mean that a share buys, nearly."""
        return self.release(query).unit / (self.mu * sqrt(share) * self.size)


@dataclass(frozen=True, slots=True)
class Ask:
    """One pass over the rows: queries at a point, each with its share of μ²."""

    point: FloatArray
    shares: tuple[tuple[Query, float], ...]
    through: View = ()
    """Row maps that this pass alone puts behind the plan's view, made from earlier releases."""
    whole: bool = False
    """Whether `through` is all that is done to a raw row, in place of the plan's view."""
    sampling: All | RowPart = ALL
    """Which rows this pass reads: all, or those of one secret part."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A noisy mean, and the standard deviation of its noise (of a diagonal entry)."""

    value: FloatArray
    sd: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a method found: a basis, and what else its releases tell."""

    V: FloatArray
    moment: FloatArray | None = None
    """A released second moment, to order the components by."""
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Further numbers, all functions of the releases, by name."""
    through: View = ()
    """Row maps that later stages of a fit are to put behind the view, if it suggests any."""
    whole: bool = False
    """Whether `through` takes the place of the view."""


class Method(Protocol):
    """Chooses releases. Sees public facts and releases, never rows: all of it is post-processing.

    A method is a frozen dataclass of public facts; its state is made new, not changed. One that
    begins at a point which earlier releases gave has `at(point)`, which returns it at that point.
    """

    @property
    def name(self) -> str:
        """What it is, in a few words."""

    @property
    def D(self) -> int:
        """Number of columns of the rows."""

    @property
    def n_components(self) -> int:
        """Dimension of the subspace."""

    @property
    def coordinates(self) -> int:
        """The largest number of normals that a run may draw."""

    @property
    def n_passes(self) -> int:
        """The largest number of passes over the rows."""

    def begin(self, allowance: Allowance) -> Any:
        """Return the state before the first release."""

    def ask(self, state: Any) -> Ask | None:
        """Return what to release next; None when the run is over."""

    def take(self, state: Any, answers: tuple[Answer, ...]) -> Any:
        """Return the state after a pass; one answer per query, in their order."""

    def outcome(self, state: Any) -> Outcome:
        """Return what was found."""


@dataclass(frozen=True, slots=True)
class AdaptivePlan:
    """A method, the public facts it runs on, and its ceiling μ (None: not yet calibrated)."""

    name: str
    method: Method
    size: int
    relation: Relation = "replace-one"
    rows_per_person: int = 1
    mu: float | None = None

    @property
    def n_components(self) -> int:
        return self.method.n_components

    @property
    def allowance(self) -> Allowance:
        """What the method may know beforehand."""
        if self.mu is None:
            msg = "This plan has no ceiling yet: calibrate it first."
            raise ValueError(msg)
        return Allowance(self.mu, self.size, self.relation, self.rows_per_person)

    @property
    def n_columns(self) -> int:
        return self.method.D

    @property
    def view(self) -> View:
        """Rows are scaled to the unit sphere, unless the method takes them as they are."""
        return () if getattr(self.method, "takes_raw_rows", False) else SPHERE

    def ceiling(self) -> GaussianEvent:
        """Return the one Gaussian release that stands for all that may run.

        Under the plan's own relation its μ is the ceiling. Every query has norm bound ≤
        difference bound ≤ 2 · norm bound. So a run kept under add-or-remove-one has at most twice
        the μ under replace-one. One kept under replace-one has at most the same under the other.
        """
        norm_bound = 2.0 if self.relation == "replace-one" else 1.0
        return GaussianEvent(
            sigma=self.rows_per_person * norm_bound / self.allowance.mu,
            norm_bound=norm_bound,
            difference_bound=2.0,
            rows_per_person=self.rows_per_person,
            coordinates=self.method.coordinates,
            sampler_error=SAMPLER_ERROR,
            ceiling=True,
        )

    def event(self) -> ComposedEvent:
        """Return what is accounted for: the ceiling."""
        return ComposedEvent.of([self.ceiling()])

    def calibrate(
        self, epsilon: float, delta: float, *, beside: ComposedEvent = NOTHING
    ) -> AdaptivePlan:
        """Return this plan with the largest ceiling that, composed with `beside`, gives (ε, δ)."""
        ceiling = self.within(1.0).ceiling()  # the method's normals are counted once

        def event(scale: float) -> ComposedEvent:
            sigma = self.rows_per_person * ceiling.norm_bound / (1.0 / scale)
            return ComposedEvent.of([replace(ceiling, sigma=sigma)]) + beside

        return self.within(1.0 / calibrate(event, self.relation, epsilon, delta))

    def within(self, mu: float) -> AdaptivePlan:
        """Return this plan with the ceiling `mu`."""
        return replace(self, mu=mu)

    def at(self, point: FloatArray) -> AdaptivePlan:
        """Return this plan at a point that earlier releases gave; what it costs stays the same."""
        method_at = getattr(self.method, "at", None)
        if method_at is None:
            msg = f"The method {self.method.name!r} chooses its own points."
            raise TypeError(msg)
        return replace(self, method=method_at(point))

    def releases(self) -> Iterator[Release]:
        """Yield the releases of the first pass; later ones depend on it."""
        ask = self.method.ask(self.method.begin(self.allowance))
        if ask is not None:
            yield from self.joint_release(ask).releases

    def showing_last(self) -> AdaptivePlan:
        """Return this plan: a method gives back what it found."""
        return self

    def in_words(self) -> str:
        return (
            f"{self.name}: {self.method.name}, at most {self.method.n_passes} passes over the "
            "rows; each release chooses the next within a total that was fixed beforehand."
        )

    def joint_release(self, ask: Ask) -> JointRelease:
        """Return the release of one pass, each query with just the noise that its share buys."""
        allowance, safe = self.allowance, _SAFE
        if isinstance(ask.sampling, RowPart):
            safe = 1.0 - PART_MARGIN
            if min(share for _, share in ask.shares) < LEAST_SHARE:
                msg = f"A release of a part of the rows needs a share of at least {LEAST_SHARE}."
                raise ValueError(msg)
        releases: list[Release] = []
        for query, share in ask.shares:
            release = allowance.release(query, ask.sampling)
            releases.append(release.within(allowance.mu * sqrt(share) * safe))
        return JointRelease(tuple(releases))
