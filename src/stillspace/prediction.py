"""What accuracy a private fit will have, from public facts and a few guesses (docs/newton.md).

The guesses are the share of inliers; their noise: how far a typical inlier lies off the subspace,
relative to its length in it; and their anisotropy: how unequal their directions are within the
subspace. Nothing here reads a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite, log, pi, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq

from stillspace._checks import LARGEST_EPSILON, checked_choice, checked_number, default_delta
from stillspace._typing import FloatArray
from stillspace.methods.newton import NEWTON_RULE
from stillspace.methods.outlier_look import LOOK_RULE
from stillspace.methods.standardiser import STANDARDISER_RULE, kappa_of
from stillspace.privacy import Relation, mu_from_budget
from stillspace.privacy.events import RELATIONS

__all__ = ["Prediction", "predict"]

USEFUL = 0.1
"""The d² up to which a subspace is called useful: all angles together about 18 degrees."""
LATE_PART = 0.85
"""Of the gradient's budget, what counts at the end: steps on the way are forgotten."""
NODES = 1000
"""Of the trapezoidal rule, in the logarithm of the variable: exact to 1e-8."""
LEAST_NOISE = 1e-4
"""Below this noise the steps end before the model's limit is reached."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The error d² to expect, of steps and of plain private PCA, and what that means."""

    n: int
    D: int
    r: int
    epsilon: float
    delta: float
    relation: Relation
    inlier_share: float
    inlier_noise: float
    inlier_anisotropy: float
    known_units: bool
    units_share: float
    """The part of μ² that a private centre and scale take; 0 where they are not looked for."""
    kappa: float
    """Signal over noise of the first look: below 4 private PCA is all that can be done."""
    pca_error: float
    """d² that noise and sampling give to private PCA where outliers lie on all sides. Outliers that
    agree among themselves add a bias that no budget removes."""
    newton_error: float
    """d² that noise and sampling give to the damped Newton steps; infinite where they are not
    taken."""

    @property
    def route(self) -> str:
        """What algorithm="auto" is expected to end with; it goes back to PCA in noisy tables."""
        steps = self.kappa >= NEWTON_RULE.weak and self.newton_error <= self.pca_error
        return "damped Newton steps" if steps else "plain private PCA"

    @property
    def error(self) -> float:
        """The d² to expect of algorithm="auto", at most r·π²/4."""
        steps = self.route == "damped Newton steps"
        return self.newton_error if steps else self.pca_error

    @property
    def useful(self) -> bool:
        """Whether the subspace will be near the right one at all."""
        return self.error <= USEFUL

    def needed_epsilon(self, error: float = USEFUL) -> float:
        """Return the ε at which this error is expected, or infinity."""

        def excess(epsilon: float) -> float:
            return self.changed(epsilon=epsilon).error - error

        if excess(LARGEST_EPSILON) > 0:
            return inf
        if excess(1e-4) <= 0:
            return 1e-4
        return float(brentq(excess, 1e-4, LARGEST_EPSILON, rtol=1e-3))

    def changed(self, **facts: Any) -> Prediction:
        """Return the prediction for other facts, named as in `predict`."""
        public = ("n", "D", "r", "epsilon", "delta", "relation")
        guesses = ("inlier_share", "inlier_noise", "inlier_anisotropy", "known_units")
        return predict(**{**{name: getattr(self, name) for name in public + guesses}, **facts})

    @property
    def units_in_words(self) -> str:
        """What happens to the centre and the scale of the columns."""
        if self.known_units:
            return "public numbers, or the table as it is."
        kappa = kappa_of(mu_from_budget(self.epsilon, self.delta), self.n, self.D)
        if self.units_share > 0.0:
            return f"found privately, with {self.units_share:.0%} of μ² (κ = {kappa:.3g})."
        return (
            f"this table is too small to find them privately (κ = μn/√D is {kappa:.3g}, and "
            f"{STANDARDISER_RULE.safe_kappa:g} is needed): give public numbers, or it is taken "
            "as it is."
        )

    def __str__(self) -> str:
        uneven = f" and anisotropy {self.inlier_anisotropy:g}" if self.inlier_anisotropy > 1 else ""
        facts = (
            f"{self.n} rows, {self.D} columns, {self.r} components, epsilon={self.epsilon:g}, "
            f"delta={self.delta:.3g} ({self.relation}); assumed: {self.inlier_share:.0%} inliers "
            f"with noise {self.inlier_noise:g}{uneven}."
        )
        if self.useful:
            return f"{facts} Expected squared error d² ≈ {self.error:.2g}, by {self.route}."
        needed = self.needed_epsilon()
        remedy = (
            f"at this number of rows epsilon ≈ {needed:.2g} is needed"
            if isfinite(needed)
            else f"no epsilon up to {LARGEST_EPSILON:g} is enough at this number of rows"
        )
        narrower = ", or fewer columns (sketch=)" if self.D > 100 else ""
        return f"{facts} Hopeless: the subspace would be mostly noise; {remedy}{narrower}."


