"""Samples of the rows on which a robust fit looks for its start and its centre."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from stillspace._typing import FloatArray, IntArray
from stillspace.rows import MemoryRows
from stillspace.search import median_center, pairs_center
from stillspace.search.candidates import Loss
from stillspace.search.starts import search_rows

CENTERS = ("pairs", "median")

CENTER_CELLS = 2**20
"""The centre is found on rows with at most so many cells (and on 1000 rows at least)."""


def search_sample(rows: MemoryRows, rng: np.random.Generator) -> FloatArray:
    """Return scaled rows (m, D), in random order."""
    return rows.sphered(_drawn(rows.n_rows, search_rows(rows.n_columns), rng))


def found_center(
    X: Any,
    how: str,
    r: int,
    loss: Loss,
    scale: FloatArray | None,
    missing: float | None,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the centre of checked rows, in their own units."""
    n, D = X.shape
    S = _dense(X, _drawn(n, max(CENTER_CELLS // D, 1000), rng))
    unit = np.ones(D) if scale is None else scale
    if missing is not None:
        S = np.where(missing == S, np.nan, S)
        with np.errstate(all="ignore"):
            middle = np.nan_to_num(np.nanmedian(S, axis=0))
        S = np.where(np.isnan(S), middle, S)
    S = S / unit
    center = median_center(S) if how == "median" else pairs_center(S, r, loss, rng)
    return center * unit


def _drawn(n: int, most: int, rng: np.random.Generator) -> IntArray:
    """Return at most so many row numbers, in random order."""
    return rng.permutation(n)[:most].astype(np.int64)


def _dense(X: Any, index: IntArray) -> FloatArray:
    rows = X[index]
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
