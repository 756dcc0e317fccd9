"""Which rows are outliers of a fit, and of what kind: distances, cut-offs, flags, outlier map.

After Hubert, Rousseeuw and Vanden Branden (2005), as in R's rrcov. A row lies far from the subspace
(orthogonal distance), or on it but far from the other rows (score distance), or both. Cut-offs are
set so that of clean rows with Gaussian noise a stated share is flagged; see docs/diagnostics.md.

Distances and flags show the rows they are computed from: no privacy guarantee covers them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, ldexp
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import chi2
from sklearn.covariance import MinCovDet
from sklearn.utils.validation import check_is_fitted

from stillspace._html import facts_in_html
from stillspace._typing import FloatArray
from stillspace.estimators import RobustPCA
from stillspace.estimators._base import SubspaceEstimator
from stillspace.estimators._files import blocks
from stillspace.estimators._tables import checked_array
from stillspace.rows import Affine, RowTable
from stillspace.search.cuts import gamma_cutoff
from stillspace.search.few_rows import centrality, grained, judged, mean_and_covariance

__all__ = ["OutlierMap", "diagnose"]

_Flags = npt.NDArray[np.bool_]
KINDS = ("regular", "good leverage", "orthogonal outlier", "bad leverage")


@dataclass(frozen=True, slots=True)
class CutoffRule:
    """How cut-offs are set; none of these numbers matters for many rows."""

    rounds: int = 5
    """Rounds of: estimate from the rows within the cut-off, set the cut-off."""
    core_level: float = 0.01
    """Rows beyond the cut-off of this level do not help to set it."""
    scatter_rows: int = 2000
    """Rows on which the scatter of the scores is started."""
    few_rows: int = 100
    """Up to this many rows cut-offs come from exact laws of Gaussian rows (`search.few_rows`). More
    rows tell the tails of their distances themselves."""
    rows_per_column: int = 3
    """With fewer rows per column, their spread across the subspace is not known by direction."""
    rounding: float = 2.0**-40
    """Orthogonal distances below this part of the rows' median length are rounding."""
    rank: float = 2.0**-26
    """Singular values below this part of the largest are rounding, or ties."""
    extreme: int = 400
    """Scores beyond 2 to this power, or below its inverse, are kept in another unit."""


RULE = CutoffRule()


@dataclass(frozen=True, slots=True, eq=False)
class Across:
    """Coordinates across the subspace, in which all directions have the same noise."""

    directions: FloatArray
    """(D, D − r)"""
    tilt: FloatArray
    """(r, D − r), what a score tells of these coordinates; it is taken off."""
    shift: FloatArray
    """(D − r,), the middle of the rows."""
    leverage: float
    """A squared distance is divided by 1 + leverage × the squared score distance: few rows do not
    tell well where the subspace lies far out."""


@dataclass(frozen=True, slots=True, eq=False)
class OutlierMap:
    """Score and orthogonal distances of rows, with cut-offs; `plots.OutlierMapDisplay` draws it."""

    score_distance: FloatArray
    """(n,), Mahalanobis distance of the scores inside the subspace."""
    orthogonal_distance: FloatArray
    """(n,), distance to the subspace, in the units of `scale`; by `across`, if there is one."""
    score_cutoff: float
    orthogonal_cutoff: float
    false_alarms: float
    """Share of clean rows that is flagged."""
    location: FloatArray
    """(r,), robust centre of the scores."""
    scatter: FloatArray
    """(r, r), robust covariance of the scores in units of `unit`."""
    unit: float = 1.0
    """A power of 2; not 1 only where squares of scores would overflow or vanish."""
    across: Across | None = None
    """How orthogonal distances are measured; None: they are the ordinary ones."""

    @property
    def score_outliers(self) -> _Flags:
        """(n,), beyond the score cut-off."""
        return self.score_distance > self.score_cutoff

    @property
    def orthogonal_outliers(self) -> _Flags:
        """(n,), beyond the orthogonal cut-off."""
        return self.orthogonal_distance > self.orthogonal_cutoff

    @property
    def outliers(self) -> _Flags:
        """(n,), beyond either."""
        return self.score_outliers | self.orthogonal_outliers

    @property
    def kinds(self) -> npt.NDArray[np.str_]:
        """(n,), one of "regular", "good leverage" (far out, but on the subspace), "orthogonal
        outlier" (off it, but not far out) and "bad leverage" (both)."""
        return np.array(KINDS)[self.score_outliers + 2 * self.orthogonal_outliers]

    def _repr_html_(self) -> str:
        """Return the counts of each kind of row for a notebook."""
        kinds = self.kinds
        facts = [(kind, f"{int(np.count_nonzero(kinds == kind))} rows") for kind in KINDS]
        facts.append(("score cut-off", f"{self.score_cutoff:.3g}"))
        facts.append(("orthogonal cut-off", f"{self.orthogonal_cutoff:.3g}"))
        facts.append(("clean rows that are flagged", f"{self.false_alarms:.1%}"))
        warning = "These counts come from the rows: no privacy guarantee covers them."
        return facts_in_html(f"Outlier map of {len(kinds)} rows", facts, warning=warning)

    def of(self, fit: SubspaceEstimator, X: Any, *, rows_may_be_seen: bool = False) -> OutlierMap:
        """Return the map of other rows by the same fit, with the cut-offs of this one."""
        check_leave(fit, rows_may_be_seen)
        X = _checked(fit, X)
        scores, orthogonal = _split(fit, X)
        found = _mahalanobis(scores / self.unit, self.location / self.unit, self.scatter)
        if (across := self.across) is not None:
            R = _coordinates(fit, X, across.directions, orthogonal)
            orthogonal = _lengths(R - scores @ across.tilt - across.shift)
            orthogonal /= np.sqrt(1.0 + across.leverage * found**2)
        return replace(self, score_distance=found, orthogonal_distance=orthogonal)


