"""What one block of rows adds to a sum, in one compiled call while the block is in cache.

Terms are computed by the routines of `tiles`, so their bits are those of the reference; only the
last step, adding finished terms up, may take any order (SPEC 4).

Two functions, one for one or two components and one for any number. Both take a block X (D, b)
with D and b multiples of 8 and a basis V (D, r) with r even, filled up with zeros; which terms, and
their constants; a scratch `work`; and `sums`: of D · r entries in turned tiles of 8 × 2 (`few`) or
4 × 2 (`many`), then 8 places for a number, then of r' · r products of scores in turned tiles of
4 × 2, r' being r up to a multiple of 4. `jobs.Adder` prepares and reads all that.
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit, part
from stillspace.kernels.lane_sums import totals
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
    smaller,
    spread,
    store,
    subtract,
    total,
    where_below,
)
from stillspace.kernels.tiles import add_products, residual, scores, squares

GLAD, IRLS, SCORES, NEWTON = 0, 1, 2, 3

FEW = 2
"""Most components that `few` takes."""


@part
def _clipped(distance: Any, square: Any, floor: float, cut: float) -> Any:
    """Return `1/max(distance, floor)`, lowered so that times `distance · size` it is at most 1.

    Mathematically the clip never acts; it keeps the bound when V is orthonormal only up to
    rounding (SPEC 9.10). A weight that is not finite becomes zero, and so does that of a row at
    the distance `cut` or farther. `square` is the square of `size`.
    """
    one = constant(1.0)
    weight = divide(one, larger(distance, constant(floor)))
    clip = larger(multiply(weight, multiply(distance, root(square))), one)
    return where_below(distance, constant(cut), finite_or_zero(divide(weight, clip)))


@part
def _add_curvature(work: FloatArray, b: int, r: int, cap: float, sums: FloatArray, to: int) -> None:
    """Add `Σ u‖y‖²` and `Σ u yyᵀ`, y cut to norm 1 and `u = weight · min(cap, distance)` ≤ 1.

    The scores in `work` are spoilt.
    """
    weighed = (r + 3) // 4 * 4 * b
    distances = 2 * weighed
    one, limit, traces = constant(1.0), constant(cap), constant(0.0)
    for i in range(0, b, LANES):
        distance, weight = load(work, distances + i), load(work, distances + b + i)
        u = smaller(multiply(weight, smaller(limit, distance)), one)
        square = squares(work, i, r, b)
        traces = add(traces, multiply(smaller(square, one), u))
        size = larger(root(square), one)
        for q in range(i, i + r * b, b):
            y = divide(load(work, q), size)
            store(work, q, y)
            store(work, weighed + q, multiply(y, u))
    sums[to] += total(traces)
    add_products(work, weighed, (r + 3) // 4 * 4, work, 0, r, b, sums, to + 8)


@jit
def many(
    X: FloatArray, D: int, b: int, V: FloatArray, r: int, kind: int, floor: float, cut: float,
    cap: float, work: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Add the terms of a block.

    GLAD: `Σ Qx yᵀ w`, w clipped; Newton: that and the curvature. IRLS: `Σ x yᵀ/max(‖Qx‖, floor)`
    over the rows with ‖Qx‖ < cut, and the number `Σ min(‖Qx‖, cut)`. Scores: `Σ yyᵀ`, y cut to
    norm 1.
    """
    one, zero = constant(1.0), constant(0.0)
    weighed = (r + 3) // 4 * 4 * b
    distances, R = 2 * weighed, 2 * weighed + 2 * b
    cost, limit = zero, constant(cut)
    for i in range(0, b, LANES):
        scores(X, D, b, i, V, r, work)
        distance, weight = one, one
        if kind != SCORES:
            residual(X, D, b, i, V, r, work, work, R)
            distance = root(squares(work, R + i, D, b))
            if kind == IRLS:
                weight = divide(one, larger(distance, constant(floor)))
                weight = where_below(distance, limit, weight)
                cost = add(cost, smaller(distance, limit))
            else:
                weight = _clipped(distance, squares(work, i, r, b), floor, cut)
            for q in range(i, i + r * b, b):
                store(work, weighed + q, multiply(load(work, q), weight))
        store(work, distances + i, distance)
        store(work, distances + b + i, weight)
    if kind == IRLS:
        add_products(X, 0, D, work, weighed, r, b, sums, 0)
        sums[D * r] += total(cost)
    elif kind != SCORES:
        add_products(work, R, D, work, weighed, r, b, sums, 0)
    if kind == NEWTON or kind == SCORES:  # noqa: PLR1714 (a tuple would be compiled)
        _add_curvature(work, b, r, cap, sums, D * r)


