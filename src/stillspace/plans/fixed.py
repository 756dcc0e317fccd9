"""A `Plan`: the paper's loops as data, made of parts; and a `Reading`, a single release."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from stillspace.exceptions import NotAccountedError
from stillspace.parts.geometry import Geometry
from stillspace.parts.outputs import Last, Output
from stillspace.parts.sampling import All, Poisson
from stillspace.parts.schedules import Constant, Schedule
from stillspace.parts.stops import Never, Stop
from stillspace.plans.release import Release
from stillspace.plans.starts import (
    ExponentialStart,
    GivenStart,
    MomentStart,
    PaperMatrixStart,
    RandomStart,
    RunStart,
    Start,
    WishartStart,
)
from stillspace.privacy import (
    ComposedEvent,
    GaussianCurve,
    calibrate,
    full_batch_mu,
    mu_from_budget,
)
from stillspace.privacy.events import NOTHING, Relation
from stillspace.rows.maps import SPHERE, View


def fingerprint(plan: Any) -> str:
    """Return a short name of a plan that no other plan has: a hash of all its public facts."""
    return hashlib.sha256(repr(plan).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Plan:
    """Start, release, geometry, schedule, number of iterations, stop rule and output rule.

    Everything here is public. `n_iter == 0` returns the start (PCA).
    """

    name: str
    start: Start
    release: Release | None
    geometry: Geometry
    n_components: int
    n_iter: int = 0
    schedule: Schedule = Constant()
    stop: Stop = Never()
    output: Output = Last()

    def __post_init__(self) -> None:
        if self.n_iter < 0 or (self.n_iter > 0 and self.release is None):
            msg = f"A plan of {self.n_iter} iterations needs n_iter >= 0 and a release to iterate."
            raise ValueError(msg)
        release = self.release
        if release is None:
            return
        if release.noisy and not isinstance(self.stop, Never):
            msg = (
                "A run with noise has a public number of iterations: "
                f"the stop rule {self.stop} would depend on the rows; use Never()."
            )
            raise ValueError(msg)
        planned = getattr(self.schedule, "n_iter", self.n_iter)
        if planned != self.n_iter:
            msg = f"The schedule is made for {planned} iterations, the plan has {self.n_iter}."
            raise ValueError(msg)
        if isinstance(release.z, tuple) and len(release.z) != self.n_iter:
            msg = f"z has {len(release.z)} entries for {self.n_iter} iterations; give one each."
            raise ValueError(msg)
        if len({(r.relation, r.size, r.rows_per_person) for r in self.releases()}) > 1:
            msg = (
                "All releases of a plan must use one neighbouring relation, one public size and "
                "one number of rows per person."
            )
            raise ValueError(msg)

    @property
    def relation(self) -> Relation:
        return next((r.relation for r in self.releases()), "replace-one")

    @property
    def size(self) -> int:
        """The public number of rows of every release; 0 if there is none."""
        return next((r.size for r in self.releases()), 0)

    @property
    def n_columns(self) -> int:
        """Number of columns of the rows; 0 if nothing is released."""
        return next((r.query.D for r in self.releases()), 0)

    @property
    def rows_per_person(self) -> int:
        return next((r.rows_per_person for r in self.releases()), 1)

    @property
    def view(self) -> View:
        return SPHERE

    def event(self) -> ComposedEvent:
        """Return everything that a run of this plan does with the rows."""
        release, steps = self.release, ComposedEvent()
        if release is not None and self.n_iter > 0:
            if isinstance(release.z, tuple):
                steps = ComposedEvent.of(map(release.event, range(self.n_iter)))
            else:
                steps = ComposedEvent(((release.event(0), self.n_iter),))
        return self.start.event() + steps

    def calibrate(self, epsilon: float, delta: float, *, beside: ComposedEvent = NOTHING) -> Plan:
        """Return this plan with the least noise that, composed with `beside`, gives (ε, δ).

        The start gets `μ_start = √share · μ(ε, δ)`; the loop is calibrated on what is left,
        composed with the start as it will run (SPEC 5). Noise that varies over the iterations
        keeps its proportions: one scale is found.
        """
        start = self._calibrated_start(epsilon, delta, beside)
        if self.release is None or self.n_iter == 0:
            return replace(self, start=start)
        release = self.release

        varying = release.z if isinstance(release.z, tuple) else None

        def at(scale: float) -> Plan:
            z = scale if varying is None else tuple(scale * z for z in varying)
            return replace(self, start=start, release=replace(release, z=z))

        return at(calibrate(lambda z: at(z).event() + beside, self.relation, epsilon, delta))

    def _calibrated_start(self, epsilon: float, delta: float, beside: ComposedEvent) -> Start:
        start = self.start
        if not isinstance(start, MomentStart | RunStart):
            return start
        alone = self.n_iter == 0
        if not alone and start.share >= 1.0:
            msg = (
                f"The start's share of the budget is {start.share}, which leaves nothing for the "
                f"{self.n_iter} iterations; use a share below 1, such as 0.2."
            )
            raise ValueError(msg)
        left = mu_from_budget(epsilon, delta) ** 2 - full_batch_mu(beside, self.relation) ** 2
        mu = sqrt(start.share * max(left, 0.0))
        if isinstance(start, RunStart):
            if alone:
                return replace(start, plan=start.plan.calibrate(epsilon, delta, beside=beside))
            part = GaussianCurve(mu).get_epsilon(delta)
            return replace(start, plan=start.plan.calibrate(part, delta))
        if not start.release.noisy:
            msg = (
                "A start from plain PCA looks at the rows without noise, so no noise in the "
                "loop makes the plan private; use a private, random or given start."
            )
            raise NotAccountedError(msg)

        def at(z: float) -> MomentStart:
            return replace(start, release=replace(start.release, z=z))

        if alone:
            return at(calibrate(lambda z: at(z).event() + beside, self.relation, epsilon, delta))
        return at(1.0 / mu)  # rounding costs a hair more than μ: the loop is charged for it

    def within(self, mu: float) -> Plan:
        """Return this plan with just enough noise for its μ to be at most `mu`: PCA only."""
        if self.n_iter or not isinstance(self.start, MomentStart):
            msg = f"Only a plan of one release takes a share of a staged fit, not {self.name!r}."
            raise NotAccountedError(msg)
        return replace(self, start=replace(self.start, release=self.start.release.within(mu)))

    def releases(self) -> Iterator[Release]:
        """Yield the loop's release first, then those of the start."""
        if self.release is not None:
            yield self.release
        yield from self.start.releases()

    def showing_last(self) -> Plan:
        """Return the plan that gives back its last point."""
        return replace(self, output=Last())

    def in_words(self) -> str:
        return plan_in_words(self)


