"""A lower bound: no private method can find the subspace of a noisy haystack more precisely.

The bound is for the rows of `make_haystack` with inlier noise s: `share` · n rows are drawn from
N(0, Π*/r + s²I/D), and the others from a law that does not depend on L*. The proof stands in
docs/theory.md, "A lower bound". It uses van Trees' inequality for the sampling error, and its
private version (fingerprinting by scores) for the price of privacy. All constants are explicit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, inf, pi, sqrt

import numpy as np

from stillspace._checks import checked_number, checked_whole
from stillspace.privacy import mu_from_budget
from stillspace.theory import _checks

_RADII = tuple(np.linspace(0.02, 0.48, 93).tolist())
"""Radii of the ball of subspaces that are tried; every one gives a valid bound."""
_LARGEST = 700.0
"""exp of more than this overflows."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """What no method can beat on average, as mean squared errors Σ sin² θ_j ≤ d²."""

    sampling: float
    """Without privacy: from the number of rows alone."""
    private: float
    """From the privacy guarantee."""
    information: float
    """λ: the Fisher information of one inlier about a rotation of L* by one radian."""

    @property
    def error(self) -> float:
        """The larger of the two bounds."""
        return max(self.sampling, self.private)


def lower_bound(
    n: int,
    D: int,
    r: int,
    share: float,
    noise: float,
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> LowerBound:
    """Return a bound from below on the mean squared error of every method with this privacy.

    For every method whose results on any two tables that differ in one row have a Rényi divergence
    of order 2 of at most μ² (this holds for μ-Gaussian differential privacy and for zCDP with
    ρ = μ²/2), the mean of Σ sin² θ_j over the rows, the method's own randomness and subspaces L*
    near any given one is at least `error`. So for some L* the mean error is at least that, and
    d² = Σ θ_j² is larger still.

    Parameters
    ----------
    n, D, r, share : int, int, int, float
        Rows, columns, dimension of the subspace, and the share of inliers.
    noise : float
        s, the inlier noise of `make_haystack`. Without noise there is no such bound: a few rows
        on the subspace then tell it exactly.
    mu : float, optional
        The privacy of the method, under replace-one.
    epsilon, delta : float, optional
        In place of `mu`: the μ-Gaussian differential privacy that gives (ε, δ), as in this
        library's fits of all rows. Methods that are (ε, δ)-private in another way are not covered.
    """
    checked_whole("n", n, 1)
    _checks.dimension(r, D)
    checked_number("share", share, 0.0, 1.0, inside=False)
    checked_number("noise", noise, 0.0, inf)
    mu = _checked_mu(mu, epsilon, delta)
    information = inlier_information(D, r, noise)
    inliers, d = ceil(share * n), r * (D - r)
    attack = inf if mu**2 > _LARGEST else sqrt(expm1(mu**2))
    sampling = private = 0.0
    for radius in _RADII:
        most = information / (1.0 - 4.0 * radius**2)  # in the chart of the proof
        prior = (pi * d / radius) ** 2
        sampling = max(sampling, d**2 / (inliers * d * most + prior))
        private = max(private, (d / (inliers * attack * sqrt(most) + sqrt(prior))) ** 2)
    return LowerBound(sampling, private, information)


def inlier_information(D: int, r: int, noise: float) -> float:
    """Return λ = a²/((a + b) b), a = 1/r and b = s²/D the variances of an inlier.

    An inlier is N(0, Σ), Σ = aΠ* + bI. A rotation with velocity H, a (D − r) × r matrix, changes Σ
    by blocks aH and aHᵀ, so its information ½ tr(Σ⁻¹ Σ' Σ⁻¹ Σ') is a²‖H‖_F²/((a + b) b).
    """
    a, b = 1.0 / r, noise**2 / D
    return a**2 / ((a + b) * b)


def _checked_mu(mu: float | None, epsilon: float | None, delta: float | None) -> float:
    if mu is not None:
        if epsilon is not None or delta is not None:
            raise ValueError("Give either mu or epsilon and delta, not both.")
        return checked_number("mu", mu, 0.0, inf)
    if epsilon is None or delta is None:
        raise ValueError("Give mu, or both epsilon and delta: the bound is for a stated privacy.")
    return mu_from_budget(epsilon, delta)
