"""The private standardiser alone: the units that it finds, judged without a private fit.

A private fit adds noise of its own, which hides what the units do. So the subspace of least mean
distance of the rows in the units found (`tables_real.robust_optimum`, not private) is brought into
the frame of the table and compared with that of the rows in units of the MAD.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from reproduction.seeds import seed_from

from benchmarks.utility.cells import Result, label, timed
from benchmarks.utility.problems import DELTA
from benchmarks.utility.table_fits import R, clean, digest, kappa
from benchmarks.utility.tables_real import Frame, load, robust_optimum, sphered
from benchmarks.utility.vary import Change
from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.standardiser import STANDARDISER_RULE, Standardiser, StandardiserRule
from stillspace.metrics import subspace_error
from stillspace.parts.noise import seeded_generator
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.privacy import mu_from_budget
from stillspace.rows import MemoryRows
from stillspace.run import run

DRAWN = "drawn/columns"
"""In place of a table: columns that are hard for a standardiser, drawn (`drawn_columns`)."""
ROWS = 6000
"""At most so many rows of a table."""
CURVE = (60, 120)
"""κ of the parts of the tables, besides all rows."""
EPSILONS = (1.0, 4.0)
TOO_NARROW = 1.0 / 8.0
"""A scale below this part of the MAD lets one column outweigh all others."""
SMALLEST = 1e-9
"""A scale below this part of the MAD is judged as this part: floating point holds no less."""
MOST_OCTAVES = 3.0
"""Errors of a scale, in octaves, count up to here; a dropped column counts as much."""


def drawn_columns(n: int = ROWS, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return n rows of hard columns, and the public ranges of the columns (NaN: none is known).

    Two columns are constant, and a table of real columns has none. The others are functions of
    normal columns with two strong directions.
    """
    rng = np.random.default_rng(seed)
    D = 22
    V = np.linalg.qr(rng.standard_normal((D, R)))[0]
    z = sqrt(D / R) * 0.9 * rng.standard_normal((n, R)) @ V.T + 0.4 * rng.standard_normal((n, D))
    repeated = rng.random((n, 3)) < (0.6, 0.6, 0.45)
    rare = rng.random((n, 2)) < (0.15, 0.08)
    cuts = (-1.0, -0.3, 0.3, 1.0)
    columns = [
        1000.0 + 3.0 * z[:, 0],
        -4e-7 * (5.0 + z[:, 1]),
        5e5 + z[:, 2],  # narrow and far from zero
        1e4 + 0.01 * z[:, 3],
        3e8 + 1e5 * z[:, 4],
        np.exp(2.0 * z[:, 5]),  # heavy tails
        np.sinh(2.5 * z[:, 6]),
        np.sign(z[:, 7]) * z[:, 7] ** 4,
        np.where(z[:, 8] > 0.0, 250.0 + 20.0 * z[:, 8], 0.0),  # zeros
        np.maximum(np.rint(2.0 * z[:, 9] - 1.0), 0.0),
        np.where(z[:, 10] > 1.0, np.exp(z[:, 10]), 0.0),
        np.where(repeated[:, 0], 5.0, 5.0 + z[:, 11]),  # 60 % repeated
        np.where(repeated[:, 1], 40.0, 40.0 + 12.0 * z[:, 12]),
        np.where(repeated[:, 2], 8.0, np.rint(8.0 + 2.5 * z[:, 13])),
        1.0 + np.digitize(z[:, 14], cuts),  # five values
        1.0 + np.digitize(z[:, 15], cuts),
        100.0 * np.digitize(z[:, 16], cuts),
        2000.0 + np.rint(10.0 * z[:, 17]),
        np.where(rare[:, 0], -9999.0, 20.0 + 4.0 * z[:, 18]),  # sentinels
        np.where(rare[:, 1], 1e9, z[:, 19]),
        np.full(n, 7.0),  # constants
        np.zeros(n),
    ]
    bounds = np.full((D, 2), np.nan)
    bounds[15] = 1.0, 5.0
    bounds[17] = 1900.0, 2100.0
    return np.column_stack(columns), bounds


