"""What a private computation did, as frozen facts: the input of every accountant.

An event holds the noise and the *two* bounds of a query, not a noise multiplier for one
relation. So the same event can be accounted for under either neighbouring relation, and a
relation can never be mixed up silently (SPEC 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import lru_cache, partial
from itertools import groupby
from math import inf, isfinite
from typing import Any, Literal, TypeAlias, get_args

from stillspace import _checks
from stillspace._checks import checked_choice, described
from stillspace.exceptions import NotAccountedError

Relation: TypeAlias = _checks.Relation
RELATIONS = _checks.RELATIONS

SamplingName: TypeAlias = Literal["all", "poisson", "without-replacement", "with-replacement"]
SAMPLINGS: tuple[SamplingName, ...] = get_args(SamplingName)


def check_relation(relation: str) -> None:
    """Refuse a neighbouring relation that has no accountant."""
    checked_choice("neighboring_relation", relation, RELATIONS)


@lru_cache(maxsize=1024)
def _squared_ratio(sensitivity: float, sigma: float) -> Fraction:
    """Return the square of a sensitivity, rounded up, over σ: a release asks for it twice."""
    return (Fraction(sensitivity) * (1 + Fraction(1, 1 << 51)) / Fraction(sigma)) ** 2


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Gaussian noise of standard deviation `sigma` on a sum of bounded row terms.

    `norm_bound` bounds one term, `difference_bound` the difference of two terms; `slack` is
    what floating point and the lattice add to the sensitivity (SPEC 4 a, b). A person owns
    `rows_per_person` rows. `coordinates` normals were drawn, each by a sampler within
    `sampler_error` of the ideal law in total variation.
    """

    sigma: float
    norm_bound: float
    difference_bound: float
    slack: float = 0.0
    rows_per_person: int = 1
    sampling: SamplingName = "all"
    rate: float = 1.0
    """Poisson: the probability q of a row."""
    batch_size: int = 0
    """Fixed size: rows drawn in a step."""
    population: int = 0
    """Fixed size: rows drawn from."""
    coordinates: int = 0
    sampler_error: float = 0.0
    ceiling: bool = False
    """Whether this stands for releases chosen one after another from earlier ones, whose Σμ² never
    passes that of this one release (SPEC 4; docs/privacy.md)."""

    def __post_init__(self) -> None:
        for name in ("sigma", "norm_bound", "difference_bound", "slack", "sampler_error"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value!r}; it must be finite and not negative.")
        if self.rows_per_person < 1:
            raise ValueError(f"rows_per_person is {self.rows_per_person}; it must be at least 1.")
        if self.coordinates < 0:
            raise ValueError(f"coordinates is {self.coordinates}; it must not be negative.")
        if not (isinstance(self.sampling, str) and self.sampling in SAMPLINGS):
            checked_choice("sampling", self.sampling, SAMPLINGS)
        if self.sampling == "poisson" and not 0 <= self.rate <= 1:
            raise ValueError(f"rate is {self.rate!r}; a probability lies between 0 and 1.")
        if self.sampling.endswith("replacement"):
            self._check_fixed_size()
        if self.ceiling and self.sampling != "all":
            raise ValueError("a ceiling of chosen releases is proved for full batches only.")

    def _check_fixed_size(self) -> None:
        if self.population < 1 or self.batch_size < 1:
            raise ValueError(
                f"{self.sampling} draws {self.batch_size} of {self.population} rows; "
                "batch_size and population must be at least 1."
            )
        if self.sampling == "without-replacement" and self.batch_size > self.population:
            raise ValueError(
                f"batch_size is {self.batch_size}, more than the {self.population} rows that "
                "sampling without replacement can draw."
            )

    def sensitivity(self, relation: Relation) -> float:
        """Return the largest change of the sum that one person can cause.

        Full batch: of the whole sum. Poisson: of the sum when the row is drawn against the sum
        without it (the accountant's unit; SPEC 4, "pair ±1"). Fixed size: of the sum when one
        drawn row is another row.
        """
        if not (isinstance(relation, str) and relation in RELATIONS):
            check_relation(relation)
        if self.sampling == "poisson":
            return self.norm_bound + self.slack
        fixed_size = self.sampling != "all"
        one = self.difference_bound if relation == "replace-one" or fixed_size else self.norm_bound
        return self.rows_per_person * one + self.slack

    def noise_multiplier(self, relation: Relation) -> float:
        """Return `z = sigma / sensitivity`; infinite when nobody can change the sum."""
        sensitivity = self.sensitivity(relation)
        return self.sigma / sensitivity if sensitivity > 0 else inf

    def squared_mu(self, relation: Relation) -> Fraction:
        """Return (sensitivity/σ)², not below the exact value: the sensitivity was rounded twice."""
        sensitivity = self.sensitivity(relation)
        if sensitivity == 0:
            return Fraction(0)
        if self.sigma == 0:
            raise NotAccountedError("a ledger takes private fits only: a release has no noise.")
        return _squared_ratio(sensitivity, self.sigma)

    @property
    def inexact_draws(self) -> int:
        """How many draws have the `sampler_error`: the normals, and the count of a Poisson batch.

        The rows of a batch are drawn exactly, once their number is known.
        """
        return self.coordinates + (self.sampling == "poisson")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "gaussian", **{k: _plain(v) for k, v in asdict(self).items()}}


@dataclass(frozen=True, slots=True)
class NonPrivateEvent:
    """A look at the rows that no accountant covers, with the reason."""

    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "not private", "reason": self.reason}


