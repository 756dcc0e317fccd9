"""How a robust fit runs: search on a sample, run on all rows, fill missing cells and go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.estimators._journal import robust_journal
from stillspace.estimators._sampling import (
    LARGEST_SQUARE,
    Sample,
    Start,
    Variances,
    counted,
    profiled,
    sampled,
    searched,
    solver_options,
    start_of,
    variances,
)
from stillspace.parts.geometry import TopEigenvectors, oriented
from stillspace.parts.queries import IrlsPower, ReweightedMoment
from stillspace.parts.stops import Converged, Never, Settled
from stillspace.plans.fixed import Plan
from stillspace.plans.starts import GivenStart, MomentStart
from stillspace.recipes import Facts, fixed_plan
from stillspace.rows import MemoryRows, Rows
from stillspace.run import Result, run
from stillspace.run.journal import Journal
from stillspace.run.observers import Observation, Witness
from stillspace.search import DimensionProfile, chosen, recentred
from stillspace.search.candidates import Loss
from stillspace.search.missing import RULE as MISSING
from stillspace.search.missing import filled_by_neighbours, filled_from_subspace

SLOW_PASSES = 5
"""After this many passes one step takes the reweighted second moment of all columns (D × D). Where
that costs more than the passes did, later: `_patience`."""

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
    journal: str | None = None
    """Where the passes over all rows are kept, if they are."""


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
    """Which rows counted, before the cut on the sphere."""
    missing: float | None
    journal: Journal | None = None

    def variances(self, components: FloatArray) -> Variances:
        """Return the variances of the rows that counted."""
        fit = (components, self.center, self.scale)
        return variances(self.X, self.counts, fit, _cut_distance(self.plan), self.missing)


def fitted(task: Task, X: Any, rng: np.random.Generator, search_rng: np.random.Generator) -> Done:
    """Fit complete rows: search on a sample, then run on all rows."""
    n, D = X.shape
    searching = task.algorithm == "auto" and "start" not in task.options
    center, scale, r, rank, profile, start = task.center, task.scale, task.r, D, None, None
    if searching or task.auto or isinstance(center, str) or isinstance(scale, str):
        sample = sampled(X, center, scale, task.missing, search_rng)
        rank = _checked_rank(sample)
        scale = None if scale is None else sample.unit
        if task.auto:
            profile = profiled(sample, center, task.loss, search_rng)
            r = profile.n_components
        if searching or isinstance(center, str):
            start = _started(replace(task, r=r), sample, rng, search_rng)
            center = start.center if isinstance(center, str) else center
    assert not isinstance(center, str)
    assert not isinstance(scale, str)
    rows = MemoryRows.prepare(X, center=center, scale=scale, missing=task.missing)
    unit = np.ones(D) if scale is None else scale
    counts, options = np.ones(n, dtype=bool), task.options
    if searching and start is not None:
        counts = counted(X, start, unit, task.missing)
        options = {**start.options(), **options}
    plan = fixed_plan(task.algorithm, Facts(n, D, r), **options)
    if task.algorithm == "auto":
        plan = _settling(plan, int(np.count_nonzero(counts)), options)
    some = rows if counts.all() else rows.only(counts)
    journal = robust_journal(task.journal, plan)
    result = _run(plan, some, rng, journal)
    where = np.zeros(D) if center is None else center
    kept = start if searching else None
    facts = (kept, profile, rank, X, counts, task.missing, journal)
    return Done(result, plan, where, unit, *facts)


def _started(
    task: Task, sample: Sample, rng: np.random.Generator, search_rng: np.random.Generator
) -> Start:
    """Search on a sample. All rows of a wide table are fitted in the space that they span, too."""
    found, counts = searched(sample, task.r, task.loss, task.center, search_rng)
    best = chosen(found.candidates)
    V = best.components.T
    if sample.space is not None and sample.whole and task.algorithm == "auto":
        rows = MemoryRows.prepare(sample.rows, center=found.center)
        options = {"start": V.T, **solver_options(best, found.floor), **task.options}
        n, k = sample.rows.shape
        plan = fixed_plan("auto", Facts(n, k, task.r), **options)
        plan = _settling(plan, int(np.count_nonzero(counts)), options)
        V = _run(plan, rows.only(counts), rng).V
    return start_of(sample, found, counts, V)


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
    rows = MemoryRows.prepare(done.X, center=done.center, scale=done.scale)
    near = rows.distances(done.result.V) < _cut_distance(done.plan)
    done = replace(done, counts=done.counts & near)
    finding = isinstance(task.center, str)
    for _ in range(MISSING.rounds):
        V = done.result.V
        known = np.where(holes, np.nan, (X - done.center) / done.scale)
        components = oriented(V, done.result.moment)
        found = done.variances(components)
        about = filled_from_subspace(known, components.T, found.along, found.noise)
        center = done.center
        if finding and done.start is not None:
            cut = done.start.best.cut
            shift = recentred(about[done.counts], np.zeros(len(center)), V, cut)
            center = center + shift * done.scale
        filled = np.where(holes, about * done.scale + done.center, X)
        rows = MemoryRows.prepare(filled, center=center, scale=done.scale).only(done.counts)
        plan = _from(done.plan, V)
        done = replace(done, X=filled, center=center, result=_run(plan, rows, rng, done.journal))
    return done


def _checked_rank(sample: Sample) -> int:
    """Return how many dimensions the sampled rows span about the middle; 0 is refused."""
    few = sample.few()
    largest = float(np.abs(few).max(initial=0.0))
    if sample.space is not None:
        rank = few.shape[1] if largest else 0
    elif np.linalg.eigvalsh(few.T @ few)[0] > _RANK_TOL * len(few) * largest**2:
        return int(few.shape[1])  # the usual case, and cheap
    else:
        rank = int(np.linalg.matrix_rank(few, tol=_RANK_TOL * largest))
    if rank == 0 and not np.ptp(sample.rows, axis=0).any():
        msg = "All rows of X are equal, so there is no direction to find; pass rows that differ."
        raise ValueError(msg)
    return rank


def shifted_center(center: FloatArray | None, offset: FloatArray, exponent: int) -> FloatArray:
    """Return a centre in the units of shifted rows."""
    where = np.zeros_like(offset) if center is None else center
    return np.asarray(np.ldexp(where - offset, -exponent))


def _settling(plan: Plan, n_rows: int, options: dict[str, Any]) -> Plan:
    """Return the plan with a stop where the gradient is below a part of its sampling error.

    Only where nobody asked for a tolerance.
    """
    if not isinstance(plan.stop, Converged) or options.get("tol") is not None:
        return plan
    return replace(plan, stop=Settled(plan.stop.tol, plan.stop.cost_tol, n_rows))


def _cut_distance(plan: Plan) -> float:
    """Return the distance on the sphere up to which rows counted."""
    return float(getattr(plan.release.query, "cut", np.inf)) if plan.release else np.inf


def _run(
    plan: Plan, rows: Rows, rng: np.random.Generator, journal: Journal | None = None
) -> Result:
    """Run a plan; the axes inside the subspace are those of the scores that its last pass saw.

    Reweighting solvers see them with weights, all others have a second moment from their start.
    """
    kept: list[Observation] = []

    def keep(observation: Observation) -> None:
        kept[:] = [observation]

    result = _in_turns(plan, rows, rng, keep, journal)
    if isinstance(plan.start, MomentStart) or not isinstance(plan.stop, Converged) or not kept:
        return result
    (last,) = kept
    A = last.release.query.unpack(last.released[-1])[0]
    if A.shape[1] < len(A):  # A = M V at the point V before the last step
        turn = result.V.T @ last.points[-1]
        A = turn @ last.points[-1].T @ A @ turn.T
    return replace(result, moment=(A + A.T) / 2.0)


def _in_turns(
    plan: Plan,
    rows: Rows,
    rng: np.random.Generator,
    keep: Witness,
    journal: Journal | None,
) -> Result:
    """Run a plan; in slow reweighted power steps make steps with the whole moment now and then.

    Either step minimises a quadratic above the cost that touches it, so that neither lets the cost
    rise. The power step needs D × r sums. The whole moment needs D × D, but its step is exact
    where the power steps crawl because no direction stands out.
    """
    release = plan.release
    if release is None or not isinstance(plan.stop, Settled):
        return run(plan, rows, rng, witness=keep, journal=journal)
    query = release.query
    assert isinstance(query, IrlsPower)
    if (patience := _patience(query.D, query.r)) is None:
        return run(plan, rows, rng, witness=keep, journal=journal)
    whole = replace(
        plan,
        release=replace(release, query=ReweightedMoment(query.D, query.floor, query.cut)),
        geometry=TopEigenvectors(query.r),
        n_iter=1,
        stop=Never(),
    )
    left = plan.n_iter
    few = replace(plan, n_iter=min(left, patience))
    done = run(few, rows, rng, witness=keep, journal=journal)
    while not done.converged and done.n_iter < left:
        for step in (whole, replace(plan, n_iter=1))[: left - done.n_iter]:
            more = run(_from(step, done.V), rows, rng, witness=keep, journal=journal)
            done = _and_then(done, more)
        if not done.converged and _stalled(done.costs, plan.stop.cost_tol):
            done = replace(done, converged=True)
    return done


def _stalled(costs: Sequence[float], tol: float) -> bool:
    """Whether a step with the whole moment and a power step together did not lower the cost.

    The runs of single steps cannot tell by themselves: each knows one cost only.
    """
    return len(costs) > 2 and costs[-1] >= (1.0 - tol) * costs[-3]


def _patience(D: int, r: int) -> int | None:
    """Return after how many power steps one step with the whole moment costs no more than they.

    None if the whole moment is too large.
    """
    return max(SLOW_PASSES, D // (8 * r)) if D <= LARGEST_SQUARE else None


def _from(plan: Plan, V: FloatArray) -> Plan:
    return replace(plan, start=GivenStart.from_basis(V))


def _and_then(first: Result, second: Result) -> Result:
    """Return two runs as one."""
    return replace(
        second,
        n_iter=first.n_iter + second.n_iter,
        event=first.event + second.event,
        costs=first.costs + second.costs,
        moment=first.moment,
    )
