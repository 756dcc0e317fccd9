"""In which directions rows gather: maxima of released fourth moments. Post-processing."""

from __future__ import annotations

from functools import cache

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.queries.moments import pairs_of, squares

STEPS = 60
"""Steps of the ascent: it converges linearly, and a degree is enough."""
NODES = 64
"""Nodes of the integral over t: right to 1e-6."""


@cache
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Return the nodes and weights of Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


def elliptical_moments(values: FloatArray) -> FloatArray:
    """Return what `FourthMoment` is for normal rows with these variances along the axes.

    `E[y_i² y_j²/‖y‖²] = ∫ E[y_i² y_j² e^(−t‖y‖²)] dt`, and under the integral y is normal with
    variances a_i = λ_i/(1 + 2tλ_i), times Π(1 + 2tλ_k)^(−1/2).
    """
    values = np.maximum(values, 1e-12)
    nodes, weights = _nodes()
    x = (nodes + 1.0) / 2.0
    t = x / (1.0 - x) / values.mean()
    grown = 1.0 + 2.0 * t[:, None] * values
    root = np.exp(-0.5 * np.log(grown).sum(axis=1))  # the product itself overflows from K = 82 on
    measure = weights / 2.0 / (1.0 - x) ** 2 / values.mean() * root
    a = values / grown
    pairs = np.einsum("t,ti,tj->ij", measure, a, a)
    first, second, _ = pairs_of(len(values))
    found = np.diag(np.where(first == second, 0.0, 2.0 * pairs[first, second]))
    on = np.flatnonzero(first == second)
    found[np.ix_(on, on)] = pairs * (1.0 + 2.0 * np.eye(len(values)))
    return found


def gathering_directions(
    excess: FloatArray, apart: float, most: int, least: float = 0.0
) -> FloatArray:
    """Return unit vectors (K, m), m ≤ most: the largest maxima of the fourth moments above `least`.

    The fourth moments along c are `squares(c)ᵀ excess squares(c)`. The ascent starts from the
    leading axes of the eigenvectors of `excess`, each read as a symmetric matrix: those of a sum
    of few fourth powers are near its terms.
    """
    C = _climbed(excess, _starts(excess))
    S = squares(C)
    heights = (S * (excess @ S)).sum(axis=0)
    found: list[FloatArray] = []
    for at in np.argsort(-heights, kind="stable"):
        if heights[at] <= least or len(found) == most:
            break
        if all(abs(float(C[:, at] @ other)) < apart for other in found):
            found.append(C[:, at])
    return np.array(found).reshape(len(found), len(C)).T


def _matrices(columns: FloatArray) -> FloatArray:
    """Return columns of entries i ≤ j, in the weights of `squares`, as symmetric matrices."""
    pairs, count = columns.shape
    K = int((np.sqrt(8.0 * pairs + 1.0) - 1.0) / 2.0 + 0.5)
    first, second, weights = pairs_of(K)
    scaled = columns / weights[:, None]
    out = np.zeros((count, K, K))
    out[:, first, second] = scaled.T
    out[:, second, first] = scaled.T
    return out


def _starts(excess: FloatArray) -> FloatArray:
    """Return unit vectors (K, ·)."""
    matrices = _matrices(np.linalg.eigh(excess)[1])
    values, axes = np.linalg.eigh(matrices)
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :2]
    chosen = np.take_along_axis(axes, order[:, None, :], axis=2)
    return np.asarray(chosen.transpose(1, 0, 2).reshape(matrices.shape[1], -1))


def _climbed(excess: FloatArray, C: FloatArray) -> FloatArray:
    """Return the ends of shifted power steps `c ← M(c) c + αc`, scaled to length 1.

    M(c) is `excess @ squares(c)` read as a matrix, and M(c)c a quarter of the gradient. The shift
    α keeps a step from overshooting.
    """
    shift = 0.5 * float(np.max(np.abs(np.linalg.eigvalsh(excess))))
    K = len(C)
    first, second, weights = pairs_of(K)
    # M(c) + α‖c‖² = tensor @ (products of two entries of c)
    tensor = _matrices(excess).transpose(1, 2, 0) * weights
    tensor += shift * np.eye(K)[:, :, None] * (first == second)
    tensor = tensor.reshape(K * K, -1)
    for _ in range(STEPS):
        M = (tensor @ (C[first] * C[second])).reshape(K, K, -1)
        C = np.einsum("ijc,jc->ic", M, C)
        C /= np.sqrt(np.maximum(np.einsum("ic,ic->c", C, C), 1e-300))
    return C
