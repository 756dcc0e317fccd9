"""How far out a row lies along the direction in which it lies farthest out (Stahel and Donoho).

Directions through two random rows find groups of rows: where a quarter of the rows is a far
cluster, three of eight such directions point at it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.search.cuts import quantiles, squared_lengths
from stillspace.search.row_space import mad, unit_rows
from stillspace.search.starts import pca


@dataclass(frozen=True, slots=True)
class OutlyingnessRule:
    """Directions, and from where on rows are left out."""

    directions: int = 250
    """Directions through two rows; some 2 % of them suffice to see a group of 1 % of the rows."""
    dimensions: int = 20
    """Directions lie in the span of this many leading directions of the rows on the sphere. A group
    that is larger than 1/20 of the rows cannot hide from it."""
    limit: float = 2.5
    """Rows beyond this many times the usual outlyingness are left out."""
    usual: float = 0.3
    """Share of the rows that lie less far out than usual; a low one hardly knows of outliers."""
    cap: float = 4.0
    """Cells farther than this many median absolute deviations from the median are brought there."""


RULE = OutlyingnessRule()

_BLOCK_ROWS = 512
"""Rows that are measured at a time, so that their products stay in the processor's cache."""


_ROUNDED_UP = 1.0 + 2.0**-40
"""The longest row that is kept is not left out by rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlyingness:
    """The measure `max_u |uᵀx − location| / scale` over directions u, as it was found on a sample.

    Location and scale along u are the middle and the length of the shortest half of the rows.
    Columns of real tables have long tails of their own, behind which a foreign group of rows would
    hide. So cells are capped first.
    """

    low: FloatArray
    """(D,), the least that a cell counts for."""
    high: FloatArray
    """(D,)"""
    directions: FloatArray
    """(D, k), divided by the scale along them. Only those along which some row of the sample lies
    farthest out, beyond the limit: no other one leaves out a row."""
    location: FloatArray
    """(k,), in units of the scale."""
    middle: FloatArray
    """(D,)"""
    limit: float
    """Rows that lie farther out are left out."""
    longest: float
    """Rows with a greater distance to the middle are left out, too: a cap hides a wild cell."""

    @classmethod
    def of(
        cls,
        S: FloatArray,
        rng: np.random.Generator,
        *,
        columns: bool = True,
        rule: OutlyingnessRule = RULE,
    ) -> Outlyingness:
        """Learn the measure from rows S (m, D).

        Without `columns`, the columns of S are arbitrary coordinates, and no cell is capped.
        """
        middle = _shortest_half(np.ascontiguousarray(S.T))[0]
        cap = rule.cap * mad(S - middle) if columns else np.full(S.shape[1], np.inf)
        low, high = middle - cap, middle + cap
        Z = np.clip(S, low, high)
        basis = pca(unit_rows(Z - middle), min(rule.dimensions, *S.shape))
        first, second = rng.integers(len(S), size=(2, rule.directions))
        Y = Z @ basis
        directions = Y[first] - Y[second]
        length = np.linalg.norm(directions, axis=1)
        directions = directions[length > 0.0] / length[length > 0.0, None]
        along = directions @ Y.T
        location, scale = _shortest_half(along)
        clear = scale > 2.0**-40 * np.abs(along).max(axis=1, initial=0.0)
        away = np.abs(along[clear] - location[clear, None]) / scale[clear, None]
        out = away.max(axis=0, initial=0.0)
        limit = rule.limit * float(quantiles(out, rule.usual)[0])
        kept = squared_lengths(Z[out <= limit] - middle)
        usual = float(quantiles(np.sqrt(squared_lengths(S - middle)), rule.usual)[0])
        longest = max(_ROUNDED_UP * float(np.sqrt(kept.max())), rule.limit * usual)
        decisive = np.unique(away[:, out > limit].argmax(axis=0)) if len(away) else np.arange(0)
        directions, location, scale = (a[clear][decisive] for a in (directions, location, scale))
        measured_by = basis @ (directions / scale[:, None]).T, location / scale
        return cls(low, high, *measured_by, middle, limit, longest)

    def measured(self, S: FloatArray) -> FloatArray:
        """Return how far out each row of S (m, D) lies."""
        found = np.zeros(len(S))
        for at in range(0, len(S) if len(self.location) else 0, _BLOCK_ROWS):
            part = S[at : at + _BLOCK_ROWS]
            along = np.clip(part, self.low, self.high) @ self.directions - self.location
            found[at : at + len(part)] = np.abs(along, out=along).max(axis=1, initial=0.0)
        return found

    def keeps(self, S: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which rows of S (m, D) do not lie too far out."""
        short = squared_lengths(S - self.middle) <= self.longest**2
        return np.asarray(short & (self.measured(S) <= self.limit))

    def in_columns(self, directions: FloatArray, middle: FloatArray) -> Outlyingness:
        """Return the measure in other columns, given the directions (D, k) and the middle there."""
        free = np.full(len(directions), np.inf)
        return replace(self, low=-free, high=free, directions=directions, middle=middle)


def _shortest_half(along: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the middle and the length of the shortest half of each row of `along`."""
    ordered = np.sort(along, axis=1)
    half = ordered.shape[1] // 2
    widths = ordered[:, half:] - ordered[:, : ordered.shape[1] - half]
    at = np.argmin(widths, axis=1)
    directions = np.arange(len(along))
    low, high = ordered[directions, at], ordered[directions, at + half]
    return (low + high) / 2.0, high - low
