"""Terms made of the scores of a block of rows: products of pairs, and counts of angles."""

from __future__ import annotations

import math

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit


@jit
def pair_products(Y: FloatArray) -> FloatArray:
    """Return `y_i y_j/‖y‖` (pairs, b), i ≤ j, those of i < j times √2, for the columns of Y (r, b).

    A column longer than 1 is cut to 1. Every column is computed by itself in one order.
    """
    r, b = Y.shape
    length, scaled = np.zeros(b), np.empty((r, b))
    for j in range(r):
        for i in range(b):
            length[i] += Y[j, i] * Y[j, i]
    for i in range(b):
        length[i] = math.sqrt(length[i])
    for j in range(r):
        for i in range(b):
            scaled[j, i] = Y[j, i] / (length[i] if length[i] > 0.0 else 1.0)
    out, squares, pair = np.empty((r * (r + 1) // 2, b)), np.zeros(b), 0
    for j in range(r):
        for k in range(j, r):
            weight = 1.0 if j == k else math.sqrt(2.0)
            for i in range(b):
                q = ((weight * scaled[j, i]) * scaled[k, i]) * length[i]
                out[pair, i] = q
                squares[i] += q * q
            pair += 1
    for i in range(b):
        squares[i] = max(math.sqrt(squares[i]), 1.0)
    for pair in range(len(out)):
        for i in range(b):
            out[pair, i] /= squares[i]
    return out


@jit
def count_angles(Z: FloatArray, edges: FloatArray, block: int, out: FloatArray) -> None:
    """Add |z_a| of each column of Z (m, b) to one of the bins out[a]; ‖z‖ > 1 is cut to 1.

    `edges` (m, 2^k) are ascending in each row, filled up with infinity. z_a goes to the bin that
    is as many bins from the last one as there are edges at or below z_a. So many columns as `block`
    says are added up by themselves first.
    """
    m, b = Z.shape
    bins, size, part = out.shape[1], np.empty(block), np.empty(out.shape)
    above = np.empty(block, dtype=np.int64)
    for begin in range(0, b, block):
        end = min(begin + block, b)
        size[:], part[:] = 0.0, 0.0
        for a in range(m):
            for i in range(begin, end):
                size[i - begin] += Z[a, i] * Z[a, i]
        for i in range(end - begin):
            size[i] = max(math.sqrt(size[i]), 1.0)
        for a in range(m):
            above[:], half = 0, edges.shape[1] // 2
            while half > 0:  # one step of the search for all columns: the compiler takes several
                for i in range(end - begin):
                    step = half if edges[a, above[i] + half - 1] <= Z[a, begin + i] else 0
                    above[i] += step
                half //= 2
            for i in range(end - begin):
                part[a, bins - 1 - above[i]] += abs(Z[a, begin + i]) / size[i]
        out += part
