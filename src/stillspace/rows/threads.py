"""Threads: as many as the user allows, each with a BLAS of its own single thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from joblib import cpu_count  # type: ignore[import-untyped]
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from stillspace.rows.progress import active

_T = TypeVar("_T")
_A = TypeVar("_A")


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
