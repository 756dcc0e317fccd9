"""Many words of a ChaCha20 generator at once: the next words of its own stream.

`randomgen` makes one block after another. Here sixteen blocks are made side by side, in a quarter
of the time. The words are the same, and the generator then stands behind them: a test compares
words and state with those of `randomgen`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from randomgen import ChaCha

from stillspace._typing import WordArray
from stillspace.kernels.jit import bare, part

Halves: TypeAlias = npt.NDArray[np.uint32]
"""Halves of words. Sixteen of them are a block; the generator counts its stream in halves."""

SIDE = 16
"""Blocks that are made side by side."""

_BLOCK, _ROUNDS = 16, 20
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype=np.uint32)


def many_words(source: ChaCha, count: int) -> WordArray:
    """Return the next `count` words of the generator, and set it behind them.

    Under the generator's own lock, as `random_raw`: threads that share it would else get the same
    words, since compiled code runs without the GIL.
    """
    with source.lock:
        state = source.state
        inner = state["state"]
        place, high = inner["ctr"].tolist()
        end = place + 2 * count
        if inner["rounds"] != _ROUNDS or high != 0 or end >= 1 << 63:
            return np.asarray(source.random_raw(count))
        first, last = place // _BLOCK, end // _BLOCK
        blocks = np.empty((-(-(last + 1 - first) // SIDE) * SIDE, _BLOCK), dtype=np.uint32)
        start = np.zeros(_BLOCK, dtype=np.uint32)
        start[:4], start[4:12] = _CONSTANTS, inner["keysetup"]
        work = np.empty((2, _BLOCK, SIDE), dtype=np.uint32)
        fill_blocks(start, first, work[0], work[1], blocks)
        inner["ctr"][0], inner["block"] = end, blocks[last - first].copy()
        source.state = state
    halves = blocks.reshape(-1)[place - first * _BLOCK : end - first * _BLOCK]
    return (halves if place % 2 == 0 else halves.copy()).view(np.uint64)


@part
def _turned(x: Any, left: int) -> Any:
    return np.uint32((x << np.uint32(left)) | (x >> np.uint32(32 - left)))


@part
def _quarter(x: Halves, i: int, j: int, k: int, m: int) -> None:
    """Do a quarter round on the halves i, j, k, m of all blocks (RFC 8439)."""
    for lane in range(SIDE):
        a, b, c, d = x[i, lane], x[j, lane], x[k, lane], x[m, lane]
        a = np.uint32(a + b)
        d = _turned(d ^ a, 16)
        c = np.uint32(c + d)
        b = _turned(b ^ c, 12)
        a = np.uint32(a + b)
        d = _turned(d ^ a, 8)
        c = np.uint32(c + d)
        b = _turned(b ^ c, 7)
        x[i, lane], x[j, lane], x[k, lane], x[m, lane] = a, b, c, d


@bare
def fill_blocks(start: Halves, counter: int, first: Halves, x: Halves, out: Halves) -> None:
    """Fill `out` (blocks, 16) with the blocks from this counter on: a multiple of `SIDE`."""
    for at in range(0, out.shape[0], SIDE):
        for k in range(_BLOCK):
            for lane in range(SIDE):
                first[k, lane] = start[k]
        for lane in range(SIDE):
            number = np.uint64(counter + at + lane)
            first[12, lane] = np.uint32(number & np.uint64(0xFFFFFFFF))
            first[13, lane] = np.uint32(number >> np.uint64(32))
        for k in range(_BLOCK):
            for lane in range(SIDE):
                x[k, lane] = first[k, lane]
        for _ in range(_ROUNDS // 2):
            _quarter(x, 0, 4, 8, 12)
            _quarter(x, 1, 5, 9, 13)
            _quarter(x, 2, 6, 10, 14)
            _quarter(x, 3, 7, 11, 15)
            _quarter(x, 0, 5, 10, 15)
            _quarter(x, 1, 6, 11, 12)
            _quarter(x, 2, 7, 8, 13)
            _quarter(x, 3, 4, 9, 14)
        for lane in range(SIDE):
            for k in range(_BLOCK):
                out[at + lane, k] = np.uint32(x[k, lane] + first[k, lane])
