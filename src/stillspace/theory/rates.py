"""How fast private REAPER converges: excess cost and distance, with all constants.

For full-batch gradient descent on REAPER's cost G with projections onto H (dp-GD-REAP):

    E G(P̄) − min G ≤ m √((1 + σ² D(D+1)/2)/T),     m² = 2 min(r, D − r),

with the best constant step. P̄ is the average of the points at which gradients were taken. If
REAPER's stability S_R is positive, E d(L̂, L*) ≤ (π/2) (E G(P̄) − min G)/S_R. Both are of order 1/n
once T is of order n²ε², as in the paper, which leaves out a factor of order D√r.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi, sqrt

from stillspace._checks import checked_number
from stillspace.privacy import mu_from_budget
from stillspace.theory import _checks


@dataclass(frozen=True, slots=True)
class ReaperRate:
    """Expected excess cost of the average of a private gradient descent on REAPER's cost."""

    sigma: float
    """Noise: each entry of the symmetric mean gradient has variance σ² (diagonal) or σ²/2."""
    excess: float
    """An upper bound on E G(P̄) − min G."""
    step: float
    """The constant step size that the bound is for; 0 if the steps are scale/√k."""

    def distance(self, stability: float) -> float:
        """Return the upper bound (π/2) · excess/S_R on E d(L̂, L*), d² = Σ θ_j².

        Proof. G(P* + Δ) − G(P*) ≥ S_R ‖Δ‖_* (Lerman, McCoy, Tropp and Zhang 2015). Let Π̂ project
        onto the top r eigenvectors of P* + Δ. Then ⟨P* + Δ, Π̂ − P*⟩ ≥ 0, so
        Σ sin² θ_j = ⟨P*, P* − Π̂⟩ ≤ ⟨Δ, Π̂ − P*⟩ ≤ ‖Δ‖_* sin θ_max, hence √(Σ sin² θ_j) ≤ ‖Δ‖_*;
        and θ ≤ (π/2) sin θ.
        """
        return pi / 2.0 * self.excess / stability if stability > 0.0 else inf


def reaper_rate(
    n: int,
    D: int,
    r: int,
    *,
    n_iter: int,
    epsilon: float | None = None,
    delta: float | None = None,
    sigma: float | None = None,
    scale: float | None = None,
) -> ReaperRate:
    """Return the bound for `n_iter` full-batch iterations under (ε, δ), or with a given σ.

    With `scale` = c the steps are c/√k, as in the paper with c = 8; by default they are constant
    and the best. Without `sigma`, σ = √2·√T/(nμ(ε, δ)) (replace-one, sensitivity √2/n).

    Proof. ‖P_{k+1} − P*‖² ≤ ‖P_k − P*‖² + 2η_k⟨G_k + B_k, P_k − P*⟩ + η_k²‖G_k + B_k‖² by the
    projection, −G_k being a subgradient. Take expectations: E‖G_k + B_k‖² ≤ R² = 1 + σ²D(D+1)/2.
    Divide by 2η_k and add up; since the steps do not grow and ‖P_k − P*‖² ≤ m², the sum of
    E G(P_k) − min G is at most m²/(2η_T) + R² Σ η_k/2. Divide by T and use that G is convex. The
    squared diameter of H is at most 2 min(r, D − r).
    """
    _checks.dimension(r, D)
    if sigma is None:
        if epsilon is None or delta is None:
            raise ValueError("Give epsilon and delta, or sigma.")
        sigma = sqrt(2.0 * n_iter) / (n * mu_from_budget(epsilon, delta))
    size = sqrt(2.0 * min(r, D - r))
    energy = 1.0 + sigma**2 * D * (D + 1) / 2.0
    if scale is None:
        step = size / sqrt(energy * n_iter)
        return ReaperRate(sigma, size * sqrt(energy / n_iter), step)
    checked_number("scale", scale, 0.0, inf)
    steps = scale * sum(1.0 / sqrt(k) for k in range(1, n_iter + 1))
    last = scale / sqrt(n_iter)
    return ReaperRate(sigma, (size**2 / (2.0 * last) + energy * steps / 2.0) / n_iter, 0.0)
