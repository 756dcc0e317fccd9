"""Differences of pairs of rows: the unknown centre of the rows cancels in them (SPEC 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels import jobs
from stillspace.kernels.pairs import subtract_pairs
from stillspace.rows.stored import Factors, Ones, Scaling, Stored


def draw_pairs(n: int, rng: np.random.Generator) -> IntArray:
    """Return ⌊n/2⌋ disjoint random pairs of row numbers, shape (⌊n/2⌋, 2).

    Drawn before any row is read and without looking at one: each row is in at most one pair, so
    replacing a row replaces one difference. With an odd n one row is in none.
    """
    half = n // 2
    return np.ascontiguousarray(rng.permutation(n)[: 2 * half].reshape(half, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PairedRows:
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
            msg = f"pairs must have the shape (m, 2), got {pairs.shape}."
            raise ValueError(msg)
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < n:
            msg = "pairs must hold row numbers of the table."
            raise ValueError(msg)
        first, second = (np.ascontiguousarray(column) for column in pairs.T)
        return cls(source, first, second, Ones(n))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, D)."""
        return len(self.first), self.source.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored cells."""
        return self.source.dtype

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: Factors, XT: FloatArray
    ) -> None:
        """Fill `XT` (D, b) with scaled differences, from position `start` of `index` or of all."""
        D, b = XT.shape
        stop = start + b
        pairs = index[start:stop] if len(index) > 0 else np.arange(start, stop)
        if b == 0:
            return
        as_it_is, B = Scaling.of(D), np.empty_like(XT)
        self.source.load(self.first[pairs], 0, as_it_is, self.ones, XT)
        self.source.load(self.second[pairs], 0, as_it_is, self.ones, B)
        subtract_pairs(XT, B, scaling.unit, factors[pairs], scaling.missing, scaling.holes)

    def add(self, terms: jobs.Terms, scaling: Scaling, factors: Factors, span: jobs.Span) -> None:
        """Add the terms of a run of blocks."""
        memory = np.empty(self.shape[1] * min(span.block, span.stop - span.start))
        for at in range(span.start, span.stop, span.block):
            width = min(span.block, span.stop - at)
            XT = memory[: self.shape[1] * width].reshape(-1, width)
            self.load(span.chosen, at, scaling, factors, XT)
            jobs.add_block(terms, XT)
