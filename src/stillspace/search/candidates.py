"""Several starts on a sample of the rows, each followed to where it ends, and the best kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, TypeAlias

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.queries import ROBUST_FLOOR
from stillspace.rows.sums import one_blas_thread
from stillspace.search.cuts import (
    SMALLEST_CUT,
    cut_of,
    distances,
    nearest,
    quantiles,
    squared_lengths,
)
from stillspace.search.starts import pca, ransac, tyler, tyler_applies

Loss: TypeAlias = Literal["glad", "redescending"]
LOSSES: tuple[Loss, ...] = ("redescending", "glad")

_End: TypeAlias = tuple[FloatArray, float]
"""A basis (D, r) and the cut."""

_GLAD_STEPS, _CUT_ROUNDS, _CUT_STEPS, _TOL = 20, 3, 10, 1e-5
SAME_ANGLE = 0.05
"""Starts whose largest principal angle (in radians) is below this go on as one."""

OTHER_ANGLE = 0.5
"""Ends with at least this angle between them are different subspaces, whatever the noise."""

_RIVAL = 1.02
"""An end is a rival if its mean or its median distance is at most this times that of the best."""

FLOOR_QUANTILE = 0.5
"""Of the rows within the cut, this share weighs no more than the next ones. In tables with few
distinct values a third of the rows may lie on one subspace exactly, by ties alone; without a floor
they would weigh infinitely much."""

CLEARLY = 0.9
"""An end is clearly nearer if its median or its lower quartile is below this part of another's."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Where a start ended, on the sample."""

    name: str
    """"pca", "tyler", and "ransac" or "pairs" (the subspace that came with the centre)."""
    components: FloatArray
    """(r, D), orthonormal rows."""
    cut: float
    """Distance on the sphere up to which rows counted; infinite for GLAD."""
    cost: float
    """Mean distance of the sample's scaled rows: GLAD's cost."""
    median: float
    """Median distance of the sample's rows as they are, not scaled to the sphere."""
    angle: float = 0.0
    """Largest principal angle to the start that was kept, in radians."""
    kept: bool = False


def search(
    U: FloatArray,
    r: int,
    loss: Loss,
    rng: np.random.Generator,
    *,
    lengths: FloatArray | None = None,
    also: FloatArray | None = None,
) -> list[Candidate]:
    """Follow each start on the sample U of unit rows (m, D) to its end; the best one is `kept`.

    GLAD: lowest cost. Redescending: the subspace that most rows lie near to, by the median
    distance; the mean would let the tightest group win, whatever its size. `lengths` are those of
    the rows before they were scaled: on the sphere a far cluster looks nearer than it is. `also` is
    a start (D, r) in the place of RANSAC's.
    """
    real = squared_lengths(U) > 0.25  # zero rows lie on every subspace
    size = np.ones(len(U)) if lengths is None else lengths
    with one_blas_thread():  # many small products: threads would wait for each other
        return _search(U[real], size[real], r, loss, rng, also)


def _search(
    U: FloatArray,
    size: FloatArray,
    r: int,
    loss: Loss,
    rng: np.random.Generator,
    also: FloatArray | None,
) -> list[Candidate]:
    if len(U) <= r:
        end = (_any_basis(U, r), inf)
        return [replace(_candidate("pca", end, U, size), kept=True)]
    third = {"ransac": ransac(U, r, rng)} if also is None else {"pairs": also}
    starts = _starts(U, r) | third
    ends = _ends(U, starts, loss)
    found = [_candidate(name, end, U, size) for name, end in ends.items()]
    if loss == "glad":
        best = min(found, key=lambda c: c.cost)
    else:
        best = _preferred(found, [size * distances(U, c.components.T) for c in found])
    angles = [_angle(c.components.T, best.components.T) for c in found]
    return [replace(c, angle=angle, kept=c is best) for c, angle in zip(found, angles, strict=True)]


def pair_ends(U: FloatArray, r: int, loss: Loss) -> list[FloatArray]:
    """Return where PCA's and Tyler's starts end on differences of pairs, as unit rows.

    RANSAC is no start here: with half of the rows outliers, 3 of 4 pairs have one.
    """
    U = U[squared_lengths(U) > 0.25]
    if len(U) <= r:
        return [_any_basis(U, r)]
    return [end[0] for end in _ends(U, _starts(U, r), loss).values()]


def distinct(bases: list[FloatArray]) -> list[FloatArray]:
    """Return the bases without those that are nearly the same as an earlier one."""
    kept: list[FloatArray] = []
    for V in bases:
        if all(_angle(other, V) >= SAME_ANGLE for other in kept):
            kept.append(V)
    return kept


def refined(V: FloatArray, U: FloatArray, loss: Loss) -> FloatArray:
    """Return where the loss leads on from a basis V (D, r), on the sample U of unit rows."""
    real = squared_lengths(U) > 0.25
    U = U[real]
    if len(U) <= V.shape[1]:
        return V
    if loss == "glad":
        return _descended(U, V, inf, _GLAD_STEPS)
    return _with_cut(U, V)[0]


