"""Where dp-(S)GGD with halved steps recovers a haystack: a prediction without fitted constants.

The number that decides is K, the iterations that one halving of the step must last. In the limit of
small errors and typical haystack data (docs/theory.md, "The phase boundary"),

    K = (3/4 + ln 2) · (g² + b/B + σ² r(D − r)) / (r S²),     S = share/r − A.

Here g² = share²/r is the squared norm of the mean gradient next to L*, b/B is the variance that
batches of B rows add, and A is the typical alignment of isotropic outliers with L*. A schedule that
halves the step every m iterations is predicted to recover L* if K ≤ m. This is the theorem's own
condition with typical instead of worst-case data. It is a prediction, not a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

from stillspace._checks import checked_number
from stillspace.privacy import mu_from_budget
from stillspace.theory import _checks

HALVING = 0.75 + log(2.0)
"""The least of (x + ln((2x − 1)/(x − 1)))/2 over x: the best step needs this many v²/s² steps."""
_MOST_ROWS = 10**12


@dataclass(frozen=True, slots=True)
class RecoveryPrediction:
    """What the theorem predicts for typical haystack data."""

    stability: float
    sigma: float
    halving: float
    """K: iterations that halve the error √(Σ sin² θ_j), with the best step size for it."""
    every: int
    """The schedule halves its step after so many iterations."""

    @property
    def recovers(self) -> bool:
        """Whether the error is predicted to follow the step down to zero."""
        return self.halving <= self.every


def predict_recovery(
    n: int,
    epsilon: float,
    D: int,
    r: int,
    share: float,
    *,
    delta: float | None = None,
    n_iter: int | None = None,
    every: int = 50,
    sigma: float | None = None,
    batch_size: int | None = None,
) -> RecoveryPrediction:
    """Predict whether GGD with Gaussian noise recovers the subspace of a haystack.

    Parameters
    ----------
    n, D, r, share : int, int, int, float
        Rows, columns, dimension of the subspace, and the share of inliers.
    epsilon, delta : float
        The budget of the loop; δ = 1/√n by default, as in the paper.
    n_iter : int, optional
        T, by default n as in the paper. Full batches need σ = 2√T/(nμ(ε, δ)).
    every : int
        Iterations between two halvings of the step, the paper's 50.
    sigma : float, optional
        The noise on each entry of the mean gradient, if known; needed with `batch_size`.
    batch_size : int, optional
        Rows per step, drawn with replacement; by default all rows.
    """
    _checks.dimension(r, D)
    checked_number("share", share, 0.0, 1.0, inside=False)
    if sigma is None:
        if batch_size is not None:
            msg = "Give sigma with batch_size: the noise of random batches needs an accountant."
            raise ValueError(msg)
        mu = mu_from_budget(epsilon, 1.0 / sqrt(n) if delta is None else delta)
        sigma = 2.0 * sqrt(n if n_iter is None else n_iter) / (n * mu)
    stable = share / r - typical_alignment(n, D, r, share)
    energy = share**2 / r + sigma**2 * r * (D - r)
    if batch_size is not None:
        energy += (share + (1.0 - share) * r / D) / batch_size
    halving = HALVING * energy / (r * stable**2) if stable > 0.0 else inf
    return RecoveryPrediction(stable, sigma, halving, every)


def boundary_rows(
    epsilon: float,
    D: int,
    r: int,
    share: float,
    *,
    delta: float | None = None,
    every: int = 50,
) -> float:
    """Return the least n with which T = n full-batch iterations are predicted to recover L*.

    This is the boundary of the paper's phase transitions as a function of (ε, D, r, share); δ is
    1/√n by default. Infinite if no number of rows suffices.
    """

    def enough(n: int) -> bool:
        return predict_recovery(n, epsilon, D, r, share, delta=delta, every=every).recovers

    high = D
    while not enough(high):
        high *= 2
        if high > _MOST_ROWS:
            return inf
    low = high // 2 if high > D else D - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(high)


def typical_alignment(n: int, D: int, r: int, share: float) -> float:
    """Return the usual size of ‖(1/n) Σ q(V*ᵀx)ᵀ‖ over isotropic outliers, q = Q*x/‖Q*x‖.

    The matrix is (D − r) × r with entries of mean 0 and variance n_out/(n² D (D − r)), so its norm
    is about the standard deviation times √(D − r) + √r.
    """
    outliers = (1.0 - share) * n
    return sqrt(outliers / (D * (D - r))) / n * (sqrt(D - r) + sqrt(r))
