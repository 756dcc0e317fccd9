"""REAPER's permeance, alignment and stability (SPEC 6; Lerman, McCoy, Tropp and Zhang 2015).

    P_R = inf over unit u in L* of (1/n) Σ_in |u·x|
    A_R = (1/n) ‖X_out‖ ‖normalised rows of X_out Q*‖
    S_R = P_R/(4√r) − A_R

S_R > 0 means that REAPER's only minimiser is the projector onto L*, and then an answer whose cost
exceeds the least one by e has d ≤ (π/2) e/S_R.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.theory import _checks
from stillspace.theory.stability import Bounds, permeance


@dataclass(frozen=True, slots=True)
class ReaperStability:
    """`P/(4√r) − A`: certified to be at least `lower`, shown to be at most `upper`."""

    r: int
    permeance: Bounds
    alignment: float

    @property
    def lower(self) -> float:
        """Certified."""
        return self.permeance.lower / (4.0 * sqrt(self.r)) - self.alignment

    @property
    def upper(self) -> float:
        """Found."""
        return self.permeance.upper / (4.0 * sqrt(self.r)) - self.alignment

    def distance(self, excess: float) -> float:
        """Return the bound `(π/2) e/S` on d for a cost that exceeds the least one by e."""
        return pi / 2.0 * excess / self.lower if self.lower > 0.0 else float("inf")


def reaper_permeance(
    inliers: npt.ArrayLike, components: npt.ArrayLike, n: int | None = None
) -> Bounds:
    """Return bounds on the least mean of |u·x| over unit u in the span of `components` (r, D).

    Lower bound (proved): |u·x| ≥ (u·x)²/‖x‖, so the permeance of GLAD on the subspace. Upper bound
    (found): reweighted eigenvectors from several starts.
    """
    V = np.linalg.qr(np.asarray(components, dtype=np.float64).T)[0]
    X = _checks.rows("inliers", inliers, V.shape[0])
    Y = X @ V
    total = len(X) if n is None else n
    exact = permeance(np.column_stack([Y, np.zeros(len(Y))]), Y.shape[1], total)
    size = float(_checks.norms(X).sum()) / total
    lower = max(_checks.downwards(exact, size, sum(X.shape)), 0.0)
    _, vectors = np.linalg.eigh(Y.T @ Y)
    starts = [*vectors.T, *np.random.default_rng(0).standard_normal((8, Y.shape[1]))]
    upper = min(_descend(Y, u) for u in starts) / total
    return Bounds(lower, max(upper, lower))


def reaper_alignment(
    outliers: npt.ArrayLike, components: npt.ArrayLike, n: int | None = None
) -> float:
    """Return `(1/n) ‖X_out‖ ‖U‖`, U the rows of X_out away from the subspace, made unit."""
    V = np.linalg.qr(np.asarray(components, dtype=np.float64).T)[0]
    X = _checks.rows("outliers", outliers, V.shape[0])
    if len(X) == 0:
        return 0.0
    R = X - X @ V @ V.T
    d = _checks.norms(R)
    unit = R[d > 0.0] / d[d > 0.0][:, None]
    spectral = float(np.linalg.norm(X, 2)) * float(np.linalg.norm(unit, 2)) if len(unit) else 0.0
    return _checks.upwards(spectral, sum(X.shape)) / (len(X) if n is None else n)


def reaper_stability(
    inliers: npt.ArrayLike, outliers: npt.ArrayLike, components: npt.ArrayLike
) -> ReaperStability:
    """Return REAPER's statistics for labelled rows and the subspace `components` (r, D)."""
    inner, outer, n = _checks.labelled(inliers, outliers)
    r = np.asarray(components).shape[0]
    return ReaperStability(
        r, reaper_permeance(inner, components, n), reaper_alignment(outer, components, n)
    )


def _descend(Y: FloatArray, u: FloatArray) -> float:
    """Return a small Σ|u·y| over unit u: the least eigenvector of Σ yyᵀ/|u·y|, repeated."""
    u = u / np.linalg.norm(u)
    best = float(np.abs(Y @ u).sum())
    for _ in range(100):
        weight = 1.0 / np.maximum(np.abs(Y @ u), 1e-9)
        u = np.linalg.eigh((Y * weight[:, None]).T @ Y)[1][:, 0]
        value = float(np.abs(Y @ u).sum())
        if value >= best * (1.0 - 1e-12):
            return min(best, value)
        best = value
    return best
