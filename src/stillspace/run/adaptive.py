"""Running an adaptive plan: ask, record, draw, read, take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stillspace.plans.adaptive import AdaptivePlan, Answer, Ask
from stillspace.plans.release import NO_DRAW, CeilingLedger, Observation
from stillspace.rows import OnceAdded, Rows, through_view
from stillspace.rows.maps import Sphere, View, checked_view
from stillspace.rows.protocols import accounted
from stillspace.run.executors import Observers
from stillspace.run.result import Result


def run_adaptive(
    plan: AdaptivePlan,
    rows: Rows,
    rng: np.random.Generator,
    ledger: CeilingLedger,
    observers: Observers,
    raw: Rows | None = None,
) -> Result:
    """Do what the method asks until it has no more to ask; `raw` are the rows of the table."""
    method = plan.method
    mapped: dict[tuple[View, bool], OnceAdded] = {((), False): OnceAdded(rows)}
    state = method.begin(plan.allowance)
    passes = 0
    while (ask := method.ask(state)) is not None:
        key = ask.through, ask.whole
        if key not in mapped:
            mapped[key] = OnceAdded(accounted(_mapped(plan, rows, raw, ask)))
        asked = mapped[key]
        joint, journal = plan.joint_release(ask), observers.journal
        values = None if journal is None else journal.replayed(joint.releases, 0, ledger)
        if values is None:
            draws = joint.draw(rows.n_rows, rng, ledger)
            values = joint.apply(asked, ask.point, draws)
            if journal is not None:
                journal.keep(joint.releases, 0, values)
        if observers.witness is not None:
            for release, value in zip(joint.releases, values, strict=True):
                # No selection: each of these releases reads all rows.
                facts = (value, NO_DRAW, asked.rows, ask.through)
                seen = Observation.of(release, 0, ask.point, *facts)
                observers.witness(replace(seen, whole=ask.whole))
        sds = (release.sigma(0) / plan.size for release in joint.releases)
        state = method.take(state, tuple(map(Answer, values, sds)))
        passes += 1
    found = method.outcome(state)
    return Result(
        found.V,
        passes,
        False,
        moment=found.moment,
        facts=found.facts,
        through=found.through,
        whole=found.whole,
    )


def _mapped(plan: AdaptivePlan, rows: Rows, raw: Rows | None, ask: Ask) -> Rows:
    """Return the rows that a pass asks for: behind the plan's view, or the table's own."""
    if not ask.whole:
        checked_view((*plan.view, *ask.through))
        return through_view(rows, ask.through)
    if raw is None:
        msg = "Only a stage of a fit may ask for the rows of the table as they are."
        raise ValueError(msg)
    unbounded = all(not getattr(query, "needs_bound", True) for query, _ in ask.shares)
    checked_view((*ask.through, Sphere()) if unbounded else ask.through)
    return through_view(raw, ask.through)
