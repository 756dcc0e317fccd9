"""A centre for rows of which some are outliers: the geometric median, or one found with pairs.

The geometric median is a bounded step away from the truth while outliers are few, but at half of
the rows, all on one side, it may be anywhere. Differences of pairs of rows do not know the centre:
a subspace is fitted to them first, and then the inliers are the rows that agree on their position
across it.
"""

from __future__ import annotations

import numpy as np

from stillspace._typing import FloatArray
from stillspace.search.candidates import Candidate, Loss, distinct, pair_ends, refined, search
from stillspace.search.cuts import distances, nearest, quantiles, reach_of, squared_lengths
from stillspace.search.row_space import unit_rows
from stillspace.search.starts import affine_ransac

_STEPS, _ROUNDS, _REFINEMENTS, _TRIES, _JUDGES = 100, 3, 8, 40, 400
_STILL = 0.02
"""A centre that moves by less than this part of the inliers' distance has been found."""

SETTLED = 1e-4
"""Steps towards a centre end below this part of the lower quartile of the rows' distances to it:
the sampling error of a centre is some hundredths of it."""


def median_center(S: FloatArray, settled: float = 1e-10) -> FloatArray:
    """Return the geometric median, `argmin_m Σ ‖x − m‖`, by Weiszfeld's iteration."""
    return _descended(S, np.median(S, axis=0), np.inf, settled)


def pairs_center(
    S: FloatArray, r: int, loss: Loss, rng: np.random.Generator
) -> tuple[FloatArray, list[Candidate]]:
    """Return a centre, and the ends of a search about it, for the rows S in random order.

    Each end of the starts on differences of disjoint random pairs proposes a subspace, and so does
    the best affine span of r + 1 rows; each subspace gives a position across it (`located`). The
    proposal that most rows lie near to, as they are, is kept and refined about its own centre.
    """
    half = len(S) // 2
    spans = pair_ends(unit_rows(S[:half] - S[half : 2 * half]), r, loss)
    if len(S) > r + 1:
        spans.append(affine_ransac(S, r, rng)[0])
    proposals = [(V, located(S, V, rng)) for V in distinct(spans)]
    V, center = _best(proposals, S)
    proposals = [(V, center)]
    for _ in range(_REFINEMENTS):
        V = refined(V, unit_rows(S - center), loss)
        moved = located(S, V, rng, center)
        step = float(np.linalg.norm(moved - center))
        center = moved
        proposals.append((V, center))
        if step <= _STILL * _lower_quartile(distances(S - center, V)):
            break
    V, center = _best(proposals, S)
    about = S - center
    return center, search(unit_rows(about), r, loss, rng, lengths=_lengths(about), also=V)


def _best(
    proposals: list[tuple[FloatArray, FloatArray]], S: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the subspace and centre that most rows lie near to."""
    return proposals[nearest([distances(S - center, V) for V, center in proposals])]


def located(
    S: FloatArray, V: FloatArray, rng: np.random.Generator, start: FloatArray | None = None
) -> FloatArray:
    """Return the point that most rows agree on across the span of V, central along it.

    Across: rows projected off V; from the row (or `start`) with the least median distance to all,
    a descent on `Σ min(‖x − m‖, cut)`. Along: the geometric median of the scores of the rows
    within the cut.
    """
    Y = S @ V
    R = S - Y @ V.T
    judges = R[:_JUDGES]
    tried = [R[rng.choice(len(R), min(_TRIES, len(R)), replace=False)]]
    tried.append((np.median(judges, axis=0) if start is None else start - V @ (V.T @ start))[None])
    across = _most_central(np.concatenate(tried), judges)
    size = float(np.median(_lengths(S)))
    cut = np.inf
    for _ in range(_ROUNDS):
        cut = reach_of(_lengths(R - across), size)
        across = _descended(R, across, cut, SETTLED)
    near = _lengths(R - across) <= cut
    near = near if near.any() else np.ones(len(S), dtype=bool)
    along = median_center(Y[near])
    center: FloatArray = across - V @ (V.T @ across) + V @ along
    return center


def _most_central(tried: FloatArray, judges: FloatArray) -> FloatArray:
    """Return the point with the least median distance to the judges."""
    squares = np.einsum("ij,ij->i", tried, tried)[:, None] - 2.0 * tried @ judges.T
    squares += np.einsum("ij,ij->i", judges, judges)
    return np.asarray(tried[int(np.argmin(np.median(squares, axis=1)))])


def recentred(S: FloatArray, center: FloatArray, V: FloatArray, cut: float) -> FloatArray:
    """Return the centre after two steps across V on `Σ min(distance, reach)` over rows S.

    Where no row is beyond the `cut` on the sphere, all rows count here, too.
    """
    about = S - center
    size = float(quantiles(_lengths(about), 0.5)[0])
    for _ in range(2):
        d = distances(about, V)
        unit = float(quantiles(d, 0.5)[0])
        if unit == 0.0:
            break
        weight = 1.0 / np.maximum(d, 2.0**-50 * unit)
        if cut < 1.0:
            weight[d >= reach_of(d, size)] = 0.0
        step = weight @ about / float(weight.sum())
        step -= V @ (V.T @ step)
        center = center + step
        about -= step
    return center


def _descended(S: FloatArray, m: FloatArray, cut: float, settled: float) -> FloatArray:
    """Return where reweighted means lead from m: each step is one for `Σ min(‖x − m‖, cut)`."""
    d = _lengths(S - m)
    least = 2.0**-50 * (float(np.median(d)) or 1.0)
    if cut < np.inf and (d < cut).any():
        m = S[d < cut].mean(axis=0)  # off a row that m may be: there its own weight would hold it
    for _ in range(_STEPS):
        d = _lengths(S - m)
        weight = np.where(d < cut, 1.0 / np.maximum(d, least), 0.0)
        total = float(weight.sum())
        if total == 0.0:
            return m
        moved = weight @ S / total
        step = float(np.linalg.norm(moved - m))
        m = moved
        if step <= settled * _lower_quartile(d):
            break
    return m


def _lower_quartile(d: FloatArray) -> float:
    return float(quantiles(d, 0.25)[0])


def _lengths(S: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(squared_lengths(S)))
