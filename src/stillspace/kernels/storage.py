"""From the caller's array to blocks of scaled rows as columns, for each way of storing rows.

A scaled cell is `((x − center) · (1/scale)) · inverse norm`, every step element-wise and rounded
once, so it depends on its own row alone. A cell that holds the missing code sits at the centre, and
so does NaN if `kind` is FILLED. A row whose inverse norm is zero is a zero row, whatever it holds.

All loaders take the same arguments after their source: the scaling; the numbers of the rows and
their inverse norms; how many, a multiple of 8; and where the cells go: that of coordinate d and
the i-th row to X[step · d + jump · (i // 8) + i % 8].
What is more than there are rows to load is filled up with any row and an inverse norm of zero.
"""

from __future__ import annotations

import math
from typing import Any

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.kernels.convert import turned
from stillspace.kernels.jit import jit, part
from stillspace.kernels.lanes import (
    LANES,
    add,
    constant,
    larger,
    load,
    magnitude,
    multiply,
    spread,
    store,
    subtract,
    where_number,
    where_unequal,
)
from stillspace.kernels.prefetch import prefetch

AS_STORED, PLACED, FILLED = 0, 1, 2
"""What is done to a cell: nothing; centred and scaled; the same, with NaN at the centre."""

STRIPE = 512
"""Cells of a row that are converted at a time, while the next ones are on their way."""


@part
def _clear_zero_rows(
    factors: FloatArray, b: int, X: FloatArray, D: int, step: int, jump: int
) -> None:
    """Make the columns of rows without an inverse norm zero, whatever the rows hold."""
    for i in range(b):
        if factors[i] == 0.0:
            to = i // 8 * jump + i % 8
            for at in range(to, to + D * step, step):
                X[at] = 0.0


@part
def _placed(x: Any, d: int, center: FloatArray, unit: FloatArray, missing: float, kind: int) -> Any:
    """Return the cells of coordinate d of eight rows, centred and in units of the scale."""
    cell = multiply(subtract(x, spread(center, d)), spread(unit, d))
    cell = where_unequal(x, constant(missing), cell)
    return where_number(x, cell) if kind == FILLED else cell


@part
def _gone(value: float, missing: float, kind: int) -> bool:
    """Whether a cell is missing."""
    return value == missing or (kind == FILLED and math.isnan(value))


@jit
def load_dense(
    source: tuple[AnyArray], center: FloatArray, unit: FloatArray, missing: float, kind: int,
    rows: IntArray, factors: FloatArray, b: int, X: FloatArray, step: int, jump: int,
) -> None:  # fmt: skip
    """Load rows of an array (n, D) of any strides."""
    cells, D = source[0], len(center)
    whole = D // 4 * 4 if cells.flags.c_contiguous else 0
    line, to = 64 // cells.itemsize, 0
    for i in range(0, b, LANES):
        a0, a1, a2, a3 = rows[i] * D, rows[i + 1] * D, rows[i + 2] * D, rows[i + 3] * D
        a4, a5, a6, a7 = rows[i + 4] * D, rows[i + 5] * D, rows[i + 6] * D, rows[i + 7] * D
        scale = load(factors, i)
        for d in range(0, whole, STRIPE):
            # have the next stripe brought nearer: of these rows, or the first of the next ones
            more = d + STRIPE < whole or i + LANES == b
            begin, near = (d + STRIPE, i) if more else (0, i + LANES)
            for k in range(near, near + LANES):
                for e in range(begin, min(begin + STRIPE, whole), line):
                    prefetch(cells, rows[k], e)
            for e in range(d, min(d + STRIPE, whole), 4):
                x0, x1, x2, x3 = turned(
                    cells, (a0 + e, a1 + e, a2 + e, a3 + e, a4 + e, a5 + e, a6 + e, a7 + e)
                )
                if kind != AS_STORED:
                    x0 = _placed(x0, e, center, unit, missing, kind)
                    x1 = _placed(x1, e + 1, center, unit, missing, kind)
                    x2 = _placed(x2, e + 2, center, unit, missing, kind)
                    x3 = _placed(x3, e + 3, center, unit, missing, kind)
                at = to + e * step
                store(X, at, multiply(x0, scale))
                store(X, at + step, multiply(x1, scale))
                store(X, at + 2 * step, multiply(x2, scale))
                store(X, at + 3 * step, multiply(x3, scale))
        to += jump
    for d in range(whole, D):
        for i in range(b):
            value = float(cells[rows[i], d])
            cell = value if kind == AS_STORED else (value - center[d]) * unit[d]
            at = step * d + i // 8 * jump + i % 8
            X[at] = 0.0 if _gone(value, missing, kind) else cell * factors[i]
    _clear_zero_rows(factors, b, X, D, step, jump)


