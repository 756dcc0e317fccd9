"""Terms made of the scores of a block of rows: products of pairs, and counts of angles."""

from __future__ import annotations

import math

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit
from stillspace.kernels.lanes import LANES
from stillspace.kernels.tiles import add_symmetric


@jit
def _pair_products(Y: FloatArray, begin: int, end: int, out: FloatArray) -> None:
    """Write `y_i y_j/‖y‖` (pairs, b), i ≤ j, those of i < j times √2, for columns of Y (r, …).

    A column longer than 1 is cut to 1. Every column is computed by itself in one order. What is
    beyond the columns and the pairs stays as it is.
    """
    r, b = len(Y), end - begin
    length, scaled = np.zeros(b), np.empty((r, b))
    for j in range(r):
        for i in range(b):
            length[i] += Y[j, begin + i] * Y[j, begin + i]
    for i in range(b):
        length[i] = math.sqrt(length[i])
    for j in range(r):
        for i in range(b):
            scaled[j, i] = Y[j, begin + i] / (length[i] if length[i] > 0.0 else 1.0)
    squares, pair = np.zeros(b), 0
    for j in range(r):
        for k in range(j, r):
            weight = 1.0 if j == k else math.sqrt(2.0)
            for i in range(b):
                q = ((weight * scaled[j, i]) * scaled[k, i]) * length[i]
                out[pair, i] = q
                squares[i] += q * q
            pair += 1
    long = False
    for i in range(b):
        squares[i] = max(math.sqrt(squares[i]), 1.0)
        long = long or squares[i] > 1.0
    if long:  # a division by 1 changes nothing
        for row in range(pair):
            for i in range(b):
                out[row, i] /= squares[i]


@jit
def add_pair_products(Y: FloatArray, block: int, out: FloatArray) -> None:
    """Add `Σ qqᵀ` to `out` (pairs, pairs), q the products of pairs of each column of Y (r, b).

    So many columns as `block` says, a multiple of 8, are added up by themselves first.
    """
    pairs = len(out)
    wide = (pairs + 3) // 4 * 4
    width = block + LANES  # rows a power of two apart would share a few sets of the first cache
    Q, sums = np.zeros((wide, width)), np.zeros(wide * wide + LANES)
    for begin in range(0, Y.shape[1], block):
        end = min(begin + block, Y.shape[1])
        if end - begin < block:
            Q[:] = 0.0
        _pair_products(Y, begin, end, Q)
        add_symmetric(Q.reshape(-1), width, wide, sums)
    for a in range(pairs):
        for b in range(a, pairs):
            out[a, b] += sums[a * wide + b]
            if b > a:
                out[b, a] += sums[a * wide + b]


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
