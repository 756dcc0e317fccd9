"""The loop of the paper's plans: release, step, push."""

from __future__ import annotations

from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.geometry import top_eigenvectors
from stillspace.plans.fixed import (
    GivenStart,
    MomentStart,
    Plan,
    Reading,
    RunStart,
    Start,
)
from stillspace.plans.legacy import ExponentialStart, WishartStart
from stillspace.plans.release import Ledger, Observation
from stillspace.rows import Rows
from stillspace.run.executors import NO_OBSERVERS, Observers, compiled_loop
from stillspace.run.result import Result


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
    loop = compiled_loop(plan, rows, state) if plan.n_iter else None
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
    draw = plan.release.draw(0, rows.n_rows, rng, ledger)
    value = plan.release.apply(rows, point, draw)
    if observers.witness is not None:
        observers.witness(Observation.of(plan.release, 0, point, value, draw, rows))
    return Result(value, 1, False)


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
    watch, witness = observers.watch, observers.witness
    point = plan.geometry.point(state)
    memory = None if plan.n_iter else plan.output.push(None, point, 0)
    costs: list[float] = []
    for k in range(plan.n_iter):
        assert plan.release is not None
        draw = plan.release.draw(k, rows.n_rows, rng, ledger)
        released = plan.release.apply(rows, point, draw)
        if witness is not None:
            witness(Observation.of(plan.release, k, point, released, draw, rows))
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
        draw = start.release.draw(0, rows.n_rows, rng, ledger)
        nowhere = np.empty((0, 0))
        moment = start.release.apply(rows, nowhere, draw)
        if observers.witness is not None:
            observers.witness(Observation.of(start.release, 0, nowhere, moment, draw, rows))
        return top_eigenvectors(moment, r), moment
    if isinstance(start, WishartStart | ExponentialStart):
        draw = start.release.draw(0, rows.n_rows, rng, ledger)
        ledger.record(start.not_private)
        return start.basis(start.release.apply(rows, np.empty((0, 0)), draw), r, rng)
    if isinstance(start, RunStart):
        result = run_loop(start.plan, rows, rng, ledger, Observers(witness=observers.witness))
        return result.V, result.moment
    if isinstance(start, GivenStart):
        return start.value(), None
    return start.value(rng), None
