"""A private fit as stages: a centre or a cut of pairs, fewer columns, the subspace, summaries.

There is one total, fixed before the first. Each stage but the subspace's takes a fixed share of μ²;
the subspace's plan is calibrated on what is left, composed with the others as they will run (SPEC
5). The event of all stages together is known, and charged, before a row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.median import PrivateMedian
from stillspace.methods.pair_lengths import PairCut, holds_subspace
from stillspace.methods.spectrum import count_components
from stillspace.narrowing import Narrowing
from stillspace.parts.queries import DistanceCounts, Query, ScoreSquares, SecondMoment
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Method
from stillspace.plans.fixed import MomentStart
from stillspace.plans.release import Ledger, Release
from stillspace.privacy import ComposedEvent, mu_from_budget
from stillspace.privacy.events import NOTHING
from stillspace.ptr import PtrPlan, run_ptr
from stillspace.recipes import Facts, make_plan
from stillspace.recipes.facts import AnyPlan
from stillspace.rows import MemoryRows, Rows
from stillspace.run import Result, run

CENTER_SHARE = 0.1
NARROW_SHARE = 0.35
"""Of the second moment whose leading eigenvectors wide rows are narrowed to (docs/wide.md)."""
SUMMARY_SHARE = 0.05
LENGTHS_SHARE, CHECK_SHARE = 0.03, 0.02
"""Of the cut between short and long pairs: the counts of lengths, the second moment that tells
whether the cut is taken."""

EDGES: tuple[float, ...] = tuple(float(edge) for edge in np.geomspace(1e-4, 0.98, 80))
"""Public bins of the orthogonal distance of a row on the unit sphere: 12 % wide."""


def _variances(facts: Facts) -> Query:
    return ScoreSquares(facts.D, facts.r)


def _distances(facts: Facts) -> Query:
    return DistanceCounts(facts.D, facts.r, EDGES)


SUMMARIES: Mapping[str, Callable[[Facts], Query]] = {
    "variances": _variances,
    "distances": _distances,
}


@dataclass(frozen=True, slots=True)
class CutStage:
    """A cut between short and long pairs, and a look at whether the short ones hold a subspace."""

    lengths: AdaptivePlan
    check: Release

    def event(self) -> ComposedEvent:
        """Return the event of both releases; the second is made whatever the first tells."""
        return self.lengths.event() + ComposedEvent.of([self.check.event(0)])


@dataclass(frozen=True, slots=True)
class Stages:
    """Everything that a private fit will do with the rows."""

    main: AnyPlan
    median: AdaptivePlan | None = None
    cut: CutStage | None = None
    narrowing: Narrowing | None = None
    summaries: tuple[tuple[str, Release], ...] = ()
    choose_components: bool = False

    @property
    def several(self) -> bool:
        """Whether there is more than the subspace's stage."""
        first = (self.median, self.cut, self.narrowing)
        return any(stage is not None for stage in first) or bool(self.summaries)

    @property
    def first(self) -> ComposedEvent:
        """The event of what runs before the subspace's plan."""
        return _first(self.median, self.cut, self.narrowing)

    def event(self) -> ComposedEvent:
        """Return the event of all stages, in the order in which they run."""
        summaries = ComposedEvent.of(release.event(0) for _, release in self.summaries)
        return self.first + self.main.event() + summaries

    def find_center(self, rows: Rows, rng: np.random.Generator) -> Result:
        """Run the first stage, on rows in units of twice the public radius."""
        assert self.median is not None
        return run(self.median, rows, rng)

    def leave_out(
        self, rows: MemoryRows, rng: np.random.Generator
    ) -> tuple[MemoryRows, float | None, ComposedEvent]:
        """Return the rows without long pairs, the length they were cut at, and what ran.

        All rows and None where the releases do not show that a cut helps.
        """
        if self.cut is None:
            return rows, None, NOTHING
        found = run(self.cut.lengths, rows.measured(), rng)
        length, check, ledger = float(found.V), self.cut.check, Ledger()
        short = rows.shorter(length) if length < inf else rows
        draw = check.draw(0, rows.n_rows, rng, ledger)
        moment = check.apply(short, np.empty((0, 0)), draw)
        ran = found.event + ComposedEvent.of(ledger.events)
        r, sd = self.main.n_components, draw.sigma / check.size
        if length < inf and holds_subspace(moment, sd, r, choose=self.choose_components):
            return short, length, ran
        return rows, None, ran

    def find_subspace(self, rows: MemoryRows, rng: np.random.Generator) -> Result:
        """Run the main stage, on fewer columns of wide rows."""
        if self.narrowing is None:
            return self._run_main(rows, rng)
        basis, moment, event = self.narrowing.find(rows, rng)
        result = self._run_main(rows.projected(basis), rng)
        result = replace(result, n_iter=1 + result.n_iter, event=event + result.event)
        return self.narrowing.widened(result, basis, moment)

    def _run_main(self, rows: MemoryRows, rng: np.random.Generator) -> Result:
        """Run the plan; where PCA is to choose the number of components, it does so now."""
        if isinstance(self.main, PtrPlan):
            return run_ptr(self.main, rows, rng)
        result = run(self.main, rows, rng)
        if not self.choose_components or isinstance(self.main, AdaptivePlan):
            return result
        assert isinstance(self.main.start, MomentStart)
        assert result.moment is not None
        release = self.main.start.release
        sd = release.sigma(0) / release.size
        r = count_components(result.moment, sd, self.main.n_components)
        return replace(result, V=result.V[:, :r])

    def summarize(
        self, rows: Rows, V: FloatArray, rng: np.random.Generator
    ) -> tuple[dict[str, FloatArray], ComposedEvent]:
        """Release the summaries at V (whose columns are the components); also what ran.

        Where fewer components were chosen than planned for, zero columns stand in for the rest.
        """
        ledger, found = Ledger(), {}
        point = np.zeros((len(V), self.main.n_components))
        point[:, : V.shape[1]] = V
        for name, release in self.summaries:
            draw = release.draw(0, rows.n_rows, rng, ledger)
            found[name] = release.apply(rows, point, draw)
        return found, ComposedEvent.of(ledger.events)


