"""Timing: contestants take turns in one process, and ratios are formed within a turn.

A machine's speed drifts (other load, clock, cache), but both sides of a turn see nearly the same
machine. So the ratio is taken turn by turn; its median and quartiles are what is reported.
"""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any

import numpy as np

from benchmarks._rows import Row, Spread, Target, Unit

REST = 0.1
"""Seconds before a contestant starts: BLAS threads of the one before spin on for some time."""

Runner = Callable[[], Any]
Timer = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Race:
    """Seconds of each contestant, turn by turn."""

    times: Mapping[str, tuple[float, ...]]

    def seconds(self, name: str) -> float:
        return float(np.median(self.times[name]))

    def cost(self, ours: str, peer: str) -> Spread:
        """Return our time in units of the peer's."""
        return spread(np.divide(self.times[ours], self.times[peer]))

    def speedup(self, ours: str, peer: str) -> Spread:
        """Return the peer's time in units of ours."""
        return self.cost(peer, ours)

    def row(
        self,
        topic: str,
        what: str,
        ours: str,
        peer: str,
        *,
        faster: bool = False,
        target: Target | None = None,
        note: str = "",
    ) -> Row:
        """Return the result for one pair: a speed-up if `faster`, else a cost."""
        unit: Unit = "× faster" if faster else "× its time"
        measured = self.speedup(ours, peer) if faster else self.cost(ours, peer)
        seconds = self.seconds(ours), self.seconds(peer)
        return Row(topic, what, peer, unit, measured, target, *seconds, note)


def spread(values: Any) -> Spread:
    low, median, high = np.percentile(values, [25, 50, 75])
    return Spread(float(median), float(low), float(high))


def race(
    contestants: Mapping[str, Runner],
    turns: int,
    *,
    budget: float = 60.0,
    warm_up: bool = True,
    number: int = 1,
    timer: Timer = perf_counter,
) -> Race:
    """Run all contestants `turns` times, `number` calls each, the first one rotating.

    No new turn starts after `budget` seconds, but there is always one.
    """
    names = list(contestants)
    begin = timer()
    if warm_up:
        for name in names:
            contestants[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        if turn and timer() - begin > budget:
            break
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(clock(contestants[name], number, timer))
    return Race({name: tuple(t) for name, t in times.items()})


def clock(runner: Runner, number: int = 1, timer: Timer = perf_counter) -> float:
    """Return the seconds of one call, the mean of `number`, after a collection and a rest."""
    gc.collect()
    sleep(REST)
    start = timer()
    for _ in range(number):
        runner()
    return (timer() - start) / number


def exponent(sizes: Any, values: Any) -> float:
    """Return the slope of log(value) against log(size), by least squares, to 3 digits."""
    return round(float(np.polyfit(np.log(sizes), np.log(values), 1)[0]), 3)
