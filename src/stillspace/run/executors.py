"""Which plans a compiled loop runs, and how it is fed; `run` runs all others step by step.

A compiled loop takes over only what it does exactly: parts are compared by their exact type, so
that a subclass with other ideas never runs the stock kernel. The plain loop is the specification.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import inf, prod
from typing import Any, TypeAlias

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.parts.geometry import EntropicMirror, Polar, WaterFilling
from stillspace.parts.outputs import Average, Last
from stillspace.parts.queries import Glad, Reaper
from stillspace.parts.sampling import All, Poisson, WithoutReplacement, WithReplacement
from stillspace.parts.schedules import Schedule
from stillspace.parts.stops import Never
from stillspace.plans.fixed import Plan
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import Draws, Release
from stillspace.rows import FileRows, LabelledRows, MemoryRows, Rows
from stillspace.rows.sums import LOOP_CELLS
from stillspace.run.observers import NO_OBSERVERS, Observation, Observers, Watch

CHUNK_BYTES = 2**25
"""Noise and selections of one chunk of iterations take at most about this much memory."""

Chunk: TypeAlias = tuple[FloatArray, IntArray, IntArray, IntArray, FloatArray, FloatArray, int]
"""Rows, offsets and row numbers, noise, spacings, step sizes, and the first iteration."""

_SAMPLINGS = (All, Poisson, WithoutReplacement, WithReplacement)
_NO_INDICES: IntArray = np.empty(0, dtype=np.int64)
_NOTHING: FloatArray = np.empty((0, 0, 0, 0))


def _loops() -> Any:
    """Return the compiled loops; importing them costs some, and many fits need none."""
    from stillspace.kernels import loops  # noqa: PLC0415

    return loops


@dataclass(slots=True)
class CompiledLoop(ABC):
    """A plan's iterations on a copy of the rows, a chunk of stacked draws at a time."""

    plan: Plan
    release: Release
    rows: FloatArray
    source: Rows
    average: FloatArray

    def run(
        self, rng: np.random.Generator, ledger: Ledger, observers: Observers = NO_OBSERVERS
    ) -> FloatArray:
        """Run all iterations; return what the output rule makes its basis of."""
        watch, witness = observers.watch, observers.witness
        done, n_iter = 0, self.plan.n_iter
        while done < n_iter:
            count = min(self._chunk(), n_iter - done)
            draws = self.release.draws(done, count, self.source.n_rows, rng, ledger)
            shape = (count, 2, *self.release.query.shape) if witness else (0, 0, 0, 0)
            trace, used = np.empty(shape), 0
            for part in self._parts(draws, done, watch):
                used += self.advance(part, done + used, trace[used:])
                if watch is not None and done + used in watch.at:
                    watch.see(done + used, self.memory(), self.point())
            if used != count:
                msg = f"A compiled loop used {used} of {count} draws."
                raise RuntimeError(msg)
            if witness is not None:
                facts = (trace[:, 0], trace[:, 1], draws.selections, self.source)
                witness(Observation(self.release, done, *facts))
            done += used
        return self.memory()

    def memory(self) -> FloatArray:
        """Return what the output rule makes its basis of."""
        return self.average if self.average.size else self.point()

    @staticmethod
    def _parts(draws: Draws, first: int, watch: Watch | None) -> Iterator[Draws]:
        """Yield the draws of a chunk, cut where they are watched."""
        looks = watch.at if watch is not None else frozenset()
        ends = sorted(k - first for k in looks if 0 < k - first < len(draws))
        for low, high in pairwise([0, *ends, len(draws)]):
            yield draws if high - low == len(draws) else draws.part(low, high)

    def advance(self, draws: Draws, first: int, trace: FloatArray = _NOTHING) -> int:
        """Run as many iterations as there are draws, from iteration `first`; return how many."""
        noise = self.release.query.noise
        indices: IntArray = np.empty((0, *noise.shape), dtype=np.int64)
        spacings = np.empty(0)
        if draws.noise is not None:
            indices = draws.noise
            sigmas, where = np.unique(draws.sigmas, return_inverse=True)
            spacings = np.array([noise.spacing(float(sigma)) for sigma in sigmas])[where]
        offsets, chosen = _NO_INDICES, _NO_INDICES
        if draws.selections is not None:
            offsets, chosen = draws.selections.offsets, draws.selections.chosen
        steps = _steps(self.plan.schedule, first, len(draws))
        return self.kernel((self.rows, offsets, chosen, indices, spacings, steps, first), trace)

    @abstractmethod
    def kernel(self, chunk: Chunk, trace: FloatArray) -> int:
        """Call the compiled function."""

    @abstractmethod
    def point(self) -> FloatArray:
        """Return the last point."""

    def _chunk(self) -> int:
        """Return the number of iterations whose draws fit into the memory of a chunk."""
        sampling, cells = self.release.sampling, float(prod(self.release.query.shape))
        if type(sampling) is not All:
            cells += sampling.expected_size(self.release.size)
        return max(int(CHUNK_BYTES / (8 * cells)), 1)