@dataclass(frozen=True, slots=True)
class TestedEvent:
    """A mechanism known by one pair (ε, δ) alone: propose-test-release. Composes with nothing."""

    __test__ = False  # pytest: not a test class
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0 and 0 < self.delta < 1):
            raise ValueError(
                f"epsilon is {self.epsilon!r} and delta {self.delta!r}; epsilon must be positive, "
                "delta between 0 and 1."
            )

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "tested", "epsilon": float(self.epsilon), "delta": float(self.delta)}


SingleEvent: TypeAlias = GaussianEvent | NonPrivateEvent | TestedEvent


@dataclass(frozen=True, slots=True)
class ComposedEvent:
    """Events in the order in which they ran, equal neighbours counted together."""

    parts: tuple[tuple[SingleEvent, int], ...] = ()

    def __post_init__(self) -> None:
        for event, count in self.parts:
            # A negative count would subtract privacy loss: the one lie a ledger must not hold.
            if count < 0:
                raise ValueError(f"{type(event).__name__} is counted {count} times.")
        people = self._rows_per_person()
        if len(people) > 1:
            raise ValueError(
                f"events for people with {' and '.join(map(str, sorted(people)))} rows cannot be "
                "composed: a guarantee protects people with one number of rows; use one "
                "rows_per_person for all releases."
            )

    def _rows_per_person(self) -> set[int]:
        """Return the numbers of rows of a person that these events protect."""
        found: set[int] = set()
        for event, count in self.parts:
            if count and not isinstance(event, NonPrivateEvent):
                found.add(event.rows_per_person if isinstance(event, GaussianEvent) else 1)
        return found

    @property
    def rows_per_person(self) -> int:
        """The number of rows of one person that are protected together."""
        return next(iter(self._rows_per_person()), 1)

    @classmethod
    def of(cls, events: Iterable[SingleEvent]) -> ComposedEvent:
        return cls(tuple([(event, len(list(run))) for event, run in groupby(events)]))

    def __iter__(self) -> Iterator[tuple[SingleEvent, int]]:
        return iter(self.parts)

    def __add__(self, other: ComposedEvent) -> ComposedEvent:
        return ComposedEvent.merge((*self.parts, *other.parts))

    @classmethod
    def merge(cls, parts: Iterable[tuple[SingleEvent, int]]) -> ComposedEvent:
        """Compose counted events in order, joining equal neighbours."""
        joined: list[tuple[SingleEvent, int]] = []
        for event, count in parts:
            if count == 0:
                continue
            if joined and joined[-1][0] == event:
                joined[-1] = (event, joined[-1][1] + count)
            else:
                joined.append((event, count))
        return cls(tuple(joined))

    @property
    def non_private_reasons(self) -> tuple[str, ...]:
        """Why parts of this event have no guarantee, each reason once."""
        found = (e.reason for e, count in self if isinstance(e, NonPrivateEvent) and count)
        return tuple(dict.fromkeys(found))

    @property
    def sampler_error(self) -> float:
        """Total-variation error of all normals and counts drawn (SPEC 4, "Noise")."""
        return sum(
            e.inexact_draws * e.sampler_error * count
            for e, count in self
            if type(e) is GaussianEvent
        )

    def to_dict(self) -> dict[str, Any]:
        return {"parts": [{**event.to_dict(), "count": int(count)} for event, count in self]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ComposedEvent:
        """Read what `to_dict` wrote, checking every field again."""
        parts = of_type(list, stored["parts"])
        return cls(tuple((_event_from(part), _whole(part["count"])) for part in parts))


NOTHING = ComposedEvent()
"""The event of what reads no row."""


def _plain(value: Any) -> Any:
    """Return numpy scalars as Python's own, which json can write."""
    return value.item() if hasattr(value, "item") else value


def of_type(kind: type, value: Any) -> Any:
    """Return a stored value of exactly this type: no text for a number, no bool for an integer."""
    if type(value) is not kind:
        raise TypeError(f"a stored value is a {type(value).__name__}, not a {kind.__name__}")
    return value


def _whole(value: Any) -> int:
    """Return a stored count; no run has 2⁴⁰ steps, rows or coordinates."""
    if not 0 <= of_type(int, value) <= 1 << 40:
        raise ValueError("a stored count is negative or above 2**40")
    return int(value)


def real(value: Any) -> float:
    """Return a stored number; JSON writers may leave the point out."""
    return float(value if type(value) is int else of_type(float, value))


_READ: dict[str, Callable[[Any], Any]] = {
    "float": real,
    "int": _whole,
    "bool": partial(of_type, bool),
    "SamplingName": partial(of_type, str),
}
"""How a field of a `GaussianEvent` is read, by its annotation."""


def _event_from(stored: Mapping[str, Any]) -> SingleEvent:
    kind = stored["kind"]
    if kind == "not private":
        return NonPrivateEvent(of_type(str, stored["reason"]))
    if kind == "tested":
        return TestedEvent(real(stored["epsilon"]), real(stored["delta"]))
    if kind != "gaussian":
        raise ValueError(f"an event of kind {described(kind)} is not known to this version.")
    names = {f.name for f in fields(GaussianEvent)}
    unknown = set(stored) - names - {"kind", "count"}
    if unknown:
        # A field that we do not know may weaken the guarantee: better no number than a wrong one.
        raise ValueError(f"the stored event has unknown fields: {', '.join(sorted(unknown))}.")
    read = {f.name: _READ[str(f.type)] for f in fields(GaussianEvent)}
    return GaussianEvent(**{k: read[k](v) for k, v in stored.items() if k in names})
