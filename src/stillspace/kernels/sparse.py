"""Sums over compressed sparse rows that cost what is stored: cells that are not stored are zeros.

The same terms with the same bits as in `passes`: leaving out a zero cell leaves out the addition of
an exact zero. Scores of a row are made in the eight parts of `tiles`, components side by side.
Only a row near the subspace is made dense, for its residual.

A block of rows takes four steps, each one function with its loops inside, because a call per row
would count references to every array: read the stored cells, make scores, weigh, add.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.kernels.jit import jit, part
from stillspace.kernels.lanes import (
    add,
    constant,
    fused,
    load,
    multiply,
    store,
    subtract,
    total,
)
from stillspace.kernels.passes import IRLS, NEWTON, SCORES, squares_of, weigh_group
from stillspace.kernels.storage import AS_STORED, one_cell
from stillspace.kernels.tiles import add_gram, eight_totals, residual


@part
def _most_cells(
    limits: IntArray, chosen: IntArray, start: int, stop: int, block: int, D: int
) -> int:
    """Return how many cells a block holds at most."""
    most = 0
    for begin in range(start, stop, block):
        count = 0
        for at in range(begin, min(begin + block, stop)):
            row = chosen[at] if len(chosen) > 0 else at
            count += min(max(limits[row + 1] - limits[row], 0), D)
        most = max(most, count)
    return most


@part
def _read(
    data: AnyArray, columns: AnyArray, limits: AnyArray, center: FloatArray, unit: FloatArray,
    missing: float, kind: int, factors: FloatArray, chosen: IntArray, start: int, stop: int,
    values: FloatArray, places: IntArray, ends: IntArray,
) -> None:  # fmt: skip
    """Write the scaled cells of rows and their columns, and where each row ends.

    A row whose columns do not ascend, or lie outside the table, is not a row of it: it adds
    nothing. (A column that stands twice would be longer here than where lengths are measured.)
    """
    D, so_far = len(center), 0
    for at in range(start, stop):
        row = chosen[at] if len(chosen) > 0 else at
        low, high, factor = limits[row], limits[row + 1], factors[row]
        first, last = so_far, -1
        if factor != 0.0 and low >= 0 and high <= len(data):
            for p in range(low, high):
                d, value = columns[p], float(data[p])
                if d <= last or d >= D:
                    so_far = first
                    break
                cell = value * factor
                if kind != AS_STORED:
                    cell = one_cell(value, d, center, unit, missing, kind, factor)
                values[so_far], places[so_far], last = cell, d, d
                so_far += 1
        ends[at - start] = so_far


@part
def _scores(
    values: FloatArray, places: IntArray, ends: IntArray, count: int, V: FloatArray, wide: int,
    r: int, Y: FloatArray, b: int, squares: FloatArray, parts: FloatArray,
) -> None:  # fmt: skip
    """Write the scores of rows to Y (r, b), and the eight parts of each ‖x‖² to `squares` (b, 8).

    V is (D, wide), wide a multiple of 8. `parts` has 8 wide entries.
    """
    begin, zero = 0, constant(0.0)
    for i in range(count):
        for q in range(0, 8 * wide, 8):
            store(parts, q, zero)
        store(squares, 8 * i, zero)
        for p in range(begin, ends[i]):
            x, d = values[p], places[p]
            k, v, cell = (d & 7) * wide, d * wide, constant(x)
            for q in range(0, wide, 8):
                store(parts, k + q, add(load(parts, k + q), multiply(cell, load(V, v + q))))
            squares[8 * i + (d & 7)] += x * x
        begin = ends[i]
        for q in range(0, wide, 8):
            low = add(
                add(load(parts, q), load(parts, q + wide)),
                add(load(parts, q + 2 * wide), load(parts, q + 3 * wide)),
            )
            high = add(
                add(load(parts, q + 4 * wide), load(parts, q + 5 * wide)),
                add(load(parts, q + 6 * wide), load(parts, q + 7 * wide)),
            )
            store(parts, q, add(low, high))
        for j in range(r):
            Y[i + j * b] = parts[j]


@part
def _add_cells(
    values: FloatArray, places: IntArray, ends: IntArray, count: int, done: FloatArray,
    W: FloatArray, w: int, b: int, r: int, wide: int, sums: FloatArray, weights: FloatArray,
) -> None:  # fmt: skip
    """Add `x wᵀ` to the block's sums (D, wide) for the rows that are not done.

    `weights` has `wide` entries, zeros from r on.
    """
    begin = 0
    for i in range(count):
        for j in range(r):
            weights[j] = W[w + i + j * b]
        if done[i] == 0.0:
            for p in range(begin, ends[i]):
                x, at = constant(values[p]), places[p] * wide
                for q in range(0, wide, 8):
                    store(sums, at + q, fused(x, load(weights, q), load(sums, at + q)))
        begin = ends[i]


@part
def _near_residuals(
    values: FloatArray, places: IntArray, ends: IntArray, i: int, D: int, V: FloatArray, r: int,
    near: float, Y: FloatArray, b: int, squares: FloatArray, dense: FloatArray, left: FloatArray,
    done: FloatArray,
) -> None:  # fmt: skip
    """Put the squared distances of near rows among the eight rows from i on into `left`.

    Their residuals go to `dense` (8, D), and 1 to `done`.
    """
    for k in range(8):
        row, norm = i + k, left[8 + k]
        if left[k] >= near or norm == 0.0:
            continue
        for q in range(k * D, (k + 1) * D):
            dense[q] = 0.0
        for p in range(ends[row - 1] if row > 0 else 0, ends[row]):
            dense[k * D + places[p]] = values[p]
        square = residual(dense, k * D, D, V, r, Y, row, b, dense, k * D)
        store(squares, 8 * row, square)
        done[row] = 1.0
    store(left, 8 + 0 * i, eight_totals(squares, 8 * i))
    for k in range(8):
        if done[i + k] == 1.0:
            left[k] = left[8 + k]


@part
def _add_residuals(
    dense: FloatArray, i: int, D: int, done: FloatArray, W: FloatArray, w: int, b: int, r: int,
    wide: int, sums: FloatArray,
) -> None:  # fmt: skip
    """Add the residuals of the near ones among eight rows to the block's sums."""
    for k in range(8):
        if done[i + k] == 1.0:
            for j in range(r):
                weight = W[w + i + k + j * b]
                for d in range(D):
                    sums[d * wide + j] += dense[k * D + d] * weight


