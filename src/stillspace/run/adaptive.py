"""Running an adaptive plan: ask, record, draw, read, take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stillspace.plans.adaptive import AdaptivePlan, Answer
from stillspace.plans.release import NO_DRAW, CeilingLedger, Observation
from stillspace.rows import OnceAdded, Rows, through_view
from stillspace.rows.maps import View, checked_view
from stillspace.rows.protocols import accounted
from stillspace.run.executors import Observers
from stillspace.run.result import Result


def run_adaptive(
    plan: AdaptivePlan,
    rows: Rows,
    rng: np.random.Generator,
    ledger: CeilingLedger,
    observers: Observers,
) -> Result:
    """Do what the method asks until it has no more to ask."""
    method = plan.method
    mapped: dict[View, OnceAdded] = {(): OnceAdded(rows)}
    state = method.begin(plan.allowance)
    passes = 0
    while (ask := method.ask(state)) is not None:
        if ask.through not in mapped:
            checked_view((*plan.view, *ask.through))
            mapped[ask.through] = OnceAdded(accounted(through_view(rows, ask.through)))
        asked = mapped[ask.through]
        joint, journal = plan.joint_release(ask), observers.journal
        values = None if journal is None else journal.replayed(joint.releases, 0, ledger)
        if values is None:
            draws = joint.draw(rows.n_rows, rng, ledger)
            values = joint.apply(asked, ask.point, draws)
            if journal is not None:
                journal.keep(joint.releases, 0, values)
        if observers.witness is not None:
            # What is read is public: the selection is the same for all of these releases.
            read = replace(NO_DRAW, selection=ask.sampling.draw(rows.n_rows, rng))
            for release, value in zip(joint.releases, values, strict=True):
                facts = (value, read, asked.rows, ask.through)
                observers.witness(Observation.of(release, 0, ask.point, *facts))
        sds = (release.sigma(0) / release.divisor for release in joint.releases)
        state = method.take(state, tuple(map(Answer, values, sds)))
        passes += 1
    found = method.outcome(state)
    return Result(
        found.V, passes, False, moment=found.moment, facts=found.facts, through=found.through
    )
