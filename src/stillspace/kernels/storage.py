"""From the caller's array to blocks of scaled rows as columns, for each way of storing rows.

A scaled cell is `((x − center) · (1/scale)) · inverse norm`, every step element-wise and rounded
once, so it depends on its own row alone. A cell that holds the missing code sits at the centre. A
row whose inverse norm is zero is a zero row, whatever it holds.
"""

import math

import numpy as np

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.kernels.convert import convert
from stillspace.kernels.jit import jit
from stillspace.kernels.lanes import transpose
from stillspace.kernels.prefetch import prefetch

GROUP = 8
"""Rows that are converted together before they are turned into columns."""

STRIPE = 512
"""Cells of a row that are converted at a time: a group of them stays in the first cache."""


@jit
def _transpose_group(rows: FloatArray, count: int, width: int, XT: FloatArray, i: int) -> None:
    """Write the first `width` cells of `count` rows to columns i… of `XT`."""
    d = 0
    if count == GROUP:
        step, stride, target = rows.shape[1], XT.shape[1], XT.reshape(-1)
        while d + 4 <= width:
            a = d
            offsets = (
                a,
                a + step,
                a + 2 * step,
                a + 3 * step,
                a + 4 * step,
                a + 5 * step,
                a + 6 * step,
                a + 7 * step,
            )
            transpose(rows, offsets, target, d * stride + i, stride)
            d += 4
    for k in range(count):
        for e in range(d, width):
            XT[e, i + k] = rows[k, e]


@jit
def _scale_cells(
    x: AnyArray,
    center: FloatArray,
    unit: FloatArray,
    factor: float,
    missing: float,
    plain: bool,
    out: FloatArray,
) -> None:
    """Write the scaled cells of (a part of) one row."""
    width = len(x)
    if factor == 0.0:
        for d in range(width):
            out[d] = 0.0
    elif plain:
        for d in range(width):
            out[d] = np.float64(x[d]) * factor
    else:
        for d in range(width):
            value = np.float64(x[d])
            cell = ((value - center[d]) * unit[d]) * factor
            out[d] = 0.0 if value == missing else cell


