"""Propose-test-release: many robust fits without noise vote; a clear winner is shown.

The paper holds that its method is private without noise on stable data. As it stands that is not
so (SPEC 9.9); this is a mechanism in its spirit that is. Rows are dealt to disjoint blocks without
looking at them. Each block has one vote: the lattice cell in which the projector of its own robust
fit lies. With c₁ ≥ c₂ the two largest counts and `d = (c₁ − c₂)/2`, the centre of the winning cell
is released if `d + L > t`, L discrete Laplace noise on ½ℤ, P(L) ∝ exp(−ε|L|), else nothing.

(ε, δ)-differential privacy under replace-one, t = 1 + ln(1/((1 + a)δ))/ε, a = e^(−ε/2): a replaced
row changes one vote. *The winner stays:* d moves by at most 1, so what is seen of `d + L > t` is
ε-private, and the centre is the same. *The winner changes:* then c₁ − c₂ ≤ 2 in both data sets,
d ≤ 1, and anything is shown only if 2L > x = 2(t − 1): with probability at most
a^(⌊x⌋+1)/(1 + a) ≤ a^x/(1 + a) = δ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil, exp, log

import numpy as np

from stillspace._typing import FloatArray
from stillspace.exceptions import NotAccountedError, NothingReleasedError
from stillspace.parts.geometry import Orthonormalize, dense_eigenvectors
from stillspace.parts.noise import half_laplace
from stillspace.parts.queries import IrlsPower
from stillspace.parts.stops import Converged
from stillspace.plans.fixed import GivenStart, Plan
from stillspace.plans.release import Release
from stillspace.privacy.events import NOTHING, ComposedEvent, Relation, TestedEvent
from stillspace.rows import MemoryRows
from stillspace.run import Result, run

WIDTH = 1e-3
"""Side of a cell, in units of a projector's entries."""
CLEAR = 2.5
"""Blocks for each vote that a clear majority needs."""
ROWS_A_COMPONENT = 8
"""The fewest rows of a block, for each component and one more."""
MOST_PASSES = 300


@dataclass(frozen=True, slots=True)
class PtrPlan:
    """Blocks, their width and the budget: all public."""

    name: str
    n_components: int
    size: int
    n_columns: int
    width: float = WIDTH
    epsilon: float | None = None
    delta: float | None = None
    relation: Relation = "replace-one"

    def __post_init__(self) -> None:
        if self.relation != "replace-one":
            msg = (
                "Propose-test-release deals rows to blocks and is proved for replace-one only; use "
                "another algorithm for add-or-remove-one."
            )
            raise NotAccountedError(msg)

    @property
    def threshold(self) -> float:
        """t."""
        epsilon, delta = self._budget
        exact = 1.0 + log(1.0 / ((1.0 + exp(-epsilon / 2.0)) * delta)) / epsilon
        return exact * (1.0 + 1e-13) + 2.0**-49 / epsilon  # rounding may not lower it

    @property
    def n_blocks(self) -> int:
        """As many as make the threshold easy to pass where all blocks agree."""
        return ceil(2.0 * CLEAR * self.threshold)

    @property
    def _budget(self) -> tuple[float, float]:
        if self.epsilon is None or self.delta is None:
            msg = "This plan has no budget yet: calibrate it first."
            raise ValueError(msg)
        return self.epsilon, self.delta

    def event(self) -> ComposedEvent:
        """Return what is accounted for: one test, (ε, δ)."""
        return ComposedEvent.of([TestedEvent(*self._budget)])

    def calibrate(
        self, epsilon: float, delta: float, *, beside: ComposedEvent = NOTHING
    ) -> PtrPlan:
        """Return the plan at this budget; it must have it for itself."""
        if beside != NOTHING:
            msg = "Propose-test-release has no proof together with other releases; leave them out."
            raise NotAccountedError(msg)
        if delta >= 0.5:
            msg = f"delta must be below 1/2 for propose-test-release, got {delta}."
            raise ValueError(msg)
        plan = PtrPlan(
            self.name, self.n_components, self.size, self.n_columns, self.width, epsilon, delta
        )
        least = plan.n_blocks * ROWS_A_COMPONENT * (self.n_components + 1)
        if self.size < least:
            msg = (
                f"Propose-test-release needs {plan.n_blocks} blocks here, at least {least} rows "
                f"(pairs of rows with center='pairs'), and there are {self.size}; use "
                "algorithm='auto'."
            )
            raise ValueError(msg)
        return plan


def run_ptr(plan: PtrPlan, rows: MemoryRows, rng: np.random.Generator) -> Result:
    """Vote, test, and return the winning subspace, or raise NothingReleasedError.

    Whether it raises is part of what the guarantee covers.
    """
    D, r = plan.n_columns, plan.n_components
    if rows.n_rows != plan.size:
        msg = f"This plan is made for {plan.size} rows; there are {rows.n_rows}."
        raise ValueError(msg)
    order = rng.permutation(plan.size)
    offset = rng.random(D * (D + 1) // 2)
    noise = half_laplace(plan._budget[0], rng)
    X = rows.sphered()
    with np.errstate(all="ignore"):
        votes = Counter(
            _cell(_fit(X[block].T, r), offset, plan.width)
            for block in np.array_split(order, plan.n_blocks)
        )
    winner, lead = _winner(votes)
    if not lead / 2.0 + noise > plan.threshold:
        msg = (
            "The blocks do not agree clearly enough, so nothing is released; the budget is spent. "
            "algorithm='auto' always gives an answer."
        )
        raise NothingReleasedError(msg)
    return Result(_center(winner, offset, plan.width, D, r), 1, False, plan.event(), None)


def _fit(XT: FloatArray, r: int) -> FloatArray:
    """Return the robust subspace of one block: a function of its rows alone, whatever they are."""
    D, b = XT.shape
    try:
        start = dense_eigenvectors(XT @ XT.T, r)
    except np.linalg.LinAlgError:
        return np.full((D, r), np.nan)
    plan = Plan(
        name="block",
        start=GivenStart(start.tobytes(), (D, r)),
        release=Release(IrlsPower(D, r), b, z=0.0),
        geometry=Orthonormalize(r),
        n_components=r,
        n_iter=MOST_PASSES,
        stop=Converged(1e-12),
    )
    try:
        return run(plan, MemoryRows(np.ascontiguousarray(XT)), np.random.default_rng(0)).V
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
