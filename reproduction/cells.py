"""One cell of an experiment: some runs of one method on one kind of data, from seeds alone.

A cell is data. What it computes depends on its fields and on nothing else, so that cells can be
run in any order, by any number of processes, stored, and found again.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from reproduction.columns import STOCHASTIC, Column, Setting, base_of, paper_plan, true_epsilon
from reproduction.seeds import seed_from
from stillspace import __version__
from stillspace._typing import FloatArray
from stillspace.estimators import PrivatePCA, PrivateRobustPCA
from stillspace.exceptions import NothingReleasedError, PrivacyWarning, SeededNoiseWarning
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import as_basis
from stillspace.parts.noise import seeded_generator
from stillspace.plans.fixed import Plan
from stillspace.rows import MemoryRows
from stillspace.run import run
from stillspace.run.observers import Watch

Result: TypeAlias = dict[str, Any]

TOLERANCE = 1e-2
"""The error that the paper's runs are to reach."""

NOTHING_RELEASED = np.pi**2 / 4.0
"""Per component: the largest d², for a run that gives no answer."""

OURS = ("PrivateRobustPCA", "PrivatePCA")
"""The library's own defaults, by the name of their estimator."""
PTR = "propose-test-release"
"""`algorithm="ptr"`: in place of the paper's theorem that a stable fit is private without noise."""


def our_estimator(method: str, r: int, **options: Any) -> PrivateRobustPCA | PrivatePCA:
    """Return an estimator of the library; centre and units are known here, as in the paper."""
    if method == PTR:
        options["algorithm"] = "ptr"
    kind = PrivatePCA if method == "PrivatePCA" else PrivateRobustPCA
    return kind(r, **{"center": None, "scale": None, **options})


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
        if self.setting.n > _WARM.n and self.method != PTR:  # PTR needs more rows
            _warm_up(self.method, self.column)
        repetitions = range(self.first, self.first + self.runs)
        if self.column == "ours":
            fits = [self._fit(i) for i in repetitions]
            epsilon = max(e for e, _ in fits)
            return {"epsilon": epsilon, "runs": [made for _, made in fits]}
        plan = paper_plan(self.method, self.setting, self.column)
        assert plan.release is not None
        true = true_epsilon(plan, self.setting.delta)
        return {
            "sigma": plan.release.sigma(0) / plan.release.divisor,
            "first_step": plan.schedule.step(0),
            "epsilon": true.total,
            "epsilon_loop": true.loop,
            "epsilon_is": true.kind,
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
        estimator = our_estimator(
            self.method,
            s.r,
            epsilon=s.epsilon,
            delta=s.delta,
            random_state=np.random.default_rng(seed),
        )
        began = time.process_time()
        error, passes, epsilon = NOTHING_RELEASED * s.r, None, s.epsilon
        with warnings.catch_warnings():
            # The paper's δ and seeded noise are what is being judged here.
            warnings.simplefilter("ignore", SeededNoiseWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            try:
                estimator.fit(data.X)
            except NothingReleasedError:
                pass
            else:
                error = subspace_error(estimator.components_, data.components)
                passes, epsilon = estimator.n_iter_, estimator.privacy_.epsilon
        seconds = time.process_time() - began
        reached = error <= TOLERANCE
        record = {
            "error": error,
            "reached": passes if reached else None,
            "seconds": seconds,
            "seconds_to_reach": seconds if reached else None,
        }
        return epsilon, record


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
        self.point_reached: int | None = None
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
        same = memory is point or memory.shape != point.shape
        if self.traced or last:
            self.errors.append(self._error(memory))
            self.point_errors.append(self.errors[-1] if same else self._error(point))
        if done and self.reached is None and self._good(memory):
            self.reached = (done, self.seconds[-1])
        if done and self.point_reached is None and not same and self._good(point):
            self.point_reached = done
        if same and self.reached is not None:
            self.point_reached = self.reached[0]
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
            "iterate_error": self.point_errors[-1],
            "reached": iterations,
            "iterate_reached": self.point_reached,
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


def run_seconds(setting: Setting, method: str) -> float:
    """Return about how long a run takes on one core, for the order and the progress of cells."""
    s = setting
    T, n, D, r = s.n_iter, s.n, s.D, s.r
    rows = 30 if base_of(method) in STOCHASTIC else n
    if method == PTR:
        return 0.1 + 1e-6 * n * D * r
    if method in OURS:
        return 0.02 + 2e-8 * n * D * r + 5e-10 * D**3
    if "REAP" in method and "from" not in method:
        return 0.02 + T * (2e-5 + 1.3e-10 * rows * D**2 + 1e-7 * D**2)
    return 0.02 + T * (3e-6 + 3e-10 * rows * D * r + 4e-8 * D * r)
