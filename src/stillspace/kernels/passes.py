"""What one block of rows adds to a sum, in one compiled call while the block is in cache.

Terms are computed by the routines of `tiles`, so their bits are those of the reference; only the
last step, adding finished terms up, may take any order (SPEC 4).

Two functions, one for one or two components and one for any number. Both take a block X
(groups, D, 8): groups of eight rows as columns, 8 (D + 1) entries apart, so that the same place of
many groups does not fall on the same place of a cache. D is a multiple of 8, the basis V is (D, r),
r = 2 (`few`) or a multiple of 4 (`many`), filled up with zeros, of which an even number is `used`.
Then follow which terms, and their constants; a scratch `work`; and `sums`: of D · used entries in
turned tiles of 8 × 2 (`few`) or 4 × 2 (`many`), 8 places for a number, products of scores in turned
tiles of 4 × 2. `jobs.Adder` prepares and reads all that. A block is added to `sums` at once:
`rows.chain_length` counts one addition a block, not one a group.
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray
from stillspace.kernels.jit import jit, part
from stillspace.kernels.lane_sums import totals
from stillspace.kernels.lanes import (
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
from stillspace.kernels.tiles import CHUNK, add_products, add_scores, residual, squares

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
def _add_curvature(
    work: FloatArray, groups: int, r: int, used: int, kind: int, cap: float, sums: FloatArray,
    to: int,
) -> None:  # fmt: skip
    """Add `Σ u‖y‖²` and `Σ u yyᵀ`, y cut to norm 1 and `u = weight · min(cap, distance)` ≤ 1.

    u is 1 for the moment of the scores. The scores in `work` are spoilt, and the weighed ones.
    """
    one, number = constant(1.0), constant(0.0)
    scores = 16 * groups
    weighed = scores + 8 * r * groups
    for g in range(groups):
        y, w, u = scores + 8 * r * g, weighed + 8 * r * g, one
        square = squares(work, y, r)
        if kind == NEWTON:
            distance, weight = load(work, 16 * g), load(work, 16 * g + 8)
            u = smaller(multiply(weight, smaller(constant(cap), distance)), one)
        number = add(number, multiply(smaller(square, one), u))
        size = larger(root(square), one)
        for q in range(0, 8 * r, 8):
            cut = divide(load(work, y + q), size)
            store(work, y + q, cut)
            store(work, w + q, multiply(cut, u))
    sums[to] += total(number)
    add_products(work, weighed, r, 8 * r, work, scores, r, used, groups, sums, to + 8)


@jit
def many(
    X: FloatArray, groups: int, D: int, V: FloatArray, r: int, used: int, kind: int, floor: float,
    cut: float, cap: float, work: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Add the terms of a block.

    GLAD: `Σ w Qx yᵀ`, w clipped. Newton: that and the curvature. IRLS: `Σ x yᵀ/max(‖Qx‖, floor)`
    over the rows with ‖Qx‖ < cut, and the number `Σ min(‖Qx‖, cut)`. Scores: `Σ yyᵀ`, y cut to
    norm 1.
    """
    one, zero, limit = constant(1.0), constant(0.0), constant(cut)
    jump = 8 * D + 8
    # in `work`, for all groups: distances and weights, scores, weighed scores, residuals
    scores = 16 * groups
    weighed = scores + 8 * r * groups
    R = weighed + 8 * r * groups
    for q in range(0, weighed, 8):
        store(work, q, zero)
    for d in range(0, D, CHUNK):
        end = d + CHUNK if d + CHUNK < D else D
        for g in range(groups):
            add_scores(X, jump * g, V, r, d, end, work, scores + 8 * r * g)
    if kind != SCORES:
        for d in range(0, D, CHUNK):
            end = d + CHUNK if d + CHUNK < D else D
            for g in range(groups):
                x0, y, square = jump * g, scores + 8 * r * g, load(work, 16 * g)
                square = residual(X, x0, V, r, d, end, work, y, work, R + x0, square)
                store(work, 16 * g, square)
        cost = zero
        for g in range(groups):
            y, w = scores + 8 * r * g, weighed + 8 * r * g
            distance = root(load(work, 16 * g))
            if kind == IRLS:
                weight = divide(one, larger(distance, constant(floor)))
                weight = where_below(distance, limit, weight)
                cost = add(cost, smaller(distance, limit))
            else:
                weight = _clipped(distance, squares(work, y, r), floor, cut)
            store(work, 16 * g, distance)
            store(work, 16 * g + 8, weight)
            for q in range(0, 8 * r, 8):
                store(work, w + q, multiply(load(work, y + q), weight))
        A, a = (X, 0) if kind == IRLS else (work, R)
        # 0 * D: a plain 0 would have its own copy of the function compiled
        add_products(A, a, D, jump, work, weighed, r, used, groups, sums, 0 * D)
        sums[D * used] += total(cost)
    if kind in (NEWTON, SCORES):
        _add_curvature(work, groups, r, used, kind, cap, sums, D * used)


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
    X: FloatArray, groups: int, D: int, V: FloatArray, r: int, used: int, kind: int, floor: float,  # noqa: ARG001
    cut: float, cap: float, work: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Add the terms of a block, GLAD or Newton, for r = 2.

    All of a row's numbers but its cells stay in registers; a residual is computed twice, which
    costs less than storing it.
    """
    one, zero = constant(1.0), constant(0.0)
    number, c00, c01, c11 = zero, zero, zero, zero
    for k in range(0, 2 * D, 8):
        store(work, k, zero)
    for x0 in range(0, (8 * D + 8) * groups, 8 * D + 8):
        y0, y1 = zero, zero
        for v in range(0, 2 * D, 2):
            x = load(X, x0 + 4 * v)
            y0 = add(y0, multiply(spread(V, v), x))
            y1 = add(y1, multiply(spread(V, v + 1), x))
        square = zero
        for v in range(0, 2 * D, 2):
            x = _left(X, x0 + 4 * v, V, v, y0, y1)
            square = add(square, multiply(x, x))
        distance = root(square)
        square = add(multiply(y0, y0), multiply(y1, y1))
        weight = _clipped(distance, square, floor, cut)
        w0, w1 = multiply(y0, weight), multiply(y1, weight)
        for v in range(0, 2 * D, 16):
            p = x0 + 4 * v
            r0, r1 = _left(X, p, V, v, y0, y1), _left(X, p + 8, V, v + 2, y0, y1)
            r2, r3 = _left(X, p + 16, V, v + 4, y0, y1), _left(X, p + 24, V, v + 6, y0, y1)
            r4, r5 = _left(X, p + 32, V, v + 8, y0, y1), _left(X, p + 40, V, v + 10, y0, y1)
            r6, r7 = _left(X, p + 48, V, v + 12, y0, y1), _left(X, p + 56, V, v + 14, y0, y1)
            s0 = _sums(w0, r0, r1, r2, r3, r4, r5, r6, r7)
            s1 = _sums(w1, r0, r1, r2, r3, r4, r5, r6, r7)
            store(work, v, add(load(work, v), s0))
            store(work, v + 8, add(load(work, v + 8), s1))
        if kind == NEWTON:
            u = smaller(multiply(weight, smaller(constant(cap), distance)), one)
            number = add(number, multiply(smaller(square, one), u))
            size = larger(root(square), one)
            y0, y1 = divide(y0, size), divide(y1, size)
            c00 = add(c00, multiply(multiply(y0, u), y0))
            c01 = add(c01, multiply(multiply(y0, u), y1))
            c11 = add(c11, multiply(multiply(y1, u), y1))
    for k in range(0, 2 * D, 8):
        store(sums, k, add(load(sums, k), load(work, k)))
    to = 2 * D
    sums[to] += total(number)
    sums[to + 8] += total(c00)
    sums[to + 9] += total(c01)
    sums[to + 12] += total(c01)
    sums[to + 13] += total(c11)
