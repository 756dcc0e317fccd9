"""How rows are added up: blocks, jobs, the threads that run them, and exact totals.

A block is what a query sees at once. Where the sum is narrow (D × r) a block is as large as two
copies of it (the rows and their residuals) fill half of a core's second cache, so that all steps
of a pass happen there. Where it is wide (D × D) the work is a matrix product over the block, which
wants many rows. A job is a run of blocks added up by one thread, in floating point. Job sums are
then added exactly (`ExactSum`), so that a total has the same bits on any number of threads.

None of this touches a row's term (SPEC 4 a). It sets the order of additions inside a job, whose
error `Summation` bounds (SPEC 4 b). The layout follows from the number of columns and the query,
not from the machine: the same rows give the same bits everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import frexp, isfinite, prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
from joblib import cpu_count  # type: ignore[import-untyped]
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.words import CARRY, HIGH, LOW, add_words
from stillspace.rows.progress import active

_T = TypeVar("_T")
_A = TypeVar("_A")

LONGEST_BLOCK = 512
SHORTEST_JOB = 256
MOST_BLOCKS = 256
"""Blocks in a job, at most."""

SPARSE_JOB = 4096
"""Rows in a job of sparse rows, at least: where few cells are stored, a job's sum costs more."""

JOB_CELLS = 2**20
"""Cells in a job: some milliseconds of work, against which handing it to a thread is nothing."""

WIDE = 64
"""A sum with more than this many entries per column of the rows is wide."""

CACHE_BYTES = 2**19
"""The second cache of a core: half a MiB is common, and a larger one does no harm."""

FEWEST_CHOSEN = 64
"""One chosen row among so many, or more of them: rows are read by stretches, not one by one."""

LOOP_CELLS = 2**20
"""Up to this many cells (public size times columns) a compiled loop may add up all rows at once."""

LOOP_BLOCK = 96
"""Rows per block of a compiled loop."""

Job: TypeAlias = tuple[int, int]
"""First position and the one past the last."""


