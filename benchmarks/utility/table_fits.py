"""What is computed and stored of real tables: one method on one table, planted or not.

Rows are measured in the table's *frame*: columns at the clean rows' median 0 and MAD 1, rows on the
unit sphere, the subspace of least mean distance as the optimum. Methods that find no units
themselves are given those of the frame (`UNITS`), which no private method could know.
"""

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from reproduction.seeds import seed_from

from benchmarks.utility import (
    coinpress,
    kendall,
    oja,
    planted,
    robpca,
    robust_tables,
    tables_real,
)
from benchmarks.utility.cells import Result, label, sources, timed
from benchmarks.utility.planted import CLEAN, plant
from benchmarks.utility.problems import DELTA
from benchmarks.utility.tables_real import Frame, load, sphered
from benchmarks.utility.vary import varying
from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace._typing import FloatArray
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import top_eigenvectors
from stillspace.privacy import mu_from_budget

R = 2
MISSING = 0.1


def kappa(n: int, D: int, epsilon: float) -> float:
    """Return κ = μn/√D."""
    return mu_from_budget(epsilon=epsilon, delta=DELTA) * n / sqrt(D)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A table with its bad rows, in its own units, and the frame of its clean rows."""

    X: FloatArray
    frame: Frame
    epsilon: float
    r: int

    @property
    def mu(self) -> float:
        return mu_from_budget(epsilon=self.epsilon, delta=DELTA)

    @property
    def Z(self) -> FloatArray:
        """Rows in the units of the frame."""
        return np.asarray((self.X - self.frame.center) / self.frame.scale)

    @property
    def unit_rows(self) -> FloatArray:
        return sphered(self.X, self.frame.center, self.frame.scale)


@lru_cache(maxsize=2)
def clean(table: str, r: int, rows: int | None = None) -> tuple[FloatArray, Frame]:
    """Return a table (a fixed choice of its rows, if asked) and its frame."""
    X = load(*table.split("/", 1)).X
    if rows is not None:
        X = X[np.random.default_rng(rows).choice(len(X), rows, replace=False)]
        X = X[:, X.min(axis=0) < X.max(axis=0)]
    return X, Frame.of(X, r)


def task_of(table: str, kind: str, epsilon: float, r: int, rows: int | None = None) -> Task:
    X, frame = clean(table, r, rows)
    if kind != CLEAN:
        Z = plant((X - frame.center) / frame.scale, kind, seed_from(table))
        X = np.asarray(frame.center + frame.scale * Z)
    return Task(X, frame, epsilon, r)


# --- methods: a basis in the frame, and what else is said -------------------------------------

Answer = tuple[FloatArray, dict[str, Any]]


def _estimated(task: Task, X: FloatArray, seed: int, kind: type, **units: Any) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = kind(task.r, epsilon=task.epsilon, delta=DELTA, random_state=seed, **units).fit(X)
    scale = np.ones(X.shape[1]) if est.scale_ is None else np.array(est.scale_, dtype=float)
    scale[est.dropped_columns_] = 0.0
    said = {"groups": len(est.left_out_), "dropped": len(est.dropped_columns_)}
    return task.frame.brought(est.components_.T, scale), said


def default(task: Task, seed: int) -> Answer:
    """The library as a user calls it: nothing is known."""
    return _estimated(task, task.X, seed, PrivateRobustPCA)


def asked_for(task: Task, seed: int) -> Answer:
    """Centre and scale asked for, which is possible from κ = 25 on."""
    return _estimated(task, task.X, seed, PrivateRobustPCA, center="private", scale="private")


def as_it_is(task: Task, seed: int) -> Answer:
    return _estimated(task, task.X, seed, PrivateRobustPCA, center=None, scale=None)


def units_given(task: Task, seed: int) -> Answer:
    units = {"center": task.frame.center, "scale": task.frame.scale}
    return _estimated(task, task.X, seed, PrivateRobustPCA, **units)


def pca_default(task: Task, seed: int) -> Answer:
    return _estimated(task, task.X, seed, PrivatePCA)


def pca_units_given(task: Task, seed: int) -> Answer:
    units = {"center": task.frame.center, "scale": task.frame.scale}
    return _estimated(task, task.X, seed, PrivatePCA, **units)


def standardised(task: Task, seed: int) -> Answer:
    """Rows that are standardised already, by a user who does not say so."""
    there = Task(task.Z, _unit_frame(task.frame), task.epsilon, task.r)
    return _estimated(there, there.X, seed, PrivateRobustPCA)


def standardised_known(task: Task, seed: int) -> Answer:
    """The same rows, by a user who says so."""
    there = Task(task.Z, _unit_frame(task.frame), task.epsilon, task.r)
    return _estimated(there, there.X, seed, PrivateRobustPCA, center=None, scale=None)


def with_holes(task: Task, seed: int) -> Answer:
    """The default with 10 % missing cells."""
    holes = np.random.default_rng(seed).random(task.X.shape) < MISSING
    return _estimated(task, np.where(holes, np.nan, task.X), seed, PrivateRobustPCA)


def units_given_with_holes(task: Task, seed: int) -> Answer:
    holes = np.random.default_rng(seed).random(task.X.shape) < MISSING
    units = {"center": task.frame.center, "scale": task.frame.scale}
    return _estimated(task, np.where(holes, np.nan, task.X), seed, PrivateRobustPCA, **units)


def adaptive(task: Task, seed: int) -> Answer:
    return oja.k_dp_pca(task.unit_rows, task.r, task.mu, np.random.default_rng(seed)), {}


def kendall_directions(task: Task, seed: int) -> Answer:
    rng = np.random.default_rng(seed)
    Z = task.Z[rng.permutation(len(task.X))]
    return kendall.g_dppca(kendall.kendall_matrix(Z), len(Z), task.r, task.mu, rng), {}


def coin_press(task: Task, seed: int) -> Answer:
    S = coinpress.second_moment(task.unit_rows, task.mu, np.random.default_rng(seed))
    return top_eigenvectors(S, task.r), {}


def _unit_frame(frame: Frame) -> Frame:
    ones = np.ones_like(frame.scale)
    return Frame(ones, np.zeros_like(ones), frame.moment, frame.V)


DEFAULT, UNITS, PCA = "default", "units given", "private PCA, units given"
ADAPTIVE, KENDALL, COINPRESS = "k-DP-PCA", "g-DPPCA", "CoinPress"
METHODS: dict[str, Callable[[Task, int], Answer]] = {
    DEFAULT: default,
    UNITS: units_given,
    PCA: pca_units_given,
    "private PCA, default": pca_default,
    "asked for": asked_for,
    "as it is": as_it_is,
    "standardised": standardised,
    "standardised, known": standardised_known,
    "default, 10 % missing": with_holes,
    "units given, 10 % missing": units_given_with_holes,
    ADAPTIVE: adaptive,
    KENDALL: kendall_directions,
    COINPRESS: coin_press,
}
OF_OTHERS = (ADAPTIVE, KENDALL, COINPRESS)


@lru_cache(maxsize=2)
def digest(ours: bool) -> str:
    """Return a digest of the sources that a result depends on; methods of others stand alone."""
    found = hashlib.sha256(sources(True).encode() if ours else b"")
    modules = (planted, robust_tables, tables_real, oja, kendall, robpca, coinpress)
    for path in (*(str(module.__file__) for module in modules), __file__):
        found.update(Path(path).read_bytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class TableFit:
    """One private method on one table, some seeds of the noise."""

    table: str
    kind: str
    method: str
    epsilon: float
    count: int
    r: int = R
    rows: int | None = None
    """A random choice of so many rows in place of all."""
    change: str = ""
    """Another constant, such as "NewtonRule.cut=4"; only of fits by this library."""

    @property
    def cost(self) -> float:
        return 0.4 * self.count

    @property
    def label(self) -> str:
        return label(self.table, self.kind, self.method, f"{self.epsilon:g}-{self.rows or 0}")

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "sources": digest(self.method not in OF_OTHERS)}

    @timed
    def compute(self) -> Result:
        task = task_of(self.table, self.kind, self.epsilon, self.r, self.rows)
        n, D = task.X.shape
        found: Result = {"n": n, "D": D, "kappa": kappa(n, D, self.epsilon)}
        found.update({"captured": [], "d2": [], "d2 to PCA": [], "groups": [], "dropped": []})
        pca = top_eigenvectors(task.frame.moment, self.r)
        for i in range(self.count):
            seed = seed_from(self.table, self.kind, self.method, i)
            with varying(self.change):
                W, said = METHODS[self.method](task, seed)
            found["captured"].append(task.frame.captured(W))
            found["d2"].append(subspace_error(W.T, task.frame.V.T))
            found["d2 to PCA"].append(subspace_error(W.T, pca.T))
            for name in ("groups", "dropped"):
                found[name].append(said.get(name, 0))
        return found


# --- without privacy --------------------------------------------------------------------------


def _ours(X: FloatArray, r: int) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(RobustPCA(r).fit(X).components_.T)


def _pca(X: FloatArray, r: int) -> FloatArray:
    X = X - X.mean(axis=0)
    return top_eigenvectors(X.T @ X, r)


ROBUST: dict[str, Callable[[FloatArray, int], FloatArray]] = {
    "RobustPCA": _ours,
    "ROBPCA": robpca.robpca,
    "MCD": robpca.mcd,
    "PCA": _pca,
}
MOST_ROBUST_ROWS = 2000


@dataclass(frozen=True, slots=True)
class RobustFit:
    """One robust method without privacy on one table, clean and with every kind of bad rows.

    d² is the squared error to the fit of the same method on the clean table.
    """

    table: str
    method: str
    kinds: tuple[str, ...]
    r: int = R

    @property
    def cost(self) -> float:
        return 8.0 if self.method == "MCD" else 4.0

    @property
    def label(self) -> str:
        return label(self.table, self.method)

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "sources": digest(self.method == "RobustPCA")}

    @timed
    def compute(self) -> Result:
        rows = min(MOST_ROBUST_ROWS, len(load(*self.table.split("/", 1)).X))
        X, frame = clean(self.table, self.r, rows)
        Z = (X - frame.center) / frame.scale
        fit = ROBUST[self.method]
        alone = fit(Z, self.r)
        return {
            "d2": {
                kind: subspace_error(fit(robust_plant(Z, kind, self.table), self.r).T, alone.T)
                for kind in self.kinds
            }
        }


ROBUST_KINDS = {"far 25 %": ("far 15 %", 0.25), "tight 30 %": ("tight 20 %", 0.30)}
"""Two more kinds: larger shares of kinds that there are."""


def robust_plant(Z: FloatArray, kind: str, table: str) -> FloatArray:
    if kind not in ROBUST_KINDS:
        return plant(Z, kind, seed_from(table))
    base, share = ROBUST_KINDS[kind]
    return planted.KINDS[base][0](Z, share, np.random.default_rng([seed_from(table), 99]))
