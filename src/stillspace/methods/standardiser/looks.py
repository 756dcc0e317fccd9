"""Noisy histograms of columns: what one look at the cells released, and what can be read off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.methods.standardiser.rule import StandardiserRule
from stillspace.parts.queries.columns import octave_edges

LARGEST_SHARE = 1e6
"""Of the rows: a released share that is larger, on either side of 0, counts as this one. Noise of
any use has none, and single precision holds what is computed from it."""


class Range(NamedTuple):
    """What a codebook says of a column: its smallest and its largest value."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Look:
    """One noisy histogram per column: shares of the rows between edges, and their noise."""

    columns: IntArray
    """The columns that were looked at, ascending."""
    edges: FloatArray
    """(columns, edges): rows of fewer edges are filled up with ∞."""
    shares: FloatArray
    """(columns, edges + 1): 0 beyond an infinite edge."""
    sd: float

    @classmethod
    def of(cls, columns: IntArray, edges: FloatArray, counted: FloatArray, sd: float) -> Self:
        """Return a look from released shares; what lies beyond a column's own bins is noise."""
        own = np.concatenate([np.full((len(edges), 1), True), np.isfinite(edges)], axis=1)
        shares = np.clip(counted[:, : own.shape[1]], -LARGEST_SHARE, LARGEST_SHARE)
        return cls(columns, edges, np.where(own, shares, 0.0), sd)

    @cached_property
    def closed(self) -> npt.NDArray[np.bool_]:
        """Which bins lie between two edges: (columns, edges + 1)."""
        inside = np.zeros(self.shares.shape, dtype=np.bool_)
        inside[:, 1:-1] = np.isfinite(self.edges[:, 1:])
        return inside

    def places(self, columns: IntArray) -> IntArray:
        """Return where columns stand in this look; −1 for those that were not looked at."""
        at = np.minimum(np.searchsorted(self.columns, columns), len(self.columns) - 1)
        return np.where(self.columns[at] == columns, at, -1)

    def some(self, at: IntArray) -> Look:
        """Return the look at the columns in these places, no wider than they need."""
        edges = self.edges[at]
        width = int(np.isfinite(edges).sum(axis=1).max(initial=0))
        return Look(self.columns[at], edges[:, :width], self.shares[at, : width + 1], self.sd)

    def with_columns(self, other: Look) -> Look:
        """Return the look with the columns of another one as they are there."""
        width = max(self.edges.shape[1], other.edges.shape[1])
        edges = np.full((len(self.columns), width), np.inf)
        shares = np.zeros((len(self.columns), width + 1))
        for look in (self, other):
            edges[look.columns], shares[look.columns] = np.inf, 0.0
            edges[look.columns, : look.edges.shape[1]] = look.edges
            shares[look.columns, : look.shares.shape[1]] = look.shares
        return Look(self.columns, edges, shares, self.sd)

    def bins_of(self, values: FloatArray) -> IntArray:
        """Return the number of the bin that holds a value, one value per column."""
        return np.asarray(np.count_nonzero(self.edges <= values[:, None], axis=1))

    def fullest(self, low: FloatArray, high: FloatArray) -> IntArray:
        """Return the number of the fullest bin that holds cells from low to high, both per column.

        An edge of this look may lie between the two.
        """
        first, last = self.bins_of(low)[:, None], self.bins_of(np.nextafter(high, -np.inf))[:, None]
        at = np.arange(self.shares.shape[1])
        there = (first <= at) & (at <= last)
        return np.asarray(np.argmax(np.where(there, self.shares, -np.inf), axis=1))

    def own_edges(self, at: int) -> FloatArray:
        """Return the edges of one column."""
        return np.asarray(self.edges[at][np.isfinite(self.edges[at])])

    def quantiles(self, at: int, levels: FloatArray, sure: float) -> FloatArray:
        """Return quantiles of a column's cells, evenly spread within closed bins that are clear."""
        edges = self.own_edges(at)
        inside = self.shares[at, 1 : len(edges)]
        below = np.cumsum(np.where(inside > sure * self.sd, inside, 0.0))
        if len(below) == 0 or below[-1] == 0.0:
            return np.empty(0)
        return np.asarray(np.interp(levels * below[-1], np.append(0.0, below), edges))

    def outline(self, largest: AnyArray, needed: FloatArray, negligible: float) -> Look:
        """Return the look with fewer bins: those to which a hypothesis gives a share.

        `largest` (columns, bins) are these shares; `negligible` ones do not count. Edges at the
        values `needed` stay. Neighbouring bins that decide nothing become one bin without a share.
        """
        matters = largest > negligible
        kept = (matters[:, 1:] | matters[:, :-1]) & np.isfinite(self.edges)
        kept |= np.any(self.edges[:, :, None] == needed[:, None, :], axis=2)
        end = self.edges.shape[1]
        order = np.where(kept, np.arange(end), end)
        order.sort(axis=1)
        bins = np.full((len(order), int(kept.sum(axis=1).max(initial=0)) + 1), end)
        bins[:, :-1] = order[:, : bins.shape[1] - 1]
        before = np.concatenate([np.full((len(bins), 1), -1), bins[:, :-1]], axis=1)
        shares = np.where(bins - before == 1, np.take_along_axis(self.shares, bins, axis=1), 0.0)
        ended = np.concatenate([self.edges, np.full((len(bins), 1), np.inf)], axis=1)
        edges = np.take_along_axis(ended, bins[:, :-1], axis=1)
        return Look(self.columns, edges, shares, self.sd)


@cache
def first_edges(rule: StandardiserRule, known: Range | None = None) -> FloatArray:
    """Return the edges of the first look: ends of octaves, and parts of a public range."""
    octaves = octave_edges(-rule.octaves, rule.octaves)
    if known is None:
        return octaves
    parts = np.linspace(known.low, known.high, rule.most_bins + 1)
    return np.unique(np.concatenate([octaves, parts]))


def in_one_table(each: list[FloatArray]) -> FloatArray:
    """Return edges as rows of one table; no cell lies beyond an infinite edge."""
    edges = np.full((len(each), max(map(len, each))), np.inf)
    for row, own in zip(edges, each, strict=True):
        row[: len(own)] = own
    return edges
