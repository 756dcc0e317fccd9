"""What an audit runs again and again: a plan or a function, and what an adversary sees of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stillspace._typing import AnyArray, FloatArray
from stillspace.audit.neighbours import Neighbours
from stillspace.audit.report import Claim
from stillspace.audit.scores import WhiteBox, fit_score
from stillspace.plans.protocol import AnyPlan
from stillspace.rows import MemoryRows
from stillspace.run import rows_for, run

Adversary: TypeAlias = Literal["white-box", "last-iterate", "components"]
ADVERSARIES: tuple[Adversary, ...] = ("white-box", "last-iterate", "components")

Coins: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PlanAttack:
    """One run of a plan, and what the adversary makes of it: one number per coin."""

    plan: AnyPlan
    neighbours: Neighbours
    adversary: Adversary

    def __call__(self, coins: Coins, rng: np.random.Generator) -> FloatArray:
        """Run once for these coins."""
        rows = self._both[int(coins[0])] if len(coins) == 1 else self._rows(coins)
        if self.adversary == "white-box":
            watch = WhiteBox(self.neighbours)
            run(self.plan, rows, rng, witness=watch)
            return watch.scores
        plan = self.plan if self.adversary == "components" else self.plan.showing_last()
        return fit_score(self.neighbours, run(plan, rows, rng).V)

    def information(self, rng: np.random.Generator) -> float:
        """Return the squared distance of the two laws in one run, in units of the noise."""
        watch = WhiteBox(self.neighbours)
        coins = np.ones(len(self.neighbours.ones), dtype=np.bool_)
        run(self.plan, self._rows(coins), rng, witness=watch)
        return float(watch.information.mean())

    @cached_property
    def _both(self) -> tuple[MemoryRows, MemoryRows]:
        return self._rows(np.array([False])), self._rows(np.array([True]))

    def _rows(self, coins: Coins) -> MemoryRows:
        return rows_for(self.plan, self.neighbours.table(coins))


@dataclass(frozen=True, eq=False)
class FunctionAttack:
    """One call of the user's function; its result as a flat array."""

    function: Callable[[AnyArray], Any]
    tables: tuple[AnyArray, AnyArray]
    score: Callable[[Any], float] | None

    def __call__(self, coins: Coins, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """Call it once; its randomness is its own."""
        result = self.function(np.array(self.tables[int(coins[0])]))
        if self.score is not None:
            result = self.score(result)
        return np.atleast_1d(np.asarray(result, dtype=np.float64)).ravel()


@dataclass(frozen=True, eq=False)
class Target:
    """What is attacked, what it claims, and how to say it."""

    attack: PlanAttack | FunctionAttack
    claim: Claim
    mechanism: str
    adversary: str
    neighbours: str
    likelihood: bool
    """Whether scores are log-likelihood ratios, whose best threshold is 0."""
    plan: str = ""
    """The fingerprint of the plan, if a plan is attacked."""
