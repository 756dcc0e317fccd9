"""Neighbouring data sets made to be told apart: canaries, and the rows around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from stillspace._checks import checked_choice
from stillspace._typing import FloatArray
from stillspace.parts.sampling import All, Poisson, RowPart
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.starts import GivenStart, RunStart
from stillspace.rows import MemoryRows
from stillspace.rows.maps import paired

Background: TypeAlias = Literal["zeros", "inliers", "copies", "balanced"]

ANGLES = (0.08, 0.15, 0.25, 0.4, 0.6, np.pi / 4)
"""Candidates for the tilt φ of a canary out of the subspace."""

MOST_CELLS = 2**25
_FEW = 4


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Data sets that differ in one person's rows for each coin: `ones[i]` if it shows 1.

    Otherwise `others[i]` stands there, or nothing if `others` is None (add-or-remove-one).
    `rest` are the rows that everybody knows, `copies` the rows that a person owns.
    """

    rest: FloatArray
    ones: FloatArray
    others: FloatArray | None
    copies: int = 1
    name: str = "given"

    def __post_init__(self) -> None:
        shapes = [np.shape(a) for a in (self.rest, self.ones)]
        if self.others is not None and np.shape(self.others) != shapes[1]:
            msg = f"ones and others must have one shape, got {shapes[1]} and {self.others.shape}."
            raise ValueError(msg)
        if any(len(shape) != 2 for shape in shapes) or shapes[0][1] != shapes[1][1]:
            raise ValueError(f"rest and ones must be tables with the same columns, got {shapes}.")

    def table(self, coins: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the rows for these coins, the known ones first."""
        if self.others is None:
            chosen = self.ones[coins]
        else:
            chosen = np.where(coins[:, None], self.ones, self.others)
        return np.concatenate([self.rest, np.repeat(chosen, self.copies, axis=0)])

    @cached_property
    def known(self) -> tuple[FloatArray, npt.NDArray[np.intp]] | None:
        """The different rows of `rest`, scaled, and which each row is; None if there are many."""
        different, which = np.unique(self.rest, axis=0, return_inverse=True)
        if len(different) > _FEW:
            return None
        return MemoryRows.prepare(different).sphered(), which.ravel()

    @cached_property
    def canaries(self) -> tuple[FloatArray, FloatArray | None]:
        """`ones` and `others`, scaled as a run scales them."""
        others = None if self.others is None else MemoryRows.prepare(self.others).sphered()
        return MemoryRows.prepare(self.ones).sphered(), others

    @cached_property
    def rest_rows(self) -> MemoryRows:
        """The known rows, as a query reads them."""
        return MemoryRows.prepare(self.rest)


def make_neighbours(
    plan: AnyPlan, angle: float, background: Background = "zeros", count: int = 1
) -> Neighbours:
    """Return data sets for `count` coins of a plan.

    Canaries are `cosφ·a ± sinφ·b`, a in the subspace where the plan's iterates are expected, b
    orthogonal to it: their GLAD and REAPER terms are nearly opposite. Rows around them:

    - "zeros": they add nothing, and what one canary does is seen most clearly;
    - "inliers": random unit rows of the subspace, which hold the iterates there;
    - "copies": all equal to the first `other`, the worst case of batches of a fixed size;
    - "balanced": as many rows along the last kept direction as along the first one left out, so
      that one row decides between them; the canaries are then these two directions.
    """
    checked_choice("background", background, get_args(Background))
    D, r, n = plan.n_columns, plan.n_components, table_size(plan)
    V, W = _home(plan, D, r)
    copies = plan.rows_per_person
    if count > r * (D - r) or count * copies >= n:
        raise ValueError(
            f"{count} canaries do not fit: a subspace of dimension {r} in {D} has room for "
            f"{r * (D - r)}, the table for {(n - 1) // copies}."
        )
    a, b = np.repeat(V, D - r, axis=1).T[:count], np.tile(W, r).T[:count]
    ones, others = (np.cos(angle) * a + s * np.sin(angle) * b for s in (1.0, -1.0))
    if background == "balanced":
        ones, others = V[:, -1:].T, W[:, :1].T
    rest = _background(background, n - count * copies, V, W, others[0])
    replaced = plan.relation == "replace-one"
    name = f"{background}, angle {angle:.2g}" if background != "balanced" else background
    return Neighbours(rest, ones, others if replaced else None, copies, name)


def candidates(plan: AnyPlan, adversary: str, count: int) -> Iterator[Neighbours]:
    """Yield data sets to try in a pilot: which are worst depends on plan and adversary."""
    if table_size(plan) * plan.n_columns > MOST_CELLS:
        raise ValueError(
            f"The plan is for {table_size(plan)} rows of {plan.n_columns} columns; an audit builds "
            "many such tables: audit a plan with the same noise and fewer rows."
        )
    # Whether the other rows' selection is independent of the canary's, and may be shown.
    known = all(isinstance(one.sampling, All | Poisson | RowPart) for one in plan.releases())
    backgrounds: tuple[Background, ...] = ("zeros", "inliers" if known else "copies")
    for background in backgrounds:
        for angle in ANGLES:
            yield make_neighbours(plan, angle, background, count)
    if adversary != "white-box" and count == 1 and known:
        yield make_neighbours(plan, np.pi / 4, "balanced")


def table_size(plan: AnyPlan) -> int:
    """Return the number of rows of a table for a plan; one that pairs them has half as many."""
    return plan.size * (2 if paired(plan.view) else 1)


def _home(plan: AnyPlan, D: int, r: int) -> tuple[FloatArray, FloatArray]:
    """Return the subspace in which the plan starts, or the first axes, and its complement."""
    start = getattr(getattr(plan, "main", plan), "start", None)
    while isinstance(start, RunStart):
        start = start.plan.start
    V = start.value() if isinstance(start, GivenStart) else np.eye(D)[:, :r]
    whole = np.linalg.qr(V, mode="complete")[0]
    return V, np.asarray(whole[:, r:])


def _background(
    kind: Background, n: int, V: FloatArray, W: FloatArray, other: FloatArray
) -> FloatArray:
    D, r = V.shape
    if kind == "zeros":
        return np.zeros((n, D))
    if kind == "copies":
        return np.tile(other, (n, 1))
    if kind == "inliers":
        # The same rows in every audit: they are no secret.
        return np.random.default_rng(0).standard_normal((n, r)) @ V.T
    # Two parts for each direction but the last, one for the last and one for the first left out.
    directions = np.concatenate([V[:, :-1].T, V[:, :-1].T, V[:, -1:].T, W[:, :1].T])
    return directions[np.arange(n) % len(directions)]
