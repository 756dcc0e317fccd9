"""Fits on a Dask cluster whose workers are killed with −9: same bits, one charge."""

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import distributed
import numpy as np

from evidence._table import markdown
from stillspace import Budget, PrivateRobustPCA
from stillspace.estimators import _private
from stillspace.parts.noise import seeded_generator
from stillspace.rows.cluster import on_cluster

FITS, WITHOUT_WORKERS = 20, 5
N, D = 40_000, 32
OPTIONS = {"epsilon": 1.0, "delta": 1e-6, "center": None, "scale": None}


@dataclass
class Kill:
    """Workers that were killed while something ran."""

    at: float
    """Seconds after the beginning."""
    workers: int
    alone: float = 0.0
    """Seconds for which no worker was there, as far as they were seen."""


class Workers:
    """Two worker processes of a cluster; whoever is killed is replaced a little later."""

    def __init__(self, client: Any, scheduler: Any) -> None:
        self.client, self.scheduler = client, scheduler
        self.processes = [self._started() for _ in range(2)]

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.scheduler.address]
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        silent = subprocess.DEVNULL
        return subprocess.Popen([*command, *options], stdout=silent, stderr=silent)

    def lose(self, kill: Kill, work: Callable[[], Any]) -> tuple[Any, bool]:
        """Run `work`, kill workers meanwhile; return what it gives, and whether it was running."""
        self.client.wait_for_workers(2, timeout=600)
        ended, during = threading.Event(), []

        def killer() -> None:
            time.sleep(kill.at)
            during.append(not ended.is_set())
            for k in range(kill.workers):
                self.processes[k].kill()
                self.processes[k].wait()
                self.processes[k] = self._started()
            while not ended.is_set():
                time.sleep(0.05)
                kill.alone += 0.0 if self.scheduler.workers else 0.05

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            found = work()
        finally:
            ended.set()
            thread.join()
        return found, during[0]

    def end(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.kill()
            process.wait()


def lost_workers_table(fits: int = FITS, without: int = WITHOUT_WORKERS) -> str:
    """Fit again and again, with the noise of one seed, and kill one worker, or both."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4)) @ rng.standard_normal((4, D)) + rng.standard_normal((N, D))
    # A ledger takes no fit with a random_state; the bits of two fits need the same noise.
    real, _private.generator = _private.generator, lambda _: seeded_generator(5)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            distributed.LocalCluster(
                n_workers=0, protocol="tcp", dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            path = Path(folder) / "X.npy"
            np.save(path, X.astype(np.float32))
            workers = Workers(client, cluster.scheduler)
            try:
                rows = _rows(workers, path, fits, without)
            finally:
                workers.end()
    finally:
        _private.generator = real
    same = sum(row[5] == "yes" for row in rows)
    note = (
        f"A private default fit of {N} × {D} cells on two workers. One worker, or both, are killed "
        "with −9 at a random moment, and new ones are started. The noise has one seed, so that "
        f"the components must have the bits of a fit in memory: {same} of {len(rows)} have them."
    )
    head = ("fit", "killed", "after, s", "no worker for, s", "fit took, s", "same bits", "charges")
    return markdown("Lost workers", note, head, rows)


def _rows(workers: Workers, path: Path, fits: int, without: int) -> list[tuple[Any, ...]]:
    client = workers.client
    client.wait_for_workers(2, timeout=600)

    def fit(budget: Budget | None, table: Any) -> np.ndarray:
        return PrivateRobustPCA(2, budget=budget, **OPTIONS).fit(table).components_

    want = fit(None, np.load(path))
    for _ in range(2):  # the first one warms up
        begin = time.monotonic()
        fit(None, on_cluster(path, client, partitions=4))
        usual = time.monotonic() - begin
    moments = random.Random(0)
    rows: list[tuple[Any, ...]] = []
    while len(rows) < fits:
        kill = Kill(moments.uniform(0.05, 0.6) * usual, 2 if len(rows) < without else 1)
        budget = Budget(path.with_name(f"{moments.random()}.db"), epsilon=2, delta=1e-5)
        begin = time.monotonic()
        table = on_cluster(path, client, partitions=4)
        found, during = workers.lose(kill, lambda b=budget, t=table: fit(b, t))
        took = time.monotonic() - begin
        table.forget()
        print(kill, f"{took:.1f} s", "" if during else "after the fit", flush=True)
        if during and (kill.workers == 1 or kill.alone > 0.0):  # otherwise nothing was tried
            same = "yes" if np.array_equal(found, want) else "no"
            facts = (f"{kill.at:.2f}", f"{kill.alone:.1f}", f"{took:.1f}", same)
            rows.append((len(rows) + 1, kill.workers, *facts, len(budget.entries())))
    return rows
