"""What a contender is given: rows on the unit sphere, a budget, and subspaces to be compared with.

`Regime` is synthetic (the truth is known), `Table` is a real table (an optimum stands for it).
"""

from dataclasses import dataclass, replace
from functools import cache
from math import exp, log, sqrt
from typing import Literal, Protocol, TypeAlias

import numpy as np

from stillspace._typing import FloatArray
from stillspace.datasets import make_haystack
from stillspace.privacy import mu_from_budget

DELTA = 1e-6

Kind: TypeAlias = Literal["isotropic", "low-rank", "clustered", "heavy-tailed", "shifted"]
KINDS: tuple[Kind, ...] = ("isotropic", "low-rank", "clustered", "heavy-tailed", "shifted")
STRUCTURED: tuple[Kind, ...] = ("low-rank", "clustered", "shifted")
"""Outliers that favour some directions, and so bias an optimum."""


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows of norm 1 (or 0), and named bases (D, r) to measure distances to."""

    X: FloatArray
    targets: dict[str, FloatArray]


class Problem(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def D(self) -> int: ...
    @property
    def r(self) -> int: ...
    @property
    def epsilon(self) -> float: ...
    def data(self) -> Data: ...


def budget(problem: Problem) -> float:
    """Return μ of the whole budget."""
    return mu_from_budget(problem.epsilon, DELTA)


def work(problem: Problem) -> float:
    """Return what a pass over the rows costs, in multiplications or so."""
    return float(problem.n * problem.D * max(problem.r, 3))


def sphered(X: FloatArray) -> FloatArray:
    """Return the rows scaled to length 1; zero rows stay zero."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0.0, norms, 1.0))


@dataclass(frozen=True, slots=True)
class Regime:
    """Inliers near a random subspace, and outliers of one kind (SPEC 7)."""

    name: str
    group: str
    n: int
    D: int
    r: int
    share: float
    """Of inliers."""
    kind: Kind
    noise: float
    """Of inliers: length off the subspace over length in it."""
    epsilon: float
    rank: int = 5
    """Of low-rank outliers."""
    spread: float = 0.1
    """Of clustered outliers."""
    anisotropy: float = 1.0
    """Largest over smallest standard deviation of the inliers in the subspace."""
    seed: int = 0

    @property
    def scales(self) -> FloatArray:
        """Standard deviations of the inliers in units of 1/√r; their squares add up to r."""
        scales = np.geomspace(1.0, 1.0 / self.anisotropy, self.r)
        return np.asarray(scales * sqrt(self.r / float(scales @ scales)))

    @property
    def kappa(self) -> float:
        """n μ λ_r / √D, λ_r ≈ share · (smallest scale)² / (r (1 + noise²))."""
        signal = self.share * float(self.scales[-1]) ** 2 / (self.r * (1.0 + self.noise**2))
        return self.n * budget(self) * signal / sqrt(self.D)

    @property
    def contaminated(self) -> bool:
        return round(self.share * self.n) < self.n

    @property
    def outliers(self) -> str:
        """The kind, for people."""
        if not self.contaminated:
            return "none"
        return f"rank {self.rank}" if self.kind == "low-rank" else self.kind

    def data(self) -> Data:
        made = {"low-rank": "low-rank", "clustered": "cluster", "shifted": "cluster"}
        spread = {"clustered": self.spread, "shifted": 1.0}.get(self.kind)
        hay = make_haystack(
            self.n,
            self.D,
            self.r,
            inlier_ratio=self.share,
            inlier_noise=self.noise,
            outliers=made.get(self.kind, "isotropic"),  # type: ignore[arg-type]
            outlier_rank=self.rank if self.kind == "low-rank" else None,
            cluster_spread=spread,
            inlier_scales=self.scales,
            random_state=self.seed,
        )
        X = hay.X
        if self.kind == "heavy-tailed":  # Cauchy in every column
            rng = np.random.default_rng([self.seed, 1])
            outside = ~hay.inliers
            X[outside] = sphered(rng.standard_t(1.0, (int(outside.sum()), self.D)))
        return Data(X, {"truth": hay.components.T})


def _facts() -> tuple[Regime, ...]:
    rows: tuple[tuple[int, int, int, float, Kind, float, float], ...] = (
        (2000, 20, 2, 0.5, "isotropic", 0.05, 1.0),
        (20000, 100, 5, 0.5, "isotropic", 0.05, 1.0),
        (20000, 50, 3, 0.7, "low-rank", 0.05, 1.0),
        (20000, 50, 3, 0.8, "clustered", 0.05, 1.0),
        (5000, 200, 2, 0.6, "low-rank", 0.05, 2.0),
        (50000, 200, 10, 0.5, "isotropic", 0.1, 1.0),
        (20000, 50, 3, 0.7, "shifted", 0.05, 1.0),
        (30000, 30, 2, 0.6, "low-rank", 0.1, 1.0),
        (20000, 20, 2, 0.7, "clustered", 0.2, 1.0),
    )
    return tuple(Regime(f"named {i}", "facts", *row, seed=i) for i, row in enumerate(rows, start=1))


FACTS = _facts()

LARGEST_WORK = 8e6
"""The largest n·D·max(r, 3) of most regimes: a hundred plans have to run on each."""
LARGEST_MOMENT = 1e9
"""The largest n·D² of these."""
LARGEST = 1.1e8
"""The largest n·D·max(r, 3) of the few large ones."""


def is_large(regime: Regime) -> bool:
    return work(regime) > LARGEST_WORK or regime.n * regime.D**2 > LARGEST_MOMENT