@lru_cache(maxsize=4)
def table_of(table: str, rows: int) -> tuple[FloatArray, FloatArray, Frame]:
    """Return a choice of a table's rows, the public ranges of its columns, and its frame."""
    if table == DRAWN:
        X, bounds = drawn_columns()
        X = X[:rows]
        return X, bounds, Frame.of(X, R)
    X, frame = clean(table, R, rows)
    return X, np.full((X.shape[1], 2), np.nan), frame


@lru_cache(maxsize=20_000)
def judged(table: str, rows: int, units: bytes) -> dict[str, float]:
    """Return what units, an array (2, D) of centres and scales, do to the optimum of the rows."""
    X, _, frame = table_of(table, rows)
    center, scale = np.frombuffer(units).reshape(2, X.shape[1])
    varies = np.isfinite(frame.scale)
    usable = np.where(varies, np.maximum(scale, SMALLEST * frame.scale), scale)
    V = robust_optimum(sphered(X, center, usable), R, steps=60)
    W = frame.brought(V, np.where(np.isfinite(usable), usable, 0.0))
    octaves = np.abs(np.log2(scale[varies] / frame.scale[varies]))
    return {
        "captured": frame.captured(W),
        "d2": subspace_error(W.T, frame.V.T),
        "dropped": int(np.count_nonzero(varies & ~np.isfinite(scale))),
        "octaves": float(np.minimum(octaves, MOST_OCTAVES).mean()),
        "narrow": int(np.count_nonzero(scale[varies] < TOO_NARROW * frame.scale[varies])),
    }


def units_of(
    table: str, rows: int, epsilon: float, seed: int, rule: StandardiserRule = STANDARDISER_RULE
) -> FloatArray:
    """Return centres and scales (2, D) that a private fit to this table would find first."""
    X, bounds, _ = table_of(table, rows)
    n, D = X.shape
    share = rule.share_of(kappa(n, D, epsilon))
    mu = sqrt(share) * mu_from_budget(epsilon=epsilon, delta=DELTA)
    known = FrozenArray.of(bounds) if np.isfinite(bounds).any() else None
    plan = AdaptivePlan("standardiser", Standardiser(D, bounds=known, rule=rule), n, mu=mu)
    return run(plan, MemoryRows.of(X), seeded_generator(seed)).V


@dataclass(frozen=True, slots=True)
class UnitsAlone:
    """The standardiser alone on some rows of one table, with `count` seeds of its noise."""

    table: str
    rows: int
    epsilon: float
    count: int = 2
    change: str = ""
    """Another constant, such as "StandardiserRule.heavy=0.2"."""

    @property
    def cost(self) -> float:
        return 0.2 * self.count

    @property
    def label(self) -> str:
        return label(self.table, str(self.rows), f"{self.epsilon:g}", "units-alone")

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "sources": digest(True), "alone": _own_digest()}

    @timed
    def compute(self) -> Result:
        rule = Change.of(self.change).made(STANDARDISER_RULE) if self.change else STANDARDISER_RULE
        found: Result = {"captured": [], "d2": [], "dropped": [], "narrow": [], "octaves": []}
        for i in range(self.count):
            seed = seed_from(self.table, self.rows, self.epsilon, i)
            units = units_of(self.table, self.rows, self.epsilon, seed, rule)
            for name, value in judged(self.table, self.rows, units.tobytes()).items():
                found[name].append(value)
        return found


@lru_cache(maxsize=1)
def _own_digest() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


def sizes(table: str, epsilon: float) -> Iterator[int]:
    """Yield numbers of rows: all (at most `ROWS`), and those that give the κ of `CURVE`."""
    n, D = drawn_columns(2)[0].shape if table == DRAWN else load(*table.split("/", 1)).X.shape
    most = ROWS if table == DRAWN else min(n, ROWS)
    mu = mu_from_budget(epsilon=epsilon, delta=DELTA)
    if kappa(most, D, epsilon) >= STANDARDISER_RULE.safe_kappa:
        yield most
    for wanted in CURVE:
        rows = ceil(wanted * sqrt(D) / mu)
        if max(2 * D, 100) <= rows < most:
            yield rows


def unit_cells(tables: Sequence[str], change: str = "", count: int = 2) -> list[UnitsAlone]:
    """Return the cells of these tables."""
    return [
        UnitsAlone(table, rows, epsilon, count, change)
        for table in tables
        for epsilon in EPSILONS
        for rows in sizes(table, epsilon)
    ]
