"""How many rows make a block and how many blocks make a job: rules, from shapes alone.

A block is what a query sees at once. Where the sum is narrow (D × r) a block is as large as two
copies of it (the rows and their residuals) fill half of a core's second cache, so that all steps
of a pass happen there. Where it is wide (D × D) the work is a matrix product over the block, which
wants many rows. A job is a run of blocks added up by one thread, in floating point. Job sums are
then added exactly (`rows/sums.py`), so that a total has the same bits on any number of threads.

None of this touches a row's term (SPEC 4 a). It sets the order of additions inside a job, whose
error `Summation` bounds (SPEC 4 b). The layout follows from the number of columns and the query,
not from the machine: the same rows give the same bits everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from stillspace._typing import IntArray

LONGEST_BLOCK = 512
SHORTEST_JOB = 256
MOST_BLOCKS = 256
"""Blocks in a job, at most."""

SPARSE_JOB = 4096
"""Rows in a job of sparse rows, at least: where few cells are stored, a job's sum costs more."""

JOB_CELLS = 2**20
"""Cells in a job: some milliseconds of work, against which handing it to a thread is nothing."""

WIDE = 64
"""A sum with more than this many entries per column of the rows is wide."""

CACHE_BYTES = 2**19
"""The second cache of a core: half a MiB is common, and a larger one does no harm."""

FEWEST_CHOSEN = 64
"""One chosen row among so many, or more of them: rows are read by stretches, not one by one."""

LOOP_CELLS = 2**20
"""Up to this many cells (public size times columns) a compiled loop may add up all rows at once."""

LOOP_BLOCK = 96
"""Rows per block of a compiled loop."""

Job: TypeAlias = tuple[int, int]
"""First position and the one past the last."""


def loop_chain_length(n: int) -> int:
    """Return the longest chain of additions of a compiled loop over `n` rows (SPEC 4 b).

    A product, the additions within a block, one per block, three over the lanes and one that makes
    a matrix symmetric.
    """
    return 1 + LOOP_BLOCK + -(-n // LOOP_BLOCK) + 4


@dataclass(frozen=True, slots=True)
class Summation:
    """How rows are added up: what the floating-point slack of a release assumes (SPEC 4 b).

    A job adds at most `job_cells / D` rows (or 4096, if that is more, and one block) in floating
    point, by chains of at most `chain` operations per entry; jobs are added exactly.
    """

    job_cells: int
    chain: int

    def job_rows(self, D: int) -> int:
        """Return the largest number of rows in a job."""
        rows = max(self.job_cells // max(D, 1), SPARSE_JOB) + LONGEST_BLOCK
        return min(rows, MOST_BLOCKS * LONGEST_BLOCK)

    def covers(self, other: Summation) -> bool:
        """Whether sums made the other way have no larger error than these."""
        return other.job_cells <= self.job_cells and other.chain <= self.chain


STANDARD = Summation(JOB_CELLS, 1 + LONGEST_BLOCK + MOST_BLOCKS)
"""One product and the additions inside a block, then one per block of the job."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows in a block and rows in a job."""

    block: int
    job: int

    @classmethod
    def of(cls, D: int, entries: int, *, sparse: bool = False) -> Layout:
        """Return the layout for rows of D columns and a sum of so many entries.

        Sparse rows have longer jobs, whatever is asked of them.
        """
        if entries > WIDE * D:
            block = LONGEST_BLOCK
        else:
            fits = CACHE_BYTES // 2 // (2 * 8 * max(D, 1))
            # An odd number of cache lines: the cells of a column then spread over the whole cache.
            lines = (min(fits, LONGEST_BLOCK // 2) // 8 + 1) // 2 * 2 - 1
            block = 8 * max(lines, 1)
        rows = max(JOB_CELLS // max(D, 1), SHORTEST_JOB)
        blocks = min(-(-rows // block), MOST_BLOCKS)
        # 512 blocks of 8 rows at most: a shorter chain than the longest one of dense rows
        return cls(block, max(blocks, -(-SPARSE_JOB // block) if sparse else 0) * block)

    def jobs(self, count: int) -> list[Job]:
        """Return the jobs that cover so many rows."""
        starts = range(0, count, self.job)
        return [(start, min(start + self.job, count)) for start in starts]

    def jobs_of(self, chosen: IntArray, n_rows: int) -> list[Job]:
        """Return the jobs that cover chosen rows, as positions among them.

        Where they are a good part of all rows, a job has the chosen rows of one job of all rows: so
        whoever holds that stretch of rows can do it.
        """
        if not stretches(chosen, n_rows):
            return self.jobs(len(chosen))
        edges = np.searchsorted(chosen, [*range(0, n_rows, self.job), n_rows]).tolist()
        return [(low, high) for low, high in pairwise(edges) if low < high]


def stretches(chosen: IntArray, n_rows: int) -> bool:
    """Whether chosen rows ascend and are so many that stretches of rows are read as a whole."""
    many = len(chosen) * FEWEST_CHOSEN >= n_rows
    return many and bool(np.all(chosen[1:] > chosen[:-1]))
