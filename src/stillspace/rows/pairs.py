"""Differences of pairs of rows: the unknown centre of the rows cancels in them (SPEC 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.pairs import subtract_pairs
from stillspace.rows.stored import Factors, LoadedFirst, Ones, Scaling, Stored

PAIR_CELLS = 2**21
"""Cells of a block of rows whose partners all lie in one other block."""


def pair_block(n: int, columns: int | None) -> int:
    """Return the number of rows in a block: from the shape of the table alone.

    A table of up to two blocks is one block. Otherwise there is an even number of blocks, all of
    one length, and fewer rows than blocks are left over at the end.
    """
    length = n if columns is None else max(PAIR_CELLS // columns, 1)
    if n <= 2 * length:
        return max(n, 1)
    return max(n // (2 * -(-n // (2 * length))), 1)


def draw_pairs(n: int, rng: np.random.Generator, columns: int | None = None) -> IntArray:
    """Return ⌊n/2⌋ disjoint random pairs of row numbers, shape (⌊n/2⌋, 2).

    Drawn before any row is read and without looking at one: each row is in at most one pair, so
    replacing a row replaces one difference. With an odd n one row is in none.

    With `columns` a long table is cut into blocks of rows. Blocks are paired at random, and each
    row of a block gets a random partner in the other block: so a pass over the pairs reads each
    block once. The rows left over at the end are paired among themselves.
    """
    length = pair_block(n, columns)
    if length >= n:
        return _random_pairs(np.arange(n), rng)
    blocks = n // length // 2 * 2
    order = rng.permutation(blocks).reshape(-1, 2)
    pairs = np.empty((n // 2, 2), dtype=np.int64)
    within = np.arange(length)
    for k, (a, b) in enumerate(order.tolist()):
        rows = pairs[k * length : (k + 1) * length]
        rows[:, 0], rows[:, 1] = a * length + within, b * length + rng.permutation(length)
    pairs[len(order) * length :] = _random_pairs(np.arange(blocks * length, n), rng)
    return pairs


def _random_pairs(numbers: IntArray, rng: np.random.Generator) -> IntArray:
    half = len(numbers) // 2
    drawn = rng.permutation(numbers)[: 2 * half].reshape(half, 2)
    return np.ascontiguousarray(drawn, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PairedRows(LoadedFirst):
    """Row i is `source[first[i]] − source[second[i]]`, in whatever way the source is stored.

    The two rows are read as they are, subtracted, and only then scaled, so that a scaled cell is
    `((a − b) · (1/scale)) · inverse norm`; a scaling's centre does not matter.
    """

    source: Stored
    first: IntArray
    second: IntArray
    ones: Ones
    """The source's rows are read unscaled: a factor of 1 each."""

    @classmethod
    def of(cls, source: Stored, pairs: IntArray) -> PairedRows:
        """Check pairs of row numbers, shape (m, 2)."""
        pairs = np.asarray(pairs, dtype=np.int64)
        n = source.shape[0]
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"pairs must have the shape (m, 2), got {pairs.shape}.")
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < n:
            raise ValueError("pairs must hold row numbers of the table.")
        return cls(source, pairs[:, 0], pairs[:, 1], Ones(n))  # views: nothing is copied

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.first), self.source.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, X: FloatArray
    ) -> None:
        """Fill `X` (b, width) with scaled differences, from `start` of `index` or of all."""
        stop = start + len(X)
        pairs = index[start:stop] if len(index) > 0 else np.arange(start, stop)
        if len(X) == 0:
            return
        as_it_is, B = Scaling.of(self.shape[1]), np.empty_like(X)
        self.source.load(self.first[pairs], 0, as_it_is, self.ones, X)
        self.source.load(self.second[pairs], 0, as_it_is, self.ones, B)
        subtract_pairs(X, B, scaling.unit, factors[pairs], scaling.missing, scaling.holes)
