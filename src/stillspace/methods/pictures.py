"""Released pictures of the rows: a map of their scores, and a scree plot. Post-processing only."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.queries import DistanceCounts
from stillspace.rows.maps import levels

LEAST_LENGTH, MOST_LENGTH = -64, 64
"""Octaves of the lengths that are counted; shorter and longer rows count in the outermost bins."""
OTHER = "other"
"""The title of the map of all labels that are not listed."""


@dataclass(frozen=True, slots=True)
class MapRule:
    """The numbers of a map of the scores that were chosen, not derived."""

    clear: float = 3.0
    """Standard deviations of the noise: a bin of lengths counts if it stands out by so many."""
    inside: float = 0.8
    """Share of the rows (in clear bins) that the map shows at their place. Longer rows are drawn
    shortened, at the rim: a few outliers must not shrink all others to a point."""
    rows_per_cell: float = 4.0
    """Mean number of rows per cell of a map, in standard deviations of the noise on a cell."""
    least_bins: int = 4
    """Cells along each score, at least …"""
    most_bins: int = 64
    """… and at most."""


MAP_RULE = MapRule()
"""What fits use."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMap:
    """A private histogram of the first two scores (of the only one, if there is one component).

    Rows that are longer than `length`, in the units of the fit, were shortened to it.
    """

    shares: FloatArray
    """(bins, bins): the share of the rows in each cell, with noise; negative numbers are noise.
    With labels (labels + 1, bins, bins): one map per label, the last one for all other labels."""
    length: float
    """The map reaches from −length to length, in the units of the fit (after scale)."""
    sd: float
    """Standard deviation of the noise on each share."""
    labels: tuple[Any, ...] = ()
    """The public list of labels; empty if the rows have none."""

    @property
    def edges(self) -> FloatArray:
        """Edges of the cells, (bins + 1,), along each score."""
        return np.linspace(-self.length, self.length, self.shares.shape[-1] + 1)

    @property
    def maps(self) -> tuple[tuple[str, FloatArray], ...]:
        """One map with its title per label, "other" for the rest; one without a title if none."""
        if not self.labels:
            return (("", self.shares),)
        titles = (*map(str, self.labels), OTHER)
        return tuple(zip(titles, self.shares, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Scree:
    """Released variances along the leading directions of the rows, on the unit sphere."""

    values: FloatArray
    """(D,), descending, freed of what noise adds to an eigenvalue; the level of the bulk where an
    eigenvalue cannot be told from noise."""
    noise: float
    """How far noise alone can lift an eigenvalue above the bulk."""


def map_bins(size: int, sd: float, rule: MapRule = MAP_RULE) -> int:
    """Return the cells along each score: as many as leave enough rows per cell for the noise."""
    most = sqrt(size / max(rule.rows_per_cell * sd, 1.0))
    return int(np.clip(int(most), rule.least_bins, rule.most_bins))


def length_counts() -> DistanceCounts:
    """Return the query that counts lengths by octaves (as for pairs: rows behind `Lengths`)."""
    edges = np.arange(float(LEAST_LENGTH), MOST_LENGTH + 1)
    return DistanceCounts(1, 1, tuple(levels(np.exp2(-edges)).tolist()))


def length_of_map(shares: FloatArray, sd: float, rule: MapRule = MAP_RULE) -> float:
    """Return the length within which most rows lie, from noisy shares; 1 if nothing is clear."""
    clear = np.where(shares > rule.clear * sd, shares, 0.0)
    if clear.sum() <= 0.0:
        return 1.0
    cumulative = np.concatenate([[0.0], np.cumsum(clear) / clear.sum()])
    octaves = np.arange(LEAST_LENGTH - 1.0, MOST_LENGTH + 2)
    bin_of = int(np.searchsorted(cumulative, rule.inside)) - 1
    inside = (rule.inside - cumulative[bin_of]) / (cumulative[bin_of + 1] - cumulative[bin_of])
    return float(np.exp2(octaves[bin_of] + inside))


def scree_of(moment: FloatArray, sd: float) -> Scree:
    """Return what the eigenvalues of a released second moment tell (docs/privacy.md)."""
    values = np.linalg.eigvalsh(moment)[::-1]
    edge = sd * sqrt(len(values) / 2)
    bulk = float(np.median(values))
    gap = values - bulk
    root = np.sqrt(np.maximum(gap**2 - 4.0 * edge**2, 0.0))
    signal = np.where(gap > 2.0 * edge, (gap + root) / 2.0, 0.0)
    return Scree(np.maximum(signal + bulk, 0.0), 2.0 * edge)