def drawn(
    group: str, seed: int, strong: int, weak: int = 0, *, large: bool = False,
    noiseless: bool = False,
) -> tuple[Regime, ...]:  # fmt: skip
    """Draw regimes: `strong` with κ ≥ 10 and `weak` with 1 ≤ κ < 10, from the seed alone."""
    rng = np.random.default_rng(seed)
    found: list[Regime] = []
    left = {True: strong, False: weak}
    while any(left.values()):
        regime = replace(_draw(rng), **({"noise": 0.0} if noiseless else {}))
        is_strong = regime.kappa >= 10.0
        if is_large(regime) != large or work(regime) > LARGEST or regime.kappa < 1.0:
            continue
        if left[is_strong]:
            left[is_strong] -= 1
            name = f"{group} {len(found) + 1:02d}"
            found.append(replace(regime, name=name, group=group))
    return tuple(found)


def _few(group: str, seed: int, count: int) -> tuple[Regime, ...]:
    """Draw regimes with κ ≥ 10 and .1 to .5 of inliers; outliers have no structure to win by."""
    rng = np.random.default_rng(seed)
    found: list[Regime] = []
    while len(found) < count:
        name, share = f"{group} {len(found) + 1:02d}", round(rng.uniform(0.1, 0.5), 3)
        regime = replace(_draw(rng), name=name, group=group, share=share)
        unstructured = regime.kind not in STRUCTURED
        if unstructured and regime.kappa >= 10.0 and not is_large(regime) and regime.noise <= 0.2:
            found.append(regime)
    return tuple(found)


def _draw(rng: np.random.Generator) -> Regime:
    def between(low: float, high: float) -> float:
        return exp(rng.uniform(log(low), log(high)))

    n, D = round(between(1e3, 1e5)), round(between(10, 500))
    r = max(1, min(round(between(1, 10)), D // 4))
    clean, noiseless, isotropic = rng.random() < 0.1, rng.random() < 0.15, rng.random() < 0.5
    rank = int(rng.choice([max(1, r // 2), r, 2 * r, 5, 5 * r]))
    return Regime(
        name="",
        group="",
        n=n,
        D=D,
        r=r,
        share=1.0 if clean else round(rng.uniform(0.5, 1.0), 3),
        kind=KINDS[rng.choice(5, p=[0.2, 0.3, 0.25, 0.1, 0.15])],
        noise=0.0 if noiseless else float(f"{between(0.01, 1.0):.3g}"),
        epsilon=float(f"{between(0.3, 4.0):.3g}"),
        rank=min(rank, D),
        spread=float(rng.choice([0.02, 0.1, 0.3])),
        anisotropy=1.0 if isotropic else round(rng.uniform(1.0, 3.0), 2),
        seed=int(rng.integers(2**31)),
    )


DRAWN = drawn("drawn", 20261, strong=36, weak=12)
HELD_OUT = drawn("held-out", 70607, strong=40, weak=10)
"""Held out from the first version of the default; later ones were made with their results."""
FRESH = drawn("fresh", 41213, strong=40, weak=10)
"""Never looked at while the default was made."""
LARGE = drawn("large", 90210, strong=8, large=True)
"""Nor these: what the limits above leave out of the same distribution."""
NOISELESS = drawn("noiseless", 61009, strong=10, noiseless=True)
"""Nor these: few of the others are noiseless."""
FEW = _few("few", 51117, 12)
"""Nor these: inliers in the minority."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that comes with scikit-learn, standardised or centred by vectors taken as public.

    `planted` adds rows in one tight cluster until they are a fifth of the table. Targets are
    optima of the table without them: PCA's, and GLAD's.
    """

    table: str
    r: int
    planted: bool
    epsilon: float
    group: str = "tables"

    @property
    def name(self) -> str:
        state = "20 % planted" if self.planted else "clean"
        return f"{self.table} r={self.r}, {state}, ε={self.epsilon:g}"

    @property
    def n(self) -> int:
        clean = len(_table(self.table))
        return clean + round(clean / 4) if self.planted else clean

    @property
    def D(self) -> int:
        return int(_table(self.table).shape[1])

    def data(self) -> Data:
        from benchmarks.utility.references import glad_optimum, pca_optimum  # noqa: PLC0415

        clean = sphered(_table(self.table))
        targets = {"PCA": pca_optimum(clean, self.r), "GLAD": glad_optimum(clean, self.r)}
        if not self.planted:
            return Data(clean, targets)
        rng = np.random.default_rng(len(clean))
        center = rng.standard_normal(self.D)
        center /= np.linalg.norm(center)
        noise = rng.standard_normal((round(len(clean) / 4), self.D)) * (0.1 / sqrt(self.D))
        X = np.concatenate([clean, sphered(center + noise)])
        return Data(X[rng.permutation(len(X))], targets)


@cache
def _table(name: str) -> FloatArray:
    """Return a table, its columns centred and, where asked, scaled."""
    from sklearn import datasets  # noqa: PLC0415

    base = name.removesuffix(" (scaled)")
    loaders = {
        "digits": datasets.load_digits,
        "breast cancer": datasets.load_breast_cancer,
        "wine": datasets.load_wine,
    }
    X = np.asarray(loaders[base]().data, dtype=np.float64)
    X = X - X.mean(axis=0)
    if base != name:
        deviations = X.std(axis=0)
        X /= np.where(deviations > 0.0, deviations, 1.0)
    return np.asarray(X)


TABLES = tuple(
    Table(table, r, planted, epsilon)
    for table, r in (
        ("digits", 2),
        ("digits", 5),
        ("digits (scaled)", 2),
        ("digits (scaled)", 5),
        ("breast cancer (scaled)", 2),
        ("wine (scaled)", 2),
    )
    for planted in (False, True)
    for epsilon in (1.0, 4.0)
)
