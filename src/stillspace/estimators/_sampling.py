"""Samples of the rows on which a robust fit looks for its start, its centre and its scale."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from stillspace._typing import FloatArray, IntArray
from stillspace.estimators._validation import centred_blocks
from stillspace.rows import MemoryRows, draw_pairs
from stillspace.search import Candidate, Clump, DimensionProfile, profile, recentred
from stillspace.search.candidates import Loss
from stillspace.search.dimension import MOST_COMPONENTS, PROFILE_ROWS
from stillspace.search.starts import search_rows

CENTERS = ("pairs", "median")

ROWS_QUANTILE, PAIRS_QUANTILE = 0.45, 0.20
"""Low quantiles of the distance that a profile follows: just below half, and below its square."""

CENTER_CELLS = 2**20
"""Scales, and the last steps of the centre, come from rows with at most this many cells (and from
1000 rows at least)."""

MAD_TO_SD = 1.4826
"""Standard deviation of a Gaussian law, per median absolute deviation."""

LONGEST = 1e6
"""Rows of the sample longer than this many times the median length are pulled back to it."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows in random order, about their column medians and in units of the scale."""

    rows: FloatArray
    middle: FloatArray
    """(D,), the column medians, in the units of the cells."""
    unit: FloatArray
    """(D,), the scale."""

    def inside(self, point: FloatArray | None) -> FloatArray:
        """Return a point in the units of the cells (None is the origin) as the sample sees it."""
        where = np.zeros_like(self.middle) if point is None else point
        return (where - self.middle) / self.unit

    def in_cells(self, point: FloatArray) -> FloatArray:
        """Return a point of the sample in the units of the cells."""
        return point * self.unit + self.middle

    def few(self) -> FloatArray:
        """Return the rows that a search reads."""
        return self.rows[: search_rows(self.rows.shape[1])]


def sampled(
    X: Any, scale: FloatArray | str | None, missing: float | None, rng: np.random.Generator
) -> Sample:
    """Draw a sample of checked rows; `scale="mad"` is found on it."""
    n, D = X.shape
    S = _dense(X, _drawn(n, max(CENTER_CELLS // D, 1000), rng))
    if missing is not None:
        S = np.where(missing == S, np.nan, S)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column may be missing altogether
        middle = np.nan_to_num(np.nanmedian(S, axis=0))
    S = np.nan_to_num(S - middle)
    unit = np.ones(D) if scale is None else mad(S) if isinstance(scale, str) else scale
    S = S / unit
    length = np.linalg.norm(S, axis=1)
    longest = LONGEST * float(np.median(length)) or float(length.max(initial=0.0))
    far = length > longest
    S[far] *= (longest / length[far])[:, None]
    return Sample(S, middle, unit)


def mad(S: FloatArray) -> FloatArray:
    """Return the median absolute deviation of each column about 0, for Gaussian columns their SD.

    Where more than half of a column is 0, of the other cells; 1 for a constant column.
    """
    size = np.abs(S)
    found = MAD_TO_SD * np.median(size, axis=0)
    for j in np.flatnonzero(found == 0.0):
        others = size[:, j][size[:, j] > 0.0]
        found[j] = np.median(others) if len(others) else 1.0
    return np.asarray(found)


def counted(
    X: Any,
    rows: MemoryRows,
    best: Candidate,
    clumps: list[Clump],
    scale: FloatArray,
    missing: float | None,
) -> MemoryRows:
    """Return the rows with zero rows for those out of the candidate's reach or in a clump.

    One row of each clump stays. The clumps' centres are in the units of the cells.
    """
    counts = np.ones(rows.n_rows, dtype=bool)
    if best.reach < np.inf:
        counts &= rows.lengths() * rows.distances(best.components.T) < best.reach
    for clump in clumps:
        members = np.flatnonzero(_within(X, clump, scale, missing))
        counts[members[1:]] = False
    return rows if counts.all() else rows.only(counts)


def _within(
    X: Any, clump: Clump, scale: FloatArray, missing: float | None
) -> npt.NDArray[np.bool_]:
    blocks = centred_blocks(X, clump.center, scale, missing)
    return np.concatenate([np.linalg.norm(block, axis=1) <= clump.radius for block in blocks])


def center_on_all(sample: Sample, center: FloatArray, best: Candidate, counts: Any) -> FloatArray:
    """Return the centre after a few steps on all rows of the sample that count."""
    return recentred(sample.rows[counts], center, best.components.T, best.reach)


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
