"""Cells, run by processes of one thread each, as many as there are cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import wait

from joblib import cpu_count  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from reproduction.cells import AnyCell
from reproduction.store import Store


def run_cells(
    cells: Iterable[AnyCell],
    store: Store,
    *,
    workers: int | None = None,
    done: Callable[[AnyCell], None] = lambda _cell: None,
) -> None:
    """Compute the cells that the store does not hold, the dearest first; each is kept at once.

    `done` is called for every cell, also for those that were there already.
    """
    store.folder.mkdir(parents=True, exist_ok=True)
    missing: list[AnyCell] = []
    for cell in cells:
        if store.load(cell) is None:
            missing.append(cell)
        else:
            done(cell)
    missing.sort(key=lambda cell: -cell.cost)
    count = min(workers or int(cpu_count()), len(missing))
    if count > 1:
        _in_processes(missing, store, count, done)
        return
    with threadpool_limits(1):
        for cell in missing:
            _compute(cell, store)
            done(cell)


def _in_processes(
    cells: Sequence[AnyCell], store: Store, count: int, done: Callable[[AnyCell], None]
) -> None:
    others = set(multiprocessing.active_children())
    # "spawn": a fork would copy the locks of whatever threads this process has.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_start_worker)
    try:
        waiting = {pool.submit(_compute, cell, store): cell for cell in cells}
        for future in as_completed(waiting):
            future.result()
            done(waiting[future])
    except BaseException:
        # Finished cells are kept; those at work are given up, so that an interrupt ends at once.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    pool.shutdown()


def _compute(cell: AnyCell, store: Store) -> None:
    store.save(cell, cell.compute())


def _start_worker() -> None:
    """One thread, no interrupts of its own, and an end when the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def follow() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
