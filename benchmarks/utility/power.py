"""The noisy power method: Hardt and Price, "The Noisy Power Method", NeurIPS 2014.

`V ← orth(S V + noise)`, S the second moment, from a random start, a fixed number T of times.
Under replace-one the sum over rows moves by `(xxᵀ − yyᵀ)V`. The Frobenius norm of `xxᵀ − yyᵀ` is at
most √2; its operator norm is at most 1, as it lies between −yyᵀ and xxᵀ. So Δ = 1 for r = 1 and √2
otherwise, and T steps with `σ = Δ√T/μ` on the sum compose to exactly μ.
"""

from math import sqrt

import numpy as np

from stillspace._typing import FloatArray

STEPS = 4
"""Chosen once, on nine drawn regimes, of 3, 6 and 12: few for clear gaps, more for narrow ones."""


def noise_scale(n: int, r: int, mu: float, steps: int = STEPS) -> float:
    """Return the standard deviation of the noise on each entry of the mean."""
    return sqrt(min(r, 2)) * sqrt(steps) / (n * mu)


def noisy_power(
    S: FloatArray, n: int, r: int, mu: float, rng: np.random.Generator, steps: int = STEPS
) -> FloatArray:
    """Return a private basis (D, r) for the second moment S of n rows of length at most 1."""
    sigma = noise_scale(n, r, mu, steps)
    V = np.linalg.qr(rng.standard_normal((len(S), r)))[0]
    for _ in range(steps):
        V = np.linalg.qr(S @ V + sigma * rng.standard_normal(V.shape))[0]
    return np.asarray(V)