@jit
def _announce(X: AnyArray, index: IntArray, first: int, d: int, width: int) -> None:
    """Have cells d…d + width of the group of rows from position `first` on brought nearer.

    Reading them from memory then overlaps with converting the cells before them.
    """
    step = max(1, 64 // X.itemsize)
    count = len(index) if len(index) > 0 else X.shape[0]
    for at in range(first, min(first + GROUP, count)):
        row = index[at] if len(index) > 0 else at
        for c in range(d, d + width, step):
            prefetch(X, row, c)


@jit
def _convert_group(
    X: AnyArray,
    rows: IntArray,
    scales: FloatArray,
    center: FloatArray,
    unit: FloatArray,
    missing: float,
    plain: bool,
    d: int,
    stop: int,
    XT: FloatArray,
    i: int,
) -> None:
    """Write columns d…stop of a group of rows, none of them zero, to columns i… of `XT`."""
    D, b = XT.shape
    a0, a1, a2, a3 = rows[0] * D, rows[1] * D, rows[2] * D, rows[3] * D
    a4, a5, a6, a7 = rows[4] * D, rows[5] * D, rows[6] * D, rows[7] * D
    s0, s1, s2, s3 = scales[0], scales[1], scales[2], scales[3]
    s4, s5, s6, s7 = scales[4], scales[5], scales[6], scales[7]
    factors = (s0, s1, s2, s3, s4, s5, s6, s7)
    for e in range(d, stop, 4):
        offsets = (a0 + e, a1 + e, a2 + e, a3 + e, a4 + e, a5 + e, a6 + e, a7 + e)
        convert(X, offsets, factors, center, unit, e, missing, plain, XT, e * b + i, b)


@jit
def load_dense(
    X: AnyArray,
    index: IntArray,
    start: int,
    center: FloatArray,
    unit: FloatArray,
    factors: FloatArray,
    missing: float,
    plain: bool,
    XT: FloatArray,
) -> None:
    """Fill `XT` (D, b) with rows start…start + b of `X`, or with those that `index` lists there."""
    D, b = XT.shape
    group = np.empty((GROUP, min(D, STRIPE)))
    rows, scales = np.empty(GROUP, dtype=np.int64), np.empty(GROUP)
    for i in range(0, b, GROUP):
        count = min(GROUP, b - i)
        for k in range(count):
            rows[k] = index[start + i + k] if len(index) > 0 else start + i + k
            scales[k] = factors[rows[k]]
        fast = X.flags.c_contiguous and count == GROUP and scales.min() > 0.0
        for d in range(0, D, STRIPE):
            width = min(STRIPE, D - d)
            if d + STRIPE < D:
                _announce(X, index, start + i, d + STRIPE, min(STRIPE, D - d - STRIPE))
            else:
                _announce(X, index, start + i + GROUP, 0, min(STRIPE, D))
            done = 0
            if fast:
                done = width // 4 * 4
                _convert_group(X, rows, scales, center, unit, missing, plain, d, d + done, XT, i)
            if done == width:
                continue
            for k in range(count):
                _scale_cells(
                    X[rows[k], d + done : d + width],
                    center[d + done : d + width],
                    unit[d + done : d + width],
                    scales[k],
                    missing,
                    plain,
                    group[k],
                )
            _transpose_group(group, count, width - done, XT[d + done : d + width], i)


@jit
def load_columns(
    columns: AnyArray,
    index: IntArray,
    start: int,
    center: FloatArray,
    unit: FloatArray,
    factors: FloatArray,
    missing: float,
    plain: bool,
    XT: FloatArray,
) -> None:
    """Fill `XT` as `load_dense` does, from an array that is stored column by column (D, n)."""
    D, b = XT.shape
    for d in range(D):
        c, u = center[d], unit[d]
        for i in range(b):
            row = start + i
            if len(index) > 0:
                row = index[row]
            value = np.float64(columns[d, row])
            cell = value if plain else (value - c) * u
            if value == missing or factors[row] == 0.0:
                cell = 0.0
            XT[d, i] = cell * factors[row]


@jit
def load_sparse(
    data: AnyArray,
    columns: AnyArray,
    limits: AnyArray,
    index: IntArray,
    start: int,
    center: FloatArray,
    unit: FloatArray,
    factors: FloatArray,
    missing: float,
    XT: FloatArray,
) -> None:
    """Fill `XT` as `load_dense` does, from compressed sparse rows without duplicates.

    A row whose columns lie outside the table, or outside what is stored, is not a row of it: it is
    read as one that is not finite.
    """
    D, b = XT.shape
    group = np.empty((GROUP, D))
    empty = np.zeros(D)  # what a cell that is not stored comes to, before the row's own factor
    if missing != 0.0:
        for d in range(D):
            empty[d] = (0.0 - center[d]) * unit[d]
    for i in range(0, b, GROUP):
        count = min(GROUP, b - i)
        for k in range(count):
            row = start + i + k
            if len(index) > 0:
                row = index[row]
            factor = factors[row]
            if factor == 0.0:
                group[k] = 0.0
                continue
            for d in range(D):
                group[k, d] = empty[d] * factor
            low, high = limits[row], limits[row + 1]
            if low < 0 or high > len(data):
                low, high = 0, 0
                group[k] = np.nan
            for at in range(low, high):
                d, value = columns[at], np.float64(data[at])
                if d < 0 or d >= D:
                    group[k] = np.nan
                    break
                cell = ((value - center[d]) * unit[d]) * factor
                group[k, d] = 0.0 if value == missing else cell
        _transpose_group(group, count, D, XT, i)


@jit
def inverse_norms(XT: FloatArray, norm_bound: float, out: FloatArray) -> None:
    """Write `1 / max(‖x‖, norm_bound)` for each column; 0 for a zero or non-finite column.

    Columns are scaled by a power of two first where squares would not be safe, so that 1e-200
    and 1e200 come out right (SPEC 1). A row that is so short or so long that the inverse is no
    normal number stays inside the unit ball, a little or (below 1e-307) far from its surface.
    """
    D, b = XT.shape
    largest, total, broken = np.zeros(b), np.zeros(b), np.zeros(b)
    for d in range(D):
        for i in range(b):
            x = XT[d, i]
            total[i] += x * x
            largest[i] = max(largest[i], abs(x))
            broken[i] += x - x  # not a number if x is none, or infinite
    for i in range(b):
        out[i] = 0.0
        if broken[i] != 0.0 or (largest[i] == 0.0 and norm_bound == 0.0):
            continue
        exponent = 0
        if not 2.0**-400 < largest[i] < 2.0**400:
            exponent = math.frexp(largest[i])[1]
            total[i] = 0.0
            for d in range(D):
                x = math.ldexp(XT[d, i], -exponent)
                total[i] += x * x
        inverse = math.ldexp(1.0 / math.sqrt(total[i]), -exponent) if largest[i] > 0.0 else math.inf
        if norm_bound > 0.0:
            inverse = min(inverse, 1.0 / norm_bound)
        if inverse < 2.0**-1021:
            inverse *= 1.0 - 2.0**-40
        out[i] = min(inverse, 2.0**1022)
