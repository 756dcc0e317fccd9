"""What the eigenvalues of a noisy second moment tell. Post-processing: it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, pi, sqrt

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
        """Return the mean with one release more."""
        total = self.share + share
        value = (self.share * self.value + share * answer.value) / total
        return Moment(value, total, self.sd * sqrt(self.share / total))

    @cached_property
    def _eigen(self) -> Eigen:
        return Eigen(self.value)

    def leading(self, r: int) -> FloatArray:
        """Return the eigenvectors (D, r) of the r largest eigenvalues, largest first."""
        return self._eigen.top(r)

    def spectrum(self, r: int, n: float = inf) -> Spectrum:
        """Return what the r largest eigenvalues tell of n rows."""
        return Spectrum.of(self._eigen.values, self.sd, r, n)

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
    pca_error: float
    """d² of the top r eigenvectors that noise and sampling leave (outliers are invisible here):
    Σ_{j ≤ r} min(π²/4, Σ_{i > r} (noise² + sampling)/(λ_j − l_i)²). Where more than r are kept,
    what is lost beyond them: Σ_{i > kept}."""

    @classmethod
    def of(
        cls, moment: FloatArray, sd: float, r: int, n: float = inf, *, kept: int = 0
    ) -> Spectrum:
        """Read the r largest eigenvalues of a released second moment of n rows.

        `moment` is the matrix, or the vector of its eigenvalues.
        """
        values = np.sort(moment if moment.ndim == 1 else np.linalg.eigvalsh(moment))[::-1]
        edge = sd * sqrt(len(values) / 2)
        bulk = float(np.median(values[r:]))
        gap = values[:r] - bulk
        root = np.sqrt(np.maximum(gap**2 - 4.0 * edge**2, 0.0))
        signal = np.where(gap > 2.0 * edge, (gap + root) / 2.0, 0.7 * edge)
        rest = values[max(r, kept) :]
        level = (signal + max(bulk, 0.0))[:, None]
        spread = sd**2 / 2.0 + level * np.maximum(rest, 0.0) / n
        each = np.sum(spread / np.maximum((level - rest) ** 2, 1e-300), axis=1)
        return cls(signal, max(bulk, 0.0), edge, float(np.sum(np.minimum(each, pi**2 / 4))))

    @property
    def kappa(self) -> float:
        """The smallest signal in units of the noise: κ of docs/newton.md, at this release's μ."""
        return float(self.signal[-1]) / self.edge


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
