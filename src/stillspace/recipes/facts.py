"""What a recipe is made from: public facts, and the options that users name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal, TypeAlias, TypeVar

from stillspace._checks import checked_whole, described, is_word_of
from stillspace.methods.outlier_look import UnitsAgain
from stillspace.parts.outputs import Average, Last, Output
from stillspace.parts.queries import Query
from stillspace.parts.sampling import (
    All,
    Poisson,
    Sampling,
    WithoutReplacement,
    WithReplacement,
)
from stillspace.parts.schedules import Schedule
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Release
from stillspace.privacy import Relation
from stillspace.rows.maps import Affine

Calibration: TypeAlias = Literal["honest", "as-printed"]
_T = TypeVar("_T")
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
    axes_are_columns: bool = True
    """Whether each axis of the rows is a column of the table, not a mixture of columns."""
    n_labels: int = 0
    """How many labels the public list of labels has; 0 if rows have none."""
    affine: Affine | None = None
    """Centre, scale and missing cells of the rows, if a method may fill missing cells."""
    units: UnitsAgain | None = None
    """How a method may find centre and scale again, if an earlier stage releases them."""

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
    uses_units: bool = False
    """Whether its method uses `Facts.affine` and `Facts.units`."""
    stated: tuple[str, ...] = ()
    """What the guarantee of a fit by this recipe takes for granted besides."""


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    return ", ".join(map(repr, names)) or "none"


def choice(kind: str, value: Any, table: Mapping[str, _T]) -> _T:
    """Return the entry of a table that the user named."""
    if not is_word_of(value, table):
        msg = f"Unknown {kind} {described(value)}; known: {listed(table)}."
        raise ValueError(msg)
    return table[value]


MOST_ITERATIONS = 10**9
"""More than anybody runs, and few enough for all arithmetic on them."""
_ITERATIONS = "The number of iterations (n_iter; max_iter of RobustPCA)"


def checked_n_iter(options: Options, default: int) -> int:
    """Return the option `n_iter`, or the recipe's own."""
    n_iter = options.get("n_iter", default)
    return checked_whole(_ITERATIONS, n_iter, 1, MOST_ITERATIONS)


def named_sampling(facts: Facts, options: Options, n_iter: int) -> Sampling:
    """Return a sampling by name; the paper's batch is `max(n √(ε/(4T)), 1)` (SPEC 3).

    By default Poisson where its smaller noise counts, else the paper's own, with replacement. The
    bound for sampling with replacement is far from tight (docs/privacy.md, "Accountants").
    """
    n = facts.n
    paper = n * sqrt(facts.epsilon / (4 * n_iter)) if facts.epsilon else 64
    batch_size = options.get("batch_size", min(n, max(1, round(paper))))
    batch_size = checked_whole("batch_size", batch_size, 1, n, why=f"the number of {facts.unit}")
    makers: dict[str, Callable[[], Sampling]] = {
        "poisson": lambda: Poisson(batch_size / n),
        "without-replacement": lambda: WithoutReplacement(batch_size, n),
        "with-replacement": lambda: WithReplacement(batch_size, n),
    }
    honest = facts.private and facts.calibration == "honest"
    name = options.get("sampling", "poisson" if honest else "with-replacement")
    return choice("sampling", name, makers)()


def checked_schedule(options: Options, default: Schedule) -> Schedule:
    """Return the option `schedule`, or the recipe's own."""
    schedule = options.get("schedule", default)
    if not hasattr(schedule, "step"):
        msg = (
            "schedule must be one of stillspace.parts.schedules, such as Halving(1.0, every=50), "
            f"got {described(schedule)}."
        )
        raise TypeError(msg)
    made: Schedule = schedule
    return made


def named_output(options: Options, default: str) -> Output:
    """Return the output rule that the user named."""
    table: dict[str, Output] = {"last": Last(), "average": Average()}
    return choice("output", options.get("output", default), table)
