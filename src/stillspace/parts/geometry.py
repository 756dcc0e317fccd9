"""How a point moves (SPEC 3). Post-processing: nothing here ever sees a row.

A point is an orthonormal basis V (D, r) or a matrix P (D, D) of
`H = {0 ⪯ P ⪯ I, tr P = r}`; since r < D the shape tells which. The step goes *along* the released
mean of terms (SPEC 2). `enter` turns any start into a state, `point` is what queries read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy.linalg import eigh_tridiagonal, lapack
from scipy.sparse.linalg import ArpackError, eigsh

from stillspace._typing import FloatArray


class Geometry(Protocol):
    """A way to move from a point along a direction."""

    def enter(self, value: FloatArray) -> Any:
        """Return the state for a start value, a basis (D, r) or a matrix (D, D)."""

    def point(self, state: Any) -> FloatArray:
        """Return the point that queries read."""

    def step(self, state: Any, G: FloatArray, eta: float) -> Any:
        """Return the state after a step of size `eta` along `G`."""


TRIDIAGONAL_FROM = 256
"""Rows of a matrix from which on LAPACK's own path to all eigenvectors is not worth its price."""


class Eigen:
    """The eigenvalues of a symmetric matrix and, as asked for, its leading eigenvectors.

    The matrix is reduced to tridiagonal form once, which is nearly all of the work. A total
    function: where a step fails, all eigenvectors are computed. Post-processing: which of several
    vectors of equal eigenvalues are found is up to LAPACK, so a function of rows that must be the
    same each time takes `dense_eigenvectors`.
    """

    def __init__(self, M: FloatArray) -> None:
        self._M, D = M, len(M)
        self._vectors: FloatArray | None = None
        self.values: FloatArray
        """All eigenvalues, ascending."""
        if D >= TRIDIAGONAL_FROM:
            work = int(lapack.dsytrd_lwork(D, lower=1)[0])
            self._reduced = lapack.dsytrd(M.T, lower=1, lwork=work)
            self.values, failed = lapack.dsterf(*self._reduced[1:3])
            if not failed and np.isfinite(self.values).all():
                return
        self.values, self._vectors = np.linalg.eigh(M)

    def top(self, r: int) -> FloatArray:
        """Return the eigenvectors (D, r) of the r largest eigenvalues, largest first."""
        if self._vectors is None:
            found = self._by_inverse_iteration(r)
            if found is not None:
                return found
            self._vectors = np.linalg.eigh(self._M)[1]
        return np.ascontiguousarray(self._vectors[:, : -r - 1 : -1])

    def _by_inverse_iteration(self, r: int) -> FloatArray | None:
        """Return eigenvectors of the tridiagonal form, turned back; None if there is a failure."""
        reflectors, diagonal, beside, tau, _ = self._reduced
        D = len(diagonal)
        try:
            last = (D - r, D - 1)
            _, Z = eigh_tridiagonal(diagonal, beside, select="i", select_range=last)
        except np.linalg.LinAlgError:
            return None
        A, rest = np.asfortranarray(reflectors[1:, :-1]), np.asfortranarray(Z[1:])
        work = int(lapack.dormqr("L", "N", A, tau, rest, -1)[1][0])
        Z[1:], _, failed = lapack.dormqr("L", "N", A, tau, rest, work)
        apart = np.max(np.abs(Z.T @ Z - np.eye(r)))
        return None if failed or not apart < _ORTHONORMAL else np.ascontiguousarray(Z[:, ::-1])


_ORTHONORMAL = 1e-11
"""How far from 0 and 1 the inner products of computed eigenvectors may be."""


LANCZOS_FROM, LANCZOS_PART = 2048, 64
"""Rows of a matrix from which on a few eigenvectors are found by Lanczos; r is at most a 64th."""


def top_eigenvectors(M: FloatArray, r: int) -> FloatArray:
    """Return the eigenvectors (D, r) of the r largest eigenvalues, largest first.

    Post-processing. For a large matrix with equal eigenvalues Lanczos may restart at random, so a
    function of rows that must be the same each time takes `dense_eigenvectors`.
    """
    if len(M) >= LANCZOS_FROM and r * LANCZOS_PART <= len(M):
        v0 = np.random.default_rng(0).standard_normal(len(M))
        try:
            return np.ascontiguousarray(eigsh(M, k=r, which="LA", v0=v0)[1][:, ::-1])
        except ArpackError:  # no convergence, or a zero matrix
            pass
    return Eigen(M).top(r)


def dense_eigenvectors(M: FloatArray, r: int) -> FloatArray:
    """Return the same by LAPACK at any size: a function of M alone."""
    return np.ascontiguousarray(np.linalg.eigh(M)[1][:, : -r - 1 : -1])


