"""What one block of rows adds to a sum, in one compiled call while the block is in cache.

Terms are computed by the routines of `compiled`, so their bits are those of the reference; only
the last step, adding finished terms up, may take any order (SPEC 4).
"""

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.compiled import CHUNK, add_squares, residual, scores
from stillspace.kernels.few import FEW, glad_few
from stillspace.kernels.jit import jit, jit_sum
from stillspace.kernels.lanes import LANES

STORED = 4
"""Up to this many components a residual is cheaper to compute twice than to store."""


@jit_sum
def add_products(A: FloatArray, W: FloatArray, out: FloatArray) -> None:
    """Add `A Wᵀ` to `out` (D, r), for `A` (D, b) and `W` (r, b)."""
    D, b = A.shape
    r = W.shape[0]
    d = 0
    while d + 4 <= D:
        j = 0
        while j + 2 <= r:
            s0, s1, s2, s3, t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(b):
                w, u = W[j, i], W[j + 1, i]
                a0, a1, a2, a3 = A[d, i], A[d + 1, i], A[d + 2, i], A[d + 3, i]
                s0 += a0 * w
                s1 += a1 * w
                s2 += a2 * w
                s3 += a3 * w
                t0 += a0 * u
                t1 += a1 * u
                t2 += a2 * u
                t3 += a3 * u
            out[d, j] += s0
            out[d + 1, j] += s1
            out[d + 2, j] += s2
            out[d + 3, j] += s3
            out[d, j + 1] += t0
            out[d + 1, j + 1] += t1
            out[d + 2, j + 1] += t2
            out[d + 3, j + 1] += t3
            j += 2
        if j < r:
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for i in range(b):
                w = W[j, i]
                s0 += A[d, i] * w
                s1 += A[d + 1, i] * w
                s2 += A[d + 2, i] * w
                s3 += A[d + 3, i] * w
            out[d, j] += s0
            out[d + 1, j] += s1
            out[d + 2, j] += s2
            out[d + 3, j] += s3
        d += 4
    while d < D:
        for j in range(r):
            s = 0.0
            for i in range(b):
                s += A[d, i] * W[j, i]
            out[d, j] += s
        d += 1


@jit
def clip_weights(
    distance: FloatArray, size: FloatArray, floor: float, cut: float = np.inf
) -> FloatArray:
    """Return `1/max(distance, floor)`, lowered so that times `distance · size` it is at most 1.

    Mathematically the clip never acts; it keeps the bound when V is orthonormal only up to
    rounding (SPEC 9.10). A weight that is not finite becomes zero, and so does that of a row at
    the distance `cut` or farther.
    """
    weight = np.empty_like(distance)
    for i in range(len(distance)):
        w = 1.0 / max(distance[i], floor)
        w = w / max(w * (distance[i] * size[i]), 1.0)
        weight[i] = w if np.isfinite(w) and distance[i] < cut else 0.0
    return weight


@jit
def _distances(XT: FloatArray, V: FloatArray, Y: FloatArray, R: FloatArray) -> FloatArray:
    """Return `‖x − V y‖`, leaving the residuals in `R` if it has room for all of them."""
    D, b = XT.shape
    total = np.zeros(b)
    for d in range(0, D, CHUNK):
        stop = min(d + CHUNK, D)
        part = R[d:stop] if len(R) == D else R[: stop - d]
        residual(XT[d:stop], V[d:stop], Y, part)
        add_squares(part, total)
    return np.sqrt(total)


@jit
def _glad(
    XT: FloatArray, V: FloatArray, floor: float, cut: float, R: FloatArray, out: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Add the GLAD terms of a block to `out`; return its scores, distances and weights."""
    D, b = XT.shape
    r = V.shape[1]
    if r <= FEW and b % LANES == 0:
        kept = np.empty((4, b))
        glad_few(XT, V, floor, cut, kept, out)
        return kept[:r], kept[2], kept[3]
    Y = scores(XT, V)
    distance = _distances(XT, V, Y, R)
    size = np.zeros(b)
    add_squares(Y, size)
    weight = clip_weights(distance, np.sqrt(size), floor, cut)
    W = Y * weight
    if len(R) == D:
        add_products(R, W, out)
        return Y, distance, weight
    for d in range(0, D, CHUNK):
        stop = min(d + CHUNK, D)
        residual(XT[d:stop], V[d:stop], Y, R[: stop - d])
        add_products(R[: stop - d], W, out[d:stop])
    return Y, distance, weight


@jit
def glad_block(
    XT: FloatArray, V: FloatArray, floor: float, cut: float, R: FloatArray, out: FloatArray
) -> None:
    """Add the GLAD terms of a block to `out` (D, r). `R` is scratch, (D, b) or (CHUNK, b)."""
    _glad(XT, V, floor, cut, R, out)


@jit
def curvature_weights(distance: FloatArray, weight: FloatArray, cap: float) -> FloatArray:
    """Return `u = weight · min(cap, distance)`, at most 1."""
    u = np.empty_like(distance)
    for i in range(len(distance)):
        u[i] = min(weight[i] * min(cap, distance[i]), 1.0)
    return u


@jit
def newton_block(
    XT: FloatArray,
    V: FloatArray,
    floor: float,
    cut: float,
    cap: float,
    R: FloatArray,
    out: FloatArray,
    curvature: FloatArray,
) -> None:
    """Add the GLAD terms to `out`, `Σ u‖y‖²` and, where there is room, `Σ u yyᵀ` to `curvature`."""
    Y, distance, weight = _glad(XT, V, floor, cut, R, out)
    u = curvature_weights(distance, weight, cap)
    r, b = Y.shape
    size = np.zeros(b)
    add_squares(Y, size)
    total = 0.0
    for i in range(b):
        total += min(size[i], 1.0) * u[i]
    curvature[0] += total
    if len(curvature) > 1:
        Y = Y / np.maximum(np.sqrt(size), 1.0)
        add_products(Y * u, Y, curvature[1:].reshape(r, r))


@jit
def irls_block(
    XT: FloatArray, V: FloatArray, floor: float, cut: float, R: FloatArray, out: FloatArray
) -> float:
    """Add `Σ x yᵀ / max(‖Qx‖, floor)` over the rows with ‖Qx‖ < cut to `out` (D, r).

    Returns the sum of `min(‖Qx‖, cut)`.
    """
    Y = scores(XT, V)
    distance = _distances(XT, V, Y, R)
    total = 0.0
    weight = np.empty_like(distance)
    for i in range(len(distance)):
        total += min(distance[i], cut)
        weight[i] = 1.0 / max(distance[i], floor) if distance[i] < cut else 0.0
    add_products(XT, Y * weight, out)
    return total


@jit
def score_block(XT: FloatArray, V: FloatArray, out: FloatArray) -> None:
    """Add `Σ yyᵀ` to `out` (r, r), y = Vᵀx cut to norm 1."""
    Y = scores(XT, V)
    size = np.zeros(XT.shape[1])
    add_squares(Y, size)
    Y /= np.maximum(np.sqrt(size), 1.0)
    add_products(Y, Y, out)
