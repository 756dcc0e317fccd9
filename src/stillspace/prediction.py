"""What accuracy a private fit will have, from public facts and a few guesses (docs/newton.md).

The guesses are the share of inliers; their noise: how far a typical inlier lies off the subspace,
relative to its length in it; and their anisotropy: how unequal their directions are within the
subspace. Nothing here reads a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite, pi, sqrt
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from stillspace._checks import default_delta
from stillspace._limits import LARGEST_EPSILON
from stillspace._shown import is_word_of, shown
from stillspace._typing import FloatArray
from stillspace.methods.newton import MATRIX_SHARE, SCALAR_SHARE, TOP_UP, WEAK
from stillspace.methods.outlier_look import STANDARD
from stillspace.privacy import Relation, mu_from_budget
from stillspace.privacy.events import RELATIONS

__all__ = ["Prediction", "predict"]

USEFUL = 0.1
"""The d² up to which a subspace is called useful: all angles together about 18 degrees."""
LATE_PART = 0.85
"""Of the gradient's budget, what counts at the end: steps on the way are forgotten."""
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
    kappa: float
    """Signal over noise of the first look: below 4 private PCA is all that can be done."""
    pca_error: float
    """d² that noise gives to private PCA; outliers add a bias that no budget removes."""
    newton_error: float
    """d² of the damped Newton steps; infinite where they are not taken."""

    @property
    def error(self) -> float:
        """The d² to expect of algorithm="auto"."""
        most = self.r * (pi / 2) ** 2
        found = self.newton_error if self.kappa >= WEAK else self.pca_error
        return min(found, most)

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
        guesses = ("inlier_share", "inlier_noise", "inlier_anisotropy")
        return predict(**{**{name: getattr(self, name) for name in public + guesses}, **facts})

    def __str__(self) -> str:
        uneven = f" and anisotropy {self.inlier_anisotropy:g}" if self.inlier_anisotropy > 1 else ""
        facts = (
            f"{self.n} rows, {self.D} columns, {self.r} components, epsilon={self.epsilon:g}, "
            f"delta={self.delta:.3g} ({self.relation}); assumed: {self.inlier_share:.0%} inliers "
            f"with noise {self.inlier_noise:g}{uneven}."
        )
        if self.useful:
            route = "damped Newton steps" if self.kappa >= WEAK else "plain private PCA"
            return f"{facts} Expected squared error d² ≈ {self.error:.2g}, by {route}."
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

    Examples
    --------
    >>> from stillspace.prediction import predict
    >>> print(predict(200, 50, 3, epsilon=1.0))
    200 rows, 50 columns, 3 components, epsilon=1, delta=1e-06 (replace-one); assumed: 70% \
inliers with noise 0.1. Hopeless: the subspace would be mostly noise; at this number of rows \
epsilon ≈ 2.8 is needed.
    """
    _check(n, D, r, inlier_share, inlier_noise, inlier_anisotropy, relation)
    delta = default_delta(n) if delta is None else delta
    mu = mu_from_budget(epsilon, delta)
    replaced = relation == "replace-one"
    gradient, moment = (2.0, sqrt(2.0)) if replaced else (1.0, 1.0)
    n_mu = n * mu
    variances = _variances(r, inlier_anisotropy)
    signal = inlier_share * variances / (1.0 + inlier_noise**2)
    unit = moment / sqrt(2.0) / n_mu  # noise of private PCA between two directions
    kappa = float(signal[-1]) / (unit * sqrt(D))
    pca = (D - r) * float(np.sum((unit / signal) ** 2))
    start = max(STANDARD.moment_share, TOP_UP / max(kappa, 1e-9) ** 2)
    start += STANDARD.modes_share + STANDARD.angles_share
    left = LATE_PART * (1.0 - start - SCALAR_SHARE - (MATRIX_SHARE if r > 1 else 0.0))
    h = inlier_share * _curvatures(variances, max(inlier_noise, LEAST_NOISE))
    newton = inf
    if left > 0.0:
        noise = gradient**2 * (D - r) / (n_mu**2 * left)
        newton = float(np.sum((inlier_share * variances / n + noise) / h**2))
    return Prediction(
        n, D, r, epsilon, delta, relation, inlier_share, inlier_noise, inlier_anisotropy,
        kappa, pca, newton,
    )  # fmt: skip


def _variances(r: int, anisotropy: float) -> FloatArray:
    """Return the inliers' variances along r directions, largest first; they add up to 1."""
    variances = np.geomspace(1.0, anisotropy**-2.0, r)
    return np.asarray(variances / variances.sum())


def _curvatures(variances: FloatArray, noise: float) -> FloatArray:
    """Return E[y_j²/d] of inliers along each direction j.

    Before scaling to the sphere an inlier has coordinates √a_j·g_j, g_j ~ N(0, 1), in the subspace
    and lies τ off it. With A = Σ a_i g_i² that is `E[a_j g_j²/√(A + τ²)]/τ`; writing the root as an
    integral over exp(−u²(A + τ²)) makes the expectation a product:
    `(2/√π) ∫ exp(−u²τ²) a_j/(1 + 2u²a_j) Π_i (1 + 2u²a_i)^−½ du / τ`, over u from 0 to ∞.
    """

    def curvature(a: float) -> float:
        def integrand(u: float) -> float:
            logarithm = (u * noise) ** 2 + 0.5 * float(np.log1p(2.0 * u * u * variances).sum())
            return a * exp(-logarithm) / (1.0 + 2.0 * u * u * a)

        return float(2.0 / sqrt(pi) * quad(integrand, 0.0, inf)[0] / noise)

    distinct, index = np.unique(variances, return_inverse=True)
    return np.array([curvature(float(a)) for a in distinct])[index]


def _check(
    n: int, D: int, r: int, share: float, noise: float, anisotropy: float, relation: str
) -> None:
    if n < 2 or not 1 <= r < D:
        msg = f"A plan needs at least 2 rows and 1 ≤ components < columns, got {n}, {r}, {D}."
        raise ValueError(msg)
    if not 0.0 < share <= 1.0:
        msg = f"The assumed share of inliers must lie in (0, 1], got {share!r}."
        raise ValueError(msg)
    if not 0.0 <= noise < inf:
        msg = f"The assumed noise of inliers must be a number of at least 0, got {noise!r}."
        raise ValueError(msg)
    if not 1.0 <= anisotropy < inf:
        msg = f"The assumed anisotropy must be a number of at least 1, got {anisotropy!r}."
        raise ValueError(msg)
    if not is_word_of(relation, RELATIONS):
        known = ", ".join(RELATIONS)
        msg = f"The neighbouring relation must be one of {known}, got {shown(relation)}."
        raise ValueError(msg)
