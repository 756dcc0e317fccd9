"""Running a plan: one function for every kind of plan, which owns the ledger.

The kinds of plan are told apart here and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.exceptions import NotAccountedError
from stillspace.parts.stops import Never
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.plans.fixed import Plan, Reading
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import CeilingLedger, Ledger, Witness, checked_event
from stillspace.plans.staged import StagedPlan
from stillspace.plans.tested import TestedPlan
from stillspace.privacy.events import ComposedEvent
from stillspace.rows import MemoryRows, Rows, through_view
from stillspace.run.accounted import accounted, check_rows
from stillspace.run.adaptive import run_adaptive
from stillspace.run.answers import Answers
from stillspace.run.executors import Onlookers, Watch
from stillspace.run.loop import run_loop, run_reading
from stillspace.run.result import Result
from stillspace.run.staged import run_staged
from stillspace.run.tested import run_tested

__all__ = ["Result", "check_rows", "most_passes", "rows_for", "run"]


def run(
    plan: AnyPlan,
    rows: Rows,
    rng: np.random.Generator,
    *,
    watch: Watch | None = None,
    witness: Witness | None = None,
    point: FloatArray | None = None,
    journal: Answers | None = None,
) -> Result:
    """Run a plan; what ran must be the plan's event, or lie under its ceiling, or this raises.

    Rows without a bound go through the plan's view first. `point` is where a `Reading` asks, or
    where a method that needs a point begins. `watch` is shown the points of the loop (not of a
    start's own loop), for experiments.
    `witness` is for audits: it is shown every release, the rows behind the view and the secret
    selections. Neither draws nor changes anything: a watched run gives the bits of an unwatched
    one.
    `journal` keeps every answer before it is used. Answers that it holds already are taken from it
    in place of fresh ones: nothing is drawn and no row is read for them, and their events are
    recorded as ever. A witness is not told their selections.
    """
    check_rows(plan, rows)
    if isinstance(plan, StagedPlan):

        def stage(
            part: AnyPlan,
            behind: Rows,
            rng: np.random.Generator,
            shown: Witness | None,
            at: FloatArray | None,
        ) -> Result:
            if journal is not None:
                journal.begin_stage()
            return _run_one(part, behind, rng, Onlookers(watch, shown, journal), at)

        result = run_staged(plan, rows, rng, stage, witness)
        return replace(result, event=checked_event(result.event, plan.event()))
    if not rows.bounded:
        rows = through_view(rows, plan.view)
    return _run_one(plan, rows, rng, Onlookers(watch, witness, journal), point)


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


def _run_one(
    plan: AnyPlan,
    rows: Rows,
    rng: np.random.Generator,
    lookers: Onlookers,
    point: FloatArray | None,
) -> Result:
    """Run a plan of one stage with a ledger of its own, and check the ledger."""
    accounted(rows)  # behind row maps, too
    if isinstance(plan, AdaptivePlan):
        plan = plan if point is None else plan.at(point)
        limit = CeilingLedger(ceiling=plan.ceiling(), relation=plan.relation)
        result = run_adaptive(plan, rows, rng, limit, lookers)
        return replace(result, event=limit.check(plan.event()))
    ledger = Ledger()
    if isinstance(plan, TestedPlan):
        if lookers.journal is not None:
            msg = "Propose-test-release has one answer, at its end: it keeps no journal."
            raise NotAccountedError(msg)
        result = run_tested(plan, rows, rng, ledger)
    elif isinstance(plan, Reading):
        if point is None:
            msg = f"The reading {plan.name!r} needs a point."
            raise ValueError(msg)
        result = run_reading(plan, rows, rng, ledger, lookers, point)
    elif isinstance(plan, Plan):
        result = run_loop(plan, rows, rng, ledger, lookers)
        if not isinstance(plan.stop, Never):
            return replace(result, event=ComposedEvent.of(ledger.events))
    else:
        msg = f"run takes a plan of stillspace.plans, got {type(plan).__name__}."
        raise TypeError(msg)
    return replace(result, event=ledger.check(plan.event()))
