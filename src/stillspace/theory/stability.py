"""Permeance, alignment and stability of GLAD (SPEC 6; Maunu, Zhang and Lerman 2019).

With labelled rows, divided by the number n of *all* rows:

    permeance   P = λ_r((1/n) Σ_in xxᵀ/‖x‖)
    alignment   A = max_V σ₁((1/n) Σ_out Qx(Vᵀx)ᵀ/‖Qx‖)
    stability   S_γ = γP − A

If S_γ > 0 and the inliers lie on L*, then GLAD has no other critical point V with
cos θ_max(V, L*) ≥ γ, and gradient descent from there converges to L*. (The paper calls this ball
"d_r² ≤ γ"; with d_r² = 1 − cos θ_max it is d_r² ≤ 1 − γ.)

The permeance is an eigenvalue. The alignment is a nonconvex maximum: what is proved is a number
above it, what is found is a number below it, and both are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.theory import _checks

_STARTS, _SCREENED, _STEPS = 12, 24, 80
"""Ascents; subspaces looked at for each start of one; steps of one."""

_FLOOR = 1e-12
"""A row this close to the subspace has no direction away from it that rounding would leave."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number that is only known to lie between two others."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError(f"The lower bound {self.lower} is above the upper bound {self.upper}.")


@dataclass(frozen=True, slots=True)
class Stability:
    """`γP − A`: certified to be at least `lower`, and shown to be at most `upper`."""

    gamma: float
    permeance: float
    alignment: Bounds

    @property
    def lower(self) -> float:
        """Certified: the alignment's proved upper bound was taken off."""
        return self.gamma * self.permeance - self.alignment.upper

    @property
    def upper(self) -> float:
        """Found: no stability above this is possible, since so much alignment was seen."""
        return self.gamma * self.permeance - self.alignment.lower

    @property
    def verdict(self) -> str:
        """Say whether stability holds: "stable", "not stable" or "undecided"."""
        if self.lower > 0.0:
            return "stable"
        return "not stable" if self.upper <= 0.0 else "undecided"


def permeance(inliers: npt.ArrayLike, r: int, n: int | None = None) -> float:
    """Return `λ_r((1/n) Σ xxᵀ/‖x‖)` of inlier rows; zero rows add nothing.

    Parameters
    ----------
    inliers : array of shape (n_in, D)
    r : int
        Dimension of their subspace.
    n : int, optional
        Number of all rows; by default that of the inliers.
    """
    X = _checks.rows("inliers", inliers)
    r = _checks.dimension(r, X.shape[1])
    weight = _checks.norms(X)
    used = weight > 0.0
    scaled = X[used] / np.sqrt(weight[used])[:, None]
    return _checks.eigenvalue(scaled, r) / (len(X) if n is None else n)


def certified_permeance(X: FloatArray, r: int, n: int) -> float:
    """Return the permeance of inlier rows, rounded downwards."""
    size = float(_checks.norms(X).sum()) / n
    return max(_checks.downwards(permeance(X, r, n), size, sum(X.shape)), 0.0)


def alignment(
    outliers: npt.ArrayLike,
    r: int,
    n: int | None = None,
    *,
    starts: int = _STARTS,
    also: FloatArray | None = None,
    random_state: int = 0,
) -> Bounds:
    """Return bounds on `A = max_V σ₁((1/n) Σ Qx(Vᵀx)ᵀ/‖Qx‖)` over the outlier rows.

    Upper bound (proved): for unit a and b, by Cauchy and Schwarz,
    `Σ (a·u)(b·x) ≤ √(Σ (a·u)²) √(Σ (b·x)²) ≤ √n_out ‖X_out‖`, u = Qx/‖Qx‖ being unit vectors; and
    `Σ ‖x‖` is another. Lower bound (found): gradient ascent over V from PCA of the outliers, from
    `also`, a basis of shape (r, D), and from the best of many random subspaces and spans of
    outliers.
    """
    X = _checks.rows("outliers", outliers)
    r = _checks.dimension(r, X.shape[1])
    total = len(X) if n is None else n
    if len(X) == 0 or total == 0:
        return Bounds(0.0, 0.0)
    upper = alignment_bound(X)
    rng = np.random.default_rng(random_state)
    found = max(_climb(X, V) for V in _alignment_starts(X, r, starts, also, rng))
    return Bounds(min(found, upper) / total, upper / total)


