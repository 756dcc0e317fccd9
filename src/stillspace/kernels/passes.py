"""What one block of rows adds to a sum, in one compiled call while the block is in cache.

A block X is (b, D), row after row (`tiles`). Eight rows at a time get their scores y = Vᵀx, their
distance d = ‖Qx‖ and their weight; the block's sum `Σ w y xᵀ` is one matrix product afterwards. The
projection Q is not applied row by row: `Σ w Qx yᵀ = Q Σ w x yᵀ`, so it follows once per job.

**The distance.** `d² = ‖x‖² − ‖y‖²` where that is at least `near`; below it, where rounding would
be seen, the residual `x − V y` itself is computed, its norm is d, and it takes the place of the
row. Which of the two it is depends on the bits of the row alone. V must have orthonormal columns;
with any other V `near` is infinite and the sum is not projected (`jobs.RowAdder`).
"""

from __future__ import annotations

from typing import Any

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import bare, part
from stillspace.kernels.lanes import (
    add,
    bits_above,
    bits_below,
    constant,
    divide,
    finite_or_zero,
    first_bit,
    larger,
    load,
    multiply,
    root,
    smaller,
    store,
    subtract,
    total,
    where_below,
    where_bits,
)
from stillspace.kernels.prefetch import LONG_ROW, bring_rows
from stillspace.kernels.tiles import (
    add_gram,
    add_outer,
    add_square,
    eight_totals,
    group_scores,
    project_out,
    residual,
    steps_of,
)

GLAD, IRLS, SCORES, NEWTON, MOMENT = 0, 1, 2, 3, 4

EARLY = 5
"""Of eight long rows of the next block, so many come nearer while scores are made, and the others
while terms are added: in proportion to the time that either takes."""

SHORT = 1.0 - 2.0**-40
"""Up to this `square` the clip of a weight is a division by 1, which is left out: rounding makes
`weight · distance · size` larger by a factor of at most 1 + 2⁻⁴⁹."""


@part
def clipped(distance: Any, square: Any, floor: float, cut: float) -> Any:
    """Return `1/max(distance, floor)`, lowered so that times `distance · size` it is at most 1.

    Mathematically the clip never acts; it keeps the bound when V is orthonormal only up to
    rounding (SPEC 9.10). A weight that is not finite becomes zero, and so does that of a row at
    the distance `cut` or farther. `square` is the square of `size`.
    """
    one = constant(1.0)
    weight = divide(one, larger(distance, constant(floor)))
    if bits_above(square, constant(SHORT)) != 0:
        clip = larger(multiply(weight, multiply(distance, root(square))), one)
        weight = divide(weight, clip)
    return where_below(distance, constant(cut), finite_or_zero(weight))


@part
def squares_of(Y: FloatArray, at: int, r: int, b: int) -> Any:
    """Return ‖y‖² of eight rows, one component after another, for Y[at:] (r, b)."""
    square = constant(0.0)
    for j in range(r):
        y = load(Y, at + j * b)
        square = add(square, multiply(y, y))
    return square


@part
def group_distances(
    squares: Any, X: FloatArray, places: IntArray, i: int, D: int, V: FloatArray, r: int,
    near: float, keep: bool, free: int, parts: FloatArray, Y: FloatArray, to: int, b: int,
    R: FloatArray,
) -> Any:  # fmt: skip
    """Return the squared distances of eight rows, from row i on, with these squares, scores Y[to:].

    With `keep` a residual that is computed takes the place of its row, or goes to row k of X[free:]
    if `free` is not negative; `places` then says so. Without `keep` it goes to R (D).
    """
    left = subtract(squares, squares_of(Y, to, r, b))
    # A row whose squares vanish has the distance 0 as it is.
    short = bits_below(left, constant(near)) & bits_above(squares, constant(0.0))
    if short != 0:
        rest = short
        while rest != 0:  # no branch per row: which rows are near, no processor can guess
            k = first_bit(rest)
            rest &= rest - 1
            x = places[i + k]
            if keep and free >= 0:
                places[i + k] = free + (i + k) * D
            # 0 * D: a plain number would have its own copy of the function compiled
            target, begin = (X, places[i + k]) if keep else (R, 0 * D)
            square = residual(X, x, D, V, r, Y, to + k, b, target, begin)
            store(parts, 8 * k, square)
        left = where_bits(short, eight_totals(parts, 0 * D), left)
    return left