def loop_chain_length(n: int) -> int:
    """Return the longest chain of additions of a compiled loop over `n` rows (SPEC 4 b).

    A product, the additions within a block, one per block and one that makes a matrix symmetric.
    """
    return 1 + LOOP_BLOCK + -(-n // LOOP_BLOCK) + 1


@dataclass(frozen=True, slots=True)
class Summation:
    """How rows are added up: what the floating-point slack of a release assumes (SPEC 4 b).

    A job adds at most `job_cells / D` rows (or 4096, if that is more, and one block) in floating
    point, by chains of at most `chain` operations per entry; jobs are added exactly.
    """

    job_cells: int
    chain: int

    def job_rows(self, D: int) -> int:
        """Return the largest number of rows in a job."""
        rows = max(self.job_cells // max(D, 1), SPARSE_JOB) + LONGEST_BLOCK
        return min(rows, MOST_BLOCKS * LONGEST_BLOCK)

    def covers(self, other: Summation) -> bool:
        """Whether sums made the other way have no larger error than these."""
        return other.job_cells <= self.job_cells and other.chain <= self.chain


STANDARD = Summation(JOB_CELLS, 1 + LONGEST_BLOCK + MOST_BLOCKS)
"""One product and the additions inside a block, then one per block of the job."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows in a block and rows in a job."""

    block: int
    job: int

    @staticmethod
    @cache
    def of(D: int, entries: int, *, sparse: bool = False) -> Layout:
        """Return the layout for rows of D columns and a sum of so many entries.

        Sparse rows have longer jobs, whatever is asked of them.
        """
        if entries > WIDE * D:
            block = LONGEST_BLOCK
        else:
            fits = CACHE_BYTES // 2 // (2 * 8 * max(D, 1))
            # An odd number of cache lines: the cells of a column then spread over the whole cache.
            lines = (min(fits, LONGEST_BLOCK // 2) // 8 + 1) // 2 * 2 - 1
            block = 8 * max(lines, 1)
        rows = max(JOB_CELLS // max(D, 1), SHORTEST_JOB)
        blocks = min(-(-rows // block), MOST_BLOCKS)
        # 512 blocks of 8 rows at most: a shorter chain than the longest one of dense rows
        return Layout(block, max(blocks, -(-SPARSE_JOB // block) if sparse else 0) * block)

    def jobs(self, count: int) -> list[Job]:
        """Return the jobs that cover so many rows."""
        starts = range(0, count, self.job)
        return [(start, min(start + self.job, count)) for start in starts]

    def jobs_of(self, chosen: IntArray, n_rows: int) -> list[Job]:
        """Return the jobs that cover chosen rows, as positions among them.

        Where they are a good part of all rows, a job has the chosen rows of one job of all rows: so
        whoever holds that stretch of rows can do it.
        """
        if not stretches(chosen, n_rows):
            return self.jobs(len(chosen))
        edges = np.searchsorted(chosen, [*range(0, n_rows, self.job), n_rows]).tolist()
        return [(low, high) for low, high in pairwise(edges) if low < high]


MOST_GROUPS = 8
"""Calls of compiled code per thread and pass, if jobs are short: so threads end at one time."""
GROUP_JOBS, GROUP_ENTRIES = 16, 2**18
"""Jobs that are added up in one call, and entries of their sums, at most."""


def grouped(jobs: list[Job], entries: int) -> list[list[Job]]:
    """Return the jobs in groups, each done in one call. It changes no bit of a sum."""
    if len(jobs) <= 1:
        return [jobs] if jobs else []
    size = min(
        -(-len(jobs) // (MOST_GROUPS * allowed_threads())),
        GROUP_JOBS,
        max(GROUP_ENTRIES // max(entries, 1), 1),
    )
    return [jobs[at : at + size] for at in range(0, len(jobs), size)]


def stretches(chosen: IntArray, n_rows: int) -> bool:
    """Whether chosen rows ascend and are so many that stretches of rows are read as a whole."""
    many = len(chosen) * FEWEST_CHOSEN >= n_rows
    return many and bool(np.all(chosen[1:] > chosen[:-1]))


class ExactSum:
    """A total of job sums, kept in whole numbers: the same bits in any order of the jobs.

    `norm_bound` is that of the query's terms. The unit is the power of two that is not below it.
    """

    def __init__(self, shape: tuple[int, ...], norm_bound: float) -> None:
        self.shape = shape
        mantissa, exponent = frexp(norm_bound)
        self.unit = 2.0 ** (exponent - 1 if mantissa == 0.5 else exponent)
        size = prod(shape)
        self.high: IntArray = np.zeros(size, dtype=np.int64)
        self.low: IntArray = np.zeros(size, dtype=np.int64)

    def add(self, part: FloatArray) -> None:
        """Add the sum of one job."""
        self.add_all(part[None])

    def add_all(self, parts: FloatArray) -> None:
        """Add the sums of several jobs."""
        parts = np.ascontiguousarray(parts).reshape(len(parts), -1)
        add_words(parts, self.unit, self.high, self.low)

    def merge(self, other: ExactSum) -> None:
        """Add the total of other jobs."""
        assert (other.shape, other.unit) == (self.shape, self.unit)
        low = self.low + other.low
        self.high = self.high + other.high + (low >> CARRY)
        self.low = low & ((1 << CARRY) - 1)

    def value(self) -> FloatArray:
        """Return the total, rounded to float64 once (and once more where it passes 2⁵³ words)."""
        total = (self.high * HIGH + self.low * LOW) * self.unit
        return np.asarray(total.reshape(self.shape))


class TreeSum:
    """A total of job sums in floating point, added up along a binary tree over the job numbers.

    Node i of level l is the sum of the jobs i·2ˡ … (i + 1)·2ˡ − 1. Whoever has both halves of a
    node adds them, the left one first; so a total depends on the jobs alone. `nodes` are kept from
    left to right: at most two per level.
    """

    def __init__(self, first: int = 0) -> None:
        self._next = first
        self.nodes: list[tuple[int, int, FloatArray]] = []

    def add(self, part: FloatArray) -> None:
        """Add the sum of the next job."""
        self._push(0, self._next, part)
        self._next += 1

    def add_all(self, parts: FloatArray) -> None:
        """Add the sums of the next jobs."""
        for part in parts:
            self.add(part)

    def merge(self, other: TreeSum) -> None:
        """Add the total of the jobs that follow."""
        for level, index, value in other.nodes:
            self._push(level, index, value)
        self._next = other._next

    def _push(self, level: int, index: int, value: FloatArray) -> None:
        while index % 2 and self.nodes and self.nodes[-1][:2] == (level, index - 1):
            value = self.nodes.pop()[2] + value
            level, index = level + 1, index // 2
        self.nodes.append((level, index, value))

    def value(self) -> FloatArray:
        """Return the total: of what is left over, the right parts first."""
        total = self.nodes[-1][2]
        for _, _, left in reversed(self.nodes[:-1]):
            total = left + total
        return total


PartSum: TypeAlias = ExactSum | TreeSum


def empty_sum(shape: tuple[int, ...], norm_bound: float, first: int = 0) -> PartSum:
    """Return the sum of no jobs: exact where terms have a bound, else from job `first` on."""
    return ExactSum(shape, norm_bound) if isfinite(norm_bound) else TreeSum(first)


@cache
def _controller() -> Any:
    """Return a handle on the BLAS libraries of this process; looking for them takes a while."""
    return ThreadpoolController().select(user_api="blas")


def allowed_threads() -> int:
    """Return how many threads a pass may use.

    The processors that the system, a container or joblib gives this process, and no more than BLAS
    is allowed now: OMP_NUM_THREADS, `threadpool_limits` and joblib's workers all lower that.
    """
    libraries = _controller().lib_controllers
    blas = [int(library.num_threads) for library in libraries if library.num_threads]
    return max(1, min([int(cpu_count()), *blas]))


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS starts no threads of its own."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limited


def each(work: Callable[[_A], _T], jobs: Sequence[_A], most: int | None = None) -> Iterator[_T]:
    """Yield `work(job)` in the order of the jobs, by as many threads as are allowed, or `most`."""
    limit = len(jobs) if most is None else most
    threads = min(allowed_threads(), limit) if limit > 1 else 1
    results = map(work, jobs) if threads == 1 else _in_order(work, jobs, threads)
    counter = active()
    return results if counter is None else counter.watched(results, len(jobs))


def _in_order(work: Callable[[_A], _T], jobs: Sequence[_A], threads: int) -> Iterator[_T]:
    """Yield results in order; only a few wait at any time.

    The pool lives for one pass: nothing is left over for a fork to copy, and starting it costs
    less than a job.
    """
    waiting: deque[Future[_T]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        for job in jobs:
            waiting.append(pool.submit(work, job))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
