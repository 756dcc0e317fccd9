"""How many rows make a block and how many blocks make a job: rules, from shapes and the cache.

A block is what a query sees at once. Where the sum is narrow (D × r) a block is as large as two
copies of it (the rows and their residuals) fill half of a core's second cache, so that all steps
of a pass happen there. Where it is wide (D × D) the work is a matrix product over the block, which
wants many rows. A job is a run of blocks added up by one thread; job sums are added in their
order, so that the result has the same bits on any number of threads.

None of this touches a row's term (SPEC 4 a). It sets the order of the final additions, whose
error `chain_length` bounds for every choice that is made here (SPEC 4 b).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

LONGEST_BLOCK = 512
SHORTEST_JOB = 256
MOST_BLOCKS = 256
"""Blocks in a job, at most."""

JOB_CELLS = 2**20
"""Cells in a job: some milliseconds of work, against which handing it to a thread is nothing."""

WIDE = 64
"""A sum with more than this many entries a column of the rows is wide."""

_UNKNOWN_CACHE = 2**19

Job: TypeAlias = tuple[int, int]
"""First position and the one past the last."""


def chain_length(n: int) -> int:
    """Return the longest chain of additions behind a sum over `n` rows (SPEC 4 b).

    One product and the additions inside a block, then one a block of the job, then one a job.
    """
    return 1 + LONGEST_BLOCK + MOST_BLOCKS + -(-n // SHORTEST_JOB)


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows in a block and rows in a job."""

    block: int
    job: int

    @classmethod
    def of(cls, D: int, entries: int) -> Layout:
        """Return the layout for rows of D columns and a sum of so many entries."""
        if entries > WIDE * D:
            block = LONGEST_BLOCK
        else:
            fits = cache_bytes() // 2 // (2 * 8 * max(D, 1))
            # An odd number of cache lines: the cells of a column then spread over the whole cache.
            lines = (min(fits, LONGEST_BLOCK // 2) // 8 + 1) // 2 * 2 - 1
            block = 8 * max(lines, 1)
        rows = max(JOB_CELLS // max(D, 1), SHORTEST_JOB)
        return cls(block, min(-(-rows // block), MOST_BLOCKS) * block)

    def jobs(self, count: int) -> list[Job]:
        """Return the jobs that cover so many rows."""
        starts = range(0, count, self.job)
        return [(start, min(start + self.job, count)) for start in starts]


@cache
def cache_bytes() -> int:
    """Return the size of a core's second cache, as the system tells it."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text("ascii")
        return int(text.strip().removesuffix("K")) * 1024
    except (OSError, ValueError):  # not Linux, or a container without it
        return _UNKNOWN_CACHE