@part
def _left(X: FloatArray, at: int, V: FloatArray, v: int, y0: Any, y1: Any) -> Any:
    """Return one coordinate of the residuals of eight rows to two components."""
    x = subtract(load(X, at), multiply(spread(V, v), y0))
    return subtract(x, multiply(spread(V, v + 1), y1))


@part
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
def few(
    X: FloatArray, D: int, b: int, V: FloatArray, r: int, kind: int, floor: float, cut: float,
    cap: float, work: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Add the terms of a block, GLAD or Newton, for r = 2.

    All of a row's numbers but its cells stay in registers; a residual is computed twice, which
    costs less than storing it. A block has sums of its own: `rows.chain_length` counts one
    addition a block, not one a group.
    """
    zero, one, limit = constant(0.0), constant(1.0), constant(cap)
    traces, c00, c01, c11 = zero, zero, zero, zero
    for k in range(0, 2 * D, LANES):
        store(work, k, zero)
    for i in range(0, b, LANES):
        y0, y1, p = zero, zero, i
        for v in range(0, 2 * D, 2):
            x = load(X, p)
            y0 = add(y0, multiply(spread(V, v), x))
            y1 = add(y1, multiply(spread(V, v + 1), x))
            p += b
        square, p = zero, i
        for v in range(0, 2 * D, 2):
            x = _left(X, p, V, v, y0, y1)
            square = add(square, multiply(x, x))
            p += b
        distance = root(square)
        square = add(multiply(y0, y0), multiply(y1, y1))
        weight = _clipped(distance, square, floor, cut)
        w0, w1, p = multiply(y0, weight), multiply(y1, weight), i
        for v in range(0, 2 * D, 16):
            r0, r1 = _left(X, p, V, v, y0, y1), _left(X, p + b, V, v + 2, y0, y1)
            p += 2 * b
            r2, r3 = _left(X, p, V, v + 4, y0, y1), _left(X, p + b, V, v + 6, y0, y1)
            p += 2 * b
            r4, r5 = _left(X, p, V, v + 8, y0, y1), _left(X, p + b, V, v + 10, y0, y1)
            p += 2 * b
            r6, r7 = _left(X, p, V, v + 12, y0, y1), _left(X, p + b, V, v + 14, y0, y1)
            p += 2 * b
            s0 = _sums(w0, r0, r1, r2, r3, r4, r5, r6, r7)
            s1 = _sums(w1, r0, r1, r2, r3, r4, r5, r6, r7)
            store(work, v, add(load(work, v), s0))
            store(work, v + 8, add(load(work, v + 8), s1))
        if kind == NEWTON:
            u = smaller(multiply(weight, smaller(limit, distance)), one)
            traces = add(traces, multiply(smaller(square, one), u))
            size = larger(root(square), one)
            y0, y1 = divide(y0, size), divide(y1, size)
            c00 = add(c00, multiply(multiply(y0, u), y0))
            c01 = add(c01, multiply(multiply(y0, u), y1))
            c11 = add(c11, multiply(multiply(y1, u), y1))
    for k in range(0, 2 * D, LANES):
        store(sums, k, add(load(sums, k), load(work, k)))
    to = 2 * D
    sums[to] += total(traces)
    sums[to + 8] += total(c00)
    sums[to + 9] += total(c01)
    sums[to + 12] += total(c01)
    sums[to + 13] += total(c11)
