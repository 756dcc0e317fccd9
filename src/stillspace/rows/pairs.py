"""Differences of pairs of rows: the unknown centre of the rows cancels in them (SPEC 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels import jobs
from stillspace.kernels.pairs import subtract_pairs
from stillspace.rows.stored import Scaling, Stored


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
    ones: FloatArray
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
        return cls(source, first, second, np.ones(n))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, D)."""
        return len(self.first), self.source.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored cells."""
        return self.source.dtype

    def load(
        self, index: IntArray, start: int, scaling: Scaling, factors: FloatArray, X: FloatArray
    ) -> None:
        """Fill `X` (b, width) with scaled differences, from `start` of `index` or of all."""
        stop = start + len(X)
        pairs = index[start:stop] if len(index) > 0 else np.arange(start, stop)
        if len(X) == 0:
            return
        as_it_is, B = Scaling.of(self.shape[1]), np.empty_like(X)
        self.source.load(self.first[pairs], 0, as_it_is, self.ones, X)
        self.source.load(self.second[pairs], 0, as_it_is, self.ones, B)
        subtract_pairs(X, B, pairs, scaling.unit, factors, scaling.missing, scaling.holes)

    def add(
        self, terms: jobs.Terms, scaling: Scaling, factors: FloatArray, span: jobs.Span
    ) -> None:
        """Add the terms of a run of blocks."""
        memory = np.empty((min(span.block, span.stop - span.start), self.shape[1]))
        for at in range(span.start, span.stop, span.block):
            X = memory[: min(span.block, span.stop - at)]
            self.load(span.chosen, at, scaling, factors, X)
            jobs.add_block(terms, X.T)

    def measure(
        self, wanted: jobs.Measure, scaling: Scaling, factors: FloatArray, span: jobs.Span
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores and distances of a run of blocks."""
        X = np.empty((span.stop - span.start, self.shape[1]))
        self.load(span.chosen, span.start, scaling, factors, X)
        return jobs.measured(X.T, *wanted)