def diagnose(
    fit: SubspaceEstimator,
    X: Any,
    *,
    false_alarms: float = 0.025,
    rows_may_be_seen: bool = False,
) -> OutlierMap:
    """Return distances, cut-offs and flags of the rows of X.

    Parameters
    ----------
    fit : RobustPCA, PrivateRobustPCA or PrivatePCA
        Fitted.
    X : array of shape (n, D)
        The rows of the fit, or others like them: cut-offs are set by their majority.
    false_alarms : float in (0, 0.5)
        Share of clean rows that is flagged by one or the other distance. Each cut-off is at
        1 − √(1 − share): under Gaussian noise the two distances are independent.
    rows_may_be_seen : bool
        Your word that the rows behind a private fit may be looked at. Without it the diagnosis of
        a private fit is refused: its answer shows the rows, whatever the fit's guarantee.

    Notes
    -----
    Orthogonal distances: squares are compared with a multiple of χ²(ν) that has their mean and
    variance (Satterthwaite), over the rows within a cut; the first cut is from the quantiles .10
    and .25, with which up to half of the rows may be outliers. Score distances: a minimum
    covariance determinant, reweighted, of the rows that are near the subspace; squares are
    compared with χ²(r). A group of nearly identical rows (`clumps_`) counts as one row for the
    cut-offs.

    Tables of at most 100 rows: the rows that set the cut-offs grow from the central half, and both
    distances of a row are those from the *other* such rows, whose laws (Hotelling's) are known.
    Flagged rows are left out, and the distances are measured again, once. With at least 3 rows per
    column the orthogonal distance is that from the value which the scores of a row predict, and
    weighs each direction by its noise.
    """
    check_leave(fit, rows_may_be_seen)
    if not 0.0 < false_alarms < 0.5:
        msg = f"false_alarms must be a number in (0, 0.5), got {false_alarms!r}."
        raise ValueError(msg)
    level = 1.0 - np.sqrt(1.0 - false_alarms)
    X = _checked(fit, X)
    scores, orthogonal = _split(fit, X)
    r = scores.shape[1]
    counts = _counted(fit, X)
    n, least = np.count_nonzero(counts), max(2 * r, r + 3)
    if n <= least:
        msg = f"Cut-offs for {r} components need more than {least} rows; there are {n}."
        raise ValueError(msg)
    unit = _unit(scores)
    size = float(np.median(np.hypot(orthogonal, _lengths(scores))))
    if n <= RULE.few_rows:
        distances = scores / unit, orthogonal / unit
        few = _few_rows(fit, X, distances, counts, level, RULE.rounding * size / unit)
        for name in ("location", "orthogonal_distance", "orthogonal_cutoff"):
            few[name] = few[name] * unit
        if "across" in few:
            few["across"] = replace(few["across"], shift=few["across"].shift * unit)
        return OutlierMap(**few, false_alarms=float(false_alarms), unit=unit)
    cutoff = gamma_cutoff(
        orthogonal[counts], level, RULE.rounding * size, RULE.rounds, RULE.core_level
    )
    core = scores[counts & (orthogonal <= cutoff)] / unit
    location, scatter = _location_and_scatter(core)
    return OutlierMap(
        score_distance=_mahalanobis(scores / unit, location, scatter),
        orthogonal_distance=orthogonal,
        score_cutoff=float(np.sqrt(chi2.isf(level, r))),
        orthogonal_cutoff=cutoff,
        false_alarms=float(false_alarms),
        location=location * unit,
        scatter=scatter,
        unit=unit,
    )