@part
def _curvature(
    distance: Any, weight: Any, cap: float, kind: int, work: FloatArray, y: int, c: int, u0: int,
    r: int, b: int,
) -> Any:  # fmt: skip
    """Write y cut to norm 1 to work[c:], and u times that to work[u0:]; return `u‖y‖²`.

    `u = weight · min(cap, distance)`, at most 1; u is 1 for the moment of the scores.
    """
    one, square = constant(1.0), squares_of(work, y, r, b)
    u = one
    if kind == NEWTON:
        u = smaller(multiply(weight, smaller(constant(cap), distance)), one)
    size = larger(root(square), one)
    for j in range(r):
        cut = divide(load(work, y + j * b), size)
        store(work, c + j * b, cut)
        store(work, u0 + j * b, multiply(cut, u))
    return multiply(smaller(square, one), u)


@part
def weigh_group(
    left: Any, kind: int, floor: float, cut: float, cap: float, work: FloatArray, i: int, size: int,
    r: int, b: int,
) -> Any:  # fmt: skip
    """Weigh the scores of eight rows with these squared distances; return what the number gains.

    In `work`, each of `size` entries: scores, cut scores, those times u, weighed scores, (r, b).
    """
    one, zero = constant(1.0), constant(0.0)
    c, u, w = size + i, 2 * size + i, 3 * size + i
    if kind == SCORES:
        return _curvature(one, one, cap, kind, work, i, c, u, r, b)
    distance, number = root(larger(left, zero)), zero
    if kind == IRLS:
        weight = divide(one, larger(distance, constant(floor)))
        weight = where_below(distance, constant(cut), weight)
        number = smaller(distance, constant(cut))
    else:
        weight = clipped(distance, squares_of(work, i, r, b), floor, cut)
    if kind == NEWTON:
        number = _curvature(distance, weight, cap, kind, work, i, c, u, r, b)
    for j in range(r):
        store(work, w + j * b, multiply(load(work, i + j * b), weight))
    return number


