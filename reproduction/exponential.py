"""The exponential mechanism for PCA in many columns, by Gibbs sampling, as its authors ran it.

Chaudhuri, Sarwate and Sinha (2013) draw a basis V with density ∝ exp((ε/2) Σ ‖Vᵀx‖²). The library's
sampler (`stillspace.parts.bingham`) is exact in real arithmetic and works for few columns only: its
acceptance falls exponentially with r and D. Here one column of V after the other is drawn given the
others. That conditional law is a Bingham law of vectors, for which the same sampler is fast.

**The sampler's error.** The chain starts at a uniformly random basis, which reads no row. After
a finite number of sweeps its law is only close to the wanted one, by an amount that nobody has
proved. So the result has no ε to its name. (The authors say the same of their own experiments.)
What can be measured: a chain that has forgotten its start gives the same from the opposite one,
the exact principal components. The reproduction runs both and states both results.
"""

from __future__ import annotations

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.bingham import sample_bingham

SWEEPS = 20
"""Times that every column is drawn."""


def exponential_pca(
    moment: FloatArray,
    weight: float,
    r: int,
    rng: np.random.Generator,
    *,
    sweeps: int = SWEEPS,
    start: FloatArray | None = None,
) -> FloatArray:
    """Return a basis (D, r) with a density of about ∝ exp(weight · tr VᵀMV).

    `start` (D, r) is where the chain begins; by default a uniformly random basis.
    """
    A = weight * moment
    V = np.linalg.qr(rng.standard_normal((len(A), r)))[0] if start is None else start.copy()
    for _ in range(sweeps):
        for j in range(r):
            others = np.delete(V, j, axis=1)
            # An orthonormal basis of what the other columns leave free.
            free = np.linalg.svd(others, full_matrices=True)[0][:, r - 1 :]
            V[:, j] = free @ sample_bingham(free.T @ A @ free, 1, rng)[:, 0]
    return V
