"""A `Release`: how a plan reads rows, with the noise that hides one person.

In a private fit every release has noise but those inside propose-test-release, whose result leaves
the run through its own private test (`run/tested.py`). Compiled loops add the noise themselves
(`kernels/loops.py`), as `GaussianNoise.release` specifies; a test compares the two.

It has two halves. `draw` records its event in the ledger and then draws the selection and the
noise; `apply` reads the rows. The event that is recorded and the noise that is drawn come from
the same fields, so the claim and the run are one text.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import groupby, repeat
from math import inf, isinf, nextafter, sqrt
from typing import Any, NamedTuple

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.exceptions import NotAccountedError
from stillspace.parts.noise import SAMPLER_ERROR, GaussianNoise
from stillspace.parts.queries import UNIT_ROUNDOFF, Joint, Query
from stillspace.parts.sampling import All, Division, RowPart, Sampling, Selections
from stillspace.plans.ledger import ALL, Ledger
from stillspace.privacy.events import (
    GaussianEvent,
    NonPrivateEvent,
    Relation,
    SingleEvent,
)
from stillspace.rows.protocols import Adds
from stillspace.rows.sums import LOOP_CELLS, SHORTEST_JOB, STANDARD, loop_chain_length

ROW_MARGIN = 16
"""Under add-or-remove-one the true number of rows is secret. The floating-point slack and the
lattice's range are computed for up to this many times the public size (a stated assumption)."""

WORD_ERROR = 2.0**-70
"""What writing a job's sum as two whole numbers rounds off, in units of 1 to 2 norm bounds."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The secret randomness of one release: selected rows and lattice noise."""

    selection: IntArray | None
    noise: IntArray | None
    sigma: float


NO_DRAW = Draw(None, None, 0.0)
"""All rows, no noise."""


@dataclass(frozen=True, slots=True)
class Draws:
    """The secret randomness of successive releases, stacked."""

    selections: Selections | None
    noise: IntArray | None
    """Noise blocks, one per iteration. None if no iteration adds noise; an iteration without noise
    has a block of zeros."""
    sigmas: FloatArray

    def __len__(self) -> int:
        return len(self.sigmas)

    def __getitem__(self, i: int) -> Draw:
        selection = None if self.selections is None else self.selections[i]
        sigma = float(self.sigmas[i])
        noise = None if self.noise is None or sigma == 0.0 else self.noise[i]
        return Draw(selection, noise, sigma)

    def part(self, low: int, high: int) -> Draws:
        """Return the draws of iterations low…high−1 of these, as views."""
        selections = None if self.selections is None else self.selections.part(low, high)
        noise = None if self.noise is None else self.noise[low:high]
        return Draws(selections, noise, self.sigmas[low:high])


class _Bounds(NamedTuple):
    """All that the noise of a release depends on, but for σ and rounding."""

    norm_bound: float
    difference_bound: float
    noise: GaussianNoise
    sampling: Sampling
    relation: Relation
    rows_per_person: int

    def event(self, sigma: float, slack: float) -> GaussianEvent:
        return GaussianEvent(
            sigma=sigma,
            norm_bound=self.norm_bound,
            difference_bound=self.difference_bound,
            slack=slack,
            rows_per_person=self.rows_per_person,
            coordinates=self.noise.coordinates,
            sampler_error=SAMPLER_ERROR,
            **self.sampling.event_facts(),
        )


@lru_cache(maxsize=256)
def _unit(bounds: _Bounds) -> float:
    """Return the sensitivity of the sum under the release's own relation, rounding left out."""
    return bounds.event(1.0, 0.0).sensitivity(bounds.relation)


