"""The look for outliers alone: which rows it leaves out of clean and planted tables."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from reproduction.seeds import seed_from

from benchmarks.utility.cells import Result, label, timed
from benchmarks.utility.planted import CLEAN, KINDS, plant
from benchmarks.utility.problems import DELTA
from benchmarks.utility.robust_tables import tight
from benchmarks.utility.table_fits import R, clean, digest
from benchmarks.utility.tables_real import DEVELOPMENT, UNSEEN, load, sphered
from benchmarks.utility.vary import Change
from stillspace._typing import FloatArray
from stillspace.methods.outlier_look import LeftOut, OutlierLook
from stillspace.parts.noise import seeded_generator
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.privacy import mu_from_budget
from stillspace.rows import MemoryRows
from stillspace.run import run

TABLES = ["/".join(pair) for pair in (*DEVELOPMENT, *UNSEEN)]
EPSILONS = (1.0, 4.0)
MOST_ROWS = 20_000
LEAST_ROWS = 2900
"""Of a table into which bad rows are planted."""
CLEAN_SEEDS = 3
LARGE = "tight 38 %"
"""One kind more: a cluster that is nearly a majority."""
ALL_KINDS = (*KINDS, LARGE)
RIGHT, WRONG, KEPT = "right", "wrong", "kept"


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at one table in units of its frame, clean and with every kind of bad rows."""

    table: str
    epsilon: float
    change: str = ""
    """Another constant, such as "LookRule.depth=0.2"."""

    @property
    def cost(self) -> float:
        return 0.5

    @property
    def label(self) -> str:
        return label(self.table, "looks", f"{self.epsilon:g}")

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "sources": digest(True)}

    @timed
    def compute(self) -> Result:
        rows = MOST_ROWS if len(load(*self.table.split("/", 1)).X) > MOST_ROWS else None
        X, frame = clean(self.table, R, rows)
        Z = (X - frame.center) / frame.scale
        outcomes = {CLEAN: [self._outcome(Z, Z, seed) for seed in range(CLEAN_SEEDS)]}
        if len(Z) >= LEAST_ROWS:
            outcomes |= {k: [self._outcome(Z, planted(Z, k, self.table), 0)] for k in ALL_KINDS}
        return {"outcomes": outcomes}

    def _outcome(self, Z: FloatArray, planted_rows: FloatArray, seed: int) -> str:
        """Return whether at least 90 % of the bad rows and at most 5 % of the others are out."""
        n, D = Z.shape
        X = sphered(planted_rows, np.zeros(D), np.ones(D))
        mu = mu_from_budget(epsilon=self.epsilon, delta=DELTA)
        plan = AdaptivePlan("look", OutlierLook(D, R), n, mu=mu)
        if self.change:
            plan = Change.of(self.change).made(plan)
        noise = seeded_generator(seed_from(self.table, str(self.epsilon), seed))
        groups = run(plan, MemoryRows.prepare(X), noise).facts["left_out"]
        if not groups:
            return KEPT
        out, bad = left_out(X, groups), np.any(planted_rows != Z, axis=1)
        right = out[bad].sum() >= 0.9 * bad.sum() > 0 and out[~bad].mean() <= 0.05
        return RIGHT if right else WRONG


def planted(Z: FloatArray, kind: str, table: str) -> FloatArray:
    if kind == LARGE:
        return tight(Z, 0.38, np.random.default_rng([seed_from(table), 38]))
    return plant(Z, kind, seed_from(table))


def left_out(X: FloatArray, groups: Sequence[LeftOut]) -> FloatArray:
    """Return which rows lie in the cap of a group."""
    out = np.zeros(len(X), dtype=bool)
    for group in groups:
        cosines = X @ group.direction
        out |= (np.abs(cosines) if group.two_sided else cosines) > np.cos(group.angle)
    return out


def looks(change: str = "", tables: Sequence[str] = TABLES) -> list[Looks]:
    return [Looks(table, epsilon, change) for table in tables for epsilon in EPSILONS]


class Counts(NamedTuple):
    """What looks left out, over all tables and ε."""

    clean: int
    """Clean tables of which a group is left out."""
    right: dict[str, int]
    """By kind: the bad rows are left out, and hardly any others."""
    wrong: int
    """Of all kinds: other rows are left out, or a part of the bad ones."""


def counts_of(results: Iterable[Result]) -> Counts:
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        counts.update((kind, one) for kind, all_ in result["outcomes"].items() for one in all_)
    right = {kind: counts[kind, RIGHT] for kind in ALL_KINDS}
    return Counts(counts[CLEAN, WRONG], right, sum(counts[kind, WRONG] for kind in ALL_KINDS))
