"""Post-processing of the compiled loops: the geometries' steps for small matrices.

Same mathematics as `stillspace.parts.geometry`, without a call of LAPACK where r is small. Nothing
here sees a row, so the order of operations is free; results agree to rounding.
"""

from __future__ import annotations

import math

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import bare, jit, part

_SWEEPS = 40
_ORTHOGONAL = 2.0**-102  # squares of cosines: at rounding,
_NEARLY = 2.0**-60  # and where one rotation more reaches it, as convergence is quadratic
_APART = 2.0**-14  # determinant over squared trace of a pair of rows that are safely apart
_STRIP = 48  # rows of P that are built at a time
_NEGLIGIBLE = 2.0**-80  # an eigenvalue of P that changes no bit of a residual


@part
def _dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two vectors whose length is a multiple of 4."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for d in range(0, a.size, 4):
        s0 += a[d] * b[d]
        s1 += a[d + 1] * b[d + 1]
        s2 += a[d + 2] * b[d + 2]
        s3 += a[d + 3] * b[d + 3]
    return (s0 + s1) + (s2 + s3)


@part
def _rotate(a: FloatArray, b: FloatArray, c: float, s: float) -> None:
    for d in range(a.size):
        x, y = a[d], b[d]
        a[d] = c * x - s * y
        b[d] = s * x + c * y


@part
def _orthogonalize(A: FloatArray, J: FloatArray, r: int) -> None:
    """Rotate the first r rows of A until they are orthogonal, and J along (Hestenes 1958).

    One-sided Jacobi never forms AAᵀ, so it stays accurate for rows that nearly coincide.
    """
    for _ in range(_SWEEPS):
        finished = True
        for i in range(r):
            for j in range(i + 1, r):
                cross = _dot(A[i], A[j])
                first, second = _dot(A[i], A[i]), _dot(A[j], A[j])
                relative = cross * cross
                if relative <= _ORTHOGONAL * (first * second):
                    continue
                finished &= relative <= _NEARLY * (first * second)
                zeta = (second - first) / (2.0 * cross)
                t = math.copysign(1.0, zeta) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
                c = 1.0 / math.sqrt(1.0 + t * t)
                _rotate(A[i], A[j], c, c * t)
                _rotate(J[i], J[j], c, c * t)
        if finished:
            return


@part
def _complete(A: FloatArray, i: int, r: int, D: int) -> None:
    """Set row i to a unit vector orthogonal to the other r − 1 unit rows."""
    best, at = -1.0, 0
    for d in range(D):
        left = 1.0
        for k in range(r):
            if k != i:
                left -= A[k, d] * A[k, d]
        if left > best:
            best, at = left, d
    A[i, :] = 0.0
    A[i, at] = 1.0
    for _ in range(2):
        for k in range(r):
            if k != i:
                cross = _dot(A[i], A[k])
                for d in range(D):
                    A[i, d] -= cross * A[k, d]
    length = math.sqrt(_dot(A[i], A[i]))
    for d in range(D):
        A[i, d] /= length


@part
def _combine(A: FloatArray, a: float, b: float, c: float, D: int, out: FloatArray) -> None:
    """Write [[a, c], [c, b]] times the two rows of A to `out`."""
    for d in range(D):
        x, y = A[0, d], A[1, d]
        out[0, d] = a * x + c * y
        out[1, d] = c * x + b * y


@part
def _polar_pair(A: FloatArray, D: int, out: FloatArray) -> bool:
    """Write the polar factor of two rows to `out`, or return False if they nearly coincide.

    M = AAᵀ has the inverse root ((tr M + s) I − M) / (s √(tr M + 2s)), s = √det M. An error in s
    leaves that a polynomial of M, so it scales but does not turn; a Newton–Schulz step
    (3I − VVᵀ)V/2 then squares what is missing to orthonormal rows, at most 1e-11.
    """
    a, b, c = _dot(A[0], A[0]), _dot(A[1], A[1]), _dot(A[0], A[1])
    determinant = a * b - c * c
    if not determinant > _APART * (a + b) * (a + b):
        return False
    s = math.sqrt(determinant)
    scale = 1.0 / (s * math.sqrt(a + b + 2.0 * s))
    _combine(A, (b + s) * scale, (a + s) * scale, -c * scale, D, A)
    a, b, c = _dot(A[0], A[0]), _dot(A[1], A[1]), _dot(A[0], A[1])
    _combine(A, 1.5 - 0.5 * a, 1.5 - 0.5 * b, -0.5 * c, D, out)
    return True


