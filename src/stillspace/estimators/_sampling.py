"""Samples of the rows on which a robust fit looks for its start, its centre and its scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import frexp, isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.estimators._files import EXTREME
from stillspace.rows import Affine, RowTable
from stillspace.rows.maps import BLOCK_CELLS
from stillspace.rows.sums import each
from stillspace.search import (
    Candidate,
    Clump,
    DimensionProfile,
    Found,
    chosen,
    filtered_search,
    profile,
    recentred,
)
from stillspace.search.candidates import Loss
from stillspace.search.cuts import squared_lengths
from stillspace.search.dimension import MOST_COMPONENTS, PROFILE_ROWS
from stillspace.search.outlyingness import Outlyingness
from stillspace.search.row_space import Cells, RowSpace, chosen_rows, shortening, unit_rows
from stillspace.search.starts import search_rows

CENTERS = ("pairs", "median")

ROWS_QUANTILE, PAIRS_QUANTILE = 0.45, 0.20
"""Low quantiles of the distance that a profile follows: just below half, and below its square."""

CENTER_CELLS = 2**20
"""Scales, and the last steps of the centre, come from rows with at most this many cells (and from
`CENTER_ROWS` rows at least)."""

CENTER_ROWS = 1000

MIDDLE_CELLS = 2**18
"""Column medians, which are only where the search begins, come from rows with so many cells."""

LARGEST_SQUARE, SQUARES = 6000, 5
"""Rows of the largest square matrix that a fit holds (288 MB), and how many of them. Up to this
many wide rows are fitted in the space that they span; of a file fewer, if `memory` asks for it."""

LONGEST = 1e6
"""Rows of the sample longer than this many times the median length are pulled back to it."""

CACHED_CELLS = 2**16
"""Cells of all rows that are converted at a time."""

VARIANCE_CELLS = 2**21
"""Explained variances come from rows with at most this many cells: of 100 columns so many rows that
the standard error is 1 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows about a middle and in units of the scale.

    The middle is the centre if that is given, else the column medians. Wide rows (fewer rows than
    columns) are held in coordinates of the space that they span.
    """

    rows: FloatArray
    order: IntArray
    """A random order of the rows."""
    middle: FloatArray
    """(D,), in the units of the cells."""
    unit: FloatArray
    """(D,), the scale."""
    whole: bool
    """Whether these are all rows of the table."""
    space: RowSpace | None = None

    def vectors(self, V: FloatArray) -> FloatArray:
        """Return vectors (k, j) of the sample as vectors (j, D) of columns."""
        return V.T.copy() if self.space is None else self.space.lifted(V)

    def in_cells(self, points: FloatArray) -> FloatArray:
        """Return points (j, k) of the sample in the units of the cells, (j, D)."""
        return self.vectors(points.T) * self.unit + self.middle

    def few(self, most: int | None = None) -> FloatArray:
        """Return so many rows in random order; None is as many as a search reads."""
        return self.rows[self.order[: most or search_rows(self.rows.shape[1])]]


def sampled(
    X: Any,
    center: FloatArray | str | None,
    scale: FloatArray | str | None,
    missing: float | None,
    rng: np.random.Generator,
) -> Sample:
    """Draw a sample of checked rows; `scale="mad"` is found on it."""
    n, D = X.shape
    most = max(CENTER_CELLS // D, CENTER_ROWS)
    wide = min(n, most) < D
    if not (wide or isinstance(center, str) or isinstance(scale, str)):
        most = max(search_rows(D), PROFILE_ROWS)  # nothing is refined on more rows
    whole = n <= most or (wide and n <= _largest_square(X))
    order = rng.permutation(n).astype(np.int64)[: n if whole else most]
    middle = None if isinstance(center, str) else np.zeros(D) if center is None else center
    some = most if isinstance(scale, str) else max(MIDDLE_CELLS // D, CENTER_ROWS)
    cells = Cells.of(X, middle, scale, missing, order[:some])
    cells = cells if whole else replace(cells, X=chosen_rows(X, order))
    order = order if whole else np.arange(len(order))
    if wide:
        space = RowSpace.of(cells, LONGEST)
        return Sample(space.coordinates, order, cells.middle, cells.unit, whole, space)
    S = cells.rows()
    S *= shortening(np.linalg.norm(S, axis=1), LONGEST)[:, None]
    return Sample(S, order, cells.middle, cells.unit, whole)


def _largest_square(X: Any) -> int:
    """Return up to how many wide rows are fitted in the space that they span."""
    if not isinstance(X, RowTable):
        return LARGEST_SQUARE
    return min(LARGEST_SQUARE, isqrt(X.memory // (8 * SQUARES)))


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """What the search found on a sample, in the units of the cells."""

    center: FloatArray
    components: FloatArray
    """(r, D), where the fit starts."""
    candidates: tuple[Candidate, ...]
    clumps: tuple[Clump, ...]
    floor: float
    far_out: Outlyingness | None
    """Tells rows that lie too far out, about `middle` and in units of the scale."""
    middle: FloatArray
    counts: npt.NDArray[np.bool_] | None
    """Which rows count, if the sample was the whole table (`counted`)."""

    @property
    def best(self) -> Candidate:
        """The candidate that was kept."""
        return chosen(self.candidates)

    def options(self) -> dict[str, Any]:
        """Return what the fit on all rows takes over."""
        return {"start": self.components, **solver_options(self.best, self.floor)}


def solver_options(best: Candidate, floor: float) -> dict[str, float]:
    """Return the cut and the floor that a search found, where they matter."""
    found = {"cut": best.cut, "floor": floor}
    return {name: value for name, value in found.items() if 0.0 < value < 1.0}


def searched(
    sample: Sample, r: int, loss: Loss, center: FloatArray | str | None, rng: np.random.Generator
) -> tuple[Found, npt.NDArray[np.bool_]]:
    """Search on a part of the sample; a centre that was found is refined on the whole sample.

    Also return which rows of the sample count.
    """
    around = center if isinstance(center, str) else np.zeros(sample.rows.shape[1])
    found = filtered_search(sample.few(), r, loss, around, rng, columns=sample.space is None)
    counts = found.counts(sample.rows)
    if isinstance(center, str):
        V, cut = chosen(found.candidates).components.T, chosen(found.candidates).cut
        found = replace(found, center=recentred(sample.rows[counts], found.center, V, cut))
    return found, counts


def start_of(sample: Sample, found: Found, counts: npt.NDArray[np.bool_], V: FloatArray) -> Start:
    """Return what a search found in the units of the cells; V (k, r) is where the fit starts."""
    points = [found.center, *(clump.center for clump in found.clumps)]
    center, *clump_centers = sample.in_cells(np.stack(points))
    candidates = found.candidates
    bases = sample.vectors(np.concatenate([V.T, *(c.components for c in candidates)]).T)
    start, *components = np.split(bases, 1 + len(candidates))
    far_out = found.far_out
    if far_out is not None and sample.space is not None:
        middle, *directions = sample.vectors(np.column_stack([far_out.middle, far_out.directions]))
        far_out = far_out.in_columns(np.reshape(directions, (-1, len(middle))).T, middle)
    return Start(
        center,
        np.linalg.qr(start.T)[0].T,
        tuple(replace(c, components=W) for c, W in zip(candidates, components, strict=True)),
        tuple(replace(c, center=at) for c, at in zip(found.clumps, clump_centers, strict=True)),
        found.floor,
        far_out,
        sample.middle,
        counts if sample.whole else None,
    )


def counted(
    X: Any, start: Start, scale: FloatArray, missing: float | None
) -> npt.NDArray[np.bool_]:
    """Return which rows do not lie too far out, with one row of each clump."""
    if start.counts is not None:
        return start.counts
    if start.far_out is None and not start.clumps:
        return np.ones(X.shape[0], dtype=bool)
    affine = _affine(start.middle, scale, missing)
    balls = [((c.center - start.middle) / scale, c.radius**2) for c in start.clumps]

    def told(piece: slice) -> npt.NDArray[np.bool_]:
        """Return which rows of a piece do not lie too far out, and which ones are in each clump."""
        found = np.ones((1 + len(balls), len(range(*piece.indices(X.shape[0])))), dtype=bool)
        at = 0
        for block in _mapped(X[piece], affine):
            here = slice(at, at := at + len(block))
            if start.far_out is not None:
                found[0, here] = start.far_out.keeps(block)
            for k, (center, square) in enumerate(balls, 1):
                found[k, here] = squared_lengths(block - center) <= square
        return found

    one_by_one = 1 if isinstance(X, RowTable) else None
    both = np.concatenate(list(each(told, _pieces(X.shape), one_by_one)), axis=1)
    counts: npt.NDArray[np.bool_] = both[0]
    for members in both[1:]:
        counts[np.flatnonzero(members)[1:]] = False
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
    rows: int
    """Number of rows that were looked at, before the cut."""
    others: int
    """Number of dimensions across the subspace."""

    @property
    def prominence(self) -> float:
        """Variance along the first component, per variance of an average direction."""
        return float(self.along.max() * self.columns / self.total) if self.total else np.inf

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.along) + self.others

    @property
    def noise_prominence(self) -> float:
        """The prominence that pure noise in as many rows and columns hardly exceeds.

        The edge of Marchenko and Pastur's law, and twice the order of its fluctuations.
        """
        n = max(self.rows, 1)
        edge = (1.0 + np.sqrt(self.columns / n)) ** 2
        return float(edge * (1.0 + 2.0 * n ** (-2.0 / 3.0)))


def variances(
    X: Any,
    counts: npt.NDArray[np.bool_],
    fit: tuple[FloatArray, FloatArray, FloatArray],
    cut: float,
    missing: float | None,
) -> Variances:
    """Return the variances of the rows that counted, given (components, center, scale).

    These are rows in `counts` whose distance to the subspace on the sphere is below the cut. Of at
    most `VARIANCE_CELLS` cells, drawn at random.
    """
    components, center, scale = fit
    r, D = components.shape
    index = np.flatnonzero(counts)
    most = max(VARIANCE_CELLS // D, 1000)
    if len(index) > most:
        index = np.sort(np.random.default_rng(0).permutation(index)[:most])
    affine, everything = _affine(center, scale, missing), len(index) == len(counts)

    def summed(piece: slice) -> FloatArray:
        """Return sums over rows that are near: 1, ‖x‖², scores, their squares, the row itself."""
        found = np.zeros(2 + 2 * r + D)
        for block in _mapped(X[piece if everything else index[piece]], affine):
            Y, lengths = block @ components.T, squared_lengths(block)
            squares = Y * Y
            near = np.ones(len(block)) if cut >= 1.0 else _near(lengths, squares, cut)
            both = np.column_stack([lengths, Y, squares])
            found += np.concatenate([[near.sum()], near @ both, near @ block])
        return found

    one_by_one = 1 if isinstance(X, RowTable) else None
    found = sum(each(summed, _pieces((len(index), D)), one_by_one), np.zeros(2 + 2 * r + D))
    (n, total), scores, second, first = np.split(found, [2, 2 + r, 2 + 2 * r])
    freedom = max(n - 1, 1)
    along = np.maximum(second - scores**2 / max(n, 1), 0.0) / freedom
    whole = max(total - float(first @ first) / max(n, 1), 0.0) / freedom
    noise = max(whole - float(along.sum()), 0.0) / (D - r)
    return Variances(along, whole, noise, len(index), D - r)


def _affine(center: FloatArray, scale: FloatArray, missing: float | None) -> Affine:
    """Return the map to the units of a fit; a scale of 1 is not divided by."""
    plain = bool((scale == 1.0).all())
    if plain and missing is None and not center.any():
        return Affine()
    return Affine.of(center, None if plain else scale, missing)


def _pieces(shape: tuple[int, int]) -> list[slice]:
    """Return slices of rows; a table in a file is read by these."""
    n, step = shape[0], max(1, BLOCK_CELLS // shape[1])
    return [slice(at, at + step) for at in range(0, n, step)]


def _mapped(rows: Any, affine: Affine) -> Iterator[AnyArray]:
    """Yield blocks of mapped rows that stay in the processor's cache. They are only read."""
    step = max(1, CACHED_CELLS // rows.shape[1])
    for at in range(0, rows.shape[0], step):
        block = rows[at : at + step]
        if affine == Affine():
            yield np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=float)
        else:
            yield from affine.blocks(block)


def _near(lengths: FloatArray, squares: FloatArray, cut: float) -> FloatArray:
    """Return 1.0 for rows within the cut, by squared lengths and squared scores; else 0.0."""
    across = np.maximum(lengths - squares.sum(axis=1), 0.0)
    return np.asarray((across < cut**2 * lengths) | (across <= 2.0**-46 * lengths), dtype=float)


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
    sample: Sample, center: FloatArray | str | None, loss: Loss, rng: np.random.Generator
) -> DimensionProfile:
    """Return the profile of distances over the number of components, on the sample.

    Where the centre is not known, on differences of pairs: of these the inliers' share is squared.
    """
    S, quantile = sample.few(PROFILE_ROWS), ROWS_QUANTILE
    if isinstance(center, str):
        S, quantile = S - np.roll(S, 1, axis=0), PAIRS_QUANTILE
    most = min(MOST_COMPONENTS, len(sample.unit) - 1)
    return profile(unit_rows(S), loss, rng, quantile=quantile, most=most)
