"""GLAD terms for one or two components: all of a row's numbers but its cells stay in registers.

Eight rows are taken together. The operations of a row and their order are those of `compiled`, so
the bits of its term are the same; a residual is computed twice, which costs less than storing it.
"""

from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit
from stillspace.kernels.lane_sums import high_pairs, low_pairs, totals
from stillspace.kernels.lanes import (
    LANES,
    add,
    constant,
    divide,
    finite_or_zero,
    larger,
    load,
    multiply,
    root,
    spread,
    store,
    subtract,
    total,
    where_below,
)

FEW = 2
"""Most components that this module takes."""


@jit
def _weight(distance: Any, y0: Any, y1: Any, floor: float, cut: float) -> Any:
    """Return the clipped weights of eight rows; see `passes.clip_weights`."""
    size = root(add(multiply(y0, y0), multiply(y1, y1)))
    one = constant(1.0)
    weight = divide(one, larger(distance, constant(floor)))
    clip = larger(multiply(weight, multiply(distance, size)), one)
    return where_below(distance, constant(cut), finite_or_zero(divide(weight, clip)))


@jit
def _residual(XT: FloatArray, d: int, i: int, V: FloatArray, y0: Any, y1: Any) -> Any:
    """Return coordinate d of the residuals of the eight rows from column i on; V is (D, 2)."""
    x = load(XT, d * XT.shape[1] + i)
    return subtract(subtract(x, multiply(spread(V, 2 * d), y0)), multiply(spread(V, 2 * d + 1), y1))


@jit
def _sums(w: Any, r0: Any, r1: Any, r2: Any, r3: Any, r4: Any, r5: Any, r6: Any, r7: Any) -> Any:
    """Return what eight rows add to eight coordinates of one component."""
    return totals(
        multiply(r0, w),
        multiply(r1, w),
        multiply(r2, w),
        multiply(r3, w),
        multiply(r4, w),
        multiply(r5, w),
        multiply(r6, w),
        multiply(r7, w),
    )


@jit
def _add_group(
    XT: FloatArray,
    i: int,
    V: FloatArray,
    floor: float,
    cut: float,
    kept: FloatArray,
    out: FloatArray,
) -> None:
    """Add the terms of the eight rows from column i on to `out` (D, 2); see `glad_few`."""
    D, b = XT.shape
    y0 = y1 = constant(0.0)
    for d in range(D):
        x = load(XT, d * b + i)
        y0 = add(y0, multiply(spread(V, 2 * d), x))
        y1 = add(y1, multiply(spread(V, 2 * d + 1), x))
    square = constant(0.0)
    for d in range(D):
        x = _residual(XT, d, i, V, y0, y1)
        square = add(square, multiply(x, x))
    distance = root(square)
    weight = _weight(distance, y0, y1, floor, cut)
    store(kept, i, y0)
    store(kept, b + i, y1)
    store(kept, 2 * b + i, distance)
    store(kept, 3 * b + i, weight)
    w0, w1 = multiply(y0, weight), multiply(y1, weight)
    for d in range(0, D - 7, 8):
        r0, r1 = _residual(XT, d, i, V, y0, y1), _residual(XT, d + 1, i, V, y0, y1)
        r2, r3 = _residual(XT, d + 2, i, V, y0, y1), _residual(XT, d + 3, i, V, y0, y1)
        r4, r5 = _residual(XT, d + 4, i, V, y0, y1), _residual(XT, d + 5, i, V, y0, y1)
        r6, r7 = _residual(XT, d + 6, i, V, y0, y1), _residual(XT, d + 7, i, V, y0, y1)
        s0 = _sums(w0, r0, r1, r2, r3, r4, r5, r6, r7)
        s1 = _sums(w1, r0, r1, r2, r3, r4, r5, r6, r7)
        store(out, 2 * d, add(load(out, 2 * d), low_pairs(s0, s1)))
        store(out, 2 * d + 8, add(load(out, 2 * d + 8), high_pairs(s0, s1)))
    for d in range(D // 8 * 8, D):
        x = _residual(XT, d, i, V, y0, y1)
        out[d, 0] += total(multiply(x, w0))
        out[d, 1] += total(multiply(x, w1))


@jit
def glad_few(
    XT: FloatArray, V: FloatArray, floor: float, cut: float, kept: FloatArray, out: FloatArray
) -> None:
    """Add the GLAD terms of a block to `out` (D, r), r = 1 or 2; b is a multiple of 8.

    `kept` (4, b) gets the two scores, the distances and the weights.

    A second component that is zero changes nothing: it adds and subtracts exact zeros. A block has
    a sum of its own: `rows.chain_length` counts one addition a block, not one a group.
    """
    D, b = XT.shape
    pair, sums = V, np.zeros((D, 2))
    if V.shape[1] == 1:
        pair = np.zeros((D, 2))
        pair[:, :1] = V
    for i in range(0, b, LANES):
        _add_group(XT, i, pair, floor, cut, kept, sums)
    out += sums[:, : V.shape[1]]
