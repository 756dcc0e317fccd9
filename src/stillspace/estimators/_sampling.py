"""Samples of the rows on which a robust fit looks for its start, its centre and its scale."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import frexp
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from stillspace._typing import FloatArray, IntArray
from stillspace.rows import Affine, MemoryRows, RowTable, draw_pairs
from stillspace.search import (
    Candidate,
    Clump,
    DimensionProfile,
    chosen,
    filtered_search,
    outside,
    profile,
    recentred,
)
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

VARIANCE_CELLS = 2**22
"""Explained variances come from rows with at most this many cells."""

EXTREME = 400
"""Cells beyond 2 to this power, or all below its inverse, are brought to a usual magnitude."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """What the search found on a sample, in the units of the cells."""

    center: FloatArray
    candidates: tuple[Candidate, ...]
    clumps: tuple[Clump, ...]
    floor: float

    @property
    def best(self) -> Candidate:
        """The candidate that was kept."""
        return chosen(self.candidates)

    def options(self) -> dict[str, Any]:
        """Return what the fit on all rows takes over."""
        found: dict[str, Any] = {"start": self.best.components}
        if self.best.cut < 1.0:
            found["cut"] = self.best.cut
        if self.floor > 0.0:
            found["floor"] = self.floor
        return found


def searched(
    sample: Sample, r: int, loss: Loss, center: FloatArray | str | None, rng: np.random.Generator
) -> Start:
    """Search on a part of the sample; a centre that was found is refined on the whole sample."""
    around = center if isinstance(center, str) else sample.inside(center)
    found = filtered_search(sample.few(), r, loss, around, rng)
    best = chosen(found.candidates)
    if isinstance(center, str):
        S = sample.rows[outside(sample.rows, found.clumps)]
        point = recentred(S, found.center, best.components.T, best.reach)
        center = sample.in_cells(point)
    clumps = tuple(replace(c, center=sample.in_cells(c.center)) for c in found.clumps)
    where = np.zeros_like(sample.unit) if center is None else center
    return Start(where, tuple(found.candidates), clumps, found.floor)


def counted(
    X: Any, rows: MemoryRows, start: Start, scale: FloatArray, missing: float | None
) -> npt.NDArray[np.bool_]:
    """Return which rows are within reach of the start's subspace, with one row of each clump."""
    counts = np.ones(rows.n_rows, dtype=bool)
    best = start.best
    if best.reach < np.inf:
        counts &= rows.lengths() * rows.distances(best.components.T) < best.reach
    for clump in start.clumps:
        blocks = Affine.of(clump.center, scale, missing).blocks(X)
        near = np.concatenate([np.linalg.norm(block, axis=1) <= clump.radius for block in blocks])
        counts[np.flatnonzero(near)[1:]] = False
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class Variances:
    """Variances of rows that counted, in units of the scale."""

    along: FloatArray
    """(r,), of the scores."""
    total: float
    """Of all columns together."""
    noise: float
    """Per column, across the subspace."""


def variances(
    X: Any,
    counts: npt.NDArray[np.bool_],
    fit: tuple[FloatArray, FloatArray, FloatArray],
    missing: float | None,
    rng: np.random.Generator,
) -> Variances:
    """Return the variances of the rows that counted, given (components, center, scale).

    Of rows with at most `VARIANCE_CELLS` cells, drawn at random.
    """
    components, center, scale = fit
    r, D = components.shape
    index = np.flatnonzero(counts)
    most = max(VARIANCE_CELLS // D, 1000)
    if len(index) > most:
        index = np.sort(rng.permutation(index)[:most])
    total, first, second, scores = 0.0, np.zeros(D), np.zeros(r), np.zeros(r)
    part = X if len(index) == X.shape[0] else X[index]
    for block in Affine.of(center, scale, missing).blocks(part):
        Y = block @ components.T
        total += float(np.einsum("ij,ij->", block, block))
        first += block.sum(axis=0)
        scores += Y.sum(axis=0)
        second += np.einsum("ij,ij->j", Y, Y)
    n, freedom = max(len(index), 1), max(len(index) - 1, 1)
    along = np.maximum(second - scores**2 / n, 0.0) / freedom
    whole = max(total - float(first @ first) / n, 0.0) / freedom
    noise = max(whole - float(along.sum()), 0.0) / (D - r)
    return Variances(along, whole, noise)


def shifted(X: Any) -> tuple[Any, FloatArray, int]:
    """Return rows of a usual magnitude, with `x = 2**exponent · row + offset`; mostly X itself.

    Cells beyond 2^±`EXTREME` are brought near 1 by a power of 2, which is exact. Rows that are far
    longer than the others are then pulled back, since their squares would overflow.
    """
    D = X.shape[1]
    same = X, np.zeros(D), 0
    if isinstance(X, RowTable) or sparse.issparse(X) or X.dtype.kind != "f":
        return same
    peak = max(abs(float(np.nanmax(X))), abs(float(np.nanmin(X))))
    if not 0.0 < peak < np.inf or abs(frexp(peak)[1]) <= EXTREME:
        return same
    Z = np.ldexp(np.asarray(X, dtype=np.float64), -frexp(peak)[1])
    offset = np.nan_to_num(np.nanmedian(Z, axis=0))
    Z -= offset
    size = np.nanmax(np.abs(Z), axis=1)
    typical = float(np.median(size[size > 0.0])) if (size > 0.0).any() else 1.0
    exponent = frexp(typical)[1]
    far = size > LONGEST * typical
    Z[far] *= (LONGEST * typical / size[far])[:, None]
    whole = frexp(peak)[1]
    return np.ldexp(Z, -exponent), np.ldexp(offset, whole), exponent + whole


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
