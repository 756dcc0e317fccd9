"""From the caller's array to blocks of scaled rows, for each way of storing rows.

A scaled cell is `((x − center) · (1/scale)) · inverse norm`, every step element-wise and rounded
once, so it depends on its own row alone. A cell that holds the missing code sits at the centre, and
so does NaN if `kind` is FILLED. A row whose inverse norm is zero is a zero row, whatever it holds.
A row whose inverse norm is not a number has no cells: those that are loaded are not numbers, but
for some of its missing ones.

All loaders take the same arguments after their source: the scaling; the numbers of the rows and
their inverse norms, as many as are loaded; and X (count, width), flat, where they go: row after
row, filled up with zeros from the number of columns to `width`. Centre and scale lie in memory of a
multiple of 8 entries, since eight cells of a row are loaded at once.
"""

from __future__ import annotations

import math
from typing import Any

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.kernels.convert import contiguous, eight
from stillspace.kernels.jit import bare, part
from stillspace.kernels.lanes import (
    LANES,
    add,
    constant,
    divide,
    first_lanes,
    larger,
    load,
    magnitude,
    multiply,
    root,
    store,
    subtract,
    where_number,
    where_unequal,
)
from stillspace.kernels.prefetch import LONG_ROW, bring_rows
from stillspace.kernels.tiles import eight_totals, squares_of_row

AS_STORED, PLACED, FILLED = 0, 1, 2
"""What is done to a cell: nothing; centred and scaled; the same, with NaN at the centre."""

SMALLEST_SQUARE, LARGEST_SQUARE = 2.0**-600, 2.0**700
"""Between these a sum of squares has lost nothing below or above: the largest cell lies between
2⁻⁴⁰⁰ and 2⁴⁰⁰ for any number of columns that there is memory for, and all cells are finite."""

NORM_WORK = 88
"""Numbers that `inverse_norms` needs memory for: eight times eight, and three times eight."""

AHEAD = 4
"""Rows between the one that is converted and the one that is brought nearer."""

STRETCH = 512
"""Columns of a block that are centred and scaled at a time: their centres and scales stay in the
first cache."""


@part
def _fill_up(X: FloatArray, at: int, begin: int, end: int) -> None:
    for d in range(at + begin, at + end):
        X[d] = 0.0


@part
def _placed(x: Any, d: int, center: FloatArray, unit: FloatArray, missing: float, kind: int) -> Any:
    """Return the cells of coordinates d… of a row, centred and in units of the scale."""
    cell = multiply(subtract(x, load(center, d)), load(unit, d))
    cell = where_unequal(x, constant(missing), cell)
    return where_number(x, cell) if kind == FILLED else cell


@part
def one_cell(
    value: float, d: int, center: FloatArray, unit: FloatArray, missing: float, kind: int,
    factor: float,
) -> float:  # fmt: skip
    """Return one scaled cell."""
    if value == missing or (kind == FILLED and math.isnan(value)):
        return 0.0
    cell = value if kind == AS_STORED else (value - center[d]) * unit[d]
    return cell * factor


@part
def _load_stretch(
    cells: AnyArray, begin: int, center: FloatArray, unit: FloatArray, missing: float, kind: int,
    factor: float, low: int, high: int, X: FloatArray, at: int,
) -> None:  # fmt: skip
    """Load columns low…high of the row that begins there; both are multiples of 8."""
    D, scale = len(center), constant(factor)
    full = D // LANES * LANES
    if kind == AS_STORED:
        for d in range(low, min(high, full), LANES):
            store(X, at + d, multiply(eight(cells, begin + d), scale))
    else:
        for d in range(low, min(high, full), LANES):
            x = _placed(eight(cells, begin + d), d, center, unit, missing, kind)
            store(X, at + d, multiply(x, scale))
    if full < high:
        x = eight(cells, begin + full)  # the next row begins in these cells
        if kind != AS_STORED:
            x = _placed(x, full, center, unit, missing, kind)
        store(X, at + full, first_lanes(multiply(x, scale), D - full))


@bare
def load_dense(
    source: tuple[AnyArray], center: FloatArray, unit: FloatArray, missing: float, kind: int,
    rows: IntArray, factors: FloatArray, count: int, X: FloatArray, width: int,
) -> None:  # fmt: skip
    """Load rows of an array (n, D) of any strides."""
    cells, D = source[0], len(center)
    whole = (D + 7) // LANES * LANES
    by_eight = contiguous(cells) and whole <= width
    far = contiguous(cells) and D * cells.itemsize >= LONG_ROW
    step = max(whole, LANES) if kind == AS_STORED else STRETCH
    for low in range(0, whole, step):
        high = min(low + step, whole)
        for i in range(count):
            at, begin, factor, done = i * width, rows[i] * D, factors[i], 0
            if far and low == 0 and i + AHEAD < count:
                bring_rows(rows, i + AHEAD, i + AHEAD + 1, cells.ctypes.data, D * cells.itemsize)
            if factor != 0.0 and by_eight and begin + whole <= cells.size:
                _load_stretch(
                    cells, begin, center, unit, missing, kind, factor, low, high, X, at
                )  # fmt: skip
                done = whole
            elif low == 0 and factor != 0.0:
                for d in range(D):
                    value = float(cells[rows[i], d])
                    X[at + d] = one_cell(value, d, center, unit, missing, kind, factor)
                done = D
            if low == 0 and done < width:
                _fill_up(X, at, done, width)


