"""Whole loops, compiled: release, step, push for a chunk of iterations whose draws are given.

They do what `run` does with `Release.apply`, the geometry and the output, for two families of
plans: GLAD with the polar step, REAPER with water-filling or the entropic mirror. Draws are never
made here: a chunk gets stacked draws and returns how many it used.

Rows come as a three-dimensional array. Full batch: blocks (m, D, WIDTH), rows as columns, the
last block filled up with zero rows. Sampled: (1, n + 1, D), so that a row is one stretch of memory,
the last a zero row. D is filled up with zeros to a multiple of 4.
`offsets` and `chosen` hold the selections of all iterations (`chosen[offsets[k]:offsets[k + 1]]`);
no offsets means all rows. `noise` has no iterations where there is none. `trace` (iterations, 2, …)
is filled with the point before each step and what was released there; of no entries, it is not.
"""

from __future__ import annotations

import math

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import jit, part
from stillspace.kernels.lane_terms import WIDTH, add_glad, gather, scaled_residuals
from stillspace.kernels.lanes import LANES, load, total
from stillspace.kernels.small import mirror_step, polar_rows, rebuild, water_fill

WATER_FILLING, CAPPED_MIRROR, RESCALED_MIRROR = 0, 1, 2

_LARGEST_INDEX = 2.0**62  # as in stillspace.parts.noise


