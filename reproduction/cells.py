"""One cell of an experiment: some runs of one method on one kind of data, from seeds alone.

A cell is data. What it computes depends on its fields and on nothing else, so that cells can be
run in any order, by any number of processes, stored, and found again.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from stillspace import __version__
from stillspace._typing import FloatArray
from stillspace.datasets import Haystack, make_haystack
from stillspace.estimators import PrivatePCA, PrivateRobustPCA
from stillspace.exceptions import PrivacyWarning, SeededNoiseWarning
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import as_basis
from stillspace.parts.noise import seeded_generator
from stillspace.plans.fixed import Plan
from stillspace.privacy import Guarantee
from stillspace.recipes import Facts, fixed_plan
from stillspace.rows import MemoryRows
from stillspace.run import run
from stillspace.run.executors import Watch

Column: TypeAlias = Literal["as-printed", "honest", "ours"]
Result: TypeAlias = dict[str, Any]

TOLERANCE = 1e-2
"""The error that the paper's runs are to reach."""

STOCHASTIC = ("dp-SGGD", "dp-SGD-REAP", "dp-SMD-REAP")
FULL_BATCH = ("dp-GGD", "dp-GD-REAP", "dp-MD-REAP")
SIX = ("dp-GGD", "dp-SGGD", "dp-GD-REAP", "dp-SGD-REAP", "dp-MD-REAP", "dp-SMD-REAP")
NONCONVEX = ("dp-GGD", "dp-SGGD")

OURS = {"PrivateRobustPCA": PrivateRobustPCA, "PrivatePCA": PrivatePCA}
"""The library's own defaults, by the name of their estimator."""


