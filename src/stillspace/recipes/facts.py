"""What a recipe is made from: public facts and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from stillspace.parts.queries import Query
from stillspace.parts.sampling import All, Sampling
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Release
from stillspace.privacy import Relation

Calibration: TypeAlias = Literal["honest", "as-printed"]
CALIBRATIONS: tuple[Calibration, ...] = ("honest", "as-printed")


@dataclass(frozen=True, slots=True)
class Facts:
    """Public facts that a plan may depend on, and nothing else.

    `epsilon` is None for plans without a promise.
    """

    n: int
    """The public number of rows, or of what `unit` says."""
    D: int
    r: int
    epsilon: float | None = None
    delta: float | None = None
    relation: Relation = "replace-one"
    rows_per_person: int = 1
    calibration: Calibration = "honest"
    choose_components: bool = False
    """Whether r is only the largest number of components, one of 1…r to be chosen by a release."""
    unit: str = "rows"
    """What there are n of, in messages."""
    n_labels: int = 0
    """How many labels the public list of labels has; 0 if rows have none."""

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.delta is None):
            msg = f"A budget needs both numbers, got epsilon={self.epsilon}, delta={self.delta}."
            raise ValueError(msg)

    @property
    def private(self) -> bool:
        """Whether the plan is to be calibrated to a budget."""
        return self.epsilon is not None

    def release(self, query: Query, sampling: Sampling | None = None) -> Release:
        """Return a release of this problem, noisy if private."""
        return Release(
            query,
            self.n,
            None if self.private else 0.0,
            sampling or All(),
            self.relation,
            self.rows_per_person,
        )


Options: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function from public facts and options to a plan, with the names of its options."""

    build: Callable[[Facts, Options], AnyPlan]
    options: tuple[str, ...] = ()
    chooses: bool = False
    """Whether it can choose the number of components from a second moment that it releases."""
    stated: tuple[str, ...] = ()
    """What the guarantee of a fit by this recipe takes for granted besides."""