@bare
def add_terms(
    X: FloatArray, places: IntArray, free: int, squares: FloatArray, b: int, D: int,
    V: FloatArray, r: int, used: int, kind: int, near: float, floor: float, cut: float, cap: float,
    work: FloatArray, sums: FloatArray, chosen: IntArray, ahead: int, stop: int, first: int,
    row_bytes: int,
) -> None:  # fmt: skip
    """Add the terms of a block. Meanwhile the rows of the next block come nearer.

    Rows of X are spoilt, unless there are b `free` rows in it (`group_distances`); then `places`
    are. `squares` are the ‖x‖² if they are known, or has no entries.

    GLAD: `Σ w x yᵀ`, w clipped, which `finish` projects. Newton: that, the number `Σ u‖y‖²` and the
    matrix `Σ u yyᵀ`. IRLS: `Σ x yᵀ/max(‖Qx‖, floor)` over the rows with ‖Qx‖ < cut, and the number
    `Σ min(‖Qx‖, cut)`. Scores: `Σ yyᵀ`, y cut to norm 1. Moment: `Σ xxᵀ` to `sums` (D, D), on and
    above the diagonal; nothing else is used.

    `used` is r or r + 1, an even number; for the moment, the columns that are not there to fill up
    rows. `sums` holds (used, D), 8 places for the number, (used, used) and 8 more. `work` holds
    what `weigh_group` says, each (used, b); then D entries for a row; then 64 (r + 1) for
    parts. What component r + 1 adds to `sums`, if there is one, is never handed on. What follows
    the argument `sums` is the next block, for `bring_rows`.
    """
    stop = min(ahead + b, stop)
    if kind == MOMENT:
        bring_rows(chosen, ahead, stop if row_bytes < LONG_ROW else ahead, first, row_bytes)
        add_square(X, b, D, used, sums)
        return
    number, size = constant(0.0), used * b
    R, parts = work[4 * size : 4 * size + D], work[4 * size + D :]
    early, steps = EARLY if row_bytes >= LONG_ROW else 8, steps_of(D, r)
    each, soon = (early + steps - 1) // steps, min(ahead + b * early // 8, stop)
    for i in range(0, b, 8):
        left = group_scores(
            X, places, i, D, V, r, len(squares) == 0, parts, work, i, b, chosen,
            ahead + i // 8 * steps * each, soon, each, first, row_bytes,
        )  # fmt: skip
        if len(squares) > 0:
            left = load(squares, i)
        if kind != SCORES:
            keep = kind != IRLS
            left = group_distances(
                left, X, places, i, D, V, r, near, keep, free, parts, work, i, b, R
            )
        store(work, 3 * size + i, left)
    for i in range(0, b, 8):  # a loop of its own: roots and quotients of neighbours overlap
        left = load(work, 3 * size + i)
        gain = weigh_group(left, kind, floor, cut, cap, work, i, size, r, b)
        number = add(number, gain)
    sums[used * D] += total(number)
    if kind != SCORES:
        add_outer(
            X, places, D, b, work, 3 * size, used if r in (1, 3) else r, sums, chosen, soon,
            stop, first, row_bytes,
        )  # fmt: skip
    if kind in (NEWTON, SCORES):
        add_gram(work, 2 * size, work, size, b, used, sums, used * D + 8)


@bare
def mirror(sums: FloatArray, D: int, out: FloatArray) -> None:
    """Add the matrices of which `sums` (jobs, D · D) has the upper halves to `out` (jobs, …).

    `out` may have fewer rows and columns. Tiles of 8 × 8 at a time: each is read and written once.
    """
    n = out.shape[1]
    for k in range(out.shape[0]):
        for d in range(0, n, 8):
            for e in range(d, n, 8):
                for i in range(d, min(d + 8, n)):
                    for j in range(max(e, i), min(e + 8, n)):
                        value = sums[k, i * D + j]
                        out[k, i, j] += value
                        if j > i:
                            out[k, j, i] += value


@bare
def finish(sums: FloatArray, V: FloatArray, D: int, r: int, work: FloatArray) -> None:
    """Project the sums of jobs (jobs, …): `Q Σ w x yᵀ`."""
    for k in range(sums.shape[0]):
        project_out(sums[k], V, D, r, work)


@bare
def measure(
    X: FloatArray, places: IntArray, b: int, D: int, V: FloatArray, r: int, near: float,
    Y: FloatArray, at: int, stride: int, distances: FloatArray, work: FloatArray,
) -> None:  # fmt: skip
    """Write scores to Y[at:], components `stride` entries apart; X stays.

    If `distances` has entries, distances go there from `at` on. `work` has D entries for a row,
    then 64 (r + 1) for parts.
    """
    R, parts = work[:D], work[D:]
    for i in range(0, b, 8):
        to, wanted = at + i, len(distances) > 0
        left = group_scores(
            X, places, i, D, V, r, wanted, parts, Y, to, stride, places, 0 * D, 0 * D, 0 * D,
            0 * D, 0 * D,
        )  # fmt: skip
        if wanted:
            left = group_distances(
                left, X, places, i, D, V, r, near, False, 0 * D - 1, parts, Y, to, stride, R
            )
            store(distances, at + i, root(larger(left, constant(0.0))))
