"""When PCA is a good enough start (SPEC 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import acos, asin, cos, log, pi, sin, sqrt

import numpy as np
import numpy.typing as npt

from stillspace._checks import checked_number
from stillspace.privacy import mu_from_budget
from stillspace.theory import _checks


@dataclass(frozen=True, slots=True)
class StartCondition:
    """Whether PCA lands where cos θ_max ≥ γ, by the inliers' and outliers' second moments."""

    gamma: float
    inlier_eigenvalue: float
    """λ_r of the inliers' `X_inᵀX_in`."""
    outlier_norm: float
    """‖X_out‖², the largest eigenvalue of the outliers' `X_outᵀX_out`."""
    noise: float = 0.0
    """A bound on the norm of the noise on the second moment `XᵀX`; 0 without privacy."""

    @property
    def printed(self) -> float:
        """The paper's `2 sin(arccos γ) λ_r − ‖X_out‖²`; positive does not suffice, see `holds`."""
        return 2.0 * sin(acos(self.gamma)) * self.inlier_eigenvalue - self.outlier_norm

    @property
    def margin(self) -> float:
        """`sin 2θ · λ_r − ‖X_out‖² − 2·noise`, θ = min(arccos γ, 45°): what must be positive."""
        angle = min(acos(self.gamma), pi / 4.0)
        return sin(2.0 * angle) * self.inlier_eigenvalue - self._disturbance

    @property
    def holds(self) -> bool:
        """Whether cos θ_max(L_PCA, L*) ≥ γ is proved."""
        return self.margin > 0.0

    @property
    def cosine(self) -> float:
        """The largest γ that is proved: cos θ, sin 2θ = (‖X_out‖² + 2·noise)/λ_r; 0 if none."""
        if self._disturbance >= self.inlier_eigenvalue:
            return 0.0
        return cos(asin(self._disturbance / self.inlier_eigenvalue) / 2.0)

    @property
    def _disturbance(self) -> float:
        """The length of an interval that holds the eigenvalues of outliers' moment plus noise."""
        return self.outlier_norm + 2.0 * self.noise


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
    inner, outer, _ = _checks.labelled(inliers, outliers, r, gamma)
    return StartCondition(gamma, _checks.eigenvalue(inner, r), _checks.eigenvalue(outer, 1))


def private_pca_start(
    inliers: npt.ArrayLike,
    outliers: npt.ArrayLike,
    r: int,
    *,
    gamma: float,
    epsilon: float,
    delta: float,
    failure: float = 0.01,
) -> StartCondition:
    """Return the condition under which *private* PCA starts within cos θ_max ≥ γ of L*.

    Private PCA adds symmetric Gaussian noise W to XᵀX, of variance σ² on the diagonal and σ²/2 off
    it, with σ = √2/μ(ε, δ) for rows of length at most 1 (replace-one). What the condition promises
    holds with probability 1 − `failure`.

    Proof. The proof of `pca_start` uses of the outliers' moment B only that its eigenvalues lie in
    an interval of length ‖B‖. Those of B + W lie in one of length ‖B‖ + 2‖W‖. And
    ‖W‖ ≤ σ(√(2D) + √(2 ln(2/failure))): E λ_max(W) ≤ σ√(2D) (Sudakov–Fernique), λ_max is
    1-Lipschitz in the Frobenius norm, and W and −W have one distribution.
    """
    checked_number("failure", failure, 0.0, 1.0)
    found = pca_start(inliers, outliers, r, gamma=gamma)
    D = np.asarray(inliers).shape[1]
    sigma = sqrt(2.0) / mu_from_budget(epsilon, delta)
    noise = sigma * (sqrt(2.0 * D) + sqrt(2.0 * log(2.0 / failure)))
    return replace(found, noise=noise)
