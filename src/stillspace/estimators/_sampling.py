"""Samples of the rows on which a robust fit looks for its start and its centre."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from stillspace._typing import FloatArray, IntArray
from stillspace.rows import MemoryRows, draw_pairs
from stillspace.search import (
    Candidate,
    DimensionProfile,
    median_center,
    pairs_center,
    profile,
    search,
)
from stillspace.search.candidates import Loss
from stillspace.search.dimension import MOST_COMPONENTS, PROFILE_ROWS
from stillspace.search.starts import search_rows

CENTERS = ("pairs", "median")

ROWS_QUANTILE, PAIRS_QUANTILE = 0.45, 0.20
"""Low quantiles of the distance that a profile follows: just below half, and below its square."""

CENTER_CELLS = 2**20
"""The centre is found on rows with at most so many cells (and on 1000 rows at least)."""


def searched(
    rows: MemoryRows, r: int, loss: Loss, rng: np.random.Generator, also: FloatArray | None
) -> list[Candidate]:
    """Search on a sample of the rows."""
    index = _drawn(rows.n_rows, search_rows(rows.n_columns), rng)
    U, lengths = rows.sphered(index), rows.lengths(index)
    return search(U, r, loss, rng, lengths=lengths, also=also)


def within_reach(rows: MemoryRows, best: Candidate) -> MemoryRows:
    """Return the rows of which those out of the candidate's reach are zero rows."""
    if best.reach == np.inf:
        return rows
    far = rows.lengths() * rows.distances(best.components.T) >= best.reach
    return rows.only(~far) if far.any() else rows


def found_center(
    X: Any,
    how: str,
    r: int,
    loss: Loss,
    scale: FloatArray | None,
    missing: float | None,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray | None]:
    """Return the centre of checked rows, in their own units, and a basis that came with it."""
    n, D = X.shape
    S = _dense(X, _drawn(n, max(CENTER_CELLS // D, 1000), rng))
    unit = np.ones(D) if scale is None else scale
    if missing is not None:
        S = np.where(missing == S, np.nan, S)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column may be missing altogether
            middle = np.nan_to_num(np.nanmedian(S, axis=0))
        S = np.where(np.isnan(S), middle, S)
    S = S / unit
    if how == "median":
        return median_center(S) * unit, None
    center, V = pairs_center(S, r, loss, rng)
    return center * unit, V


def profiled(
    X: Any,
    center: FloatArray | str | None,
    loss: Loss,
    scale: FloatArray | None,
    missing: float | None,
    rng: np.random.Generator,
) -> DimensionProfile:
    """Return the profile of distances over the number of components, on a sample of checked rows.

    Where the centre is not known, on differences of pairs: of these the inliers' share is squared.
    """
    n, D = X.shape
    most = min(MOST_COMPONENTS, D - 1)
    pairs = draw_pairs(n, rng)[:PROFILE_ROWS] if isinstance(center, str) else None
    vector = None if isinstance(center, str) else center
    rows = MemoryRows.prepare(X, center=vector, scale=scale, missing=missing, pairs=pairs)
    index = _drawn(rows.n_rows, PROFILE_ROWS, rng)
    quantile = ROWS_QUANTILE if pairs is None else PAIRS_QUANTILE
    return profile(rows.sphered(index), loss, rng, quantile=quantile, most=most)


def _drawn(n: int, most: int, rng: np.random.Generator) -> IntArray:
    """Return at most so many row numbers, in random order."""
    return rng.permutation(n)[:most].astype(np.int64)


def _dense(X: Any, index: IntArray) -> FloatArray:
    rows = X[index]
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
