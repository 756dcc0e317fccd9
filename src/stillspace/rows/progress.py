"""A line that says how far a long fit is, on a terminal only.

It counts the jobs of passes. It shows no cell and no number of rows. How long a fit takes is not
covered by a privacy guarantee, with or without this line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO, TypeVar

_T = TypeVar("_T")

DELAY = 2.0
"""Seconds before the line appears: a shorter fit shows nothing."""

PAUSE = 0.2
"""Seconds between two lines."""

WIDTH = 24
"""Characters of the bar."""


class Progress:
    """Counts passes and jobs, and writes a line from time to time."""

    def __init__(self, passes: int | None, stream: TextIO) -> None:
        self._passes, self._stream = passes, stream
        self._begun = self._last = time.monotonic()
        self._done = 0
        self._length = 0

    def watched(self, results: Iterator[_T], jobs: int) -> Iterator[_T]:
        """Yield the results of one pass, and say how far it is."""
        for k, result in enumerate(results):
            yield result
            self._tell((k + 1) / jobs)
        self._done += 1

    def end(self) -> None:
        """Take the line away."""
        if self._length:
            self._stream.write("\r" + " " * self._length + "\r")
            self._stream.flush()

    def _tell(self, part: float) -> None:
        now = time.monotonic()
        if now - self._begun < DELAY or now - self._last < PAUSE:
            return
        self._last = now
        line = self.line(self._done + part, now - self._begun)
        self._stream.write("\r" + line.ljust(self._length))
        self._stream.flush()
        self._length = len(line)

    def line(self, done: float, seconds: float) -> str:
        """Return the line after so many passes and seconds."""
        if self._passes is None or done >= self._passes:
            return f"pass {int(done) + 1}, {in_time(seconds)} so far"
        share = done / self._passes
        bar = ("█" * round(share * WIDTH)).ljust(WIDTH, "·")
        left = in_time(seconds * (1.0 - share) / share)
        return f"{bar} pass {int(done) + 1} of at most {self._passes}, at most {left} left"


def in_time(seconds: float) -> str:
    """Return a duration as a person says it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


_ACTIVE: ContextVar[Progress | None] = ContextVar("progress", default=None)


def active() -> Progress | None:
    """Return what counts the passes at the moment, if anything does."""
    return _ACTIVE.get()


@contextmanager
def progress(
    wanted: bool, passes: int | None = None, stream: TextIO | None = None
) -> Iterator[None]:
    """Show the progress of the passes inside, if it is wanted and a person can see it."""
    stream = sys.stderr if stream is None else stream
    if not wanted or stream is None or not stream.isatty():
        yield
        return
    counter = Progress(passes, stream)
    token = _ACTIVE.set(counter)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
        counter.end()
