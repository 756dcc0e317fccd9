"""Running a whole fit: stage after stage, each on the rows as its view shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Seen, Witness
from stillspace.plans.staged import Progress, StagedPlan
from stillspace.privacy.events import NOTHING
from stillspace.rows import Rows, draw_pairs
from stillspace.rows.maps import Pairs, View, checked_view, paired
from stillspace.run.result import Result

RunPlan = Callable[[AnyPlan, Rows, np.random.Generator, Witness | None, FloatArray | None], Result]
"""Runs one plan on rows that are mapped already, at a point if it needs one."""


@dataclass(slots=True)
class Views:
    """The rows behind views, each row map applied once. It lives as long as one run."""

    rows: Rows
    pairs: IntArray | None
    """The secret pairing, where rows are paired."""
    kept: dict[View, Rows] = field(default_factory=dict)

    def behind(self, view: View) -> Rows:
        """Return the rows behind a view."""
        if not view:
            return self.rows
        if view not in self.kept:
            before, last = self.behind(view[:-1]), view[-1]
            if isinstance(last, Pairs):
                assert self.pairs is not None
                self.kept[view] = before.paired(self.pairs)
            else:
                self.kept[view] = before.through(last)
        return self.kept[view]


def run_staged(
    plan: StagedPlan,
    rows: Rows,
    rng: np.random.Generator,
    run_plan: RunPlan,
    witness: Witness | None,
) -> Result:
    """Run the stages in order; the event is that of what ran."""
    # The pairing is drawn before any row is read, and without looking at one.
    pairs = draw_pairs(rows.n_rows, rng, rows.n_columns) if paired(plan.view) else None
    views = Views(rows, pairs)
    progress, event = Progress(plan.view), NOTHING
    for stage in plan.stages:
        view = stage.view(progress)
        if view:  # rows as they are: a query over them says that it needs no bound
            checked_view(view)
        behind = views.behind(view)
        shown = None if witness is None else _with_view(witness, view, views.pairs)
        found = run_plan(stage.plan, behind, rng, shown, stage.point(progress))
        event += found.event
        progress = stage.after(progress, found)
    assert progress.V is not None
    return Result(
        progress.V,
        progress.n_iter,
        False,
        event,
        moment=progress.moment,
        facts=progress.facts,
        view=progress.view,
    )


def _with_view(witness: Witness, view: View, pairs: IntArray | None) -> Witness:
    """Return a witness that is also told what was done to a row before a release."""

    def told(seen: Seen) -> None:
        witness(replace(seen, view=(*view, *seen.view), pairs=pairs))

    return told
