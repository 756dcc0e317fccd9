"""When PCA is a good enough start (SPEC 6)."""

from __future__ import annotations

from dataclasses import dataclass
from math import acos, asin, cos, pi, sin

import numpy as np
import numpy.typing as npt

from stillspace.theory import _checks

__all__ = ["StartCondition", "pca_start"]


@dataclass(frozen=True, slots=True)
class StartCondition:
    """Whether PCA lands where cos θ_max ≥ γ, by the inliers' and outliers' second moments."""

    gamma: float
    inlier_eigenvalue: float
    """λ_r of the inliers' `X_inᵀX_in`."""
    outlier_norm: float
    """‖X_out‖², the largest eigenvalue of the outliers' `X_outᵀX_out`."""

    @property
    def printed(self) -> float:
        """The paper's `2 sin(arccos γ) λ_r − ‖X_out‖²`; positive does not suffice, see `holds`."""
        return 2.0 * sin(acos(self.gamma)) * self.inlier_eigenvalue - self.outlier_norm

    @property
    def margin(self) -> float:
        """`sin 2θ · λ_r − ‖X_out‖²` with θ = min(arccos γ, 45°): what must be positive."""
        angle = min(acos(self.gamma), pi / 4.0)
        return sin(2.0 * angle) * self.inlier_eigenvalue - self.outlier_norm

    @property
    def holds(self) -> bool:
        """Whether cos θ_max(L_PCA, L*) ≥ γ is proved."""
        return self.margin > 0.0

    @property
    def cosine(self) -> float:
        """The largest γ that is proved: cos θ with sin 2θ = ‖X_out‖²/λ_r; 0 if none is."""
        if self.outlier_norm >= self.inlier_eigenvalue:
            return 0.0
        return cos(asin(self.outlier_norm / self.inlier_eigenvalue) / 2.0)


def pca_start(
    inliers: npt.ArrayLike, outliers: npt.ArrayLike, r: int, *, gamma: float
) -> StartCondition:
    """Return the condition under which PCA of all rows starts within cos θ_max ≥ γ of L*.

    Proof of `margin`. Let θ be the largest principal angle, p ∈ L* and p̂ ∈ L_PCA its vectors and
    q̂ the unit vector orthogonal to p̂ in their plane, so that q̂ ⊥ L_PCA and P*p̂ = cos θ p,
    P*q̂ = sin θ p. With A, B the moments of inliers and outliers and a = pᵀAp ≥ λ_r, invariance
    gives p̂ᵀ(A+B)q̂ = 0, so ½ a sin 2θ = |p̂ᵀBq̂| ≤ ½‖B‖, since 0 ⪯ B. And θ ≤ 45° if λ_r > ‖B‖:
    otherwise p̂ᵀ(A+B)p̂ ≥ q̂ᵀ(A+B)q̂ gives p̂ᵀBp̂ − q̂ᵀBq̂ ≥ a|cos 2θ|, and a 2 × 2 block with
    eigenvalues in [0, ‖B‖] has (½(p̂ᵀBp̂ − q̂ᵀBq̂))² + (p̂ᵀBq̂)² ≤ ¼‖B‖², so a ≤ ‖B‖.
    The bound is attained by one outlier direction in the plane; the paper's condition, which lacks
    a factor γ, is not enough there.
    """
    inner, outer, _ = _checks.labelled(inliers, outliers)
    r = _checks.dimension(r, inner.shape[1])
    gamma = _checks.number("gamma", gamma, 0.0, 1.0, inside=False)
    values = np.linalg.svd(inner, compute_uv=False) ** 2
    eigenvalue = float(values[r - 1]) if len(values) >= r else 0.0
    norm = float(np.linalg.norm(outer, 2)) ** 2 if len(outer) else 0.0
    return StartCondition(gamma, eigenvalue, norm)
