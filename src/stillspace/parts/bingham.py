"""Random subspaces with a Bingham law: density ∝ exp(tr VᵀAV) over bases V (D, r).

By rejection (Kent, Ganeiban and Mardia 2018). Let B = λ_max − A ⪰ 0, so that the density is
∝ exp(−tr VᵀBV), and Ω = I + 2B/b for some 0 < b ≤ D. The envelope is the matrix angular central
Gaussian law, V = Y(YᵀY)^(−½) with independent columns Y_j ~ N(0, Ω⁻¹), whose density with respect
to the uniform law is |Ω|^(r/2) |VᵀΩV|^(−D/2). For every number u ≥ 0,

    −u ≤ −(D/2) ln(1 + 2u/b) + (D/2) ln(D/b) − (D − b)/2,

with equality at u = (D − b)/2. Applied to the r eigenvalues of VᵀBV it bounds the ratio of the two
densities, so that rejection gives the Bingham law exactly *in real arithmetic*. The best b solves
Σ 1/(b + 2λ_i) = 1 over the eigenvalues λ_i of B.
"""

from __future__ import annotations

from math import log

import numpy as np
from scipy.optimize import brentq

from stillspace._typing import FloatArray

MOST_TRIES = 10**6


def sample_bingham(A: FloatArray, r: int, rng: np.random.Generator) -> FloatArray:
    """Return a basis (D, r) with density ∝ exp(tr VᵀAV), for a symmetric matrix A (D, D).

    In floating point the law is only close to that: normals and uniform numbers have 53 bits, and
    eigenvectors are rounded. No bound on the distance is proved here.
    """
    D = len(A)
    values, axes = np.linalg.eigh(A)
    rates = values[-1] - values
    b = _best(rates)
    spread = 1.0 / np.sqrt(1.0 + 2.0 * rates / b)
    for _ in range(MOST_TRIES):
        Y = spread[:, None] * rng.standard_normal((D, r))
        left, _, right = np.linalg.svd(Y, full_matrices=False)
        V = left @ right
        u = np.linalg.eigvalsh(V.T @ (rates[:, None] * V))
        if log(rng.uniform()) < float(np.sum(log_ratio(np.maximum(u, 0.0), b, D))):
            return np.asarray(axes @ V)
    msg = f"No proposal of {MOST_TRIES} was accepted; D = {D} and r = {r} are too large here."
    raise RuntimeError(msg)


def log_ratio(u: FloatArray, b: float, D: int) -> FloatArray:
    """Return the logarithm of target over envelope for each eigenvalue, at most 0."""
    bound = 0.5 * D * log(D / b) - 0.5 * (D - b)
    return np.asarray(-u + 0.5 * D * np.log1p(2.0 * u / b) - bound)


def _best(rates: FloatArray) -> float:
    """Return the b for which the envelope is accepted most often."""
    if not rates.any():
        return float(len(rates))

    def excess(b: float) -> float:
        return float(np.sum(1.0 / (b + 2.0 * rates))) - 1.0

    return float(brentq(excess, 1e-12, float(len(rates))))