@bare
def polar_rows(A: FloatArray, r: int, D: int, J: FloatArray, out: FloatArray) -> None:
    """Write the nearest matrix with orthonormal rows to `out`: the polar factor of A[:r, :D].

    With J A = Σ B, B's rows orthonormal, the polar factor is Jᵀ B. What is missing to full rank
    (which noise makes impossible) is completed in any way, as an SVD does. A and J are spoilt.
    """
    if r == 2 and _polar_pair(A, D, out):
        return
    for i in range(r):
        for j in range(r):
            J[i, j] = 1.0 if i == j else 0.0
    _orthogonalize(A, J, r)
    missing = 0
    for i in range(r):
        length = math.sqrt(_dot(A[i], A[i]))
        missing += length == 0.0
        scale = 1.0 / length if length > 0.0 else 0.0
        for d in range(D):
            A[i, d] *= scale
    if missing:
        for i in range(r):
            if _dot(A[i], A[i]) == 0.0:
                _complete(A, i, r, D)
    for j in range(r):
        for d in range(D):
            out[j, d] = 0.0
        for i in range(r):
            c = J[i, j]
            for d in range(D):
                out[j, d] += c * A[i, d]


@part
def _filled(eigenvalues: FloatArray, tau: float) -> float:
    total = 0.0
    for value in eigenvalues:
        total += min(max(value - tau, 0.0), 1.0)
    return total


@jit
def water_fill(eigenvalues: FloatArray, r: int) -> FloatArray:
    """Return `clip(λ − τ, 0, 1)` of sum r, for ascending λ; as `geometry.water_fill`."""
    D = eigenvalues.size
    kinks = np.empty(2 * D)
    i, j = 0, 0
    for k in range(2 * D):  # merge the ascending λ − 1 and λ
        if j == D or (i < D and eigenvalues[i] - 1.0 <= eigenvalues[j]):
            kinks[k] = eigenvalues[i] - 1.0
            i += 1
        else:
            kinks[k] = eigenvalues[j]
            j += 1
    low, high = 0, 2 * D - 1  # the sum is D at the first kink and 0 at the last
    while high - low > 1:
        middle = (low + high) // 2
        if _filled(eigenvalues, kinks[middle]) >= r:
            low = middle
        else:
            high = middle
    above, below = _filled(eigenvalues, kinks[low]), _filled(eigenvalues, kinks[high])
    tau = kinks[low]
    if above > below:
        tau += (kinks[high] - kinks[low]) * (above - r) / (above - below)
    filled: FloatArray = np.minimum(np.maximum(eigenvalues - tau, 0.0), 1.0)
    return filled


@part
def _log_add(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@jit
def entropic_shift(log_values: FloatArray, r: int, capped: bool) -> tuple[float, int]:
    """Return what is added to ascending log-eigenvalues, and how many of the largest become 0.

    As `geometry.entropic_fill`; without the cap, the rescaling of the trace.
    """
    D = log_values.size
    tails = np.empty(r)  # tails[m] = log Σ e^λ without the m largest
    total = log_values[0]
    for i in range(1, D):  # r < D
        total = _log_add(total, log_values[i])
        if D - 1 - i < r:
            tails[D - 1 - i] = total
    if not capped:
        return math.log(r) - total, 0
    for m in range(r):
        shift = math.log(r - m) - tails[m]
        if shift + log_values[D - 1 - m] <= 0.0:
            return shift, m
    return -log_values[D - r], r


@jit
def rebuild(vectors: FloatArray, values: FloatArray, P: FloatArray) -> None:
    """Write `Σ λ u uᵀ` to P, symmetric to the last bit, for rows u and ascending λ ≥ 0.

    Some rows of P at a time, from the diagonal on; the other half is copied.
    """
    D = values.size
    first = 0
    while first < D - 1 and values[first] <= _NEGLIGIBLE:
        first += 1
    factor = np.empty((D, D - first))  # P = factor factorᵀ
    for k in range(first, D):
        root = math.sqrt(values[k])
        for d in range(D):
            factor[d, k - first] = root * vectors[k, d]
    for start in range(0, D, _STRIP):
        stop = min(start + _STRIP, D)
        strip = np.dot(factor[start:stop], factor[start:].T)
        for d in range(start, stop):
            P[d, d:] = strip[d - start, d - start :]
        for e in range(start, D):
            for d in range(start, min(stop, e)):
                P[e, d] = P[d, e]


@jit
def mirror_step(
    dual: FloatArray, log_values: FloatArray, vectors: FloatArray, r: int, capped: bool
) -> FloatArray:
    """Move the dual in place to `log Π_H exp(dual)`; return the eigenvalues of the new P.

    `U diag(λ) Uᵀ` is the dual itself. Adding the shift to its diagonal, and to the few capped
    eigenvalues what makes them 0, spares the product that would build it anew.
    """
    D = log_values.size
    shift, zeros = entropic_shift(log_values, r, capped)
    for d in range(D):
        dual[d, d] += shift
    values = np.empty(D)
    for k in range(D):
        value = log_values[k] + shift
        excess = value if capped and (value > 0.0 or k >= D - zeros) else 0.0
        values[k] = math.exp(value - excess)
        if excess != 0.0:
            for d in range(D):
                c = excess * vectors[k, d]
                for e in range(D):
                    dual[d, e] -= c * vectors[k, e]
    return values
