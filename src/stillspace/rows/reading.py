"""Reading parts of a source: read-ahead, and the memory that it may take.

A source that several threads may read at once is read by the threads that add up, each its own
part. Any other source is read by one thread in windows, a window ahead of those that are in use.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from stillspace._typing import IntArray
from stillspace.rows.sources.protocol import RowSource, joined
from stillspace.rows.sums import allowed_threads

WINDOWS = 3
"""Windows that are kept: the last one, the present one and the one ahead."""

LARGEST_PART, LARGEST_WINDOW = 2**23, 2**26
"""Bytes: larger parts do not make reading faster."""

PART_SHARE, WINDOW_SHARE = 1 / 16, 1 / 16
"""Share of the memory that all parts of the threads together, or one window, may take."""


class Piece(NamedTuple):
    """Rows `low…high` of an array are the table's rows from `first + low` on."""

    X: Any
    first: int
    low: int
    high: int


def cell_bytes(source: RowSource) -> int:
    """Return the bytes per row in memory; a source of sparse rows tells its own."""
    stated = getattr(source, "row_bytes", None)
    if stated is not None:
        return max(int(stated), 1)
    return max(source.shape[1] * source.dtype.itemsize, 1)


class DirectReader:
    """Each thread reads for itself; the system is told what comes next."""

    def __init__(self, source: RowSource, memory: int) -> None:
        self._source = source
        share = int(memory * PART_SHARE) // allowed_threads()
        self.rows = max(min(share, LARGEST_PART) // cell_bytes(source), 1)

    def pieces(self, start: int, stop: int, block: int) -> Iterator[Piece]:
        """Yield the rows start…stop − 1 in pieces of whole blocks."""
        step = max(self.rows // block, 1) * block
        announce = getattr(self._source, "announce", None)
        for at in range(start, stop, step):
            end = min(at + step, stop)
            # once per part, also where smaller blocks are read: the system looks at every page
            if announce is not None and at // self.rows < end // self.rows:
                announce(end, min(end + step, self._source.shape[0]))
            yield Piece(self._source.read(at, end), at, 0, end - at)

    def take(self, numbers: IntArray) -> Any:
        return self._source.take(numbers)


class _Windows:
    """Stretches of equally many rows; the last few are kept.

    One thread reads them, in the order in which they are asked for. Threads of their own for each
    window would read them in any order, and the memory of libraries grows with threads.
    """

    def __init__(self, source: RowSource, rows: int, kept: int) -> None:
        self._source, self.rows, self._kept = source, rows, kept
        self._windows: OrderedDict[int, Future[Any]] = OrderedDict()
        self._lock, self._process = Lock(), 0
        self._executor: ThreadPoolExecutor

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source, self.rows, self._kept)

    def window(self, k: int, *, ahead: bool = False) -> Any:
        """Return a window; with `ahead` the next one is read in the meantime."""
        with self._lock:
            wanted = self._begun(k)
            if ahead and (k + 1) * self.rows < self._source.shape[0]:
                self._begun(k + 1)
        try:
            return wanted.result()
        except BaseException:
            with self._lock:
                self._windows.pop(k, None)
            raise

    def take(self, numbers: IntArray) -> Any:
        return self._thread().submit(self._source.take, numbers).result()

    def _begun(self, k: int) -> Future[Any]:
        """Return the window, whose reading begins now unless it has begun before."""
        if k not in self._windows:
            stop = min((k + 1) * self.rows, self._source.shape[0])
            self._windows[k] = self._thread().submit(self._source.read, k * self.rows, stop)
            while len(self._windows) > self._kept:
                self._windows.popitem(last=False)
        self._windows.move_to_end(k)
        return self._windows[k]

    def _thread(self) -> ThreadPoolExecutor:
        """Return the thread that reads; after a fork another one, since threads are not copied."""
        if self._process != os.getpid():
            self._executor, self._process = ThreadPoolExecutor(1), os.getpid()
        return self._executor


class WindowReader(_Windows):
    """One thread reads at a time, one window ahead."""

    @classmethod
    def of(cls, source: RowSource, memory: int) -> WindowReader:
        """Choose windows that fit into a share of the memory."""
        size = min(int(memory * WINDOW_SHARE), LARGEST_WINDOW)
        chunk = max(int(getattr(source, "chunk", 1)), 1)
        heaviest = getattr(source, "heaviest", None)

        def whole(rows: int) -> int:  # no chunk is read twice
            return max(rows - rows % chunk if rows > chunk else rows, 1)

        rows = whole(size // cell_bytes(source))
        while heaviest is not None and rows > 1 and heaviest(rows) > size:
            rows = whole(rows // 2)
        return cls(source, rows, WINDOWS)

    def pieces(self, start: int, stop: int, block: int) -> Iterator[Piece]:
        """Yield the rows start…stop − 1 in pieces of whole blocks."""
        at = start
        while at < stop:
            k = at // self.rows
            first = k * self.rows
            end = min(stop, first + self.rows)
            whole = end - at if end == stop else (end - at) // block * block
            if whole > 0:
                window = self.window(k, ahead=True)
                yield Piece(window, first, at - first, at - first + whole)
                at += whole
            else:
                end = min(at + block, stop)
                yield Piece(self._copied(at, end), at, 0, end - at)
                at = end

    def _copied(self, start: int, stop: int) -> Any:
        """Return rows that lie in several windows."""
        parts = []
        for k in range(start // self.rows, (stop - 1) // self.rows + 1):
            first = k * self.rows
            window = self.window(k, ahead=True)
            parts.append(window[max(start - first, 0) : stop - first])
        return joined(parts)


class BlockCache(_Windows):
    """Blocks of rows that are read once and kept while pairs of their rows are asked for.

    A pass over pairs needs two blocks at a time. Threads that are at the next pair of blocks, and
    one block that is read anew, ask for a few more.
    """

    @classmethod
    def of(cls, source: RowSource, length: int) -> BlockCache:
        return cls(source, length, 5)

    def take(self, numbers: IntArray) -> Any:
        which = numbers // self.rows
        if len(np.unique(which)) > self._kept - 2:
            return super().take(numbers)  # pairs of the user's own: no block would be kept
        found = []
        for some in np.split(numbers, np.flatnonzero(np.diff(which)) + 1):
            k = int(some[0]) // self.rows
            found.append(self.window(k)[some - k * self.rows])
        return joined(found)


Reader = DirectReader | WindowReader


def reader_of(source: RowSource, memory: int) -> Reader:
    """Return the way of reading that suits a source."""
    if getattr(source, "parallel", False):
        return DirectReader(source, memory)
    return WindowReader.of(source, memory)
