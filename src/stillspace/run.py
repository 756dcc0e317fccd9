"""The loop that runs any plan: release, step, push."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.executors import compiled_loop
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.sampling import Selections
from stillspace.parts.stops import Never
from stillspace.plan import GivenStart, MomentStart, Plan, RunStart, Start, WishartStart
from stillspace.privacy.events import ComposedEvent
from stillspace.release import Draw, Ledger, Release, Seen, Witness
from stillspace.rows import MemoryRows


@dataclass(frozen=True, slots=True)
class Result:
    """What a run gives back: the basis, and what it did with the rows."""

    V: FloatArray
    n_iter: int
    converged: bool
    event: ComposedEvent
    moment: FloatArray | None
    """The second moment that the start released, if it did: free for post-processing."""
    costs: tuple[float, ...] = ()
    """The cost at the point before each iteration, where the query carries it (never private)."""


def run(
    plan: Plan, rows: MemoryRows, rng: np.random.Generator, *, witness: Witness | None = None
) -> Result:
    """Run a plan; the ledger of what ran must equal the plan's event, or this raises.

    `witness` is for audits: it is shown every release and the secret selections.
    """
    ledger = Ledger()
    result = _run(plan, rows, rng, ledger, witness)
    if isinstance(plan.stop, Never):
        return replace(result, event=ledger.check(plan.event()))
    return replace(result, event=ComposedEvent.of(ledger.events))


def _run(
    plan: Plan, rows: MemoryRows, rng: np.random.Generator, ledger: Ledger, witness: Witness | None
) -> Result:
    value, moment = _begin(plan.start, plan.n_components, rows, rng, ledger, witness)
    state = plan.geometry.enter(value)
    loop = compiled_loop(plan, rows, state) if plan.n_iter else None
    if loop is None:
        memory, done, converged, costs = _iterate(plan, rows, state, rng, ledger, witness)
    else:
        memory, done, converged, costs = loop.run(rng, ledger, witness), plan.n_iter, False, ()
    V = plan.output.basis(memory, plan.n_components)
    return Result(V, done, converged, ComposedEvent(), moment, costs)


def _iterate(
    plan: Plan,
    rows: MemoryRows,
    state: Any,
    rng: np.random.Generator,
    ledger: Ledger,
    witness: Witness | None,
) -> tuple[Any, int, bool, tuple[float, ...]]:
    """Run the loop step by step: the specification of every other executor.

    Returns the output's memory, the iterations done, whether the stop rule ended them, the costs.
    """
    point = plan.geometry.point(state)
    memory = None if plan.n_iter else plan.output.push(None, point, 0)
    costs: list[float] = []
    for k in range(plan.n_iter):
        assert plan.release is not None
        draw = plan.release.draw(k, rows.n_rows, rng, ledger)
        released = plan.release.apply(rows, point, draw)
        if witness is not None:
            witness(_seen(plan.release, k, point, released, draw))
        G, cost = plan.release.query.unpack(released)
        if cost is not None:
            costs.append(cost)
        state = plan.geometry.step(state, G, plan.schedule.step(k))
        before, point = point, plan.geometry.point(state)
        memory = plan.output.push(memory, point, k)
        if plan.stop(before, point, costs):
            return memory, k + 1, True, tuple(costs)
    return memory, plan.n_iter, False, tuple(costs)


def _seen(release: Release, k: int, point: FloatArray, released: FloatArray, draw: Draw) -> Seen:
    chosen = draw.selection
    selections = None if chosen is None else Selections(np.array([0, len(chosen)]), chosen)
    return Seen(release, k, point[None], np.asarray(released)[None], selections)


def _begin(
    start: Start,
    r: int,
    rows: MemoryRows,
    rng: np.random.Generator,
    ledger: Ledger,
    witness: Witness | None,
) -> tuple[FloatArray, FloatArray | None]:
    """Return the start value and, if a second moment was released, that."""
    if isinstance(start, MomentStart):
        draw = start.release.draw(0, rows.n_rows, rng, ledger)
        nowhere = np.empty((0, 0))
        moment = start.release.apply(rows, nowhere, draw)
        if witness is not None:
            witness(_seen(start.release, 0, nowhere, moment, draw))
        return top_eigenvectors(moment, r), moment
    if isinstance(start, WishartStart):
        draw = start.release.draw(0, rows.n_rows, rng, ledger)
        ledger.record(start.not_private)
        moment = start.release.apply(rows, np.empty((0, 0)), draw) + start.noise(rng)
        return top_eigenvectors(moment, r), moment
    if isinstance(start, RunStart):
        result = _run(start.plan, rows, rng, ledger, witness)
        return result.V, result.moment
    if isinstance(start, GivenStart):
        return start.value(), None
    return start.value(rng), None