def chosen(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that was kept."""
    return next(c for c in candidates if c.kept)


def disagreement(candidates: Sequence[Candidate]) -> str | None:
    """Return a sentence if another subspace is as good as the one kept, in mean or in median.

    An end that is clearly worse in mean and in median is only a start that failed.
    """
    best = chosen(candidates)
    rivals = [
        c
        for c in candidates
        if c.angle > OTHER_ANGLE
        and (c.cost <= _RIVAL * best.cost or c.median <= _RIVAL * best.median)
    ]
    if not rivals:
        return None
    names = " and ".join(c.name for c in rivals)
    angle = np.degrees(max(c.angle for c in rivals))
    return (
        f"The starts disagree: from {names} the fit ends in a subspace {angle:.0f}° away that is "
        f"as near to the rows, in the mean or in the median, as the one kept (from {best.name}): a "
        "group of rows may be competing with the majority, or n_components may not suit the data; "
        "see starts_."
    )


def _preferred(found: list[Candidate], all_distances: list[FloatArray]) -> Candidate:
    """Return the nearest end, or the first one (PCA's) if the nearest is not clearly nearer.

    A noisy table has several ends that are nearly as good. Which of them is nearest on a sample is
    chance, and a few outliers would turn it; PCA's end is the steadiest one.
    """
    best = nearest(all_distances)
    return found[best] if clearly_nearer(all_distances[best], all_distances[0]) else found[0]


def clearly_nearer(d: FloatArray, other: FloatArray) -> bool:
    """Whether d are clearly less than other distances, in the median or the lower quartile."""
    near, far = (quantiles(x, 0.25, 0.5) for x in (d, other))
    return bool((near < CLEARLY * far).any())


def _starts(U: FloatArray, r: int) -> dict[str, FloatArray]:
    starts = {"pca": pca(U, r)}
    if tyler_applies(*U.shape):
        starts["tyler"] = tyler(U, r)
    return starts


def _ends(U: FloatArray, starts: dict[str, FloatArray], loss: Loss) -> dict[str, _End]:
    """Return the end of each start; starts that meet go on together."""
    meeting: list[tuple[FloatArray, _End]] = []
    ends = {}
    for name, start in starts.items():
        V = start
        if name in ("pca", "tyler") or loss == "glad":
            floor = 0.0 if loss == "glad" else floor_of(distances(U, V), inf)
            V = _descended(U, V, inf, _GLAD_STEPS, floor)
        met = [end for before, end in meeting if _angle(before, V) < SAME_ANGLE]
        if not met:
            end = (V, inf) if loss == "glad" else _with_cut(U, V)
            meeting.append((V, end))
            met = [end]
        ends[name] = met[0]
    return ends


def _with_cut(U: FloatArray, V: FloatArray) -> _End:
    """Return V after rounds of: see which rows are near and up to where, then descend on them."""
    cut = inf
    for _ in range(_CUT_ROUNDS):
        d = distances(U, V)
        cut = cut_of(d)
        V = _descended(U, V, cut, _CUT_STEPS, floor_of(d, cut))
    return V, cut


def _descended(
    U: FloatArray, V: FloatArray, cut: float, steps: int, floor: float = 0.0
) -> FloatArray:
    """Return V after reweighted power steps (`parts.queries.IrlsPower`) on few unit rows."""
    floor = floor if floor > SMALLEST_CUT else ROBUST_FLOOR
    for _ in range(steps):
        d = distances(U, V)
        weight = 1.0 / np.maximum(d, floor)
        if cut < 1.0:
            weight[d >= cut] = 0.0
        moved = np.linalg.qr(U.T @ (weight[:, None] * (U @ V)))[0]
        step = float(np.linalg.norm(moved - V @ (V.T @ moved)))
        V = moved
        if step <= _TOL:
            break
    return V


def _candidate(name: str, end: _End, U: FloatArray, size: FloatArray) -> Candidate:
    V, cut = end
    d = distances(U, V)
    cost, median = (float(d.mean()), float(quantiles(size * d, 0.5)[0])) if len(d) else (0.0, 0.0)
    return Candidate(name, V.T.copy(), cut, cost, median)


def floor_of(d: FloatArray, cut: float) -> float:
    """Return the distance on the sphere up to which all rows weigh the same."""
    near = d[d < cut]
    return float(quantiles(near, FLOOR_QUANTILE)[0]) if len(near) else 0.0


def _angle(A: FloatArray, B: FloatArray) -> float:
    """Return the largest principal angle of two bases (D, r), in radians."""
    sine = float(np.linalg.norm(B - A @ (A.T @ B), 2))
    return float(np.arcsin(min(sine, 1.0)))


def _any_basis(U: FloatArray, r: int) -> FloatArray:
    """Return a basis that holds all of very few rows."""
    D = U.shape[1]
    return np.linalg.qr(np.concatenate([U.T, np.eye(D, r)], axis=1))[0][:, :r]