def stability(
    inliers: npt.ArrayLike, outliers: npt.ArrayLike, r: int, *, gamma: float = 1.0
) -> Stability:
    """Return permeance, bounds on the alignment and `S_γ = γP − A`.

    `gamma = 1` speaks of an arbitrarily small neighbourhood of L*, `gamma → 0` of everything that
    is not orthogonal to it.
    """
    inner, outer, n = _checks.labelled(inliers, outliers, r, gamma)
    return Stability(gamma, certified_permeance(inner, r, n), alignment(outer, r, n))


def alignment_bound(X: FloatArray) -> float:
    """Return the proved bound on n·A, rounded upwards."""
    operations = sum(X.shape)
    spectral = sqrt(len(X)) * float(np.linalg.norm(X, 2))
    return _checks.upwards(min(spectral, float(_checks.norms(X).sum())), operations)


def _alignment_starts(
    X: FloatArray, r: int, count: int, also: FloatArray | None, rng: np.random.Generator
) -> list[FloatArray]:
    D = X.shape[1]
    bases = [np.linalg.svd(X, full_matrices=True)[2][:r].T]
    if also is not None:
        bases.append(np.linalg.qr(np.asarray(also, dtype=np.float64).T)[0])
    screened = []
    for k in range(count * _SCREENED):
        A = rng.standard_normal((D, r))
        if k % 2 == 0 and len(X) >= r:
            # A span of outliers, tilted a little: at the span itself their directions away vanish.
            drawn = X[rng.choice(len(X), r, replace=False)].T
            A = drawn + 10.0 ** rng.uniform(-3.0, 0.0) * np.linalg.norm(drawn) * A / sqrt(D * r)
        V = np.linalg.qr(A)[0]
        screened.append((alignment_at(X, V)[0], V))
    screened.sort(key=lambda pair: -pair[0])
    return bases + [V for _, V in screened[:count]]


def alignment_at(X: FloatArray, V: FloatArray) -> tuple[float, FloatArray]:
    """Return `h(V) = σ₁(Σ Qx(Vᵀx)ᵀ/‖Qx‖)` and its gradient on the Grassmannian.

    With singular vectors a, b, q = Qx, d = ‖q‖ and y = Vᵀx, along a tangent Δ
    `dh = Σ [(a·q)(xᵀΔb)/d − (aᵀΔy)(y·b)/d + (a·q)(y·b)(qᵀΔy)/d³]`.
    """
    Y = X @ V
    R = X - Y @ V.T
    d = _checks.norms(R)
    used = d > _FLOOR * np.maximum(_checks.norms(X), 1e-300)
    X, Y, R, d = X[used], Y[used], R[used], d[used]
    if len(X) == 0:
        return 0.0, np.zeros_like(V)
    left, values, right = np.linalg.svd((R / d[:, None]).T @ Y, full_matrices=False)
    a, b = left[:, 0], right[0]
    aq, yb = R @ a, Y @ b
    E = np.outer(X.T @ (aq / d), b) - np.outer(a, (yb / d) @ Y)
    E += (R * (aq * yb / d**3)[:, None]).T @ Y
    return float(values[0]), E - V @ (V.T @ E)


def _climb(X: FloatArray, V: FloatArray) -> float:
    """Return the best value on an ascent from V, steps doubled or halved as they help."""
    best, E = alignment_at(X, V)
    step = 0.3
    for _ in range(_STEPS):
        size = float(np.linalg.norm(E))
        if size == 0.0 or step < 1e-7:
            break
        candidate = np.linalg.qr(V + step * E / size)[0]
        value, gradient = alignment_at(X, candidate)
        if value > best:
            V, best, E, step = candidate, value, gradient, min(2.0 * step, 1.0)
        else:
            step /= 2.0
    return best