def _few_rows(
    fit: SubspaceEstimator,
    X: Any,
    distances: tuple[FloatArray, FloatArray],
    counts: _Flags,
    level: float,
    rounding: float,
) -> dict[str, Any]:
    """Return distances, cut-offs and what they are measured by, for a table of few rows."""
    scores, orthogonal = distances
    exact = float(np.quantile(orthogonal[counts], 0.25)) <= rounding  # rows on the subspace
    central = centrality(scores, np.maximum(orthogonal, rounding), counts)
    basis = None if exact else _basis_across(fit, X, orthogonal, counts, central)
    if basis is not None:
        R = _coordinates(fit, X, basis, orthogonal)
    else:  # d^(2/3) is nearly normal (Wilson and Hilferty)
        R = np.cbrt(orthogonal[:, None] ** 2)[:, : 0 if exact else 1]
    found = judged(scores, R, counts, central, level, given_scores=basis is not None)
    r = scores.shape[1]
    mean, spread = mean_and_covariance(np.column_stack([scores, R])[found.inside])
    few = {
        "score_distance": np.sqrt(found.along),
        "score_cutoff": float(np.sqrt(found.along_limit)),
        "location": mean[:r],
        "scatter": found.along_lost * spread[:r, :r],
    }
    if exact:
        return few | {"orthogonal_distance": orthogonal, "orthogonal_cutoff": rounding}
    if basis is None:
        middle, noise = mean[r], np.sqrt(found.across_lost * spread[r, r])
        beyond = (middle + noise * np.sqrt(found.across)) ** 1.5
        return few | {
            "orthogonal_distance": np.where(R[:, 0] > middle, beyond, orthogonal),
            "orthogonal_cutoff": float((middle + noise * np.sqrt(found.across_limit)) ** 1.5),
        }
    tilt = np.linalg.solve(spread[:r, :r], spread[:r, r:])
    left = found.across_lost * grained(spread[r:, r:] - spread[r:, :r] @ tilt)
    noise = np.sqrt(np.trace(left) / len(left))
    whiten, shift = noise * np.linalg.inv(np.linalg.cholesky(left)).T, mean[r:] - mean[:r] @ tilt
    return few | {
        "orthogonal_distance": noise * np.sqrt(found.across),
        "orthogonal_cutoff": float(noise * np.sqrt(found.across_limit)),
        "across": Across(basis @ whiten, tilt @ whiten, shift @ whiten, found.leverage),
    }


