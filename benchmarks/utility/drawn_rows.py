"""Cells on drawn rows that belong to real tables: missing cells, flags, classic outlier sets."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.utility import robust_tables
from benchmarks.utility.cells import Result, label, timed
from benchmarks.utility.problems import DELTA
from benchmarks.utility.table_fits import MISSING, digest
from stillspace import PrivateRobustPCA, RobustPCA
from stillspace._typing import FloatArray
from stillspace.datasets import make_haystack
from stillspace.diagnostics import diagnose
from stillspace.metrics import subspace_error

N, D, R = 2000, 30, 3


@dataclass(frozen=True, slots=True)
class MissingCells:
    """d² to the truth with complete rows and with 10 % missing cells; ε = None: without privacy."""

    epsilon: float | None
    noise: float
    count: int

    @property
    def cost(self) -> float:
        return 1.0 * self.count

    @property
    def label(self) -> str:
        return label("missing", str(self.epsilon), f"{self.noise:g}")

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "sources": digest(True)}

    def fitted(self, X: FloatArray, seed: int) -> FloatArray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.epsilon is None:
                return np.asarray(RobustPCA(R).fit(X).components_)
            est = PrivateRobustPCA(
                R, epsilon=self.epsilon, delta=DELTA, center=None, scale=None, random_state=seed
            )
            return np.asarray(est.fit(X).components_)

    @timed
    def compute(self) -> Result:
        found: Result = {"complete": [], "missing": []}
        for seed in range(self.count):
            data = make_haystack(
                N, D, R, inlier_ratio=0.8, inlier_noise=self.noise, spherical=False,
                center_shift=2.0 if self.epsilon is None else 0.0, random_state=seed,
            )  # fmt: skip
            holes = np.random.default_rng(seed).random(data.X.shape) < MISSING
            for name, X in (("complete", data.X), ("missing", np.where(holes, np.nan, data.X))):
                found[name].append(subspace_error(self.fitted(X, seed), data.components))
        return found


SHAPES = ((5, 1), (5, 2), (10, 2), (10, 3), (20, 2))
"""Columns and components."""


@dataclass(frozen=True, slots=True)
class Flags:
    """How many of n clean normal rows are flagged at a nominal 2.5 %, by columns and components."""

    n: int
    count: int

    @property
    def cost(self) -> float:
        return 0.5 * self.count

    @property
    def label(self) -> str:
        return label("flags", str(self.n))

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "flags": SHAPES, "sources": digest(True)}

    @timed
    def compute(self) -> Result:
        return {f"D={D}, r={r}": self.rate(D, r) for D, r in SHAPES}

    def rate(self, D: int, r: int) -> float:
        rates = []
        for seed in range(self.count):
            rng = np.random.default_rng((self.n, D, r, seed))
            V = np.linalg.qr(rng.standard_normal((D, r)))[0]
            inside = rng.standard_normal((self.n, r)) @ V.T
            X = inside + 0.2 * rng.standard_normal((self.n, D)) + 3.0
            rates.append(diagnose(robust_tables.fitted(X, r), X).outliers.mean())
        return float(np.mean(rates))


@dataclass(frozen=True, slots=True)
class Classic:
    """Recall and false alarms on classic outlier sets, as `robust_tables` measures them."""

    cost = 5.0
    label = "classic"

    def key(self) -> dict[str, Any]:
        return {"classic": True, "sources": digest(True)}

    @timed
    def compute(self) -> Result:
        return {"lines": [line.strip() for line in robust_tables.classic()]}
