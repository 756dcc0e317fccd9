"""CoinPress: private covariance by repeated rescaling and clipping.

Biswas, Dong, Kamath, Ullman, "CoinPress: Practical Private Mean and Covariance Estimation",
NeurIPS 2020. Written from the paper, with the constants of the authors' code
(github.com/twistedcubic/coin-press): two steps with a quarter and three quarters of the budget,
clipping at the radius that 90 % of standard Gaussian rows keep, and `η = √(D/n) + D/(2n)`.

A step rescales rows by the current A, clips them to a ball, releases their second moment Z with
Gaussian noise, and takes `A ← (Z + ηI)^−½ A`. The answer is `A⁻¹ Z A⁻ᵀ` of the last step.

Three things are in its favour here: rows of length 1 need no ball larger than ‖A‖₂, so the first
step clips nothing; noise is isotropic on symmetric matrices, which has half the variance off the
diagonal; and budgets add up as μ² with the exact Gaussian curve, not through zCDP.
"""

from math import log, sqrt

import numpy as np

from stillspace._typing import FloatArray

SHARES = (0.25, 0.75)
"""Of μ²."""


def second_moment(
    X: FloatArray, mu: float, rng: np.random.Generator, shares: tuple[float, ...] = SHARES
) -> FloatArray:
    """Return a private second moment (D, D) of rows of length at most 1, under replace-one."""
    n, D = X.shape
    eta = sqrt(D / n) + D / (2.0 * n)
    A = np.eye(D)
    Z, last = A, A
    for share in shares:
        last = A
        radius = min(tail_bound(D), float(np.linalg.norm(A, 2)))
        Z = positive_part(clipped_moment(X @ A.T, radius) + noise(n, D, radius, mu, share, rng))
        values, U = np.linalg.eigh(Z)
        A = (U / np.sqrt(values + eta)) @ U.T @ A
    back = np.linalg.inv(last)
    return np.asarray(back @ Z @ back.T)


def tail_bound(D: int, beta: float = 0.1) -> float:
    """Return a radius that a standard Gaussian in D dimensions passes with probability ≤ beta."""
    t = log(1.0 / beta)
    return sqrt(D + 2.0 * sqrt(D * t) + 2.0 * t)


def clipped_moment(W: FloatArray, radius: float) -> FloatArray:
    """Return the mean of wwᵀ over rows cut to the radius."""
    norms = np.linalg.norm(W, axis=1, keepdims=True)
    W = W * np.minimum(1.0, radius / np.maximum(norms, 1e-300))
    return np.asarray(W.T @ W / len(W))


def noise(
    n: int, D: int, radius: float, mu: float, share: float, rng: np.random.Generator
) -> FloatArray:
    """Return symmetric noise for a mean of wwᵀ, ‖w‖ ≤ radius: ‖wwᵀ − vvᵀ‖_F ≤ √2 radius²."""
    sigma = sqrt(2.0) * radius**2 / (n * mu * sqrt(share))
    B = rng.standard_normal((D, D)) * sigma
    # σ² on the diagonal, σ²/2 off it: isotropic in the Frobenius norm
    return np.asarray((B + B.T) / 2.0)


def positive_part(Z: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix."""
    values, U = np.linalg.eigh(Z)
    return np.asarray((U * np.maximum(values, 0.0)) @ U.T)