def predict(
    n: int,
    D: int,
    r: int,
    *,
    epsilon: float,
    delta: float | None = None,
    relation: Relation = "replace-one",
    inlier_share: float = 0.7,
    inlier_noise: float = 0.1,
    inlier_anisotropy: float = 1.0,
    known_units: bool = False,
) -> Prediction:
    """Return what to expect of `PrivateRobustPCA(r, epsilon=…)` on such a table.

    Parameters
    ----------
    n, D, r : int
        Rows, columns, components.
    epsilon, delta : float
        The budget; delta None means `min(n^−1.5, 1e-6)`.
    relation : {"replace-one", "add-or-remove-one"}
    inlier_share : float in (0, 1]
    inlier_noise : float ≥ 0
        Length of the part of a typical inlier off the subspace, over that in it.
    inlier_anisotropy : float ≥ 1
        Largest over smallest standard deviation of the inliers within the subspace; those between
        are assumed to fall geometrically. The weakest direction dominates the error.
    known_units : bool
        Whether you give `center` and `scale` (None counts). If not, a part of the budget finds
        them where the table is large enough.

    Examples
    --------
    >>> from stillspace.prediction import predict
    >>> print(predict(200, 50, 3, epsilon=1.0))
    200 rows, 50 columns, 3 components, epsilon=1, delta=1e-06 (replace-one); assumed: 70% \
inliers with noise 0.1. Hopeless: the subspace would be mostly noise; at this number of rows \
epsilon ≈ 2.9 is needed.
    """
    _check(n, D, r, inlier_share, inlier_noise, inlier_anisotropy, relation)
    delta = default_delta(n) if delta is None else delta
    mu = mu_from_budget(epsilon, delta)
    replaced = relation == "replace-one"
    gradient, moment = (2.0, sqrt(2.0)) if replaced else (1.0, 1.0)
    public_kappa = kappa_of(mu, n, D)
    found = not known_units and public_kappa >= STANDARDISER_RULE.safe_kappa
    units_share = STANDARDISER_RULE.share_of(public_kappa) if found else 0.0
    n_mu = n * mu * sqrt(1.0 - units_share)
    inliers = _Inliers.of(r, inlier_anisotropy, max(inlier_noise, LEAST_NOISE))
    # The second moment on the sphere: the eigenvalues along the subspace less the one across it,
    # and the variance of an entry between a direction along it and one across.
    across, outlier = D - r, 1.0 / (D * (D + 2.0))  # E[x_j² x_i²] of a uniform direction
    level = inlier_share * (1.0 - float(inliers.along.sum())) / across
    gaps = inlier_share * inliers.along - level
    sampling = (inlier_share * inliers.mixed / across + (1.0 - inlier_share) * outlier) / n
    unit = moment / sqrt(2.0) / n_mu  # noise of private PCA between two directions
    kappa = float(gaps[-1]) / (unit * sqrt(D))
    pca = _angles(across * (unit**2 + sampling) / np.maximum(gaps, 1e-300) ** 2)
    start = max(LOOK_RULE.moment_share, NEWTON_RULE.top_up / max(kappa, 1e-9) ** 2)
    start += LOOK_RULE.modes_share + LOOK_RULE.angles_share
    left = LATE_PART * (1.0 - start - NEWTON_RULE.curvature_share * min(r, 2))
    h = inlier_share * inliers.curvatures
    newton = inf
    if left > 0.0:
        noise = gradient**2 * (D - r) / (n_mu**2 * left)
        newton = _angles((inlier_share * inliers.variances / n + noise) / h**2)
    return Prediction(
        n, D, r, epsilon, delta, relation, inlier_share, inlier_noise, inlier_anisotropy,
        known_units, units_share, kappa, pca, newton,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Inliers:
    """Means over inliers, along each direction of the subspace.

    Before scaling to the sphere an inlier has coordinates √a_j·g_j, g_j ~ N(0, 1), in the subspace
    and lies τ off it; A = Σ a_i g_i².
    """

    variances: FloatArray
    """a_j, largest first; they add up to 1."""
    along: FloatArray
    """E[a_j g_j²/(A + τ²)]."""
    mixed: FloatArray
    """E[a_j g_j² τ²/(A + τ²)²]."""
    curvatures: FloatArray
    """E[a_j g_j²/√(A + τ²)]/τ."""

    @staticmethod
    @lru_cache(maxsize=64)
    def of(r: int, anisotropy: float, noise: float) -> _Inliers:
        """Return the means for these guesses; a picture asks for the same ones many times."""
        a = np.geomspace(1.0, anisotropy**-2.0, r)
        a = np.asarray(a / a.sum())
        along, mixed = _integrals(a, noise, 1.0), noise**2 * _integrals(a, noise, 2.0)
        return _Inliers(a, along, mixed, _curvatures(a, noise))


def _angles(squares: FloatArray) -> float:
    """Return Σθ_j² for squared sines to first order: at most π²/4 for each component.

    Above the threshold of a spiked Wigner matrix this is its angle, below it the angle is π/2.
    """
    return float(np.sum(np.arcsin(np.sqrt(np.minimum(squares, 1.0))) ** 2))


def _curvatures(variances: FloatArray, noise: float) -> FloatArray:
    """Return E[a_j g_j²/√(A + τ²)]/τ of inliers along each direction j."""
    return _integrals(variances, noise, 0.5) / (sqrt(pi) * noise)


def _integrals(variances: FloatArray, noise: float, power: float) -> FloatArray:
    """Return Γ(power) E[a_j g_j²/(A + τ²)^power] of inliers along each direction j.

    The power as an integral over exp(−u(A + τ²)) makes the expectation a product:
    `∫ u^power exp(−uτ²) a_j/(1 + 2ua_j) Π_i (1 + 2ua_i)^−½ dlog u`, here added up by trapezoids.
    """
    t = np.linspace(-60.0, log(1e3 / noise**2), NODES)
    u = np.exp(t)
    logarithm = power * t - u * noise**2 - 0.5 * np.log1p(2.0 * u[:, None] * variances).sum(axis=1)
    terms = np.exp(logarithm)[:, None] * variances / (1.0 + 2.0 * u[:, None] * variances)
    return np.asarray(terms.sum(axis=0) * (t[1] - t[0]))


def _check(
    n: int, D: int, r: int, share: float, noise: float, anisotropy: float, relation: str
) -> None:
    if n < 2 or not 1 <= r < D:
        msg = f"A plan needs at least 2 rows and 1 ≤ components < columns, got {n}, {r}, {D}."
        raise ValueError(msg)
    if not 0.0 < share <= 1.0:
        raise ValueError(f"The assumed share of inliers must lie in (0, 1], got {share!r}.")
    checked_number("inlier_noise", noise, 0.0, inside=False)
    checked_number("inlier_anisotropy", anisotropy, 1.0, inside=False)
    checked_choice("relation", relation, RELATIONS)