@bare
def load_columns(
    source: tuple[AnyArray], center: FloatArray, unit: FloatArray, missing: float, kind: int,
    rows: IntArray, factors: FloatArray, count: int, X: FloatArray, width: int,
) -> None:  # fmt: skip
    """Load rows of an array that is stored column by column (D, n)."""
    columns, D = source[0], len(center)
    for d in range(D):
        for i in range(count):
            value = float(columns[d, rows[i]])
            X[i * width + d] = one_cell(value, d, center, unit, missing, kind, factors[i])
    for i in range(count):
        _fill_up(X, i * width, 0 if factors[i] == 0.0 else D, width)


@bare
def load_sparse(
    source: tuple[AnyArray, AnyArray, AnyArray], center: FloatArray, unit: FloatArray,
    missing: float, kind: int, rows: IntArray, factors: FloatArray, count: int, X: FloatArray,
    width: int,
) -> None:  # fmt: skip
    """Load compressed sparse rows without duplicates; a cell that is not stored is a zero.

    A row whose columns do not ascend, or lie outside the table or outside what is stored, is not a
    row of it: it is read as one that is not finite.
    """
    data, columns, limits = source
    D = len(center)
    for i in range(count):
        at, factor = i * width, factors[i]
        _fill_up(X, at, 0, width)
        if factor == 0.0:
            continue
        if missing != 0.0 and kind != AS_STORED:
            for d in range(D):  # what a cell that is not stored comes to
                X[at + d] = (0.0 - center[d]) * unit[d] * factor
        low, high = limits[rows[i]], limits[rows[i] + 1]
        broken = low < 0 or high > len(data) or math.isnan(factor)
        if not broken:
            last = -1
            for p in range(low, high):
                d = columns[p]
                if d <= last or d >= D:
                    broken = True
                    break
                last = d
                X[at + d] = one_cell(float(data[p]), d, center, unit, missing, kind, factor)
        if broken:
            for d in range(at, at + D):
                X[d] = math.nan


@bare
def inverse_norms(
    X: FloatArray, D: int, count: int, norm_bound: float, out: FloatArray, work: FloatArray
) -> None:
    """Write `1 / max(‖x‖, norm_bound)` for each row of X (count, D); 0 for one that is not finite.

    And 0 for a zero row. Rows are scaled by a power of two first where squares would not be safe,
    so that 1e-200 and 1e200 come out right (SPEC 1). A row that is so short or so long that the
    inverse is no normal number stays inside the unit ball, a little or (below 1e-307) far from its
    surface. D is a multiple of 8; the squares are added in the order of `tiles`. The last
    `NORM_WORK` entries of `work` are overwritten.
    """
    free = len(work) - NORM_WORK
    work, parts = work[free : free + 24], work[free + 24 :]
    first, i = D * 0, 0  # a plain number would have its own copy of a function compiled
    while i < count:
        # Eight rows at once where all their squares are safe: the same steps for each of them.
        if i + 8 <= count:
            for k in range(8):
                store(parts, 8 * k, squares_of_row(X, (i + k) * D, D))
            total = eight_totals(parts, first)
            store(work, first, total)
            store(work, first + 8, divide(constant(1.0), root(total)))
            safe = True
            for k in range(8):
                safe = safe and SMALLEST_SQUARE < work[k] < LARGEST_SQUARE
            if safe:
                for k in range(8):
                    inverse = work[8 + k]
                    out[i + k] = min(inverse, 1.0 / norm_bound) if norm_bound > 0.0 else inverse
                i += 8
                continue
        for k in range(i, min(i + 8, count)):
            out[k] = _inverse(X, D, k * D, norm_bound, work)
        i += 8


@bare
def bound_rows(
    X: FloatArray, D: int, count: int, norm_bound: float, factors: FloatArray, work: FloatArray
) -> None:
    """Scale each row of X (count, D) by its inverse norm, which goes to `factors`.

    A row then has the bits that it gets from a loader that is given this number. `work` as for
    `inverse_norms`.
    """
    inverse_norms(X, D, count, norm_bound, factors, work)
    for i in range(count):
        factor = constant(factors[i])
        for d in range(i * D, (i + 1) * D, LANES):
            store(X, d, multiply(load(X, d), factor) if factors[i] != 0.0 else constant(0.0))


@part
def _pairs_added(parts: FloatArray) -> float:
    first: float = (parts[0] + parts[1]) + (parts[2] + parts[3])
    second: float = (parts[4] + parts[5]) + (parts[6] + parts[7])
    return first + second


@part
def _inverse(X: FloatArray, D: int, at: int, norm_bound: float, work: FloatArray) -> float:
    squares, greatest, differences = constant(0.0), constant(0.0), constant(0.0)
    for d in range(at, at + D, LANES):
        x = load(X, d)
        squares = add(squares, multiply(x, x))
        greatest = larger(magnitude(x), greatest)
        differences = add(differences, subtract(x, x))  # not a number if x is none, or infinite
    first = D * 0
    store(work, first, squares)
    store(work, first + 8, greatest)
    store(work, first + 16, differences)
    largest, broken = 0.0, 0.0
    for k in range(8):
        largest = max(largest, work[8 + k])
        broken += work[16 + k]
    if broken != 0.0 or (largest == 0.0 and norm_bound == 0.0):
        return 0.0
    exponent = 0
    if not 2.0**-400 < largest < 2.0**400:
        exponent = math.frexp(largest)[1]
        for k in range(8):
            work[k] = 0.0
        for d in range(D):
            x = math.ldexp(X[at + d], -exponent)
            work[d % 8] += x * x
    total = _pairs_added(work)
    inverse = math.ldexp(1.0 / math.sqrt(total), -exponent) if largest > 0.0 else math.inf
    if norm_bound > 0.0:
        inverse = min(inverse, 1.0 / norm_bound)
    if inverse < 2.0**-1021:
        inverse *= 1.0 - 2.0**-40
    return min(inverse, 2.0**1022)