def oriented(V: FloatArray, moment: FloatArray | None) -> FloatArray:
    """Return components (r, D): axes by decreasing variance, signs by scikit-learn's rule.

    The variances are those of a second moment, of the rows or of their scores, that was released
    already, so this is post-processing (SPEC 5). Without one the axes inside the subspace mean
    nothing.
    """
    if moment is not None:
        inside = moment if moment.shape[0] == V.shape[1] else V.T @ moment @ V
        _, W = np.linalg.eigh(inside)
        V = V @ W[:, ::-1]
    components = np.ascontiguousarray(V.T)
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return np.asarray(components * signs[:, None])


@lru_cache(maxsize=64)
def identity(r: int) -> FloatArray:
    """Return the identity of a small matrix, kept for the next time; not to be changed."""
    found = np.eye(r)
    found.flags.writeable = False
    return found


def polar(A: FloatArray) -> FloatArray:
    """Return the nearest matrix with orthonormal columns (orthogonal Procrustes)."""
    U, _, Wt = np.linalg.svd(A, full_matrices=False)
    return np.asarray(U @ Wt)


def as_basis(value: FloatArray, r: int) -> FloatArray:
    """Return a basis (D, r) for a basis or for a matrix of H."""
    return value if value.shape[1] == r else top_eigenvectors(value, r)


def as_matrix(value: FloatArray) -> FloatArray:
    """Return a matrix (D, D) for a matrix or for the projector of a basis."""
    return value if value.shape[0] == value.shape[1] else value @ value.T


