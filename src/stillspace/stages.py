"""A private fit as stages: a centre, fewer columns, the subspace, summaries.

One total, fixed before the first.

Each stage but the subspace's takes a fixed share of μ²; the subspace's plan is calibrated on what
is left, composed with the others as they will run (SPEC 5). The event of all stages together is
known, and charged, before a row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.adaptive import AdaptivePlan, Allowance
from stillspace.median import PrivateMedian
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.queries import DistanceCounts, Query, ScoreSquares, SecondMoment
from stillspace.plan import MomentStart
from stillspace.privacy import ComposedEvent, mu_from_budget
from stillspace.privacy.events import NOTHING
from stillspace.ptr import PtrPlan, run_ptr
from stillspace.recipes import Facts, make_plan
from stillspace.recipes.facts import AnyPlan
from stillspace.release import Ledger, Release
from stillspace.rows import MemoryRows, Rows
from stillspace.run import Result, run
from stillspace.spectrum import Spectrum, count_components

CENTER_SHARE = 0.1
NARROW_SHARE = 0.35
"""Of the second moment whose leading eigenvectors wide rows are narrowed to (docs/wide.md)."""
SUMMARY_SHARE = 0.05

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
class Narrowing:
    """Fewer columns: a released second moment's leading eigenvectors, many more than components.

    Rows are projected to them and scaled to the sphere again, so that what is left of a row counts
    fully, and a later release has noise in `width` columns only. A projection that was released
    treats each row by itself, so the bounds of later releases hold as before (docs/privacy.md).
    """

    release: Release
    width: int

    def find(
        self, rows: Rows, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, ComposedEvent]:
        """Return the basis (D, width), the released second moment, and what ran."""
        ledger = Ledger()
        draw = self.release.draw(0, rows.n_rows, rng, ledger)
        moment = self.release.apply(rows, np.empty((0, 0)), draw)
        basis = top_eigenvectors(moment, self.width)
        return basis, moment, ComposedEvent.of(ledger.events)

    def widened(self, result: Result, basis: FloatArray, moment: FloatArray) -> Result:
        """Return a result of narrowed rows in all columns.

        To its error estimate is added what the projection lost, as far as noise goes.
        """
        V = result.V
        worst = V.shape[1] * pi**2 / 4.0
        inside = result.moment
        if inside is not None and len(inside) != V.shape[1]:
            inside = V.T @ inside @ V
        facts = dict(result.facts)
        if "error_estimate" in facts:
            sd = self.release.sigma(0) / self.release.size
            lost = Spectrum.of(moment, sd, V.shape[1], kept=self.width).pca_error
            facts["error_estimate"] = float(np.minimum(facts["error_estimate"] + lost, worst))
        return replace(result, V=basis @ V, moment=inside, facts=facts)


@dataclass(frozen=True, slots=True)
class Stages:
    """Everything that a private fit will do with the rows."""

    main: AnyPlan
    median: AdaptivePlan | None = None
    narrowing: Narrowing | None = None
    summaries: tuple[tuple[str, Release], ...] = ()
    choose_components: bool = False

    @property
    def several(self) -> bool:
        """Whether there is more than the subspace's stage."""
        return self.median is not None or self.narrowing is not None or bool(self.summaries)

    def event(self) -> ComposedEvent:
        """Return the event of all stages, in the order in which they run."""
        median = NOTHING if self.median is None else self.median.event()
        first = () if self.narrowing is None else (self.narrowing.release.event(0),)
        summaries = ComposedEvent.of(release.event(0) for _, release in self.summaries)
        return median + ComposedEvent.of(first) + self.main.event() + summaries

    def find_center(self, rows: Rows, rng: np.random.Generator) -> Result:
        """Run the first stage, on rows in units of twice the public radius."""
        assert self.median is not None
        return run(self.median, rows, rng)

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
    narrowed: int | None = None,
    summaries: tuple[str, ...] = (),
) -> Stages:
    """Return the stages of a private fit, calibrated together to the budget of `facts`.

    With `narrowed` the subspace's plan sees that many columns, chosen by a stage of their own.
    """
    assert facts.epsilon is not None
    assert facts.delta is not None
    if not median and narrowed is None and not summaries:
        main = make_plan(algorithm, facts, **options)
        return Stages(main, choose_components=facts.choose_components)
    mu = mu_from_budget(facts.epsilon, facts.delta)
    allowance = Allowance(mu, facts.n, facts.relation, facts.rows_per_person)
    center = None
    if median:
        method = PrivateMedian(facts.D)
        center = AdaptivePlan(
            "median",
            method,
            facts.n,
            facts.relation,
            facts.rows_per_person,
            mu=mu * sqrt(CENTER_SHARE),
        )
    narrowing = None
    if narrowed is not None:
        look = allowance.release(SecondMoment(facts.D)).within(mu * sqrt(NARROW_SHARE))
        narrowing = Narrowing(look, narrowed)
    releases = tuple(
        (name, allowance.release(SUMMARIES[name](facts)).within(mu * sqrt(SUMMARY_SHARE)))
        for name in summaries
    )
    beside = NOTHING if center is None else center.event()
    fixed = [release for _, release in releases]
    if narrowing is not None:
        fixed.append(narrowing.release)
    beside += ComposedEvent.of(release.event(0) for release in fixed)
    seen = facts if narrowed is None else replace(facts, D=narrowed)
    main = make_plan(algorithm, seen, beside=beside, **options)
    return Stages(main, center, narrowing, releases, facts.choose_components)


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
