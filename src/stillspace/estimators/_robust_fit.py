"""How a robust fit runs: search on a sample, run on all rows, fill missing cells and go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.estimators._sampling import (
    Sample,
    Start,
    Variances,
    counted,
    profiled,
    sampled,
    searched,
    variances,
)
from stillspace.methods.orientation import oriented
from stillspace.parts.queries import ScoreMoment
from stillspace.parts.stops import Converged
from stillspace.plans.fixed import GivenStart, MomentStart, Plan
from stillspace.plans.release import Draw, Release
from stillspace.privacy import ComposedEvent
from stillspace.recipes import Facts, fixed_plan
from stillspace.rows import MemoryRows
from stillspace.run import Result, run
from stillspace.search import DimensionProfile, recentred
from stillspace.search.candidates import Loss
from stillspace.search.missing import RULE as MISSING
from stillspace.search.missing import filled_by_neighbours, filled_from_subspace

COST_PART = 1e-2
"""A fit ends where its cost falls per pass by less than this part of what sampling n rows adds to
it, which is about r(D − r)/n of the cost."""

_RANK_TOL = 2.0**-40
"""Singular values below this part of the largest cell are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What to fit."""

    algorithm: str
    r: int
    loss: Loss
    center: FloatArray | str | None
    scale: FloatArray | str | None
    options: dict[str, Any]
    missing: float | None
    auto: bool
    """Whether r is to be found."""


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """What was fitted."""

    result: Result
    plan: Plan
    center: FloatArray
    scale: FloatArray
    start: Start | None
    profile: DimensionProfile | None
    rank: int
    X: Any
    counts: npt.NDArray[np.bool_]
    missing: float | None

    def variances(self, components: FloatArray) -> Variances:
        """Return the variances of the rows that counted."""
        fit = (components, self.center, self.scale)
        return variances(self.X, self.counts, fit, self.missing, np.random.default_rng(0))


def fitted(task: Task, X: Any, rng: np.random.Generator, search_rng: np.random.Generator) -> Done:
    """Fit complete rows: search on a sample, then run on all rows."""
    n, D = X.shape
    options, center, scale, r = task.options, task.center, task.scale, task.r
    searching = task.algorithm == "auto" and "start" not in options
    sample = profile = start = None
    rank = D
    if searching or isinstance(center, str) or isinstance(scale, str):
        sample = sampled(X, scale, task.missing, search_rng)
        rank = _checked_rank(sample, center)
        scale = None if scale is None else sample.unit
    assert not isinstance(scale, str)
    if task.auto:
        profile = profiled(X, center, task.loss, scale, task.missing, search_rng)
        r = profile.n_components
    if sample is not None and (searching or isinstance(center, str)):
        start = searched(sample, r, task.loss, center, search_rng)
        center = start.center if isinstance(center, str) else center
    assert not isinstance(center, str)
    rows = MemoryRows.prepare(X, center=center, scale=scale, missing=task.missing)
    unit = np.ones(D) if scale is None else scale
    counts = np.ones(n, dtype=bool)
    if searching and start is not None:
        counts = counted(X, rows, start, unit, task.missing)
        options = {**start.options(), **options}
    plan = fixed_plan(task.algorithm, Facts(n, D, r), **options)
    if task.algorithm == "auto":
        plan = _patient(plan, n, D, options)
    some = rows if counts.all() else rows.only(counts)
    result = _run(plan, some, rng)
    if _cut(plan) < 1.0:
        counts = counts & (rows.distances(result.V) < _cut(plan))
    where = np.zeros(D) if center is None else center
    kept = start if searching else None
    return Done(result, plan, where, unit, kept, profile, rank, X, counts, task.missing)


def fitted_with_holes(
    task: Task,
    X: FloatArray,
    holes: npt.NDArray[np.bool_],
    rng: np.random.Generator,
    search_rng: np.random.Generator,
) -> Done:
    """Fit rows with NaN: fill from rows alike, fit, then fill from the subspace and go on.

    Which rows count is decided once, at the first fit.
    """
    X = np.asarray(X, dtype=np.float64)
    if task.missing is not None:
        X = np.where(task.missing == X, np.nan, X)
        task, holes = replace(task, missing=None), np.isnan(X)
    done = fitted(task, filled_by_neighbours(X, search_rng), rng, search_rng)
    finding = isinstance(task.center, str)
    for _ in range(MISSING.rounds):
        V = done.result.V
        known = np.where(holes, np.nan, (X - done.center) / done.scale)
        components = oriented(V, done.result.moment)
        found = done.variances(components)
        about = filled_from_subspace(known, components.T, found.along, found.noise)
        center = done.center
        if finding and done.start is not None:
            reach = done.start.best.reach
            shift = recentred(about[done.counts], np.zeros(len(center)), V, reach)
            center = center + shift * done.scale
        filled = np.where(holes, about * done.scale + done.center, X)
        rows = MemoryRows.prepare(filled, center=center, scale=done.scale).only(done.counts)
        plan = replace(done.plan, start=GivenStart.from_basis(V))
        done = replace(done, X=filled, center=center, result=_run(plan, rows, rng))
    return done


def _checked_rank(sample: Sample, center: FloatArray | str | None) -> int:
    """Return how many dimensions the sampled rows span about the centre; 0 is refused."""
    few = sample.few() if isinstance(center, str) else sample.few() - sample.inside(center)
    rank = int(np.linalg.matrix_rank(few, tol=_RANK_TOL * float(np.abs(few).max(initial=0.0))))
    if rank == 0 and not np.ptp(sample.rows, axis=0).any():
        msg = "All rows of X are equal: they have no direction."
        raise ValueError(msg)
    return rank


def shifted_center(center: FloatArray | None, offset: FloatArray, exponent: int) -> FloatArray:
    """Return a centre in the units of shifted rows."""
    where = np.zeros_like(offset) if center is None else center
    return np.asarray(np.ldexp(where - offset, -exponent))


def _patient(plan: Plan, n: int, D: int, options: dict[str, Any]) -> Plan:
    """Return the plan with a stop where the cost falls by less than its sampling error hides.

    Only where nobody asked for a tolerance.
    """
    if not isinstance(plan.stop, Converged) or options.get("tol") is not None:
        return plan
    r = plan.n_components
    hidden = COST_PART * r * (D - r) / n
    return replace(plan, stop=replace(plan.stop, cost_tol=max(plan.stop.cost_tol, hidden)))


def _cut(plan: Plan) -> float:
    """Return the distance on the sphere up to which rows counted."""
    return float(getattr(plan.release.query, "cut", np.inf)) if plan.release else np.inf


def _run(plan: Plan, rows: MemoryRows, rng: np.random.Generator) -> Result:
    return _exactly_oriented(run(plan, rows, rng), plan, rows)


def _exactly_oriented(result: Result, plan: Plan, rows: MemoryRows) -> Result:
    """Return the result with the second moment of all rows' scores where the start had none of it.

    Otherwise the axes inside the subspace would be those of a sample, or of nothing.
    """
    if isinstance(plan.start, MomentStart) or not isinstance(plan.stop, Converged):
        return result
    D, r = result.V.shape
    release = Release(ScoreMoment(D, r), rows.n_rows, z=0.0)
    moment = release.apply(rows, result.V, Draw(None, None, 0.0))
    return replace(result, moment=moment, event=result.event + ComposedEvent.of([release.event(0)]))
