"""The stability of GLAD in a ball around L*, as the convergence theorems use it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from stillspace._checks import checked_number
from stillspace._typing import FloatArray
from stillspace.theory import _checks
from stillspace.theory._walk import Pull
from stillspace.theory.stability import alignment_bound, certified_permeance


@dataclass(frozen=True, slots=True)
class LocalStability:
    """Numbers from which the pull towards L* follows at each distance f = √(Σ sin² θ_j) from it.

    Given `permeance` and `alignment` alone, everything is as with the stability S_γ = γP − A.
    """

    permeance: float
    """P, a lower bound."""
    alignment: float
    """A: an upper bound on the alignment of the outliers with any subspace."""
    gradient: float = 1.0
    """An upper bound on ‖G(V)‖_F, wherever V is; 1 holds for rows of length at most 1."""
    inlier_gradient: float = inf
    """An upper bound on the Frobenius norm of the inliers' part of G(V), wherever V is."""
    square: float = 1.0
    """An upper bound on the mean of the squared norms ‖Vᵀx‖² of the rows' terms."""
    nearby: float = inf
    """An upper bound on the alignment of the outliers with L* itself."""
    slope: float = inf
    """How fast the alignment may grow with the distance from L*, up to `radius`."""
    radius: float = 0.0

    def __post_init__(self) -> None:
        checked_number("permeance", self.permeance, 0.0, inf, inside=False)
        checked_number("alignment", self.alignment, 0.0, inf, inside=False)
        checked_number("gradient", self.gradient, 0.0, inf)

    def alignment_within(self, f: float) -> float:
        """Return an upper bound on the outliers' alignment with subspaces within f of L*."""
        if f > self.radius:
            return self.alignment
        return min(self.alignment, self.nearby + self.slope * f)

    def drift(self, f: float) -> float:
        """Return s = γ(γP − A) with γ = √(1 − f²): the pull that is proved within f of L*."""
        if f >= 1.0:
            return -inf
        gamma = sqrt(1.0 - f * f)
        return gamma * (gamma * self.permeance - self.alignment_within(f))

    def pull(self, f: float, r: int) -> Pull:
        """Return what lemma 1 proves within f of L*; the outliers' part of G has rank r at most."""
        parts = self.inlier_gradient + sqrt(r) * self.alignment_within(f)
        return Pull(self.drift(f), min(self.gradient, parts), self.square)


def local_stability(
    inliers: npt.ArrayLike,
    outliers: npt.ArrayLike,
    components: npt.ArrayLike,
    *,
    radius: float = 0.5,
) -> LocalStability:
    """Return certified numbers for labelled rows on and off the span of `components` (r, D).

    Let x be an outlier, Π and Π* the projectors of V and of L*, Q = I − Π, q = Qx/‖Qx‖ and q* the
    same for L*. The alignment at V is the norm of (1/n) Σ q (Πx)ᵀ. It differs from that at L* by

        (1/n) Σ (q − q*)(Πx)ᵀ + (1/n) Σ q* xᵀ(Π − Π*),

    and ‖Π − Π*‖ = sin θ_max ≤ f. Since ‖q − q*‖ ≤ 2‖Qx − Q*x‖/(‖Qx‖ + ‖Q*x‖), the first sum is at
    most ‖X_out‖ √(Σ ‖q − q*‖²)/n. The second sum is at most f ‖U*‖ ‖X_out‖/n, U* having the rows
    q*. Outliers within `radius`/2 of L* (times their length) are left out of both sums: whatever V
    is, their alignment is at most the bound of `alignment` for them, which is added.
    """
    inner, outer, n = _checks.labelled(inliers, outliers)
    V = np.linalg.qr(np.asarray(components, dtype=np.float64).T)[0]
    radius = checked_number("radius", radius, 0.0, 1.0)
    _checks.rows("components", V.T, inner.shape[1])
    r = V.shape[1]
    P = certified_permeance(inner, r, n)
    every = np.concatenate([inner, outer])
    lengths = np.linalg.svd(every, compute_uv=False)
    inner_part = sqrt(len(inner)) * float(np.linalg.norm(inner, 2)) / n
    terms = sum(every.shape)
    gradients = (
        _checks.upwards(float(lengths[0]) / sqrt(n), terms),
        _checks.upwards(inner_part, terms),
        _checks.upwards(float(np.sum(lengths[:r] ** 2)) / n, terms),
    )
    if len(outer) == 0:
        return LocalStability(P, 0.0, *gradients, 0.0, 0.0, radius)
    nearby, slope = _near(outer, V, radius)
    return LocalStability(
        P,
        alignment_bound(outer) / n,
        *gradients,
        _checks.upwards(nearby / n, sum(outer.shape)),
        _checks.upwards(slope / n, sum(outer.shape)),
        radius,
    )


def _near(X: FloatArray, V: FloatArray, radius: float) -> tuple[float, float]:
    """Return n times the alignment with L*, and n times its growth per distance."""
    Y = X @ V
    R = X - Y @ V.T
    away, length = _checks.norms(R), _checks.norms(X)
    close = away <= radius / 2.0 * length
    nearby = alignment_bound(X[close]) if close.any() else 0.0
    X, Y, R, away, length = X[~close], Y[~close], R[~close], away[~close], length[~close]
    if len(X) == 0:
        return nearby, 0.0
    unit = R / away[:, None]
    nearby += float(np.linalg.norm(unit.T @ Y, 2))
    # ‖Qx‖ + ‖Q*x‖ is at least ‖Q*x‖, and at least 2‖Q*x‖ − f‖x‖.
    turn = 2.0 * length / np.maximum(away, 2.0 * away - radius * length)
    spectral = float(np.linalg.norm(X, 2))
    slope = spectral * (float(np.linalg.norm(unit, 2)) + float(np.linalg.norm(turn)))
    return nearby, slope
