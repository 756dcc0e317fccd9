"""What the eigenvalues of a noisy second moment tell. Post-processing: it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.geometry import Eigen
from stillspace.plans.adaptive import Answer


@dataclass(frozen=True, eq=False)
class Moment:
    """The mean of all releases of the second moment, weighed by their shares.

    It is decomposed once, whatever is asked of its eigenvalues and eigenvectors.
    """

    value: FloatArray
    share: float
    sd: float
    """Of the noise on a diagonal entry."""

    def plus(self, answer: Answer, share: float) -> Moment:
        total = self.share + share
        value = (self.share * self.value + share * answer.value) / total
        return Moment(value, total, self.sd * sqrt(self.share / total))

    @cached_property
    def _eigen(self) -> Eigen:
        return Eigen(self.value)

    def leading(self, r: int) -> FloatArray:
        """Return the eigenvectors (D, r) of the r largest eigenvalues, largest first."""
        return self._eigen.top(r)

    def spectrum(self, r: int) -> Spectrum:
        return Spectrum.of(self._eigen.values, self.sd, r)

    def count(self, most: int) -> int:
        """Return the number of components that stand out, 1…most."""
        return _count(self._eigen.values, self.sd, most)


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Eigenvalues of the inliers' second moment, freed of what noise adds to them.

    Noise that is isotropic on symmetric D × D matrices with standard deviation `sd` on the
    diagonal has eigenvalues up to 2ω, ω = sd√(D/2), and lifts an eigenvalue λ > ω of the signal to
    λ + ω²/λ (a spiked Wigner matrix). The median of the others stands for the bulk.
    """

    signal: FloatArray
    """(r,), descending: λ, or .7 ω where it cannot be told from noise."""
    bulk: float
    edge: float
    """ω."""
    rest: FloatArray
    """(D − r,), descending: the other eigenvalues, drawn together to the spread that they have
    without noise (a Wigner matrix adds the variance ω²)."""

    @classmethod
    def of(cls, moment: FloatArray, sd: float, r: int) -> Spectrum:
        """Read the r largest eigenvalues of a released second moment.

        `moment` is the matrix, or the vector of its eigenvalues.
        """
        values = np.sort(moment if moment.ndim == 1 else np.linalg.eigvalsh(moment))[::-1]
        edge = sd * sqrt(len(values) / 2)
        bulk = float(np.median(values[r:]))
        gap = values[:r] - bulk
        root = np.sqrt(np.maximum(gap**2 - 4.0 * edge**2, 0.0))
        signal = np.where(gap > 2.0 * edge, (gap + root) / 2.0, 0.7 * edge)
        rest = drawn_together(np.asarray(values[r:], dtype=np.float64), sd)
        return cls(signal, max(bulk, 0.0), edge, rest)

    def pca_error(self, sd: float, *, kept: int = 0, factors: FloatArray | float = 1.0) -> float:
        """Return the d² that noise gives to the r leading eigenvectors.

        It is `Σ_{j ≤ r} min(π²/4, Σ_{i > r} ν²/((λ_j − l_i)² + 12ν²/π²))` with ν = sd/√2, the
        noise between two directions: to first order ν²/(λ_j − l_i)², and π²/12, the mean square of
        a random angle, where two eigenvalues are equal. Where more than r eigenvectors are kept, it
        is what noise loses beyond them: Σ_{i > kept}. `factors` (r,) multiply the inner sums: they
        are how much less precise another method is along each leading direction.
        """
        beyond = self.rest[max(kept - len(self.signal), 0) :]
        gaps = self.squares[:, None] - beyond
        each = squared_angles(gaps, sd**2 / 2.0).sum(axis=1)
        return float(np.sum(np.minimum(each * np.asarray(factors), pi**2 / 4.0)))

    @property
    def squares(self) -> FloatArray:
        """(r,): mean y² of the rows along each leading direction."""
        return np.asarray(self.signal + self.bulk)

    @property
    def kappa(self) -> float:
        """The smallest signal in units of the noise: κ of docs/newton.md, at this release's μ."""
        return float(self.signal[-1]) / self.edge


def squared_angles(curvatures: FloatArray, variance: float) -> FloatArray:
    """Return the mean squares of angles that noise of this variance makes between two directions.

    To first order they are variance/curvature². Where there is no curvature they are π²/12, the
    mean square of a random angle.
    """
    return np.asarray(variance / (curvatures**2 + 12.0 / pi**2 * variance))


def drawn_together(values: FloatArray, sd: float) -> FloatArray:
    """Return noisy eigenvalues with the variance that noise gave them taken off their spread."""
    mean, variance = float(values.mean()), float(values.var())
    noise = sd**2 * len(values) / 2.0
    left = sqrt(max(0.0, 1.0 - noise / variance)) if variance > 0.0 else 0.0
    return np.asarray(np.maximum(mean + left * (values - mean), 0.0))


def count_components(moment: FloatArray, sd: float, most: int) -> int:
    """Return the number of components that stand out of a noisy second moment, 1…most."""
    return _count(np.asarray(np.linalg.eigvalsh(moment)), sd, most)


def _count(ascending: FloatArray, sd: float, most: int) -> int:
    """Return the place of the largest relative drop between neighbouring eigenvalues.

    All are measured from the bulk, and none is below the noise's edge.
    """
    values = ascending[::-1]
    edge = 2.0 * sd * sqrt(len(values) / 2)
    above = np.maximum(values[: most + 1] - np.median(values), edge)
    return int(np.argmax(above[:-1] / above[1:])) + 1
