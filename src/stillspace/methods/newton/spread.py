"""How far the steps' answer is spread by their noise: the estimate of the error (docs/newton.md).

`Belief` treats all directions across the subspace alike. A real table has some with much more
variance than others, and there the curvature is smaller, the gains are too small and the start is
forgotten more slowly. `Spread` follows the error along each direction by itself, with the gains
that were used. It changes no step: it only says how far off the answer is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi, sqrt

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.spectrum import Spectrum
from stillspace.parts.geometry import identity

NODES = 400
"""Of the trapezoidal rule, in the logarithm of u."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The covariance of the error along each direction across the subspace.

    Let y_j be a row's coordinates in the subspace, z_i those across it, d² = Σ z_i². Along the
    rotation of direction j towards i the second derivative of d is
    `(y_j² (1 − z_i²/d²) − z_i²)/d`. If the z of a row follow an elliptical law, the mean of this is
    `(1 − g_i) H_jj − e_i E[d]`, with H the mean of yyᵀ/d, `g_i = E[z_i²/d³]/E[1/d]` and
    `e_i = E[z_i²/d]/E[d]`. Both follow from the eigenvalues across the subspace.
    """

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
        between = sd**2 / 2.0
        gaps = (spectrum.signal + spectrum.bulk) - rest[:, None]
        each = between / (gaps**2 + 12.0 / pi**2 * between)
        return cls(*elliptical_parts(rest), each[:, :, None] * identity(each.shape[1]))

    def after(self, H: FloatArray, K: FloatArray, sd: float) -> Spread:
        """Return the spread after a step with curvature H, gain K and noise `sd` per entry."""
        kept = identity(len(H)) - self._curvatures(H) @ K
        moved = kept.transpose(0, 2, 1) @ self.covariances @ kept + sd**2 * (K.T @ K)
        return replace(self, covariances=moved)

    def flattest(self, H: FloatArray) -> float:
        """Return the least curvature along any direction, as a part of H."""
        values, U = np.linalg.eigh(H)
        unit = U / np.sqrt(values)
        return float(np.linalg.eigvalsh(unit.T @ self._curvatures(H) @ unit).min())

    def _curvatures(self, H: FloatArray) -> FloatArray:
        """Return the curvature along each direction, (D − r, r, r)."""
        s = float(np.trace(H))
        # E[1/d] − E[d] = s on the sphere; this is E[d] where d hardly varies
        distance = (sqrt(s * s + 4.0) - s) / 2.0
        near, far = self.near[:, None, None], self.far[:, None, None]
        return np.asarray((1.0 - near) * H - far * distance * identity(len(H)))

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
