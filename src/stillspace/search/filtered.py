"""The whole search of a robust fit on a sample of a table: filters first, then several starts.

1. Nearly identical rows count as one row (`clumps`).
2. Rows that lie far out along any direction are left out (`outlyingness`).
3. Starts are followed to their ends on the rows that are left, and on all rows but the clumps.
4. The end on fewer rows wins, unless the other end is much nearer *to the fewer rows*: a group of
   outliers that captured the other end is not among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stillspace._typing import FloatArray
from stillspace.rows.sums import one_blas_thread
from stillspace.search.candidates import CLEARLY, Candidate, Loss, chosen, search
from stillspace.search.clumps import Clump, dithered, find_clumps, outside
from stillspace.search.cuts import SMALLEST_CUT, distances
from stillspace.search.location import median_center, pairs_center
from stillspace.search.outlyingness import not_outlying
from stillspace.search.row_space import unit_rows
from stillspace.search.starts import affine_ransac, ransac

OVERRIDE = 0.5
"""The end on more rows wins if its median distance to the fewer rows is below this part of the
other end's; between an honest end and a captured one the ratio is above 1."""

FLOOR_QUANTILE = 0.10
"""Share of the rows that weigh no more than the next ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Where a search ended."""

    center: FloatArray
    """(D,)"""
    candidates: list[Candidate]
    clumps: list[Clump]
    floor: float
    """Distance on the sphere up to which all rows weigh the same; 0 if it is only rounding."""


def filtered_search(
    S: FloatArray,
    r: int,
    loss: Loss,
    center: FloatArray | str,
    rng: np.random.Generator,
    *,
    columns: bool = True,
) -> Found:
    """Search on rows S (m, D) in random order, about a given centre or one to be found.

    Without `columns`, the columns of S are coordinates in which ties mean nothing.
    """
    with one_blas_thread():  # many small products: threads would wait for each other
        clumps = find_clumps(S)
        T = S[outside(S, clumps)]
        T = dithered(T, rng) if columns else T
        kept = not_outlying(T, rng)
        few = T[kept]
        best = _searched(few, r, loss, center, rng)
        if not kept.all() and _may_be_nearer(T, few, best, center, rng):
            other = _searched(T, r, loss, center, rng)
            if _median(few, *other) < OVERRIDE * _median(few, *best):
                best = other
    return Found(*best, clumps, _floor(few, *best))


def _may_be_nearer(
    T: FloatArray,
    few: FloatArray,
    best: tuple[FloatArray, list[Candidate]],
    center: FloatArray | str,
    rng: np.random.Generator,
) -> bool:
    """Whether one quick start on more rows comes nearer to the fewer rows than the best end did.

    Only then the whole search on more rows is worth its time.
    """
    r = len(chosen(best[1]).components)
    if len(T) <= r + 1:
        return True
    if isinstance(center, str):
        V, point = affine_ransac(T, r, rng)
    else:
        V, point = ransac(T - center, r, rng), center
    return float(np.median(distances(few - point, V))) < CLEARLY * _median(few, *best)


def _searched(
    S: FloatArray, r: int, loss: Loss, center: FloatArray | str, rng: np.random.Generator
) -> tuple[FloatArray, list[Candidate]]:
    if isinstance(center, str) and center == "pairs":
        return pairs_center(S, r, loss, rng)
    point = median_center(S) if isinstance(center, str) else center
    about = S - point
    lengths = np.linalg.norm(about, axis=1)
    return point, search(unit_rows(about), r, loss, rng, lengths=lengths)


def _floor(S: FloatArray, center: FloatArray, candidates: list[Candidate]) -> float:
    """Return the distance that `FLOOR_QUANTILE` of the searched rows do not reach, on the sphere.

    The searched rows were dithered, the rows of the fit are not: without a floor those that lie on
    a subspace exactly, by ties, would weigh infinitely much.
    """
    d = _on_sphere(S - center, chosen(candidates).components.T)
    found = float(np.quantile(d, FLOOR_QUANTILE)) if len(d) else 0.0
    return found if found > SMALLEST_CUT else 0.0


def _on_sphere(about: FloatArray, V: FloatArray) -> FloatArray:
    """Return the distances of rows scaled to the sphere, without zero rows."""
    lengths = np.linalg.norm(about, axis=1)
    real = lengths > 0.0
    return np.asarray(distances(about[real], V) / lengths[real])


def _median(S: FloatArray, center: FloatArray, candidates: list[Candidate]) -> float:
    about = S - center
    return float(np.median(distances(about, chosen(candidates).components.T)))
