"""Running propose-test-release: blocks vote, and a clear winner is released (`plans/tested.py`)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.exceptions import NotAccountedError, NothingReleasedError
from stillspace.parts.geometry import Orthonormalize, dense_eigenvectors
from stillspace.parts.noise import half_laplace
from stillspace.parts.queries import IrlsPower, SecondMoment
from stillspace.parts.stops import Converged
from stillspace.plans.fixed import Plan
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import NO_DRAW, Release
from stillspace.plans.starts import GivenStart
from stillspace.plans.tested import TestedPlan
from stillspace.rows.protocols import ChosenRows, Rows
from stillspace.run.loop import Result, run_loop
from stillspace.run.observers import NO_OBSERVERS, Observers

MOST_PASSES = 300
"""Passes of a block's robust fit, at most."""


def run_tested(
    plan: TestedPlan,
    rows: Rows,
    rng: np.random.Generator,
    ledger: Ledger,
    observers: Observers = NO_OBSERVERS,
) -> Result:
    """Vote, test, and return the winning subspace, or raise NothingReleasedError.

    Whether it raises is part of what the guarantee covers.
    """
    if observers.journal is not None:
        msg = "Propose-test-release has one answer, at its end: it keeps no journal."
        raise NotAccountedError(msg)
    D, r = plan.n_columns, plan.n_components
    if rows.n_rows != plan.size:
        msg = f"This plan is made for {plan.size} rows; there are {rows.n_rows}."
        raise ValueError(msg)
    for event, count in plan.event().parts:
        ledger.record(event, count)
    order = rng.permutation(plan.size)
    offset = rng.random(D * (D + 1) // 2)
    noise = half_laplace(plan.budget[0], rng)
    with np.errstate(all="ignore"):
        votes = Counter(
            _cell(_fit(ChosenRows(rows, block), r), offset, plan.width)
            for block in np.array_split(order, plan.n_blocks)
        )
    winner, lead = _winner(votes)
    if not lead / 2.0 + noise > plan.threshold:
        msg = (
            "The blocks do not agree clearly enough, so nothing is released; the budget is spent. "
            "algorithm='auto' always gives an answer."
        )
        raise NothingReleasedError(msg)
    return Result(_center(winner, offset, plan.width, D, r), 1, False)


def _fit(block: ChosenRows, r: int) -> FloatArray:
    """Return the robust subspace of one block: a function of its rows alone, whatever they are."""
    D, b = block.n_columns, block.n_rows
    moment = Release(SecondMoment(D), b, z=0.0).apply(block, np.empty((0, 0)), NO_DRAW)
    try:
        # Dense on purpose: an iterative solver may start at random, and one block would then
        # change the vote of another.
        start = GivenStart(FrozenArray.of(dense_eigenvectors(moment, r)))
        plan = Plan(
            name="block",
            start=start,
            release=Release(IrlsPower(D, r), b, z=0.0),
            geometry=Orthonormalize(r),
            n_components=r,
            n_iter=MOST_PASSES,
            stop=Converged(1e-12),
        )
        # No noise is drawn here, so the block's generator is never asked for a word.
        return run_loop(plan, block, np.random.default_rng(0), Ledger()).V
    except (np.linalg.LinAlgError, ValueError):  # a vote too: what it says depends on the block
        return np.full((D, r), np.nan)


def _cell(V: FloatArray, offset: FloatArray, width: float) -> bytes:
    """Return the name of the lattice cell of the projector VVᵀ; a fit that failed has one too."""
    entries = (V @ V.T)[np.triu_indices(len(V))]
    entries = np.where(np.isfinite(entries), np.clip(entries, -2.0, 2.0), 2.0)
    return np.floor(entries / width + offset).astype(np.int64).tobytes()


def _winner(votes: Counter[bytes]) -> tuple[bytes, int]:
    """Return the cell with most votes, ties by a fixed order, and its lead over the next."""
    ranked = sorted(votes.items(), key=lambda item: (-item[1], item[0]))
    second = ranked[1][1] if len(ranked) > 1 else 0
    return ranked[0][0], ranked[0][1] - second


def _center(cell: bytes, offset: FloatArray, width: float, D: int, r: int) -> FloatArray:
    """Return the top eigenvectors of the middle of a cell."""
    middle = (np.frombuffer(cell, dtype=np.int64) + 0.5 - offset) * width
    P = np.zeros((D, D))
    P[np.triu_indices(D)] = middle
    return dense_eigenvectors(P + np.triu(P, 1).T, r)