class AnyCell(Protocol):
    """What the store and the workers need to know of a cell."""

    @property
    def cost(self) -> float:
        """Estimated seconds."""

    @property
    def label(self) -> str:
        """A name for people and for the file."""

    def key(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""

    def compute(self) -> Result:
        """Return the result as plain JSON values."""


def seed_from(*facts: object) -> int:
    """Return a 128-bit seed that depends on the facts, the same everywhere."""
    digest = hashlib.sha256(json.dumps(facts).encode()).digest()
    return int.from_bytes(digest[:16], "little")


@dataclass(frozen=True, slots=True)
class Setting:
    """Data and budget of a run: the haystack model of SPEC 7 and (ε, δ)."""

    n: int
    D: int
    r: int = 2
    inlier_ratio: float = 0.5
    epsilon: float = 0.8
    delta: float = 0.0
    """0 stands for the paper's 1/√n."""
    n_iter: int = 0
    """0 stands for n."""
    batch_size: int = 0
    """0 stands for the paper's `max(n √(ε/(4T)), 1)`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", self.delta or self.n**-0.5)
        object.__setattr__(self, "n_iter", self.n_iter or self.n)

    def data(self, seed: int, repetition: int) -> Haystack:
        """Return the data set of a repetition: the same for all methods, columns and budgets."""
        shape = (self.n, self.D, self.r)
        facts = ("haystack", seed, *shape, self.inlier_ratio, repetition)
        return make_haystack(*shape, inlier_ratio=self.inlier_ratio, random_state=seed_from(*facts))


@dataclass(frozen=True, slots=True)
class Cell:
    """Repetitions `first` … `first + runs − 1` of a method under a column, in one setting."""

    experiment: str
    setting: Setting
    method: str
    column: Column
    first: int = 0
    runs: int = 1
    seed: int = 0
    traced: bool = field(default=False)
    """Keep the errors at all checkpoints, not only the last."""

    @property
    def cost(self) -> float:
        """Estimated seconds."""
        return self.runs * run_seconds(self.setting, self.method)

    @property
    def label(self) -> str:
        """A name for people and for the file."""
        s = self.setting
        facts = f"n{s.n}-D{s.D}-r{s.r}-q{s.inlier_ratio:g}-e{s.epsilon:g}-d{s.delta:.2g}"
        batch = f"-b{s.batch_size}" if s.batch_size else ""
        return f"{self.column}-{self.method}-{facts}{batch}-{self.first}"

    def key(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""
        return {"version": __version__, **asdict(self)}

    def compute(self) -> Result:
        """Run the repetitions."""
        if self.setting.n > _WARM.n:
            _warm_up(self.method, self.column)
        repetitions = range(self.first, self.first + self.runs)
        if self.column == "ours":
            fits = [self._fit(i) for i in repetitions]
            return {"epsilon": max(e for e, _ in fits), "runs": [made for _, made in fits]}
        plan = paper_plan(self.method, self.setting, self.column)
        assert plan.release is not None
        return {
            "sigma": plan.release.sigma(0) / plan.release.divisor,
            "epsilon": true_epsilon(plan, self.setting.delta),
            "runs": [self._run(plan, i) for i in repetitions],
        }

    def _noise_seed(self, repetition: int) -> int:
        setting = tuple(asdict(self.setting).values())
        return seed_from("noise", self.seed, self.method, self.column, *setting, repetition)

    def _run(self, plan: Plan, repetition: int) -> dict[str, Any]:
        """Run one plan of the paper on one data set, watched at its checkpoints."""
        data = self.setting.data(self.seed, repetition)
        rows = MemoryRows.prepare(data.X)
        trace = Trace(data.components, plan.n_iter, self.traced)
        rng = seeded_generator(self._noise_seed(repetition))
        trace.start()
        run(plan, rows, rng, watch=trace.watch())
        return trace.record()

    def _fit(self, repetition: int) -> tuple[float, dict[str, Any]]:
        """Fit the library's default; return the ε of its noise and the record of the run."""
        data, s = self.setting.data(self.seed, repetition), self.setting
        seed = self._noise_seed(repetition)
        estimator = OURS[self.method](
            s.r, epsilon=s.epsilon, delta=s.delta, random_state=np.random.default_rng(seed)
        )
        began = time.process_time()
        with warnings.catch_warnings():
            # The paper's δ and seeded noise are what is being judged here.
            warnings.simplefilter("ignore", SeededNoiseWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            estimator.fit(data.X)
        seconds = time.process_time() - began
        error = subspace_error(estimator.components_, data.components)
        reached = error <= TOLERANCE
        record = {
            "error": error,
            "reached": estimator.n_iter_ if reached else None,
            "seconds": seconds,
            "seconds_to_reach": seconds if reached else None,
        }
        return estimator.privacy_.epsilon, record


class Trace:
    """The errors of a run at its checkpoints, and its processor time without looking at them.

    Unless they are to be kept, errors on the way are only judged against the tolerance, by the
    cosines alone, and no longer than until it is reached.
    """

    def __init__(self, components: FloatArray, n_iter: int, traced: bool) -> None:
        self.components = components
        self.at = checkpoints(n_iter)
        self.traced = traced
        self.errors: list[float] = []
        self.point_errors: list[float] = []
        self.seconds: list[float] = []
        self.reached: tuple[int, float] | None = None
        self._paused = 0.0
        self._began = 0.0

    def start(self) -> None:
        """Start the clock."""
        self._began = time.process_time()

    def watch(self) -> Watch:
        """Return what `run` calls at the checkpoints."""
        return Watch(frozenset(self.at), self._see)

    def _see(self, done: int, memory: FloatArray, point: FloatArray) -> None:
        came = time.process_time()
        self.seconds.append(came - self._began - self._paused)
        last = done == self.at[-1]
        if self.traced or last:
            self.errors.append(self._error(memory))
            same = memory is point or memory.shape != point.shape
            self.point_errors.append(self.errors[-1] if same else self._error(point))
        if done and self.reached is None and self._good(memory):
            self.reached = (done, self.seconds[-1])
        self._paused += time.process_time() - came

    def _error(self, value: FloatArray) -> float:
        r = len(self.components)
        return subspace_error(as_basis(value, r).T, self.components)

    def _good(self, value: FloatArray) -> bool:
        basis = as_basis(value, len(self.components))
        cosines = np.linalg.svd(self.components @ basis, compute_uv=False)
        return bool(np.sum(np.arccos(np.minimum(cosines, 1.0)) ** 2) <= TOLERANCE)

    def record(self) -> dict[str, Any]:
        """Return the run as plain JSON values."""
        iterations, seconds = self.reached or (None, None)
        record: dict[str, Any] = {
            "error": self.errors[-1],
            "reached": iterations,
            "seconds": self.seconds[-1],
            "seconds_to_reach": seconds,
        }
        if self.traced:
            record["trace"] = self.errors
            record["point_trace"] = self.point_errors
            record["trace_seconds"] = self.seconds
        return record


_WARM = Setting(50, 4, n_iter=2)


@lru_cache(maxsize=64)
def _warm_up(method: str, column: Column) -> None:
    """Run a tiny cell once a process, so that compiling is in nobody's time."""
    Cell("warm-up", _WARM, method, column).compute()


@lru_cache(maxsize=64)
def checkpoints(n_iter: int) -> tuple[int, ...]:
    """Return when a run is looked at: the start, 40 times in a constant ratio, 80 evenly."""
    ratio = np.geomspace(1, n_iter, 40)
    even = np.linspace(0, n_iter, 81)
    return tuple(sorted({int(k) for k in np.rint(np.concatenate([ratio, even]))}))


@lru_cache(maxsize=256)
def paper_plan(method: str, setting: Setting, column: Column) -> Plan:
    """Return a method of the paper with its own sampling, steps and T.

    Batches are drawn with replacement and the mirror step rescales the trace, as the paper has it;
    the column decides the noise alone: what it prints, or what the accountant asks for.
    """
    s = setting
    facts = Facts(
        n=s.n,
        D=s.D,
        r=s.r,
        epsilon=s.epsilon,
        delta=s.delta,
        calibration="honest" if column == "honest" else "as-printed",
    )
    options: dict[str, Any] = {"n_iter": s.n_iter}
    if method in STOCHASTIC:
        options |= {"sampling": "with-replacement", "batch_size": s.batch_size or None}
    if "MD" in method:
        options["capped"] = False
    return fixed_plan(method.lower(), facts, **options)


@lru_cache(maxsize=256)
def true_epsilon(plan: Plan, delta: float) -> float:
    """Return the ε that the plan's noise really gives at δ, start and loop together."""
    judged = Guarantee.from_event(
        plan.event(), plan.relation, delta, not_private_because=("for judging only",)
    )
    return judged.epsilon


def run_seconds(setting: Setting, method: str) -> float:
    """Return about how long a run takes on one core, for the order and the progress of cells."""
    s = setting
    T, n, D, r = s.n_iter, s.n, s.D, s.r
    rows = 30 if method in STOCHASTIC else n
    if method in OURS:
        return 0.02 + 2e-8 * n * D * r + 5e-10 * D**3
    if "REAP" in method:
        return 0.02 + T * (2e-5 + 1.3e-10 * rows * D**2 + 1e-7 * D**2)
    return 0.02 + T * (3e-6 + 3e-10 * rows * D * r + 4e-8 * D * r)
