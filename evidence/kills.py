"""A ledger under attack: kill −9 at a random moment of a fit, and races for the last of it."""

import mmap
import multiprocessing
import os
import random
import signal
import struct
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from evidence._table import markdown
from stillspace import Budget, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import BudgetExceededError
from stillspace.privacy import ComposedEvent, GaussianEvent
from stillspace.privacy.filters import UNIT, Tally

ROUNDS, RACES, RACERS = 200, 1000, 8


class Notes:
    """Three counters that outlive the process that writes them."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 24)

    def add(self, place: int) -> None:
        struct.pack_into("q", self._shared, 8 * place, self[place] + 1)

    def __getitem__(self, place: int) -> int:
        return int(struct.unpack_from("q", self._shared, 8 * place)[0])


BEGUN, READ, DONE = 0, 1, 2


class WatchedRows:
    """Rows that note when the first of their cells is read. Shape and dtype are no cells."""

    def __init__(self, X: np.ndarray, on_read: Callable[[], None]) -> None:
        self._X, self._on_read, self._was_read = X, on_read, False
        self.shape, self.dtype = X.shape, X.dtype

    def __len__(self) -> int:
        return len(self._X)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        if not self._was_read:
            self._on_read()
            self._was_read = True
        return self._X


def one_fit(X: np.ndarray, budget: Budget, notes: Notes) -> None:
    notes.add(BEGUN)
    estimator = PrivateRobustPCA(
        2, epsilon=0.5, algorithm="dp-ggd", n_iter=20, budget=budget, center=None
    )
    estimator.fit(WatchedRows(X, lambda: notes.add(READ)))
    notes.add(DONE)


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a fork of this warm process; return its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: threads and fork
        child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def kill_once(folder: Path, X: np.ndarray, seconds: float, rng: random.Random) -> str:
    """Kill a process that fits without end, at a random moment; return where it was.

    Raises AssertionError if the ledger is not exactly what it should be.
    """
    path = folder / f"{rng.getrandbits(64):x}.db"
    budget, notes = Budget(path, epsilon=20, delta=1e-5), Notes()

    def fits() -> None:
        while True:
            one_fit(X, budget, notes)

    child = forked(fits)
    while not notes[BEGUN]:
        time.sleep(0)
    time.sleep(rng.uniform(0, 2 * seconds))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    begun, read, done = notes[BEGUN], notes[READ], notes[DONE]
    journal = Path(f"{path}-journal").exists()
    entries = Budget(path).entries()  # rolls back what was half written; checks file and chain
    charged = len(entries)
    assert done <= read <= charged, "cells were read uncharged, or a charge was lost"
    assert charged <= begun, "more was charged than fits were begun"
    assert len({entry.charge for entry in entries}) <= 1
    one_fit(X, Budget(path), notes)  # the ledger still works, and counts
    assert len(budget.entries()) == charged + 1
    if charged > read:
        return "after the charge, before the first cell"
    if read > done:
        return "after the first cell, before the result"
    return "in the middle of the charge (rolled back)" if journal else "before the charge"


def kills(rounds: int, folder: Path, seed: int = 0) -> Counter[str]:
    rng = random.Random(seed)
    X = make_haystack(2000, 20, 2, random_state=0).X
    warm, notes = Budget(folder / "warm.db", epsilon=20, delta=1e-5), Notes()
    one_fit(X, warm, notes)  # compiles the kernels: children fork from a warm process
    begin = time.perf_counter()
    one_fit(X, warm, notes)
    seconds = time.perf_counter() - begin
    return Counter(kill_once(folder, X, seconds, rng) for _ in range(rounds))


def race(folder: Path, rounds: int, racers: int = RACERS, seed: int = 0) -> Counter[str]:
    """Let processes race for the last of many ledgers, which they also race to make."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(racers)
    results = context.SimpleQueue()

    def racer(number: int) -> None:
        rng = random.Random(1000 * seed + number)
        for i in range(rounds):
            barrier.wait()
            kind = "gaussian" if i % 2 else "renyi"
            budget = Budget(folder / f"{i}.db", epsilon=1, delta=1e-6, kind=kind)
            event = _event(budget, i, rng)
            try:
                budget.charge(event, "replace-one", name=f"racer {number}")
                results.put((i, True))
            except BudgetExceededError:
                results.put((i, False))
            except Exception:  # must not happen: a round that is counted as wrong, and no hang
                results.put((i, 1000))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        processes = [context.Process(target=racer, args=(k,)) for k in range(racers)]
        for process in processes:
            process.start()
    won: Counter[int] = Counter()
    for _ in range(rounds * racers):
        i, admitted = results.get()
        won[i] += admitted
    for process in processes:
        process.join()
    return Counter(_verdict(Budget(folder / f"{i}.db"), i, won[i]) for i in range(rounds))


def _event(budget: Budget, i: int, rng: random.Random) -> ComposedEvent:
    """Every other pair of rounds: equal charges of which 1 to 7 have room, else of any size."""
    limit = float(budget._terms.limits[0] * UNIT)
    square = limit if budget.kind == "gaussian" else 2 * limit / budget.orders[0]
    part = 1 / (1 + i % 7) if i % 4 < 2 else rng.uniform(0.05, 0.6)
    return ComposedEvent.of([GaussianEvent((square * part * (1 - 1e-12)) ** -0.5, 1.0, 1.0)])


def _verdict(budget: Budget, i: int, won: int) -> str:
    entries = budget.entries()
    tally = Tally.of(budget._terms, [entry.charge for entry in entries])
    if not tally.kept or tally.share > 1 or len(entries) != won:
        return "overspent or miscounted"
    if i % 4 < 2:
        return "all of it spent, exactly" if won == 1 + i % 7 else "room was left unused"
    # Of any size: a refused charge had no room, so that at most the largest is left.
    return (
        "never over the limit"
        if tally.share > Fraction(2, 5) or won == RACERS
        else "room was left unused"
    )


def kills_table() -> str:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        found = kills(ROUNDS, Path(folder), seed=int(time.time()))
    note = (
        f"A process that fits without end, forked from a warm parent, killed at a random moment, "
        f"{ROUNDS} times. Each time the ledger opened, its chain was whole, it held a charge for "
        "every fit that had read a cell and at most one more, and the next fit was charged."
    )
    rows = [(place, count) for place, count in sorted(found.items())]
    return markdown("kill −9", note, ("killed", "times"), [*rows, ("consistent", found.total())])


def races_table() -> str:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        found = race(Path(folder), RACES, seed=int(time.time()))
    note = (
        f"{RACERS} processes, released by a barrier, make one ledger and charge it; {RACES} "
        "rounds, gaussian and renyi in turn. Half of the rounds have room for exactly 1 to 7 equal "
        "charges, the others have charges of 5 to 60 % of the budget."
    )
    rows = sorted(found.items())
    return markdown("Races", note, ("outcome", "rounds"), rows)