def padded(size: int, multiple: int) -> int:
    """Return the smallest multiple that is not below `size`."""
    return -(-size // multiple) * multiple


def as_blocks(X: FloatArray, D: int) -> FloatArray:
    """Return rows (n, D') as blocks (m, D, WIDTH) for full batches, zeros where D > D'."""
    n, columns = X.shape
    blocks = np.zeros((-(-n // WIDTH), D, WIDTH))
    for k, block in enumerate(blocks):
        part = X[k * WIDTH : (k + 1) * WIDTH].T
        block[:columns, : part.shape[1]] = part
    return blocks


def as_stretches(X: FloatArray, D: int) -> FloatArray:
    """Return rows (n, D') as (1, n + 1, D) for sampled batches, zeros where D > D'."""
    n, columns = X.shape
    stretches = np.zeros((1, n + 1, D))
    stretches[0, :n, :columns] = X
    return stretches


@jit
def _on_lattice(value: float, index: int, spacing: float) -> float:
    """Return `(rint(value/γ) + index) γ`; the same steps as `GaussianNoise.release`."""
    if math.isnan(value):
        value = 0.0
    limit = spacing * _LARGEST_INDEX
    value = min(max(value, -limit), limit)
    return float(np.int64(np.rint(value / spacing)) + index) * spacing


@part
def _push(average: FloatArray, V: FloatArray, r: int, k: int) -> None:
    """Move the running average of k projectors towards that of V (r, D)."""
    D = average.shape[0]
    for d in range(D):
        for e in range(D):
            value = 0.0
            for j in range(r):
                value += V[j, d] * V[j, e]
            average[d, e] += (value - average[d, e]) / (k + 1)


@part
def _push_matrix(average: FloatArray, P: FloatArray, weight: float) -> None:
    """Move the average a part of the way to P."""
    for d in range(P.shape[0]):
        for e in range(P.shape[1]):
            average[d, e] += (P[d, e] - average[d, e]) * weight


@jit
def glad_polar(
    rows: FloatArray,
    offsets: IntArray,
    chosen: IntArray,
    noise: IntArray,
    spacings: FloatArray,
    steps: FloatArray,
    first: int,
    facts: tuple[int, int, float, float],
    V: FloatArray,
    average: FloatArray,
    trace: FloatArray,
) -> int:
    """Run GLAD with the polar step over a chunk; return the number of draws used.

    `facts` are D, r, the floor and the public divisor. `V` (r, D) is padded with zeros to an even
    r and a D that is a multiple of 4; it and `average` (D, D), if that has entries, are updated.
    """
    D, r, floor, divisor = facts
    r_padded, D_padded = V.shape
    data = rows.reshape(-1)
    block = np.empty(D_padded * WIDTH)
    work = (
        np.empty(r_padded * WIDTH),
        np.empty(D_padded * WIDTH),
        np.empty(WIDTH),
        np.empty(WIDTH),
    )
    sums = np.empty(r_padded * D_padded * LANES)
    moved, J = np.zeros((r, D_padded)), np.empty((r, r))
    sampled = offsets.size > 0
    for k in range(steps.size):
        sums[:] = 0.0
        low, high = (offsets[k], offsets[k + 1]) if sampled else (0, data.size // D_padded)
        for start in range(low, high, WIDTH):
            X, at, b = data, start * D_padded, min(WIDTH, high - low)
            if sampled:
                X, at = block, 0
                b = gather(data, D_padded, chosen, start, min(start + WIDTH, high), block)
            add_glad(X, at, b, V, floor, work, sums)
        for j in range(r):
            for d in range(D):
                g = total(load(sums, (j * D_padded + d) * LANES))
                if noise.shape[0] > 0:
                    g = _on_lattice(g, noise[k, d, j], spacings[k])
                if trace.size > 0:
                    trace[k, 0, d, j], trace[k, 1, d, j] = V[j, d], g / divisor
                moved[j, d] = V[j, d] + steps[k] * (g / divisor)
        polar_rows(moved, r, D, J, V)
        if average.size > 0:
            _push(average, V, r, first + k)
    return int(steps.size)


@jit
def reaper(
    rows: FloatArray,
    offsets: IntArray,
    chosen: IntArray,
    noise: IntArray,
    spacings: FloatArray,
    steps: FloatArray,
    first: int,
    facts: tuple[int, int, float, float],
    geometry: int,
    P: FloatArray,
    dual: FloatArray,
    average: FloatArray,
    trace: FloatArray,
) -> int:
    """Run REAPER over a chunk, one eigendecomposition per step; return the number of draws used.

    `facts` are D, r, the floor and the public divisor. The point `P`, for a mirror its logarithm
    `dual` (of no entries otherwise), and `average`, if that has entries, are updated: all (D, D).
    """
    D, r, floor, divisor = facts
    D_padded = rows.shape[2] if offsets.size > 0 else rows.shape[1]
    data = rows.reshape(-1)
    block = np.empty(D_padded * WIDTH)
    R, S, N = np.empty(D * WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    half, part = np.empty((D, D)), np.empty((D, D))
    state = P if geometry == WATER_FILLING else dual
    sampled = offsets.size > 0
    for k in range(steps.size):
        half[:] = 0.0
        low, high = (offsets[k], offsets[k + 1]) if sampled else (0, data.size // D_padded)
        for start in range(low, high, WIDTH):
            X, at, b = data, start * D_padded, min(WIDTH, high - low)
            if sampled:
                X, at = block, 0
                b = gather(data, D_padded, chosen, start, min(start + WIDTH, high), block)
            scaled_residuals(X, at, b, P, floor, (R, S, N))
            np.dot(R[: D * b].reshape((D, b)), X[at : at + D * b].reshape((D, b)).T, part)
            half += part
        for d in range(D):
            for e in range(d + 1):
                g = (half[d, e] + half[e, d]) / 2.0
                if noise.shape[0] > 0:
                    g = _on_lattice(g, noise[k, e, d], spacings[k])
                if trace.size > 0:
                    trace[k, 0, d, e] = trace[k, 0, e, d] = P[d, e]
                    trace[k, 1, d, e] = trace[k, 1, e, d] = g / divisor
                state[d, e] += steps[k] * (g / divisor)
        values, U = np.linalg.eigh(state)  # looks at the lower half alone
        vectors = U.T
        if geometry == WATER_FILLING:
            filled = water_fill(values, r)
        else:
            filled = mirror_step(dual, values, vectors, r, geometry == CAPPED_MIRROR)
        rebuild(vectors, filled, P)
        if average.size > 0:
            _push_matrix(average, P, 1.0 / (first + k + 1))
    for d in range(dual.shape[0]):
        dual[:d, d] = dual[d, :d]
    return int(steps.size)
