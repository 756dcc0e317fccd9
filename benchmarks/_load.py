"""How much of the machine others used while a row was measured.

Turns and ratios cancel what slows both sides alike. Other load need not: with a load of 7 on 2
cores, scikit-learn's PCA took 6 times the wall time and 9 times the CPU time on two BLAS threads
that it took on one (they seem to spin while they wait for each other), our fit about the same on
both. Such a ratio flatters us, so it gets no verdict.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from benchmarks._facts import cores
from benchmarks._rows import Row

Reading = tuple[float, float]
"""Wall seconds, and CPU seconds that others have used."""

SHORTEST = 0.5
"""Rows of one race come at once: below this many seconds the last share still holds."""


def reading() -> Reading | None:
    """Return the clock and the CPU seconds of all but this process and its ended children."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return perf_counter(), busy - sum(os.times()[:4])


def watched(
    rows: Iterable[Row], read: Callable[[], Reading | None] = reading, n_cores: int | None = None
) -> Iterator[Row]:
    """Yield the rows with the share of the machine that others had meanwhile."""
    n_cores = n_cores or cores()
    last, share = read(), None
    for row in rows:
        now = read()
        if last is not None and now is not None and now[0] - last[0] >= SHORTEST:
            share = max(0.0, (now[1] - last[1]) / (n_cores * (now[0] - last[0])))
            last = now
        yield replace(row, others=share)
