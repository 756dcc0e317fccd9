"""The whole search of a robust fit on a sample of a table: filters first, then several starts.

1. Nearly identical rows count as one row (`clumps`).
2. Rows that lie far out are left out (`outlyingness`), if they are a minority: the *central* rows
   stay.
3. Starts about the geometric median of the central rows are followed to their ends.
4. If rows are near enough to a subspace for it to matter, or a quick start says so, pairs of rows
   find another centre on the central rows; if the quick start says so, then on all of them, too.
   Such an end wins if it is clearly nearer *to the central rows*: a group that captured it is not
   among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.rows.sums import one_blas_thread
from stillspace.search.candidates import (
    Candidate,
    Loss,
    chosen,
    clearly_nearer,
    floor_of,
    search,
)
from stillspace.search.clumps import RULE as CLUMPS
from stillspace.search.clumps import Clump, find_clumps, outside
from stillspace.search.cuts import ROUNDING, SMALLEST_CUT, distances
from stillspace.search.location import SETTLED, median_center, pairs_center
from stillspace.search.outlyingness import Outlyingness
from stillspace.search.row_space import unit_rows
from stillspace.search.starts import affine_ransac, ransac

_Ends: TypeAlias = tuple[FloatArray, list[Candidate]]
"""A centre (D,) and where the starts about it ended."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Where a search ended."""

    center: FloatArray
    """(D,)"""
    candidates: list[Candidate]
    clumps: list[Clump]
    floor: float
    """Distance on the sphere up to which all rows weigh the same, at least that of rounding."""
    far_out: Outlyingness | None
    """Which rows were left out of the search; None if it went better with all rows."""

    def counts(self, S: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which rows of the sample do not lie too far out, with one row of each clump."""
        counts = outside(S, self.clumps)
        return counts if self.far_out is None else counts & self.far_out.keeps(S)


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
        measure = Outlyingness.of(T, rng, columns=columns)
        far_out: Outlyingness | None = measure
        central = T[measure.keeps(T)]
        if len(central) < (1.0 - CLUMPS.most_share) * len(T):
            central, far_out = T, None  # outliers are a minority: these rows are none
        used = far_out
        best = _about(_first_center(central, center), central, r, loss, rng)
        for rows in _worth_a_search(T, central, best, center, rng):
            other = _searched(rows, r, loss, center, rng)
            if clearly_nearer(_distances(central, other), _distances(central, best)):
                best, used = other, far_out if rows is central else None
    V, cut = chosen(best[1]).components.T, chosen(best[1]).cut
    floor = floor_of(_on_sphere(central - best[0], V), cut)
    return Found(*best, clumps, floor if floor > SMALLEST_CUT else ROUNDING, used)


def _worth_a_search(
    T: FloatArray,
    central: FloatArray,
    best: _Ends,
    center: FloatArray | str,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Return rows on which another search may well come nearer to the central rows.

    One quick start on all rows T tells. If it comes clearly nearer, these are the central rows (a
    centre can be found) and T (many rows were left out). Rows beyond the cut tell, too: then the
    others lie so near to the subspace that the median may be a worse centre than theirs.
    """
    finds_center = isinstance(center, str) and center == "pairs"
    many_left_out = len(T) - len(central) >= CLUMPS.least_share * len(T)
    if not finds_center and not many_left_out:
        return []
    nearer = _quick_start_is_nearer(T, central, best, center, rng)
    found = [central] if finds_center and (nearer or chosen(best[1]).cut < 1.0) else []
    return [*found, T] if nearer and many_left_out else found


def _quick_start_is_nearer(
    T: FloatArray,
    central: FloatArray,
    best: _Ends,
    center: FloatArray | str,
    rng: np.random.Generator,
) -> bool:
    r = len(chosen(best[1]).components)
    if len(T) <= r + 1:
        return True
    if isinstance(center, str):
        V, point = affine_ransac(T, r, rng)
    else:
        V, point = ransac(T - center, r, rng), center
    return clearly_nearer(distances(central - point, V), _distances(central, best))


def _searched(
    S: FloatArray, r: int, loss: Loss, center: FloatArray | str, rng: np.random.Generator
) -> _Ends:
    if isinstance(center, str) and center == "pairs":
        return pairs_center(S, r, loss, rng)
    return _about(_first_center(S, center), S, r, loss, rng)


def _about(
    center: FloatArray, S: FloatArray, r: int, loss: Loss, rng: np.random.Generator
) -> _Ends:
    about = S - center
    lengths = np.linalg.norm(about, axis=1)
    return center, search(unit_rows(about), r, loss, rng, lengths=lengths)


def _first_center(S: FloatArray, center: FloatArray | str) -> FloatArray:
    return median_center(S, SETTLED) if isinstance(center, str) else center


def _distances(S: FloatArray, ends: _Ends) -> FloatArray:
    return distances(S - ends[0], chosen(ends[1]).components.T)


def _on_sphere(about: FloatArray, V: FloatArray) -> FloatArray:
    """Return the distances of rows scaled to the sphere, without zero rows."""
    lengths = np.linalg.norm(about, axis=1)
    real = lengths > 0.0
    return np.asarray(distances(about[real], V) / lengths[real])