@jit
def add_sparse(
    source: tuple[AnyArray, AnyArray, AnyArray], cells: Any, factors: FloatArray, span: Any,
    D: int, V: FloatArray, by_row: FloatArray, wide: int, r: int, used: int, kind: int,
    near: float, floor: float, cut: float, cap: float, work: FloatArray, sums: FloatArray,
    numbers: FloatArray,
) -> None:  # fmt: skip
    """Add the terms of a run of blocks to `sums` (D, wide) and `numbers`: 8, (used, used), 8 more.

    V is the basis as in `passes`, `by_row` the same as (D, wide). `work` is that of
    `passes.weigh_group`, for one block.
    """
    data, columns, limits = source
    most = _most_cells(limits, span.chosen, span.start, span.stop, span.block, len(cells.center))
    values, places = np.empty(most), np.empty(most, dtype=np.int64)
    longest = (span.block + 7) // 8 * 8
    ends, done = np.empty(longest, dtype=np.int64), np.empty(longest)
    squares, left, dense = np.empty(8 * longest), np.empty(16), np.empty(8 * D)
    block, parts, weights = np.empty(D * wide), np.empty(8 * wide), np.zeros(wide)
    for start in range(span.start, span.stop, span.block):
        count, number = min(span.block, span.stop - start), constant(0.0)
        b = (count + 7) // 8 * 8
        size = used * b
        work[: 4 * size], squares[:], done[:], block[:] = 0.0, 0.0, 0.0, 0.0
        _read(
            data, columns, limits, cells.center, cells.unit, cells.missing, cells.kind, factors,
            span.chosen, start, start + count, values, places, ends,
        )  # fmt: skip
        _scores(values, places, ends, count, by_row, wide, r, work, b, squares, parts)
        for i in range(0, b, 8):
            distances = eight_totals(squares, 8 * i)
            if kind != SCORES:
                store(left, 8 + 0 * i, distances)
                store(left, 0 * i, subtract(distances, squares_of(work, i, r, b)))
                _near_residuals(
                    values, places, ends, i, D, V, r, near, work, b, squares, dense, left, done
                )
                distances = load(left, 0 * i)
            gain = weigh_group(distances, kind, floor, cut, cap, work, i, size, r, b)
            number = add(number, gain)
            if kind in (IRLS, SCORES):
                done[i : i + 8] = 0.0
            else:
                _add_residuals(dense, i, D, done, work, 3 * size, b, r, wide, block)
        if kind != SCORES:
            _add_cells(
                values, places, ends, count, done, work, 3 * size, b, r, wide, block, weights
            )
            for q in range(0, D * wide, 8):
                store(sums, q, add(load(sums, q), load(block, q)))
        numbers[0] += total(number)
        if kind in (NEWTON, SCORES):
            add_gram(work, 2 * size, work, size, b, used, numbers, 8 + 0 * b)
