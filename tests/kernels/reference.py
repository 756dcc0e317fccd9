"""Row kernels in plain NumPy: the specification of the compiled ones.

All of them take a block of rows *as columns*, `XT` of shape (D, b), and work with element-wise
operations in a fixed order over the D coordinates. Every operation is a correctly rounded IEEE
one, so what a row gives is bitwise independent of its position, of its block, of the other rows
and of their number (SPEC 4 a). Matrix products, whose low bits depend on shape, never touch a
row's scores, distance or residual.

A sum over coordinates is made in eight parts (`tiles`).
"""

from collections.abc import Iterable

import numpy as np

from stillspace._typing import AnyArray, FloatArray
from stillspace.parts.queries.gradients import clip_weights


def _in_parts(products: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of what the coordinates give, in parts that are then added as neighbours."""
    sums: list[FloatArray | float] = [0.0] * 8
    for d, product in enumerate(products):
        sums[d % 8] = sums[d % 8] + product
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return np.asarray(sums[0])


def scores(XT: FloatArray, V: FloatArray) -> FloatArray:
    """Return `y = Vᵀx` (r, b)."""
    return _in_parts((v[:, None] * x for v, x in zip(V, XT, strict=True)))


def squared_norms(XT: FloatArray) -> FloatArray:
    """Return the squared Euclidean norm of each column."""
    return _in_parts(x * x for x in XT)


def residual_to_basis(XT: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `R = x − V y` (D, b) and `y = Vᵀx` (r, b), the residual computed directly.

    The direct form reaches 1e-14 where `√(‖x‖² − ‖y‖²)` stops at 1e-10.
    """
    Y = scores(XT, V)
    R = XT.copy()
    for j in range(V.shape[1]):
        R -= V[:, j][:, None] * Y[j]
    return R, Y


def score_squares(Y: FloatArray) -> FloatArray:
    """Return ‖y‖² of each column of Y (r, b), one component after another."""
    total = np.zeros(Y.shape[1])
    for y in Y:
        total += y * y
    return total


def measured(
    XT: FloatArray, V: FloatArray, near: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return scores (r, b), distances (b), and rows or, where d² < near, their residuals (D, b).

    `d² = ‖x‖² − ‖y‖²` where that is at least `near`; else the squared norm of the residual.
    """
    R, Y = residual_to_basis(XT, V)
    squares = squared_norms(XT)
    far = squares - score_squares(Y)
    explicit = ~(far >= near)
    left = np.where(explicit, squared_norms(R), far)
    return Y, np.sqrt(np.maximum(left, 0.0)), np.where(explicit, R, XT)


def projected(S: FloatArray, V: FloatArray) -> FloatArray:
    """Return `S − V (VᵀS)` for a sum S (D, r) of a job, component after component."""
    M = scores(S, V)
    out = S.copy()
    for j in range(V.shape[1]):
        out -= V[:, j][:, None] * M[j]
    return out


def glad_terms(
    XT: FloatArray, V: FloatArray, near: float, floor: float, cut: float = np.inf
) -> FloatArray:
    """Return GLAD's terms (b, D, r) at a basis with orthonormal columns, each as a job of its own.

    The sum over a job is projected as a whole: this is exact for one row, and differs by rounding
    from the sum of several.
    """
    Y, distance, X = measured(XT, V, near)
    weight = clip_weights(distance, np.sqrt(score_squares(Y)), floor, cut)
    weighed = Y * weight
    return np.array([projected(x[:, None] * w, V) for x, w in zip(X.T, weighed.T, strict=True)])


def residual_to_matrix(XT: FloatArray, P: FloatArray) -> FloatArray:
    """Return `R = x − P x` (D, b) for a symmetric matrix P."""
    return np.asarray(XT - scores(XT, P.T))


def column_norms(A: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each column, for columns within the unit ball."""
    return np.asarray(np.sqrt(squared_norms(A)), dtype=np.float64)


def unit_columns(XT: FloatArray, norm_bound: float) -> FloatArray:
    """Return each column scaled into the unit ball; a non-finite or zero column becomes zero.

    `norm_bound == 0` scales to the unit sphere; a positive bound divides by
    `max(‖x‖, norm_bound)`, which clips the row to that norm in units of the bound. The column is
    first scaled by a power of two (exact), so that 1e-200 and 1e200 come out right (SPEC 1).
    """
    finite = np.ones(XT.shape[1], dtype=np.bool_)
    largest = np.zeros(XT.shape[1])
    for x in XT:
        finite &= np.isfinite(x)
        largest = np.maximum(largest, np.abs(x))
    exponent = np.frexp(np.where(finite, largest, 0.0))[1]
    scaled = np.ldexp(np.where(finite, XT, 0.0), -exponent)
    total = np.zeros(XT.shape[1])
    for x in scaled:
        total += x * x
    with np.errstate(over="ignore"):  # a row far below the bound: infinity divides it to zero
        bound = np.ldexp(np.float64(norm_bound), -exponent)
    divisor = np.maximum(np.sqrt(total), bound)
    divisor[divisor == 0.0] = 1.0
    return np.asarray(scaled / divisor, dtype=np.float64)


def scaled_rows(
    X: AnyArray,
    center: FloatArray,
    unit: FloatArray,
    factors: FloatArray,
    missing: float,
) -> FloatArray:
    """Return rows as columns (D, n): `((x − center) · unit) · factor`, cell by cell.

    A missing cell is zero, and so is every cell of a row whose factor is zero.
    """
    value = np.asarray(X, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        cells = ((value - center) * unit) * factors[:, None]
    cells[(value == missing) | (factors == 0.0)[:, None]] = 0.0
    return np.ascontiguousarray(cells.T)