def plan_stages(
    algorithm: str,
    facts: Facts,
    options: Mapping[str, Any],
    *,
    median: bool = False,
    cut: bool = False,
    narrowed: int | None = None,
    summaries: tuple[str, ...] = (),
) -> Stages:
    """Return the stages of a private fit, calibrated together to the budget of `facts`.

    With `narrowed` the subspace's plan sees that many columns, chosen by a stage of their own.
    """
    assert facts.epsilon is not None
    assert facts.delta is not None
    if not median and not cut and narrowed is None and not summaries:
        main = make_plan(algorithm, facts, **options)
        return Stages(main, choose_components=facts.choose_components)
    mu = mu_from_budget(facts.epsilon, facts.delta)
    allowance = Allowance(mu, facts.n, facts.relation, facts.rows_per_person)

    def plan(name: str, method: Method, share: float) -> AdaptivePlan:
        limit = mu * sqrt(share)
        return AdaptivePlan(name, method, facts.n, facts.relation, facts.rows_per_person, mu=limit)

    def release(query: Query, share: float) -> Release:
        return allowance.release(query).within(mu * sqrt(share))

    center = plan("median", PrivateMedian(facts.D), CENTER_SHARE) if median else None
    cutting = narrowing = None
    if cut:
        lengths = plan("lengths", PairCut(), LENGTHS_SHARE)
        cutting = CutStage(lengths, release(SecondMoment(facts.D), CHECK_SHARE))
    if narrowed is not None:
        narrowing = Narrowing(release(SecondMoment(facts.D), NARROW_SHARE), narrowed)
    releases = tuple((name, release(SUMMARIES[name](facts), SUMMARY_SHARE)) for name in summaries)
    beside = _first(center, cutting, narrowing)
    beside += ComposedEvent.of(summary.event(0) for _, summary in releases)
    seen = facts if narrowed is None else replace(facts, D=narrowed)
    main = make_plan(algorithm, seen, beside=beside, **options)
    return Stages(main, center, cutting, narrowing, releases, facts.choose_components)


def _first(
    median: AdaptivePlan | None, cut: CutStage | None, narrowing: Narrowing | None
) -> ComposedEvent:
    """Return the event of what runs before the subspace's plan."""
    events = [stage.event() for stage in (median, cut, narrowing) if stage is not None]
    return sum(events, NOTHING)


def distance_quantiles(counts: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles of the orthogonal distance from noisy counts (or shares) of `EDGES`' bins.

    Post-processing: negative counts become 0; inside a bin the distance is interpolated.
    """
    cleaned = np.maximum(counts, 0.0)
    total = cleaned.sum()
    if total <= 0.0:
        return np.full(len(levels), np.nan)
    cumulative = np.concatenate([[0.0], np.cumsum(cleaned) / total])
    return np.asarray(np.interp(levels, cumulative, [0.0, *EDGES, 1.0]))
