"""How far out a row lies along the direction in which it lies farthest out (Stahel and Donoho).

Directions through two random rows find groups of rows: where a quarter of the rows is a far
cluster, three of eight such directions point at it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stillspace._typing import FloatArray


@dataclass(frozen=True, slots=True)
class OutlyingnessRule:
    """Directions, and from where on rows are left out of the search."""

    directions: int = 500
    """Directions through two rows; some 2 % of them suffice to see a group of 1 % of the rows."""
    limit: float = 3.0
    """Rows beyond this many times the median outlyingness are left out."""


RULE = OutlyingnessRule()


def outlyingness(
    S: FloatArray, rng: np.random.Generator, rule: OutlyingnessRule = RULE
) -> FloatArray:
    """Return `max_u |uᵀx − location| / scale` for each row of S (m, D).

    Location and scale along u are the middle and the length of the shortest half of the rows.
    """
    first = rng.integers(len(S), size=rule.directions)
    second = rng.integers(len(S), size=rule.directions)
    directions = S[first] - S[second]
    length = np.linalg.norm(directions, axis=1)
    apart = length > 0.0
    if not apart.any():
        return np.zeros(len(S))
    along = (directions[apart] / length[apart, None]) @ S.T
    location, scale = _shortest_half(along)
    clear = scale > 2.0**-40 * np.abs(along).max(axis=1)
    if not clear.any():
        return np.zeros(len(S))
    unit = np.where(clear, scale, np.inf)
    return np.asarray((np.abs(along - location[:, None]) / unit[:, None]).max(axis=0))


def not_outlying(
    S: FloatArray, rng: np.random.Generator, rule: OutlyingnessRule = RULE
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows of S (m, D) are no farther out than `limit` times the median."""
    out = outlyingness(S, rng, rule)
    return np.asarray(out <= rule.limit * np.median(out))


def _shortest_half(along: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the middle and the length of the shortest half of each row of `along`."""
    ordered = np.sort(along, axis=1)
    half = ordered.shape[1] // 2
    widths = ordered[:, half:] - ordered[:, : ordered.shape[1] - half]
    at = np.argmin(widths, axis=1)
    directions = np.arange(len(along))
    low, high = ordered[directions, at], ordered[directions, at + half]
    return (low + high) / 2.0, high - low