@jit
def load_columns(
    source: tuple[AnyArray], center: FloatArray, unit: FloatArray, missing: float, kind: int,
    rows: IntArray, factors: FloatArray, b: int, X: FloatArray, step: int, jump: int,
) -> None:  # fmt: skip
    """Load rows of an array that is stored column by column (D, n)."""
    columns, D = source[0], len(center)
    for d in range(D):
        for i in range(b):
            value = float(columns[d, rows[i]])
            cell = value if kind == AS_STORED else (value - center[d]) * unit[d]
            at = step * d + i // 8 * jump + i % 8
            X[at] = 0.0 if _gone(value, missing, kind) else cell * factors[i]
    _clear_zero_rows(factors, b, X, D, step, jump)


@jit
def load_sparse(
    source: tuple[AnyArray, AnyArray, AnyArray], center: FloatArray, unit: FloatArray,
    missing: float, kind: int, rows: IntArray, factors: FloatArray, b: int, X: FloatArray,
    step: int, jump: int,
) -> None:  # fmt: skip
    """Load compressed sparse rows without duplicates; a cell that is not stored is a zero.

    A row whose columns lie outside the table, or outside what is stored, is not a row of it: it is
    read as one that is not finite.
    """
    data, columns, limits = source
    D, to = len(center), 0
    for i in range(0, b, LANES):
        scale = load(factors, i)
        for d in range(D):
            # what a cell that is not stored comes to
            empty = (0.0 - center[d]) * unit[d] if missing != 0.0 and kind != AS_STORED else 0.0
            store(X, to + d * step, multiply(constant(empty), scale))
        for k in range(i, i + LANES):
            low, high, at = limits[rows[k]], limits[rows[k] + 1], to + k - i
            broken = low < 0 or high > len(data)
            if not broken:
                for p in range(low, high):
                    d, value = columns[p], float(data[p])
                    if d < 0 or d >= D:
                        broken = True
                        break
                    cell = value if kind == AS_STORED else (value - center[d]) * unit[d]
                    X[at + d * step] = 0.0 if _gone(value, missing, kind) else cell * factors[k]
            if broken:
                for q in range(at, at + D * step, step):
                    X[q] = math.nan
        to += jump
    _clear_zero_rows(factors, b, X, D, step, jump)


@jit
def inverse_norms(
    X: FloatArray, D: int, b: int, norm_bound: float, work: FloatArray, out: FloatArray
) -> None:
    """Write `1 / max(‖x‖, norm_bound)` for each column; 0 for a zero or non-finite column.

    Columns are scaled by a power of two first where squares would not be safe, so that 1e-200
    and 1e200 come out right (SPEC 1). A row that is so short or so long that the inverse is no
    normal number stays inside the unit ball, a little or (below 1e-307) far from its surface.
    `X` (D, b) is flat, b a multiple of 8; `work` has 24 entries.
    """
    for i in range(0, len(out), LANES):
        squares, largest, broken = constant(0.0), constant(0.0), constant(0.0)
        for d in range(D):
            x = load(X, d * b + i)
            squares = add(squares, multiply(x, x))
            largest = larger(magnitude(x), largest)
            broken = add(broken, subtract(x, x))  # not a number if x is none, or infinite
        store(work, 0, squares)
        store(work, 8, largest)
        store(work, 16, broken)
        for k in range(i, min(i + 8, len(out))):
            out[k] = _inverse(X, D, b, k, norm_bound, work, k - i)


@part
def _inverse(
    X: FloatArray, D: int, b: int, i: int, norm_bound: float, work: FloatArray, k: int
) -> float:
    total, largest, broken = work[k], work[k + 8], work[k + 16]
    if broken != 0.0 or (largest == 0.0 and norm_bound == 0.0):
        return 0.0
    exponent = 0
    if not 2.0**-400 < largest < 2.0**400:
        exponent = math.frexp(largest)[1]
        total = 0.0
        for d in range(D):
            x = math.ldexp(X[d * b + i], -exponent)
            total += x * x
    inverse = math.ldexp(1.0 / math.sqrt(total), -exponent) if largest > 0.0 else math.inf
    if norm_bound > 0.0:
        inverse = min(inverse, 1.0 / norm_bound)
    if inverse < 2.0**-1021:
        inverse *= 1.0 - 2.0**-40
    return min(inverse, 2.0**1022)