def rebuild(U: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    """Return `U diag(eigenvalues) Uᵀ`, symmetric to the last bit (REAPER's bound needs it)."""
    P = (U * eigenvalues) @ U.T
    return np.asarray((P + P.T) / 2.0)


@dataclass(frozen=True, slots=True)
class _OnBases:
    """Geometries whose state is the point itself, a basis V (D, r)."""

    r: int

    def enter(self, value: FloatArray) -> FloatArray:
        return as_basis(value, self.r)

    def point(self, state: FloatArray) -> FloatArray:
        return state


@dataclass(frozen=True, slots=True)
class Polar(_OnBases):
    """`V ← polar(V + ηG)`, the paper's projection onto matrices with orthonormal columns."""

    def step(self, state: FloatArray, G: FloatArray, eta: float) -> FloatArray:
        return polar(state + eta * G)


@dataclass(frozen=True, slots=True)
class Geodesic(_OnBases):
    """`V ← Exp_V(ηG)` on the Grassmannian, G made tangent first (Edelman, Arias, Smith 1998)."""

    def step(self, state: FloatArray, G: FloatArray, eta: float) -> FloatArray:
        tangent = G - state @ (state.T @ G)
        U, s, Wt = np.linalg.svd(eta * tangent, full_matrices=False)
        moved = (state @ Wt.T) * np.cos(s) + U * np.sin(s)
        # Rounding drifts off the manifold over thousands of steps; the polar factor is nearest.
        return polar(moved @ Wt)


def water_fill(eigenvalues: FloatArray, r: int) -> FloatArray:
    """Return `clip(λ − τ, 0, 1)` with τ such that the sum is r.

    The sum falls from D to 0 in τ, piecewise linear with kinks at λ_i and λ_i − 1: find the
    piece by the kinks, then τ is linear in it.
    """
    kinks = np.sort(np.concatenate([eigenvalues, eigenvalues - 1.0]))
    sums = np.clip(eigenvalues[None, :] - kinks[:, None], 0.0, 1.0).sum(axis=1)
    # sums is decreasing; the last kink with sum ≥ r starts the piece that holds τ.
    last = int(np.flatnonzero(sums >= r)[-1])
    low, high = kinks[last], kinks[min(last + 1, len(kinks) - 1)]
    drop = sums[last] - sums[min(last + 1, len(kinks) - 1)]
    tau = low + (high - low) * (sums[last] - r) / drop if drop > 0.0 else low
    return np.asarray(np.clip(eigenvalues - tau, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class WaterFilling:
    """`P ← argmin_{H} ‖P − (P + ηG)‖_F`: the eigenvalues are water-filled."""

    r: int

    def enter(self, value: FloatArray) -> FloatArray:
        return self._project(as_matrix(value))

    def point(self, state: FloatArray) -> FloatArray:
        return state

    def step(self, state: FloatArray, G: FloatArray, eta: float) -> FloatArray:
        return self._project(state + eta * G)

    def _project(self, A: FloatArray) -> FloatArray:
        eigenvalues, U = np.linalg.eigh(A)
        return rebuild(U, water_fill(eigenvalues, self.r))


def entropic_fill(log_values: FloatArray, r: int) -> FloatArray:
    """Return `log min(1, c e^λ)` with c such that the values sum to r.

    The von Neumann projection onto H (SPEC 3). With the m largest capped,
    `c = (r − m) / Σ_{rest} e^λ`; the right m is the first for which the largest of the rest
    stays below 1. In logs, so that values of e^−1000 keep their order.
    """
    order = np.argsort(log_values)[::-1]
    ordered = log_values[order]
    # log Σ_{i ≥ m} e^{λ_i}, largest first
    tails = np.logaddexp.accumulate(ordered[::-1])[::-1]
    log_c = np.log(r - np.arange(r)) - tails[:r]
    fits = log_c + ordered[:r] <= 0.0
    if fits.any():
        capped = int(np.argmax(fits))
        filled = np.minimum(ordered + log_c[capped], 0.0)
        filled[:capped] = 0.0
    else:  # the r largest are at 1 and the rest vanishes beside them
        filled = np.minimum(ordered - ordered[r - 1], 0.0)
    out: FloatArray = np.empty_like(filled)
    out[order] = filled
    return out


@dataclass(frozen=True, slots=True)
class MirrorState:
    """A matrix of H with its logarithm, the dual variable."""

    P: FloatArray
    log_P: FloatArray


@dataclass(frozen=True, slots=True)
class EntropicMirror:
    """`P ← Π_H exp(log P + ηG)`, the dual `log P` kept: one eigendecomposition per step.

    `capped=False` only rescales the trace, as the paper prints: that is the projection only
    while no eigenvalue passes 1 (SPEC 9.13).
    """

    r: int
    capped: bool = True

    def enter(self, value: FloatArray) -> MirrorState:
        """Return the state at a start; eigenvalues below 1e-3·r/D are lifted: log 0 is no dual."""
        eigenvalues, U = np.linalg.eigh(as_matrix(value))
        lifted = np.maximum(eigenvalues, 1e-3 * self.r / len(eigenvalues))
        return self._state(np.log(lifted), U)

    def point(self, state: MirrorState) -> FloatArray:
        return state.P

    def step(self, state: MirrorState, G: FloatArray, eta: float) -> MirrorState:
        """Return the next P with its logarithm."""
        return self._state(*np.linalg.eigh(state.log_P + eta * G))

    def _state(self, log_values: FloatArray, U: FloatArray) -> MirrorState:
        if self.capped:
            filled = entropic_fill(log_values, self.r)
        else:
            filled = log_values - np.logaddexp.reduce(log_values) + np.log(self.r)
        return MirrorState(rebuild(U, np.exp(filled)), rebuild(U, filled))


@dataclass(frozen=True, slots=True)
class Orthonormalize(_OnBases):
    """`V ← orth(G)`: the direction itself is the new point (IRLS-power)."""

    def step(self, state: FloatArray, G: FloatArray, eta: float) -> FloatArray:  # noqa: ARG002
        return np.linalg.qr(G)[0]


@dataclass(frozen=True, slots=True)
class TopEigenvectors(_OnBases):
    """`V ←` the top r eigenvectors of G (FMS)."""

    def step(self, state: FloatArray, G: FloatArray, eta: float) -> FloatArray:  # noqa: ARG002
        return top_eigenvectors(G, self.r)


def least_squares_fill(eigenvalues: FloatArray, r: int) -> FloatArray:
    """Return the p in [0, 1]^D of sum r that minimises `Σ λ_i (1 − p_i)²`.

    Then `1 − p_i = min(1, θ/λ_i)`, θ such that these sum to D − r. With the smallest m of the λ
    at 1, θ = (D − r − m) / Σ_{rest} 1/λ; the right m is the first with θ ≤ all of the rest.
    """
    D = len(eigenvalues)
    ordered = np.sort(eigenvalues)
    inverse = 1.0 / np.maximum(ordered, np.finfo(np.float64).tiny)
    with np.errstate(
        over="ignore"
    ):  # several zeros add up to infinity, and θ to 0, as it should be
        rest = np.cumsum(inverse[::-1])[::-1]
    m = np.arange(D - r)
    theta = (D - r - m) / rest[: D - r]
    fits = (theta <= ordered[: D - r]) & (ordered[: D - r] > 0.0)
    chosen = theta[int(np.argmax(fits))] if fits.any() else ordered[D - r - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(eigenvalues > 0.0, chosen / eigenvalues, 1.0)
    return np.asarray(1.0 - np.minimum(gap, 1.0))


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """`P ← argmin_{H} tr((I−P) G (I−P))` (REAPER-IRLS; Lerman et al. 2015)."""

    r: int

    def enter(self, value: FloatArray) -> FloatArray:
        return WaterFilling(self.r).enter(value)

    def point(self, state: FloatArray) -> FloatArray:
        return state

    def step(self, state: FloatArray, G: FloatArray, eta: float) -> FloatArray:  # noqa: ARG002
        eigenvalues, U = np.linalg.eigh(G)
        return rebuild(U, least_squares_fill(np.maximum(eigenvalues, 0.0), self.r))
