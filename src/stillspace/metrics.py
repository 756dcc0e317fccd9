"""How far two subspaces are from each other (SPEC 1).

A subspace is given as `components_` gives it: shape `(r, D)`, rows are basis vectors. The rows
need not be orthonormal, only linearly independent: the span counts, not the basis.

Why not `arccos` of the cosines: the cosine of an angle of 1e-8 is 1 in floating point. Cosines
are right for large angles and sines for small ones, so both are computed and joined by
`arctan2` (Björck and Golub 1973; Knyazev and Argentati 2002). Why not an ordinary sine either:
an orthonormal basis in floating point spans its subspace only up to 1e-16, so every smaller
angle would be noise and one of 1e-12 would have four right digits. The residual behind the
sines is therefore taken from the rows as given, in doubled precision.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import linalg

from stillspace._typing import FloatArray

__all__ = ["chordal_gap", "principal_angles", "subspace_error"]

_SPLITTER = 2.0**27 + 1.0
"""Veltkamp's constant: halves the 53 bits of a double."""

_PASSES = 3
"""Each pass leaves `eps · cond(A)` of what was in the span of A; two do for cond(A) below 1e7."""


def principal_angles(A: npt.ArrayLike, B: npt.ArrayLike) -> FloatArray:
    """Return the principal angles between the row spaces of `A` and `B`, largest first.

    Parameters
    ----------
    A, B : array-like of shape (r, D)
        Bases as rows, as in `components_`: linearly independent, of any length.

    Returns
    -------
    angles : ndarray of shape (r,)
        In radians, in [0, π/2], descending (as `scipy.linalg.subspace_angles`).

    Notes
    -----
    For the numbers as given, the error of each angle is a few `cond · 2⁻⁵³` times the *largest*
    angle, where `cond` is the larger condition number of the two bases with their rows scaled
    to like length (1 if they are orthonormal). So two nearly equal subspaces have all their
    digits right, down to angles of about 1e-16; below, the absolute error is about `cond · 1e-31`.
    """
    A, B = _pair(A, B)
    Q_A, R_A = _orthonormalize("A", A)
    Q_B, R_B = _orthonormalize("B", B)
    cosines: FloatArray = linalg.svdvals(Q_A.T @ Q_B, check_finite=False)
    residual = _residual(A, Q_A, R_A, B)
    # Bᵀ = Q_B R_B, so (I − P_A) Q_B = (I − P_A) Bᵀ R_B⁻¹; here transposed.
    outside = linalg.solve_triangular(R_B, residual, trans="T", check_finite=False)
    sines: FloatArray = linalg.svdvals(outside, check_finite=False)
    # Both come in descending order, and the largest sine belongs to the smallest cosine.
    angles: FloatArray = np.arctan2(sines, cosines[::-1])
    return angles


def subspace_error(A: npt.ArrayLike, B: npt.ArrayLike) -> float:
    """Return `d²(A, B) = Σ θ_j²`, the paper's "error" (SPEC 1).

    Shapes and accuracy as in `principal_angles`; between 0 and `r π²/4`.
    """
    angles = principal_angles(A, B)
    return float(angles @ angles)


def chordal_gap(A: npt.ArrayLike, B: npt.ArrayLike) -> float:
    """Return `d_r²(A, B) = 1 − cos θ_max`, between 0 and 1 (SPEC 1).

    Computed as `2 sin²(θ_max / 2)`, which does not cancel. Shapes as in `principal_angles`.
    """
    return float(2.0 * np.sin(principal_angles(A, B)[0] / 2.0) ** 2)


def _pair(A: npt.ArrayLike, B: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Check both bases and scale each row by a power of two (exact) to a maximum near 1."""
    first, second = _basis("A", A), _basis("B", B)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"A has {first.shape[1]} columns and B has {second.shape[1]}: both must live in the "
            "same ambient dimension."
        )
    if first.shape[0] != second.shape[0]:
        raise ValueError(
            f"A has {first.shape[0]} rows and B has {second.shape[0]}: give as many basis vectors "
            "in one as in the other."
        )
    return _scale_rows(first), _scale_rows(second)


def _basis(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return `value` as a finite float64 array of shape (r, D), 1 ≤ r ≤ D, or say what is wrong."""
    given = np.asarray(value)
    if given.ndim != 2:
        raise ValueError(
            f"{name} has {given.ndim} dimension(s), not 2: give a basis of shape (r, D), one "
            "vector a row (a single vector v as v.reshape(1, -1))."
        )
    if given.dtype.kind == "c":
        raise TypeError(f"{name} is complex: give a basis of real numbers.")
    try:
        basis = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} has dtype {given.dtype}, which does not convert to float64: give a basis of "
            "real numbers."
        ) from error
    r, D = basis.shape
    if r > D:
        raise ValueError(
            f"{name} has shape {basis.shape}, more rows than columns: basis vectors are rows, as "
            f"in components_, so pass {name}.T."
        )
    if r == 0:
        raise ValueError(f"{name} has shape {basis.shape}: give at least one basis vector.")
    if not np.isfinite(basis).all():
        raise ValueError(f"{name} contains NaN or infinity: give a basis of finite numbers.")
    return basis


def _scale_rows(basis: FloatArray) -> FloatArray:
    _, exponent = np.frexp(np.abs(basis).max(axis=1, keepdims=True))
    scaled: FloatArray = np.ldexp(basis, -exponent)
    return scaled


def _orthonormalize(name: str, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the QR factors of the transposed basis; refuse it if it is rank-deficient."""
    Q, R = linalg.qr(basis.T, mode="economic", check_finite=False)
    values = linalg.svdvals(R, check_finite=False)
    rank = int(np.sum(values > max(basis.shape) * np.finfo(np.float64).eps * values[0]))
    if rank < basis.shape[0]:
        raise ValueError(
            f"{name} has {basis.shape[0]} rows but rank {rank}: give linearly independent basis "
            "vectors."
        )
    return Q, R


def _residual(A: FloatArray, Q_A: FloatArray, R_A: FloatArray, B: FloatArray) -> FloatArray:
    """Return what the rows of `B` have outside the span of the rows of `A`, right relative to it.

    Least squares with iterative refinement: what is left after one solution is projected again.
    `Q_A` only has to point the way; the subtraction is from `A` itself, in doubled precision.
    """
    high, low = B, np.zeros_like(B)
    for _ in range(_PASSES):
        coefficients = linalg.solve_triangular(R_A, Q_A.T @ high.T, check_finite=False).T
        high, low = _subtract_product(high, low, coefficients, A)
    return high


def _subtract_product(
    high: FloatArray, low: FloatArray, C: FloatArray, A: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return `(high + low) − C @ A` as an unevaluated sum of two doubles, error about 2⁻¹⁰⁶.

    Dekker's exact product and Knuth's exact sum (an FMA would do, but NumPy has none).
    """
    C_high, C_low = _split(C)
    A_high, A_low = _split(A)
    for k in range(A.shape[0]):
        c, c_high, c_low = C[:, k, None], C_high[:, k, None], C_low[:, k, None]
        product = c * A[k]
        product_low = c_low * A_low[k] - (
            ((product - c_high * A_high[k]) - c_low * A_high[k]) - c_high * A_low[k]
        )
        high, error = _two_sum(high, -product)
        low = low + (error - product_low)
    return _two_sum(high, low)


def _split(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
