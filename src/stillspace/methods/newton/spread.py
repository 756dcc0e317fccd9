"""The directions across the subspace: the curvature along each of them, and the noise's spread.

A real table has directions across the subspace with much more variance than others. There the mean
distance is flatter than its mean curvature says. `Across` tells the steps how much flatter, for the
leading ones of these directions. `Spread` follows what noise makes of the error along all of them,
with the gains that were used. It changes no step: it says how far off the answer is, and whether
the steps differ from private PCA by more than noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, pi, sqrt
from typing import NamedTuple

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.spectrum import Spectrum, squared_angles
from stillspace.parts.geometry import identity

NODES = 400
"""Of the trapezoidal rule, in the logarithm of u."""


class Axes(NamedTuple):
    """A curvature H (r, r) by its eigenvalues, ascending, and its eigenvectors U (r, r)."""

    values: FloatArray
    U: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Across:
    """What is known of the leading directions across the subspace, and of all others as one.

    Let y_j be a row's coordinates in the subspace, z_i those across it, d² = Σ z_i². Along the
    rotation of direction j towards i the second derivative of d is
    `(y_j² (1 − z_i²/d²) − z_i²)/d`. If the z of a row follow an elliptical law, the mean of this is
    `(1 − g_i) H_jj − e_i E[d]`, with H the mean of yyᵀ/d, `g_i = E[z_i²/d³]/E[1/d]` and
    `e_i = E[z_i²/d]/E[d]`. Both follow from the eigenvalues across the subspace. With one
    direction across, d = |z| has no such derivative at 0, and the curvature is H.
    """

    leading: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """(D, k), or empty."""
    near: FloatArray = field(default_factory=lambda: np.zeros(1))
    """(k + 1,), g_i of the leading directions, and the mean of the others."""
    far: FloatArray = field(default_factory=lambda: np.zeros(1))
    """(k + 1,), e_i likewise."""

    @classmethod
    def of(cls, leading: FloatArray, spectrum: Spectrum) -> Across:
        """Take the k leading directions across the subspace.

        Variances that noise does not tell apart count as nearly equal.
        """
        k, m = leading.shape[1], len(spectrum.rest)
        if m == 1:
            return cls(leading, np.zeros(k + 1), np.zeros(k + 1))
        parts = elliptical_parts(spectrum.rest + spectrum.edge)
        return cls(leading, *(np.append(part[:k], part[min(k, m - 1) :].mean()) for part in parts))

    def curvatures(self, H: Axes, least: float) -> FloatArray:
        """Return the curvature (k + 1, r, r) along each direction, at least a part of H."""
        return np.asarray((self.along(H, least)[:, None, :] * H.U) @ H.U.T)

    def along(self, H: Axes, least: float) -> FloatArray:
        """Return the eigenvalues (k + 1, r) of the curvature along each direction."""
        return np.maximum(_along(self.near, self.far, H.values), least * H.values)

    def steps(self, G: FloatArray, gains: FloatArray) -> FloatArray:
        """Return the step (D, r) for a gradient, given the gains along each direction."""
        step = np.asarray(G @ gains[-1])
        if len(gains) > 1:
            along = self.leading.T @ G
            step += self.leading @ (along[:, None, :] @ (gains[:-1] - gains[-1]))[:, 0]
        return step

    def every(self, gains: FloatArray, count: int) -> FloatArray:
        """Return the gains along all `count` directions across the subspace."""
        others = np.repeat(gains[-1:], count - len(gains) + 1, axis=0)
        return np.concatenate([gains[:-1], others])


def _along(near: FloatArray, far: FloatArray, values: FloatArray) -> FloatArray:
    """Return `(1 − g_i) h_j − e_i E[d]`: a row per direction, a column per eigenvalue h of H."""
    s = float(values.sum())
    # E[1/d] − E[d] = s on the sphere; this is E[d] where d hardly varies
    distance = (sqrt(s * s + 4.0) - s) / 2.0
    return np.asarray((1.0 - near)[:, None] * values - distance * far[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The covariance of the error along each direction across the subspace (see `Across`)."""

    near: FloatArray
    """(D − r,), g_i."""
    far: FloatArray
    """(D − r,), e_i."""
    covariances: FloatArray
    """(D − r, r, r)."""

    @classmethod
    def at(cls, spectrum: Spectrum, sd: float) -> Spread:
        """Start from the leading eigenvectors of a second moment with noise `sd`."""
        rest = spectrum.rest
        gaps = spectrum.squares - rest[:, None]
        each = squared_angles(gaps, sd**2 / 2.0)
        return cls(*elliptical_parts(rest), each[:, :, None] * identity(each.shape[1]))

    def after(self, H: Axes, K: FloatArray, sd: float) -> Spread:
        """Return the spread after a step with curvature H, gains K and noise `sd` per entry."""
        values, U = H
        each = _along(self.near, self.far, values)
        kept = identity(len(U)) - ((each[:, None, :] * U) @ U.T) @ K
        noise = sd**2 * (K.transpose(0, 2, 1) @ K)
        moved = kept.transpose(0, 2, 1) @ self.covariances @ kept + noise
        # no angle has a larger mean square, whatever was released
        most = len(U) * pi**2 / 4.0
        moved *= (most / np.maximum(np.einsum("ijj->i", moved), most))[:, None, None]
        return replace(self, covariances=moved)

    def flattest(self, H: Axes) -> float:
        """Return the least curvature along any direction, as a part of H."""
        return float((_along(self.near, self.far, H.values) / H.values).min())

    @property
    def error(self) -> float:
        """d², at most π²/4 for each component."""
        each = np.einsum("ijj->j", self.covariances)
        return float(np.sum(np.minimum(each, pi**2 / 4.0)))


def elliptical_parts(variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `E[z_i²/d³]/E[1/d]` and `E[z_i²/d]/E[d]` of normal z with these variances, d = ‖z‖.

    With `d^−p` as an integral over exp(−u²d²) the expectations are products: both are means of
    `2u²l_i/(1 + 2u²l_i)` and of `l_i/(1 + 2u²l_i)`, weighed by Π (1 + 2u²l_k)^−½. They are the
    same for every elliptical law, since a common factor of the z of a row cancels.
    """
    unit = variances / max(float(variances.max()), 1e-300) + 1e-12
    t = np.linspace(log(1e-3), log(1e7), NODES)
    u2 = np.exp(2.0 * t)[:, None]
    grown = 1.0 + 2.0 * u2 * unit
    weight = np.exp(t - 0.5 * np.log(grown).sum(axis=1))
    near = weight @ (2.0 * u2 * unit / grown)
    far = weight @ (unit / grown)
    return near / near.sum(), far / far.sum()
