"""Rounds on a Dask cluster of this machine: what one costs, and what a second worker gains.

Both are wall times, so other programs matter. For every window of rounds it is read how long our
threads waited for a core. Windows in which they waited for more than a share `QUIET` of the time do
not count. (On Linux.) `python -m benchmarks.cluster --first` runs the windows in the real-time
class, ahead of all other programs, as if the machine were idle; all of them count then. It needs
the rights of root.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import distributed
import numpy as np
import psutil

from stillspace.parts.queries import Glad
from stillspace.rows import Sphere
from stillspace.rows.cluster import on_cluster

QUIET = 0.3
"""Share of the time of a window that counts for which our threads may wait for a core."""
WINDOWS = 20
"""Windows that are tried."""
ROUNDS = 25
"""Rounds without rows per window."""
PAUSE = 0.01
"""Seconds between two rounds: a fit also does something in between."""
SHAPE = 400_000, 256, 10
"""Rows, columns and components of the pass that one and two workers are timed at."""


def measured() -> dict[str, float]:
    """Return milliseconds per round over (nearly) no rows, and the gain of a second worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, np.ones((4, 20), dtype=np.float32))
        with client(2) as two:
            rows = on_cluster(path, two).as_rows().through(Sphere())
            V = np.eye(20, 2)
            rounds = windows(lambda: rows.add(Glad(20, 2), V, None), ROUNDS, PAUSE)
        n, D, r = SHAPE
        X = np.random.default_rng(0).standard_normal((n, D), dtype=np.float32)
        np.save(path, X)
        del X
        passes = [quiet_pass(path, D, r, workers) for workers in (1, 2)]
    known = {f"pass_{k}_worker_seconds": seconds for k, seconds in enumerate(passes, 1)}
    return {
        "round_ms": 1e3 * float(np.median(rounds)),
        "least_round_ms": 1e3 * float(np.min(rounds)),
        "rounds": len(rounds),
        **known,
        "two_over_one": passes[0] / passes[1],
    }


def quiet_pass(path: Path, D: int, r: int, workers: int) -> float:
    """Return the median seconds of one pass over a table that the workers keep."""
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((D, r)))[0]
    with client(workers) as ours:
        rows = on_cluster(path, ours, memory="2GB").as_rows().through(Sphere())
        return float(np.median(windows(lambda: rows.add(Glad(D, r), V, None), 2, 0.0)))


@contextmanager
def client(workers: int) -> Iterator[Any]:
    """Start a cluster of processes with one thread each."""
    facts = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=workers, **facts) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def windows(work: Callable[[], Any], count: int, pause: float) -> list[float]:
    """Return the seconds of single calls, of the windows in which the machine was quiet."""
    for _ in range(3):
        work()
    found: list[float] = []
    shares = []
    for _ in range(WINDOWS):
        with ahead_of_others("--first" in sys.argv):
            begin, times = waited(), []
            since = perf_counter()
            for _ in range(count):
                sleep(pause)
                start = perf_counter()
                work()
                times.append(perf_counter() - start)
            share = (waited() - begin) / (perf_counter() - since)
        shares.append(share)
        if share <= QUIET or "--first" in sys.argv:
            found += times
    if not found:
        msg = f"We waited for a core for {min(shares):.0%} of all windows or more: measure again."
        raise RuntimeError(msg)
    return found


@contextmanager
def ahead_of_others(wanted: bool) -> Iterator[None]:
    """Run all our threads in the real-time class."""
    try:
        for thread in threads() if wanted else ():
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(10))
        yield
    finally:
        for thread in threads() if wanted else ():
            os.sched_setscheduler(int(thread.name), os.SCHED_OTHER, os.sched_param(0))


def waited() -> float:
    """Return the seconds that threads of this process and its children waited for a core."""
    return sum(int((thread / "schedstat").read_text().split()[1]) for thread in threads()) * 1e-9


def threads() -> list[Path]:
    """Return the threads of this process and of its children."""
    ours = psutil.Process()
    every = (ours, *ours.children(recursive=True))
    return [thread for one in every for thread in Path(f"/proc/{one.pid}/task").iterdir()]


if __name__ == "__main__":
    print(measured())
