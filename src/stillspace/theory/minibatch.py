"""Stability of random minibatches (SPEC 6): the mean of `γP(batch) − A(batch)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, log, sqrt

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from stillspace._checks import checked_whole
from stillspace._typing import FloatArray
from stillspace.theory import _checks
from stillspace.theory.stability import alignment, permeance


@dataclass(frozen=True, slots=True)
class MinibatchStability:
    """Stabilities of sampled minibatches: certified ones, and the most they can be."""

    lower: FloatArray
    """`γP − A` of each batch with the alignment's proved upper bound."""
    upper: FloatArray
    """The same with the largest alignment that was found."""

    @property
    def mean(self) -> tuple[float, float]:
        """Means of `lower` and `upper` over the batches: between them lies the sample's mean."""
        return float(self.lower.mean()), float(self.upper.mean())

    @property
    def standard_error(self) -> float:
        """Of the mean, from the spread over batches (the larger of both)."""
        if len(self.lower) < 2:
            return float("inf")
        spread = max(float(self.lower.std(ddof=1)), float(self.upper.std(ddof=1)))
        return spread / sqrt(len(self.lower))


def minibatch_bound(
    inliers: npt.ArrayLike, outliers: npt.ArrayLike, r: int, batch_size: int, *, gamma: float = 1.0
) -> float:
    """Return a proved lower bound on `E[γP(batch) − A(batch)]`, batches drawn with replacement.

    Permeance: λ_r of a mean of B independent terms on L*, none larger than R = max‖x‖/B, so by
    the matrix Chernoff bound (Tropp 2015, theorem 5.1.1)
    `E λ_r ≥ (1 − e^−t)/t · P − (R/t) ln r` for every t > 0, P the permeance of all rows.
    Alignment: A(batch) ≤ √m ‖X_batch‖/B with m outliers in it; by Cauchy and Schwarz its mean is
    at most `√(E m · E‖X_batch‖²)/B`, E m = B α_out, and `E‖X_batch‖²` ≤
    `(e^t − 1)/t · B ‖X_out‖²/n + max‖x‖²/t · ln D`.
    """
    inner, outer, n = _checks.labelled(inliers, outliers, r, gamma)
    D, B = inner.shape[1], checked_whole("batch_size", batch_size)
    largest = float(_checks.norms(inner).max()) / B
    mean = permeance(inner, r, n)
    low = _best(lambda t: -(-expm1(-t) / t * mean - largest / t * log(r)))
    above = 0.0
    if len(outer):
        top = B * float(np.linalg.norm(outer, 2)) ** 2 / n
        longest = float(_checks.norms(outer).max()) ** 2
        square = _best(lambda t: expm1(t) / t * top + longest / t * log(D))
        above = sqrt(B * len(outer) / n * square) / B
        above = min(above, float(_checks.norms(outer).sum()) / n)
    return gamma * max(-low, 0.0) - above


def paper_minibatch_value(
    inliers: npt.ArrayLike, outliers: npt.ArrayLike, r: int, *, gamma: float = 1.0
) -> float:
    """Return the paper's `γ α_in λ_r(Σ_in) − α_out λ_1(Σ_out)`, its two shares put right.

    It is no bound: λ_r is concave and λ_1 convex, so Jensen's inequality goes the other way, and
    an alignment can exceed λ_1. It shows the trend; `minibatch_bound` is what is proved.
    """
    inner, outer, n = _checks.labelled(inliers, outliers, r, gamma)
    return (gamma * _checks.eigenvalue(inner, r) - _checks.eigenvalue(outer, 1)) / n


def sampled_minibatches(
    inliers: npt.ArrayLike,
    outliers: npt.ArrayLike,
    r: int,
    batch_size: int,
    *,
    gamma: float = 1.0,
    batches: int = 50,
    random_state: int = 0,
) -> MinibatchStability:
    """Draw minibatches with replacement and return the stability of each."""
    inner, outer, n = _checks.labelled(inliers, outliers, r, gamma)
    B = checked_whole("batch_size", batch_size)
    rng = np.random.default_rng(random_state)
    lower, upper = np.empty(batches), np.empty(batches)
    for k in range(batches):
        chosen = rng.integers(0, n, B)
        inside = chosen[chosen < len(inner)]
        outside = chosen[chosen >= len(inner)] - len(inner)
        value = gamma * permeance(inner[inside], r, B)
        bounds = alignment(outer[outside], r, B, starts=1, random_state=k)
        lower[k], upper[k] = value - bounds.upper, value - bounds.lower
    return MinibatchStability(lower, upper)


def _best(f: Callable[[float], float]) -> float:
    """Return the least value of a function of t > 0, each value being a valid bound."""
    found = minimize_scalar(lambda u: f(exp(u)), bounds=(-12.0, 5.0), method="bounded")
    return float(found.fun)
