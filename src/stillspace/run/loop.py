"""The loop of the paper's plans: release, step, push."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.geometry import top_eigenvectors
from stillspace.plans.fixed import Plan, Reading
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import NO_DRAW, Release
from stillspace.plans.starts import (
    ExponentialStart,
    GivenStart,
    MomentStart,
    RunStart,
    Start,
    WishartStart,
)
from stillspace.privacy.events import NOTHING, ComposedEvent
from stillspace.rows import Rows
from stillspace.rows.maps import View
from stillspace.run.executors import compiled_loop
from stillspace.run.observers import NO_OBSERVERS, Observation, Observers


@dataclass(frozen=True, slots=True)
class Result:
    """The basis (or whatever else a plan finds), and what the run did with the rows."""

    V: FloatArray
    n_iter: int
    converged: bool
    event: ComposedEvent = NOTHING
    moment: FloatArray | None = None
    """The second moment that the start released, if it did: free for post-processing."""
    costs: tuple[float, ...] = ()
    """The cost at the point before each iteration, where the query carries it (never private)."""
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What else was learnt from releases, by name."""
    through: View = ()
    """Row maps that the plan suggests for later stages."""
    whole: bool = False
    """Whether these take the place of the view."""
    view: View = ()
    """What was done to a row in the end, for a staged plan."""


def run_loop(
    plan: Plan,
    rows: Rows,
    rng: np.random.Generator,
    ledger: Ledger,
    observers: Observers = NO_OBSERVERS,
) -> Result:
    """Run the start, then all iterations, compiled or step by step."""
    value, moment = _begin(plan.start, plan.n_components, rows, rng, ledger, observers)
    state = plan.geometry.enter(value)
    # A compiled loop draws for many iterations at once; a journal keeps one answer at a time.
    compiled = plan.n_iter and observers.journal is None
    loop = compiled_loop(plan, rows, state) if compiled else None
    watch = observers.watch
    if watch is not None and 0 in watch.at:
        point = plan.geometry.point(state)
        watch.see(0, point, point)
    if loop is None:
        memory, done, converged, costs = _iterate(plan, rows, state, rng, ledger, observers)
    else:
        memory, done, converged, costs = loop.run(rng, ledger, observers), plan.n_iter, False, ()
    V = plan.output.basis(memory, plan.n_components)
    return Result(V, done, converged, moment=moment, costs=costs)


def run_reading(
    plan: Reading,
    rows: Rows,
    rng: np.random.Generator,
    ledger: Ledger,
    observers: Observers,
    point: FloatArray,
) -> Result:
    """Make one release at a point."""
    value = answered(plan.release, 0, rows, point, rng, ledger, observers)
    return Result(value, 1, False)


def answered(
    release: Release,
    k: int,
    rows: Rows,
    point: FloatArray,
    rng: np.random.Generator,
    ledger: Ledger,
    observers: Observers,
) -> FloatArray:
    """Return the answer of one release: a kept one, or record, draw, read and keep."""
    journal, draw = observers.journal, NO_DRAW
    kept = None if journal is None else journal.replayed((release,), k, ledger)
    if kept is None:
        draw = release.draw(k, rows.n_rows, rng, ledger)
        value = release.apply(rows, point, draw)
        if journal is not None:
            journal.keep((release,), k, (value,))
    else:
        (value,) = kept
    if observers.witness is not None:
        observers.witness(Observation.of(release, k, point, value, draw, rows))
    return value


def _iterate(
    plan: Plan,
    rows: Rows,
    state: Any,
    rng: np.random.Generator,
    ledger: Ledger,
    observers: Observers = NO_OBSERVERS,
) -> tuple[Any, int, bool, tuple[float, ...]]:
    """Run the loop step by step: the specification of every other executor.

    Returns the output's memory, the iterations done, whether the stop rule ended them, the costs.
    """
    watch = observers.watch
    point = plan.geometry.point(state)
    memory = None if plan.n_iter else plan.output.push(None, point, 0)
    costs: list[float] = []
    for k in range(plan.n_iter):
        assert plan.release is not None
        released = answered(plan.release, k, rows, point, rng, ledger, observers)
        G, cost = plan.release.query.unpack(released)
        if cost is not None:
            costs.append(cost)
        state = plan.geometry.step(state, G, plan.schedule.step(k))
        before, point = point, plan.geometry.point(state)
        memory = plan.output.push(memory, point, k)
        if watch is not None and k + 1 in watch.at:
            watch.see(k + 1, memory, point)
        if plan.stop(before, point, costs, G):
            return memory, k + 1, True, tuple(costs)
    return memory, plan.n_iter, False, tuple(costs)


def _begin(
    start: Start,
    r: int,
    rows: Rows,
    rng: np.random.Generator,
    ledger: Ledger,
    observers: Observers,
) -> tuple[FloatArray, FloatArray | None]:
    """Return the start value and, if a second moment was released, that."""
    if isinstance(start, MomentStart):
        moment = answered(start.release, 0, rows, np.empty((0, 0)), rng, ledger, observers)
        return top_eigenvectors(moment, r), moment
    if isinstance(start, WishartStart | ExponentialStart):
        draw = start.release.draw(0, rows.n_rows, rng, ledger)
        ledger.record(start.not_private)
        return start.basis(start.release.apply(rows, np.empty((0, 0)), draw), r, rng)
    if isinstance(start, RunStart):
        result = run_loop(start.plan, rows, rng, ledger, replace(observers, watch=None))
        return result.V, result.moment
    if isinstance(start, GivenStart):
        return start.value(), None
    if observers.journal is not None:
        return observers.journal.start(lambda: start.value(rng)), None
    return start.value(rng), None