@lru_cache(maxsize=256)
def _least_noise(bounds: _Bounds, rounding: float, mu: float) -> tuple[float, float, GaussianEvent]:
    """Return a multiplier just large enough for μ to be at most `mu`, its unit, and the event.

    The slack of the lattice depends on σ and comes on top of the rounding of terms and sums. The
    passes of a fit ask for the same noise again and again.
    """
    limit, relation = Fraction(mu) ** 2, bounds.relation
    unit = _unit(bounds)
    z = (1.0 + (bounds.noise.slack(unit / mu) + rounding) / unit) / mu * (1.0 + 2.0**-50)
    for _ in range(64):
        sigma = z * unit
        found = bounds.event(sigma, bounds.noise.slack(sigma) + rounding)
        if found.squared_mu(relation) <= limit:
            return z, unit, found
        z = nextafter(z * (found.sensitivity(relation) / sigma / mu), inf) * (1.0 + 2.0**-50)
    msg = f"No noise brings a release within mu={mu!r}."
    raise ValueError(msg)


@dataclass(frozen=True)
class Release:
    """The noisy mean of a query over (some of) the rows.

    `size` is the public number of rows. `z` is the noise multiplier, σ = z · sensitivity on the
    sum: one number, or one per iteration; 0 means no noise, None not yet calibrated.
    """

    query: Query
    size: int
    z: float | tuple[float, ...] | None = None
    sampling: Sampling = ALL
    relation: Relation = "replace-one"
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if isinf(self.query.norm_bound) and self.z != 0.0:
            msg = (
                f"The terms of the {self.query.name} have no bound, so no noise hides one of them: "
                "use z=0.0 (not private), or a query with bounded terms such as Glad."
            )
            raise NotAccountedError(msg)
        population = getattr(self.sampling, "population", self.size)
        if population != self.size:
            msg = f"The sampling is from {population} rows, the release has {self.size}."
            raise ValueError(msg)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: a pickled plan is the same before and after it ran."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def divisor(self) -> float:
        """The public number that the sum is divided by; never the number of rows drawn."""
        return self.sampling.expected_size(self.size)

    @property
    def noisy(self) -> bool:
        """Whether noise is added (or will be, once calibrated)."""
        return self.z is None or bool(np.max(self.z) > 0.0)

    @property
    def rows_bound(self) -> int:
        """The number of rows up to which the floating-point bounds are computed."""
        return self.size * (1 if self.relation == "replace-one" else ROW_MARGIN)

    def sensitivity(self, relation: Relation | None = None) -> float:
        """Return the exact-arithmetic sensitivity of the sum, the unit of `z` (SPEC 4)."""
        if relation is None or relation == self.relation:
            return self.unit
        return self._bounds.event(1.0, 0.0).sensitivity(relation)

    @cached_property
    def unit(self) -> float:
        """The sensitivity under the release's own relation, the unit of `z`."""
        return _unit(self._bounds)

    def sigma(self, k: int) -> float:
        """Return the standard deviation of the noise on the sum in iteration k."""
        if self.z is None:
            msg = "This release has no noise multiplier yet: calibrate the plan first."
            raise ValueError(msg)
        z = self.z[k] if isinstance(self.z, tuple) else self.z
        return z * self.unit if z else 0.0

    def event(self, k: int) -> SingleEvent:
        """Return what an accountant must know of iteration k."""
        if isinf(self.query.norm_bound):
            return NonPrivateEvent(f"the terms of the {self.query.name} have no bound")
        sigma = self.sigma(k)
        if sigma not in self._events:
            self._events[sigma] = self._event_at(sigma)
        return self._events[sigma]

    def _event_at(self, sigma: float) -> SingleEvent:
        if sigma == 0.0:
            return NonPrivateEvent(f"the {self.query.name} is used without noise")
        self.query.noise.check_range(self.rows_bound * self.query.norm_bound, sigma)
        return self._bounds.event(sigma, self.query.noise.slack(sigma) + self.rounding)

    @cached_property
    def _events(self) -> dict[float, SingleEvent]:
        """The events that were computed so far, by the standard deviation of their noise."""
        return {}

    def within(self, mu: float) -> Release:
        """Return this release with just enough noise for its event's μ to be at most `mu`.

        What rounding adds to the sensitivity depends a little on the noise, so a few turns are
        needed; the last comparison is exact. Whoever records the event compares it once more.
        """
        bounds = self._bounds
        z, unit, event = _least_noise(bounds, self.rounding, mu)
        bounds.noise.check_range(self.rows_bound * bounds.norm_bound, event.sigma)
        found = object.__new__(type(self))
        # The fields, and what is known of them: of all that, events alone depend on z.
        found.__dict__.update(self.__dict__, z=z, unit=unit, _events={event.sigma: event})
        return found

    def draw(
        self,
        k: int,
        n_rows: int,
        rng: np.random.Generator,
        ledger: Ledger,
        division: Division | None = None,
    ) -> Draw:
        """Record iteration k in the ledger, then draw its selection and its noise.

        A part has the rows that the run's `division` gives it, in every iteration.
        """
        self._record(k, 1, n_rows, ledger)
        selections = self._selections(1, n_rows, rng, division)
        sigma = self.sigma(k)
        noise = None if sigma == 0.0 else self._noise(sigma, 1, rng)[0]
        return Draw(None if selections is None else selections[0], noise, sigma)

    def draws(
        self, first: int, count: int, n_rows: int, rng: np.random.Generator, ledger: Ledger
    ) -> Draws:
        """Record `count` iterations in the ledger, then draw their selections and noise.

        What is drawn for several iterations at once has the law of what is drawn one by one.
        """
        stretches = self._stretches(first, count)
        for k, length in stretches:
            self._record(k, length, n_rows, ledger)
        selections = self._selections(count, n_rows, rng, None)
        sigmas = [self.sigma(k) for k, _ in stretches]
        lengths = [length for _, length in stretches]
        noise = None
        if any(sigmas):
            parts = list(map(self._noise, sigmas, lengths, repeat(rng)))
            noise = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return Draws(selections, noise, np.repeat(np.array(sigmas), lengths))

    def _record(self, k: int, count: int, n_rows: int, ledger: Ledger) -> None:
        """Record iterations k…k + count − 1, which have the same noise."""
        if self.relation == "replace-one" and n_rows != self.size:
            msg = f"This release is planned for {self.size} rows; there are {n_rows}."
            raise ValueError(msg)
        ledger.record(self.event(k), count, self.sampling)

    def _selections(
        self, count: int, n_rows: int, rng: np.random.Generator, division: Division | None
    ) -> Selections | None:
        """Return which rows `count` iterations read; None means all of them."""
        if division is None or not isinstance(self.sampling, RowPart):
            return self.sampling.draws(n_rows, count, rng)
        numbers = division.numbers(self.sampling)
        every = numbers if count == 1 else np.tile(numbers, count)
        return Selections(np.arange(count + 1) * len(numbers), every)

    def apply(self, rows: Adds, point: FloatArray, draw: Draw) -> FloatArray:
        """Read the rows: the noisy sum, divided by the public divisor.

        NumPy's floating-point warnings are off: which of them appear depends on the rows.
        """
        with np.errstate(all="ignore"):
            return self.noisy_mean(rows.add(self.asked, point, draw.selection), draw)

    def noisy_mean(self, total: FloatArray, draw: Draw) -> FloatArray:
        """Return what is released of a sum."""
        if draw.noise is not None:
            total = self.query.noise.release(total, draw.noise, draw.sigma)
        return total / self.divisor

    def _stretches(self, first: int, count: int) -> list[tuple[int, int]]:
        """Return (first iteration, length) of the stretches of equal noise multipliers."""
        if not isinstance(self.z, tuple):
            return [(first, count)]
        z = self.z
        runs = (list(run) for _, run in groupby(range(first, first + count), lambda k: z[k]))
        return [(run[0], len(run)) for run in runs]

    def _noise(self, sigma: float, count: int, rng: np.random.Generator) -> IntArray:
        """Return `count` blocks of lattice noise."""
        if sigma == 0.0:
            return np.zeros((count, *self.query.noise.shape), dtype=np.int64)
        return self.query.noise.draws(sigma, count, rng)

    @cached_property
    def asked(self) -> Query:
        """The query as the rows are asked it: with more care for its sum if there are more rows.

        How many rows is public; see `Glad.for_rows`.
        """
        for_rows = getattr(self.query, "for_rows", None)
        found: Query = self.query if for_rows is None else for_rows(self.rows_bound)
        return found

    @cached_property
    def rounding(self) -> float:
        """What the rounding of terms and sums adds: the part of the slack without the lattice."""
        terms = 2.0 * self.rows_per_person * self.asked.term_error
        return 2.0 * self._summation_error() + terms

    def _summation_error(self) -> float:
        """Return how far rounding moves a computed sum.

        Rows are added in floating point inside jobs, and jobs exactly (docs/privacy.md, "Sums").
        The total is rounded twice at most. All rows count: if the order of the rows follows from
        their cells, one person's row may move all others to other jobs.
        """
        query, rows = self.asked, self.rows_bound
        bound, chain = query.norm_bound, STANDARD.chain
        if self.size * query.D <= LOOP_CELLS:
            chain = max(chain, loop_chain_length(rows))
        u = chain * UNIT_ROUNDOFF
        jobs = rows * (u / (1.0 - u) + getattr(query, "job_error", 0.0))
        jobs *= getattr(query, "summand_bound", bound)
        words = (rows // SHORTEST_JOB + 1) * WORD_ERROR * sqrt(query.noise.coordinates * 2)
        return jobs + bound * (2.0 * rows * UNIT_ROUNDOFF + 2.0 * words)

    @cached_property
    def _bounds(self) -> _Bounds:
        query = self.query
        bounds = query.norm_bound, query.difference_bound, query.noise
        return _Bounds(*bounds, self.sampling, self.relation, self.rows_per_person)


@dataclass(frozen=True, slots=True)
class JointRelease:
    """Several noisy means over the same rows at one point, read in one pass.

    Each has noise, bounds and an event of its own; together they are private as any releases one
    after another, so that no joint bound is needed.
    """

    releases: tuple[Release, ...]

    def __post_init__(self) -> None:
        if any(type(release.sampling) not in (All, RowPart) for release in self.releases):
            msg = "Releases are read in one pass only where each reads all rows, or one part."
            raise ValueError(msg)
        facts = {(r.relation, r.size, r.rows_per_person, r.sampling) for r in self.releases}
        if len(facts) != 1:
            msg = (
                "Releases of one pass must share a neighbouring relation, size, rows per person "
                "and the rows that they read."
            )
            raise ValueError(msg)

    def draw(
        self,
        n_rows: int,
        rng: np.random.Generator,
        ledger: Ledger,
        division: Division | None = None,
    ) -> tuple[Draw, ...]:
        """Record all of them in the ledger, then draw their noise."""
        return tuple([r.draw(0, n_rows, rng, ledger, division) for r in self.releases])

    def apply(self, rows: Adds, point: FloatArray, draws: tuple[Draw, ...]) -> list[FloatArray]:
        """Read the rows once: the noisy means, in the order of the releases."""
        queries, selection = tuple(release.asked for release in self.releases), draws[0].selection
        with np.errstate(all="ignore"):
            # Sums are made in units of the norm bound, so queries of one pass share it.
            if len(queries) > 1 and len({query.norm_bound for query in queries}) == 1:
                joint = Joint(queries)
                totals = joint.split(rows.add(joint, point, selection))
            else:
                totals = list(map(rows.add, queries, repeat(point), repeat(selection)))
            return [
                release.noisy_mean(total, draw)
                for release, total, draw in zip(self.releases, totals, draws, strict=True)
            ]