@dataclass(frozen=True, slots=True)
class Reading:
    """One release, at a point that earlier releases gave."""

    name: str
    release: Release

    @property
    def n_components(self) -> int:
        """A reading finds no subspace."""
        return 0

    @property
    def size(self) -> int:
        """The public number of rows."""
        return self.release.size

    @property
    def n_columns(self) -> int:
        return self.release.query.D

    @property
    def relation(self) -> Relation:
        return self.release.relation

    @property
    def rows_per_person(self) -> int:
        return self.release.rows_per_person

    @property
    def view(self) -> View:
        return SPHERE

    def event(self) -> ComposedEvent:
        return ComposedEvent.of([self.release.event(0)])

    def calibrate(
        self, epsilon: float, delta: float, *, beside: ComposedEvent = NOTHING
    ) -> Reading:
        """Return it with the least noise that, composed with `beside`, gives (ε, δ)."""

        def at(z: float) -> Reading:
            return replace(self, release=replace(self.release, z=z))

        return at(calibrate(lambda z: at(z).event() + beside, self.relation, epsilon, delta))

    def within(self, mu: float) -> Reading:
        """Return it with just enough noise for its μ to be at most `mu`."""
        return replace(self, release=self.release.within(mu))

    def releases(self) -> Iterator[Release]:
        yield self.release

    def showing_last(self) -> Reading:
        """Return this reading: it has one point."""
        return self

    def in_words(self) -> str:
        return f"{self.name}: the {self.release.query.name}{noise_in_words(self.release)}."


def plan_in_words(plan: Plan) -> str:
    """Return one or two sentences for people who have not read the paper."""
    if plan.release is None or plan.n_iter == 0:
        return f"{plan.name}: {_start(plan.start, alone=True)}."
    start = _start(plan.start, searched=plan.name == "auto")
    return (
        f"{plan.name}: {start}, then {_steps(plan)} with the "
        f"{plan.release.query.name} of {_rows(plan.release)}{noise_in_words(plan.release)}."
    )


def _steps(plan: Plan) -> str:
    bound = "" if isinstance(plan.stop, Never) else "up to "
    return f"{bound}{plan.n_iter} step{'s' if plan.n_iter > 1 else ''}"


_OTHER_STARTS: dict[type, str] = {
    GivenStart: "a given start",
    RandomStart: "a random start",
    PaperMatrixStart: "the paper's random matrix",
    WishartStart: "the Wishart mechanism of the paper, which is not private",
    ExponentialStart: "the exponential mechanism for PCA, by a sampler that is not proved",
}


def _start(start: Start, *, alone: bool = False, searched: bool = False) -> str:
    if isinstance(start, MomentStart):
        if not start.release.noisy:
            return "the second moment's top eigenvectors" if alone else "a start from PCA"
        noise = noise_in_words(start.release)
        if alone:
            return f"the top eigenvectors of the second moment of all rows{noise}"
        return f"a start from private PCA with {start.share:.0%} of the budget{noise}"
    if isinstance(start, RunStart):
        return (
            f"a start from {start.plan.name or 'another plan'} with {start.share:.0%} of the budget"
        )
    if isinstance(start, GivenStart) and searched:
        return "the best of several starts"
    return _OTHER_STARTS[type(start)]


def _rows(release: Release) -> str:
    sampling = release.sampling
    if isinstance(sampling, All):
        return "all rows"
    about = "about " if isinstance(sampling, Poisson) else ""
    return f"{about}{release.divisor:.4g} rows each, drawn by {sampling.name} sampling"


def noise_in_words(release: Release) -> str:
    """Return the noise on the released mean, in the unit of the scaled rows."""
    if not release.noisy:
        return ""
    return f" (noise {release.sigma(0) / release.divisor:.2g} on the mean)"
