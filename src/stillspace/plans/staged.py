"""A `StagedPlan`: a whole fit as one plan, made of stages that run one after another.

Each stage is a plan. What a stage finds may change what the next ones do to a row (the view), where
they ask, and how many columns they see: all of that is post-processing of releases. Every stage but
one takes a fixed share of μ²; the remaining stage, which finds the subspace, is calibrated on what
is left, composed with the others as they will run (SPEC 5). So the event of the whole fit is known,
and charged, before a row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from types import MappingProxyType
from typing import Any, Protocol, Self

from stillspace._html import facts_in_html
from stillspace._typing import FloatArray
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Release
from stillspace.privacy import ComposedEvent, mu_from_budget
from stillspace.privacy.events import NOTHING, Relation
from stillspace.rows.maps import View, checked_view, view_text


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """What is known after some stages: public facts and functions of releases."""

    view: View
    """What is done to a row from now on."""
    narrowed: View = ()
    """Maps that only the stage of the subspace puts behind the view."""
    V: FloatArray | None = None
    """The basis (D, r), its columns in the order of the components, once it is found."""
    moment: FloatArray | None = None
    """A released second moment, of the rows or of their scores."""
    n_iter: int = 0
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def knowing(self, **facts: Any) -> Progress:
        """Return the progress with further facts."""
        return replace(self, facts=MappingProxyType({**self.facts, **facts}))


class Found(Protocol):
    """What a stage's plan found, as `stillspace.run` gives it."""

    @property
    def V(self) -> FloatArray:
        """The basis, or whatever else the plan finds."""

    @property
    def n_iter(self) -> int:
        """Passes over the rows."""

    @property
    def moment(self) -> FloatArray | None:
        """A released second moment, if there was one."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Further numbers, by name."""

    @property
    def through(self) -> View:
        """Row maps for later stages, if the plan suggests any."""

    @property
    def whole(self) -> bool:
        """Whether these take the place of the view."""


class Stage(Protocol):
    """One plan of a fit, and what its outcome does to the rest. It never sees a row."""

    @property
    def plan(self) -> AnyPlan:
        """What it runs."""

    @property
    def share(self) -> float | None:
        """Its part of μ²; None for the stage that gets the rest."""

    def with_plan(self, plan: AnyPlan) -> Self:
        """Return the stage with another plan of the same kind."""

    def view(self, progress: Progress) -> View:
        """Return what is done to a row for this stage."""

    def point(self, progress: Progress) -> FloatArray | None:
        """Return where a `Reading` or a certificate asks; None for all other plans."""

    def after(self, progress: Progress, found: Found) -> Progress:
        """Return what is known afterwards."""


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """Everything that a private fit will do with the rows."""

    name: str
    view: View
    """What is done to a row, as far as it is known beforehand."""
    stages: tuple[Stage, ...]
    n_columns: int
    """Number of columns of the table."""

    def __post_init__(self) -> None:
        checked_view(self.view)
        if [stage.share for stage in self.stages].count(None) != 1:
            msg = "Exactly one stage of a fit must get the rest of the budget (share=None)."
            raise ValueError(msg)
        facts = {(s.plan.relation, s.plan.size, s.plan.rows_per_person) for s in self.stages}
        if len(facts) > 1:
            msg = (
                "All stages of a fit must use one neighbouring relation, one public size and one "
                f"number of rows per person, got {sorted(facts)}."
            )
            raise ValueError(msg)

    @property
    def main(self) -> AnyPlan:
        """The plan that finds the subspace."""
        return next(stage.plan for stage in self.stages if stage.share is None)

    @property
    def n_components(self) -> int:
        """Dimension of the subspace, or the largest that may be chosen."""
        return self.main.n_components

    @property
    def size(self) -> int:
        return self.main.size

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of every stage."""
        return self.main.relation

    @property
    def rows_per_person(self) -> int:
        return self.main.rows_per_person

    def event(self) -> ComposedEvent:
        """Return the event of all stages, in the order in which they run."""
        return sum((stage.plan.event() for stage in self.stages), NOTHING)

    def calibrate(
        self, epsilon: float, delta: float, *, beside: ComposedEvent = NOTHING
    ) -> StagedPlan:
        """Return the fit with the least noise that, composed with `beside`, gives (ε, δ)."""
        mu = mu_from_budget(epsilon, delta)
        made = [s if s.share is None else _at(s, mu * sqrt(s.share)) for s in self.stages]
        others = sum((s.plan.event() for s in made if s.share is not None), beside)
        at = [s.share for s in made].index(None)
        main = made[at].plan.calibrate(epsilon, delta, beside=others)
        made[at] = made[at].with_plan(main)
        return replace(self, stages=tuple(made))

    def within(self, mu: float) -> StagedPlan:
        """Return the fit with a total of at most `mu`, where its main plan can be brought to it."""
        shares = sum(stage.share or 0.0 for stage in self.stages)
        rest = mu * sqrt(max(1.0 - shares, 0.0))
        parts = [rest if s.share is None else mu * sqrt(s.share) for s in self.stages]
        stages = (_at(stage, part) for stage, part in zip(self.stages, parts, strict=True))
        return replace(self, stages=tuple(stages))

    def releases(self) -> Iterator[Release]:
        """Yield the main plan's releases first, then those of the other stages."""
        yield from self.main.releases()
        for stage in self.stages:
            if stage.share is not None:
                yield from stage.plan.releases()

    def showing_last(self) -> StagedPlan:
        """Return the fit whose main plan gives back its last point."""
        return replace(
            self,
            stages=tuple(s.with_plan(s.plan.showing_last()) for s in self.stages),
        )

    def in_words(self) -> str:
        """Return what happens to a row, and what each stage does."""
        stages = " ".join(stage.plan.in_words() for stage in self.stages)
        return f"What happens to a row: {view_text(self.view)}. {stages}"

    def _repr_html_(self) -> str:
        """Return the plan for a notebook: what happens to a row, and each stage with its part."""
        facts = [("what happens to a row", view_text(self.view))]
        others = sum(stage.share or 0.0 for stage in self.stages)
        for stage in self.stages:
            share = 1.0 - others if stage.share is None else stage.share
            facts.append((f"{stage.plan.name} ({share:.0%} of the budget)", stage.plan.in_words()))
        return facts_in_html(f"Plan of a private fit: {self.name}", facts)


def _at(stage: Stage, mu: float) -> Stage:
    return stage.with_plan(stage.plan.within(mu))