def _basis_across(
    fit: SubspaceEstimator,
    X: Any,
    orthogonal: FloatArray,
    counts: _Flags,
    central: FloatArray,
) -> FloatArray | None:
    """Return a basis (D, D − r) across the subspace; None if few rows tell the noise along it."""
    r, D = fit.components_.shape
    n = np.count_nonzero(counts)
    if n < RULE.rows_per_column * D:
        return None
    basis = np.linalg.qr(np.column_stack([fit.components_.T, np.eye(D)]))[0][:, r:]
    half = _coordinates(fit, X, basis, orthogonal)[counts][np.argsort(central[counts])[: n // 2]]
    known = np.linalg.matrix_rank(half - half.mean(axis=0), rtol=RULE.rank) == D - r
    return basis if known else None


def _coordinates(
    fit: SubspaceEstimator, X: Any, across: FloatArray, orthogonal: FloatArray
) -> FloatArray:
    """Return the rows in coordinates across the subspace, as long as their orthogonal distances.

    These may have been enlarged for missing cells.
    """
    V = fit.components_.T
    off = np.concatenate([block - (block @ V) @ V.T for block in fit._centred(X)])
    return np.asarray((off @ across) * (orthogonal / np.maximum(_lengths(off), 1e-300))[:, None])


def check_leave(fit: Any, rows_may_be_seen: bool) -> None:
    """Raise unless the rows behind the fit may be looked at."""
    if not isinstance(fit, SubspaceEstimator):
        msg = f"diagnose takes a fitted estimator of stillspace, got {type(fit).__name__}."
        raise TypeError(msg)
    check_is_fitted(fit)
    if not isinstance(fit, RobustPCA) and not rows_may_be_seen:
        msg = (
            "Distances and flags show the rows, and the guarantee of a private fit does not cover "
            "them: pass rows_may_be_seen=True if these rows may be looked at."
        )
        raise PermissionError(msg)


def _checked(fit: SubspaceEstimator, X: Any) -> Any:
    """Return checked rows; they may have missing cells where the fit may."""
    if not isinstance(fit, RobustPCA):
        return checked_array(fit, X, reset=False, min_samples=1, finite=True)
    X = checked_array(fit, X, reset=False, min_samples=1, finite=False)
    fit.missing_cells(X)
    return X


def _split(fit: SubspaceEstimator, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return scores (n, r) and orthogonal distances (n,) of checked rows.

    A missing cell is filled from the subspace and adds no distance; the distance of such a row is
    enlarged as if its other cells spoke for the missing ones.
    """
    V = fit.components_.T
    D, r = V.shape
    scores, distances = [], []
    for block in fit._centred(X):
        Y = block @ V
        scores.append(Y)
        distances.append(_lengths(block - Y @ V.T))
    found = np.concatenate(distances)
    if not sparse.issparse(X) and X.dtype.kind == "f":
        parts = blocks(X) if isinstance(X, RowTable) else [X]
        missing = np.concatenate([_missing_cells(part) for part in parts])
        found = found * np.sqrt((D - r) / np.maximum(D - r - missing, 1))
    return np.concatenate(scores), found


def _missing_cells(rows: Any) -> npt.NDArray[np.int64]:
    """Return the number of missing cells of each row."""
    if sparse.issparse(rows):
        return np.zeros(rows.shape[0], dtype=np.int64)
    return np.asarray(np.isnan(rows).sum(axis=1))


def _counted(fit: SubspaceEstimator, X: Any) -> _Flags:
    """Return which rows set the cut-offs: one row of each clump, and all others."""
    counts = np.ones(X.shape[0], dtype=bool)
    for clump in getattr(fit, "clumps_", ()):
        blocks = Affine.of(clump.center, fit.scale_).blocks(X)
        members = np.concatenate([_lengths(block) <= clump.radius for block in blocks])
        counts[np.flatnonzero(members)[1:]] = False
    return counts


def _lengths(rows: FloatArray) -> FloatArray:
    """Return the length of each row; no square overflows or vanishes."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    shrunk = rows / np.where(peak > 0.0, peak, 1.0)[:, None]
    return np.asarray(peak * np.linalg.norm(shrunk, axis=1))


def _unit(scores: FloatArray) -> float:
    """Return the power of 2 in which squares of scores neither overflow nor vanish; mostly 1."""
    exponent = frexp(float(np.median(np.abs(scores))))[1]
    return ldexp(1.0, exponent) if abs(exponent) > RULE.extreme else 1.0


def _location_and_scatter(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the reweighted minimum covariance determinant of the scores."""
    r = scores.shape[1]
    rng = np.random.default_rng(0)
    some = scores[rng.permutation(len(scores))[: RULE.scatter_rows]]
    spread = np.cov(some, rowvar=False).reshape(r, r)
    if np.linalg.matrix_rank(spread) < r:
        return np.median(some, axis=0), spread + 1e-12 * max(
            float(np.trace(spread)), 1e-300
        ) * np.eye(r)
    start = MinCovDet(random_state=0).fit(some)
    location, scatter = start.location_, start.covariance_
    limit = float(chi2.isf(RULE.core_level, r))
    lost = chi2.cdf(limit, r) / chi2.cdf(limit, r + 2)  # what cutting the tails takes off
    for _ in range(RULE.rounds):
        core = scores[_mahalanobis(scores, location, scatter) ** 2 <= limit]
        location, scatter = core.mean(axis=0), lost * np.cov(core, rowvar=False).reshape(r, r)
    return location, scatter


def _mahalanobis(scores: FloatArray, location: FloatArray, scatter: FloatArray) -> FloatArray:
    centred = (scores - location).T
    return np.asarray(np.sqrt((centred * np.linalg.solve(scatter, centred)).sum(axis=0)))
