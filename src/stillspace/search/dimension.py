"""Choosing the number of components: where rows stop coming nearer (SPEC 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi

from stillspace._typing import FloatArray, IntArray
from stillspace.search.candidates import Loss, chosen, search
from stillspace.search.cuts import distances

MOST_COMPONENTS = 15
PROFILE_ROWS = 1500
"""Rows that a profile reads at most."""

_CLEAR = 0.1
"""A smaller end of drops is not told from noise."""


@dataclass(frozen=True, slots=True, eq=False)
class DimensionProfile:
    """A low quantile of the orthogonal distance for each number of components.

    With one component more, noise in D − r dimensions comes nearer by the ratio of the medians of
    χ(D−r−1) and χ(D−r); the drop is what is left of the ratio after that, as a negative
    logarithm. Inside the majority's subspace each component is a drop, beyond it none is: r is
    where drops end, `argmax (drop_r − drop_{r+1})`.
    """

    distances: FloatArray
    """(R + 1,), the quantile for r = 0 … R on the unit sphere; 1 for r = 0."""
    drops: FloatArray
    """(R,), for r = 1 … R."""
    quantile: float
    n_components: int
    """The last r before drops end."""

    @property
    def ranks(self) -> IntArray:
        """(R + 1,), 0 … R."""
        return np.arange(len(self.distances))

    @property
    def clear(self) -> bool:
        """Whether that end stands out from any other, and from noise."""
        ordered = np.sort(self.drops[:-1] - self.drops[1:])[::-1]
        second = float(ordered[1]) if len(ordered) > 1 else 0.0
        return bool(len(ordered) and ordered[0] > max(_CLEAR, 1.5 * second))


def profile(
    U: FloatArray, loss: Loss, rng: np.random.Generator, *, quantile: float, most: int
) -> DimensionProfile:
    """Fit 1 … `most` components to unit rows (m, D) and return the profile.

    `quantile` is below the share of inliers, so that they are seen, and above that of any group of
    outliers, so that it is not.
    """
    U = U[np.einsum("ij,ij->i", U, U) > 0.25]
    D = U.shape[1]
    R = max(1, min(most, D - 1, len(U) // 3))
    found = [1.0]
    for r in range(1, R + 1):
        V = chosen(search(U, r, loss, rng)).components.T
        found.append(max(float(np.quantile(distances(U, V), quantile)), 2.0**-50))
    levels = np.array(found)
    noise = np.log(chi.ppf(0.5, D - np.arange(R + 1)))
    drops = np.diff(noise) - np.diff(np.log(levels))
    best = int(np.argmax(drops[:-1] - drops[1:])) + 1 if R > 1 else 1
    return DimensionProfile(levels, drops, quantile, best)