@dataclass(slots=True)
class GladLoop(CompiledLoop):
    """GLAD with the polar step; V as rows, padded for the kernel."""

    V: FloatArray

    def kernel(self, chunk: Chunk, trace: FloatArray) -> int:
        query = self.release.asked
        assert isinstance(query, Glad)
        facts = (query.D, query.r, query.floor, query.near, self.release.divisor)
        return int(_loops().glad_polar(*chunk, facts, self.V, self.average, trace))

    def point(self) -> FloatArray:
        query = self.release.query
        assert isinstance(query, Glad)
        return np.ascontiguousarray(self.V[:, : query.D].T)


@dataclass(slots=True)
class ReaperLoop(CompiledLoop):
    """REAPER with water-filling or a mirror step."""

    P: FloatArray
    dual: FloatArray
    geometry: int

    def kernel(self, chunk: Chunk, trace: FloatArray) -> int:
        query = self.release.query
        assert isinstance(query, Reaper)
        facts = (query.D, self.plan.n_components, query.floor, self.release.divisor)
        state = (self.P, self.dual, self.average, trace)
        return int(_loops().reaper(*chunk, facts, self.geometry, *state))

    def point(self) -> FloatArray:
        return self.P


@lru_cache(maxsize=16)
def _steps(schedule: Schedule, first: int, count: int) -> FloatArray:
    """Return the step sizes of a chunk, which are only read: a second fit has the same ones."""
    return np.array([schedule.step(k) for k in range(first, first + count)], dtype=np.float64)


def compiled_loop(plan: Plan, rows: Rows, state: Any) -> CompiledLoop | None:
    """Return the compiled loop for a plan from the given state of its geometry, or None."""
    release = plan.release
    if type(rows) is LabelledRows:  # loops ask for gradients, to which labels are nothing
        rows = rows.rows
    if release is None or type(rows) not in (MemoryRows, FileRows):
        return None
    assert isinstance(rows, MemoryRows)
    if not _covered(plan, release) or not _small(release, rows):
        return None
    query, geometry = release.query, plan.geometry
    loops = _loops()
    average = np.zeros((query.D, query.D) if type(plan.output) is Average else (0, 0))
    table = loops.as_table(rows.sphered())
    common = (plan, release, table, rows, average)
    if type(query) is Glad:
        V = np.zeros((query.r, table.shape[1]))
        V[:, : query.D] = state.T
        return GladLoop(*common, V)
    if type(geometry) is WaterFilling:
        kind, P, dual = loops.WATER_FILLING, state, np.empty((0, 0))
    else:
        assert isinstance(geometry, EntropicMirror)
        kind = loops.CAPPED_MIRROR if geometry.capped else loops.RESCALED_MIRROR
        P, dual = state.P, state.log_P
    return ReaperLoop(*common, P.copy(), dual.copy(), kind)


def _covered(plan: Plan, release: Release) -> bool:
    """Whether a compiled loop does exactly what this plan says."""
    query, geometry = type(release.query), type(plan.geometry)
    uncut = getattr(release.query, "cut", inf) == inf
    known = (query is Glad and uncut and geometry is Polar) or (
        query is Reaper and geometry in (WaterFilling, EntropicMirror)
    )
    sigmas = {bool(z) for z in release.z} if isinstance(release.z, tuple) else {True}
    return (
        known
        and type(plan) is Plan
        and type(release) is Release
        and type(release.sampling) in _SAMPLINGS
        and type(plan.stop) is Never
        and type(plan.output) in (Last, Average)
        and getattr(plan.geometry, "r", None) == plan.n_components
        and len(sigmas) == 1
    )


def _small(release: Release, rows: MemoryRows) -> bool:
    """Whether the rows may be copied, and a release's slack covers a sum over all of them at once.

    Above this size passes take long enough for the plain loop's overhead not to matter. Judged by
    the public size: the executors round differently, so a choice by the number of rows would tell
    that number where it is secret.
    """
    return release.size * rows.n_columns <= LOOP_CELLS
