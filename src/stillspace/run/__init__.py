"""Running a plan: one function for every kind of plan, which owns the ledger.

The kinds of plan are told apart here, and by the recipes that make them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.exceptions import NotAccountedError
from stillspace.parts.sampling import Division, RowPart
from stillspace.parts.stops import Never
from stillspace.plans.adaptive import AdaptivePlan, Answer, Ask
from stillspace.plans.fixed import Plan, Reading
from stillspace.plans.ledger import CeilingLedger, Ledger, checked_event
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import NO_DRAW, Draw
from stillspace.plans.staged import Progress, StagedPlan
from stillspace.plans.tested import TestedPlan
from stillspace.privacy.events import NOTHING, ComposedEvent
from stillspace.rows import MemoryRows, OnceAdded, Rows, block_columns, draw_pairs, through_view
from stillspace.rows.maps import Fill, RowMap, Sphere, View, checked_view, paired
from stillspace.rows.protocols import accounted
from stillspace.run.loop import Result, run_loop, run_reading
from stillspace.run.observers import Observation, Observers, Watch, Witness
from stillspace.run.tested import run_tested

if TYPE_CHECKING:
    from stillspace.run.journal import Journal

__all__ = ["Result", "check_rows", "most_passes", "rows_for", "run"]


def run(
    plan: AnyPlan,
    rows: Rows,
    rng: np.random.Generator,
    *,
    watch: Watch | None = None,
    witness: Witness | None = None,
    point: FloatArray | None = None,
    journal: Journal | None = None,
) -> Result:
    """Run a plan; what ran must be the plan's event, or lie under its ceiling, or this raises.

    Rows without a bound go through the plan's view first. `point` is where a `Reading` asks, or
    where a method that needs a point begins. `watch` is given the points of the loop (not of a
    start's own loop), for experiments.
    `witness` is for audits: it is given every release, the rows behind the view and the secret
    selections. Neither draws nor changes anything: an observed run gives the bits of any other.
    `journal` keeps every answer before it is used. Answers that it holds already are taken from it
    in place of fresh ones: nothing is drawn and no row is read for them, and their events are
    recorded as ever. A witness does not get their selections.
    """
    check_rows(plan, rows)
    observers = Observers(watch, witness, journal)
    if not isinstance(plan, StagedPlan):
        rows = accounted(rows if rows.bounded else through_view(rows, plan.view))
        runner, ledger = _runner(plan, point)
        return _checked(runner(plan, rows, rng, ledger, observers), plan, ledger)
    # Stages run in order, each on the rows as its view shows them.
    # The pairing is drawn before any row is read, and without looking at one.
    pairs = draw_pairs(rows.n_rows, rng, block_columns(rows)) if paired(plan.view) else None
    views = Views(rows, pairs)
    progress, event = Progress(plan.view), NOTHING
    for stage in plan.stages:
        view = stage.view(progress)
        if view:  # rows as they are: a query over them says that it needs no bound
            checked_view(view)
        behind = accounted(views.behind(view))
        behind_view = _with_view(observers, view, views.pairs)
        if observers.journal is not None:
            observers.journal.begin_stage()
        runner, ledger = _runner(stage.plan, stage.point(progress), views)
        found = runner(stage.plan, behind, rng, ledger, behind_view)
        found = _checked(found, stage.plan, ledger)
        event += found.event
        progress = stage.after(progress, found)
    assert progress.V is not None
    return Result(
        progress.V,
        progress.n_iter,
        False,
        checked_event(event, plan.event()),
        moment=progress.moment,
        facts=progress.facts,
        view=progress.view,
    )


def check_rows(plan: AnyPlan, rows: Rows) -> None:
    """Refuse rows that a plan could not run on, before a budget is charged and a row is read."""
    accounted(rows)
    if not isinstance(plan, StagedPlan):
        return
    if rows.bounded:
        msg = "A staged plan maps the rows itself: give them as they are, by MemoryRows.of(X)."
        raise ValueError(msg)
    if rows.n_columns != plan.n_columns:
        msg = f"This plan is made for {plan.n_columns} columns; there are {rows.n_columns}."
        raise ValueError(msg)


def most_passes(plan: AnyPlan) -> int:
    """Return the largest number of passes over the rows, for a person who waits."""
    if isinstance(plan, StagedPlan):
        # each map that looks at all rows before a stage: a length, a sketch, a projection
        return sum(1 + most_passes(stage.plan) for stage in plan.stages)
    if isinstance(plan, AdaptivePlan):
        return plan.method.n_passes
    return 1 + plan.n_iter if isinstance(plan, Plan) else 1


def rows_for(plan: AnyPlan, X: Any) -> MemoryRows:
    """Return the rows of an array as `run` takes them for a plan, mapped once for many runs."""
    rows = MemoryRows.of(X)
    if isinstance(plan, StagedPlan):
        return rows
    for row_map in plan.view:
        rows = rows.through(row_map)
    return rows


def _runner(
    plan: AnyPlan, point: FloatArray | None, views: Views | None = None
) -> tuple[Callable[..., Result], Ledger]:
    """Return what runs a plan of one stage, and the ledger of that run."""
    if isinstance(plan, AdaptivePlan):
        limit = CeilingLedger(ceiling=plan.ceiling(), relation=plan.relation)
        return partial(run_adaptive, views=views, point=point), limit
    if isinstance(plan, Reading):
        if point is None:
            msg = f"The reading {plan.name!r} needs a point."
            raise ValueError(msg)
        return partial(run_reading, point=point), Ledger()
    if isinstance(plan, Plan | TestedPlan):
        return run_loop if isinstance(plan, Plan) else run_tested, Ledger()
    msg = f"run takes a plan of stillspace.plans, got {type(plan).__name__}."
    raise TypeError(msg)


def _checked(result: Result, plan: AnyPlan, ledger: Ledger) -> Result:
    """Return what was found with the event of what ran, which must be the planned one.

    How long a run with a stop rule takes is not planned. It has no noise, and no promise.
    """
    if isinstance(plan, Plan) and not isinstance(plan.stop, Never):
        return replace(result, event=ComposedEvent.of(ledger.events))
    return replace(result, event=ledger.check(plan.event()))


def run_adaptive(
    plan: AdaptivePlan,
    rows: Rows,
    rng: np.random.Generator,
    ledger: CeilingLedger,
    observers: Observers,
    views: Views | None = None,
    point: FloatArray | None = None,
) -> Result:
    """Do what the method asks until it has no more to ask; `views` has the rows of the table."""
    plan = plan if point is None else plan.at(point)
    method = plan.method
    begun = ((), False), OnceAdded(rows)
    mapped: dict[tuple[View, bool], OnceAdded] = dict([begun])
    state = method.begin(replace(plan.allowance, resumable=observers.journal is not None))
    division: Division | None = None
    passes = 0
    while (ask := method.ask(state)) is not None:
        key = ask.through, ask.whole
        if key not in mapped:
            # one view beside the first is kept: each has numbers of its own for every row
            mapped = dict([begun, (key, OnceAdded(accounted(_asked_rows(plan, rows, views, ask))))])
        asked = mapped[key]
        joint, journal = plan.joint_release(ask), observers.journal
        if isinstance(ask.sampling, RowPart):
            if journal is not None:
                msg = "A run with a journal reads all rows: its division is stored nowhere."
                raise NotAccountedError(msg)
            if asked.rows.n_rows != rows.n_rows:
                msg = "Parts of pairs and parts of rows in one run are not disjoint."
                raise NotAccountedError(msg)
            division = division or Division(ask.sampling.parts, rows.n_rows, rng)
        values = None if journal is None else journal.replayed(joint.releases, 0, ledger)
        draws: tuple[Draw, ...] = (NO_DRAW,)
        if values is None:
            draws = joint.draw(rows.n_rows, rng, ledger, division)
            values = joint.apply(asked, ask.point, draws)
            if journal is not None:
                journal.keep(joint.releases, 0, values)
        if observers.witness is not None:
            read = draws[0]  # the selection is the same for all of these releases
            for release, value in zip(joint.releases, values, strict=True):
                one = Observation.of(release, 0, ask.point, value, read, asked.rows, ask.through)
                observers.witness(replace(one, whole=ask.whole))
        sds = (release.sigma(0) / release.divisor for release in joint.releases)
        state = method.take(state, tuple(map(Answer, values, sds)))
        passes += 1
    found = method.outcome(state)
    after: dict[str, Any] = {"facts": found.facts, "through": found.through, "whole": found.whole}
    return Result(found.V, passes, False, moment=found.moment, **after)


def _asked_rows(plan: AdaptivePlan, rows: Rows, views: Views | None, ask: Ask) -> Rows:
    """Return the rows that a pass asks for: behind the plan's view, or the table's own."""
    if not ask.whole:
        checked_view((*plan.view, *ask.through))
        return through_view(rows, ask.through)
    if views is None:
        msg = "Only a stage of a fit may ask for the rows of the table as they are."
        raise ValueError(msg)
    unbounded = all(not getattr(query, "needs_bound", True) for query, _ in ask.shares)
    checked_view((*ask.through, Sphere()) if unbounded else ask.through)
    return views.behind(ask.through)


@dataclass(slots=True)
class Views:
    """The rows behind views, each row map before a fill applied once; it lives as long as a run."""

    rows: Rows
    pairs: IntArray | None
    """The secret pairing, where rows are paired."""
    kept: dict[tuple[int, RowMap], Rows] = field(default_factory=dict)
    """What a map made of the rows with this `id`, which are kept as well."""

    def behind(self, view: View) -> Rows:
        """Return the rows behind a view."""
        rows = self.rows
        for place, row_map in enumerate(view):
            if isinstance(row_map, Fill):  # from another basis in each step
                return through_view(rows, view[place:], self.pairs)
            key = id(rows), row_map
            if key not in self.kept:
                self.kept[key] = through_view(rows, (row_map,), self.pairs)
            rows = self.kept[key]
        return rows


def _with_view(observers: Observers, view: View, pairs: IntArray | None) -> Observers:
    """Return observers whose witness also learns what was done to a row before a release."""
    witness = observers.witness
    if witness is None:
        return observers

    def add_view(observation: Observation) -> None:
        whole = observation.view if observation.whole else (*view, *observation.view)
        witness(replace(observation, view=whole, pairs=pairs))

    return replace(observers, witness=add_view)
