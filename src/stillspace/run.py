"""The loop that runs any plan: release, step, push."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.adaptive import AdaptivePlan, Answer
from stillspace.executors import NOBODY, Onlookers, Watch, compiled_loop
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.sampling import Selections
from stillspace.parts.stops import Never
from stillspace.plan import GivenStart, MomentStart, Plan, RunStart, Start, WishartStart
from stillspace.privacy.events import ComposedEvent
from stillspace.release import CeilingLedger, Draw, Ledger, Release, Seen, Witness
from stillspace.rows import OnceAdded, Rows


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
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What else an adaptive method learnt from its releases."""


def run(
    plan: Plan | AdaptivePlan,
    rows: Rows,
    rng: np.random.Generator,
    *,
    watch: Watch | None = None,
    witness: Witness | None = None,
) -> Result:
    """Run a plan; what ran must be the plan's event, or lie under its ceiling, or this raises.

    `watch` is shown the points of the loop (not of a start's own loop), for experiments.
    `witness` is for audits: it is shown every release and the secret selections. Neither draws
    nor changes anything: a watched run gives the bits of an unwatched one.
    """
    lookers = Onlookers(watch, witness)
    if isinstance(plan, AdaptivePlan):
        return _run_adaptive(plan, rows, rng, lookers)
    ledger = Ledger()
    result = _run(plan, rows, rng, ledger, lookers)
    if isinstance(plan.stop, Never):
        return replace(result, event=ledger.check(plan.event()))
    return replace(result, event=ComposedEvent.of(ledger.events))


def _run(
    plan: Plan,
    rows: Rows,
    rng: np.random.Generator,
    ledger: Ledger,
    lookers: Onlookers = NOBODY,
) -> Result:
    value, moment = _begin(plan.start, plan.n_components, rows, rng, ledger, lookers)
    state = plan.geometry.enter(value)
    loop = compiled_loop(plan, rows, state) if plan.n_iter else None
    watch = lookers.watch
    if watch is not None and 0 in watch.at:
        point = plan.geometry.point(state)
        watch.see(0, point, point)
    if loop is None:
        memory, done, converged, costs = _iterate(plan, rows, state, rng, ledger, lookers)
    else:
        memory, done, converged, costs = loop.run(rng, ledger, lookers), plan.n_iter, False, ()
    V = plan.output.basis(memory, plan.n_components)
    return Result(V, done, converged, ComposedEvent(), moment, costs)


def _run_adaptive(
    plan: AdaptivePlan, rows: Rows, rng: np.random.Generator, lookers: Onlookers
) -> Result:
    """Ask, record, draw, read, take: until the method has no more to ask."""
    method, every = plan.method, OnceAdded(rows)
    left_out, kept = None, every
    ledger = CeilingLedger(ceiling=plan.ceiling(), relation=plan.relation)
    state = method.begin(plan.allowance)
    passes = 0
    while (ask := method.ask(state)) is not None:
        if ask.leave_out is not left_out:
            left_out = ask.leave_out
            kept = every if left_out is None else every.outside(left_out)
        joint = plan.joint_release(ask)
        draws = joint.draw(rows.n_rows, rng, ledger)
        values = joint.apply(kept, ask.point, draws)
        if lookers.witness is not None:
            for release, value, draw in zip(joint.releases, values, draws, strict=True):
                lookers.witness(_seen(release, 0, ask.point, value, draw))
        sds = (draw.sigma / plan.size for draw in draws)
        state = method.take(state, tuple(map(Answer, values, sds)))
        passes += 1
    found = method.outcome(state)
    event = ledger.check(plan.event())
    return Result(found.V, passes, False, event, found.moment, facts=found.facts)


def _iterate(
    plan: Plan,
    rows: Rows,
    state: Any,
    rng: np.random.Generator,
    ledger: Ledger,
    lookers: Onlookers = NOBODY,
) -> tuple[Any, int, bool, tuple[float, ...]]:
    """Run the loop step by step: the specification of every other executor.

    Returns the output's memory, the iterations done, whether the stop rule ended them, the costs.
    """
    watch, witness = lookers.watch, lookers.witness
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
        if watch is not None and k + 1 in watch.at:
            watch.see(k + 1, memory, point)
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
    rows: Rows,
    rng: np.random.Generator,
    ledger: Ledger,
    lookers: Onlookers,
) -> tuple[FloatArray, FloatArray | None]:
    """Return the start value and, if a second moment was released, that."""
    if isinstance(start, MomentStart):
        draw = start.release.draw(0, rows.n_rows, rng, ledger)
        nowhere = np.empty((0, 0))
        moment = start.release.apply(rows, nowhere, draw)
        if lookers.witness is not None:
            lookers.witness(_seen(start.release, 0, nowhere, moment, draw))
        return top_eigenvectors(moment, r), moment
    if isinstance(start, WishartStart):
        draw = start.release.draw(0, rows.n_rows, rng, ledger)
        ledger.record(start.not_private)
        moment = start.release.apply(rows, np.empty((0, 0)), draw) + start.noise(rng)
        return top_eigenvectors(moment, r), moment
    if isinstance(start, RunStart):
        result = _run(start.plan, rows, rng, ledger, Onlookers(witness=lookers.witness))
        return result.V, result.moment
    if isinstance(start, GivenStart):
        return start.value(), None
    return start.value(rng), None
