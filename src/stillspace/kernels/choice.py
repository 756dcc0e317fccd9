"""Exact draws of binomial counts and of uniformly random subsets, from uniform words.

*Counts* (`draw_binomial`). Inversion: the distribution function of Binomial(n, q), q a float and
so a fraction with a power of two below, is tabulated once for each (n, q) in integers of 256 bits,
and a uniform number of 256 bits is looked up in it. Only its first 64 bits are drawn at first; the
other 192 follow where the first equal the head of a threshold. The law is within
`BINOMIAL_ERROR` = 2^-128 of the binomial in total variation, if words are independent and uniform:

1. Weights run outward from the mode m, w_m = 2^256, by the exact ratio of neighbours, rounded
   down. Going outward the ratios are <= 1 and fall, so after i steps a weight is too small by less
   than i units, and N weights together by less than N²/2 units.
2. Each side ends at the first weight below 2^56, or at 0 or n. Beyond it the ratios are not above
   ρ = 1 - 1/(i + 1), i the number of steps, for else the weight could not have fallen to 2^-200
   w_m while ratios fall: w_i >= ρ^i w_m would be > w_m / 4. So the tail has less than
   2^56 (i + 1) units.
3. The sum is at least 2^256, N < 2^30 (checked): in all less than
   (2^60 + 2 · 2^56 · 2^30) / 2^256 < 2^-168, twice that after the division by the sum, and rounding
   N thresholds to 2^-256 adds 2^-226.

*Subsets* (`draw_subsets`). Uniform integers below n, by the high bits of half a word and
rejection; one that is already there is drawn again. So each new member is uniform on those not yet
in: every subset of the size asked for is equally likely. More than half of n: the complement is
drawn. Exact.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache

import numpy as np

from stillspace._typing import IntArray, WordArray
from stillspace.kernels.jit import bare, part
from stillspace.kernels.lattice import next_words

BINOMIAL_ERROR = 2.0**-128
"""Total-variation error of one count."""

_BITS, _HEAD = 256, 64
_SMALLEST = 1 << 56
_LONGEST = 1 << 30
_EMPTY_SLOT = -1
_CHUNK = 1 << 18  # words in memory at a time


def _weights(n: int, odds: Fraction, mode: int, step: int) -> list[int]:
    """Return the weights from next to the mode outward, in units of 2^-256 of the mode's."""
    over, under = odds.numerator, odds.denominator
    found: list[int] = []
    weight, k = 1 << _BITS, mode
    while weight >= _SMALLEST and 0 <= k + step <= n:
        if step > 0:
            weight = weight * ((n - k) * over) // ((k + 1) * under)
        else:
            weight = weight * (k * under) // ((n - k + 1) * over)
        k += step
        found.append(weight)
    return found


@lru_cache(maxsize=64)
def binomial_thresholds(n: int, q: float) -> tuple[int, tuple[int, ...]]:
    """Return the first count of the table, and P(count <= first + i) · 2^256 for each i."""
    odds = Fraction(q) / (1 - Fraction(q))
    mode = min(int((n + 1) * Fraction(q)), n)
    below, above = _weights(n, odds, mode, -1), _weights(n, odds, mode, 1)
    weights = [*reversed(below), 1 << _BITS, *above]
    if len(weights) >= _LONGEST:
        raise ValueError(f"a binomial of {n} rows at rate {q} is too wide to be tabulated.")
    total, cumulative, thresholds = sum(weights), 0, []
    while weights[-1] == 0:  # below 2^-256 of the largest: their threshold would be 1
        weights.pop()
    for weight in weights:
        cumulative += weight
        thresholds.append((cumulative << _BITS) // total)
    return mode - len(below), tuple(thresholds)


@lru_cache(maxsize=64)
def _heads(n: int, q: float) -> WordArray:
    """Return the first 64 bits of the thresholds below 1, of which the last is not one."""
    _, thresholds = binomial_thresholds(n, q)
    return np.array([t >> (_BITS - _HEAD) for t in thresholds[:-1]], dtype=np.uint64)


def draw_binomial(n: int, q: float, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` independent draws of Binomial(n, q), 0 < q < 1."""
    first, thresholds = binomial_thresholds(n, q)
    heads = _heads(n, q)
    words = next_words(rng, count)
    drawn = first + np.searchsorted(heads, words, side="right")
    undecided = drawn - first != np.searchsorted(heads, words, side="left")
    for i in np.flatnonzero(undecided):
        rest = sum(int(word) << (64 * j) for j, word in enumerate(next_words(rng, 3)))
        drawn[i] = first + bisect_right(thresholds, int(words[i]) << (_BITS - _HEAD) | rest)
    return drawn


@part
def _insert(slots: IntArray, value: int | np.int64) -> bool:
    """Put a value into an open hash table whose size is a power of two; False if it was there."""
    mask = slots.size - 1
    at = (value * 0x9E3779B1) & mask
    while slots[at] != _EMPTY_SLOT:
        if slots[at] == value:
            return False
        at = (at + 1) & mask
    slots[at] = value
    return True


@bare
def _fill(
    words: WordArray,
    n: int,
    shift: int,
    ends: IntArray,
    out: IntArray,
    at: tuple[int, int],
    slots: IntArray,
) -> tuple[int, int]:
    """Draw on from (subset, entry) until the subsets or the words are used up; return the next.

    `ends` are the ends of the subsets in `out`. A word gives two integers of 32 - shift bits, or
    one of 64 - shift for n above 2^32.
    """
    subset, done = at
    slots[:] = _EMPTY_SLOT
    for i in range(ends[subset - 1] if subset > 0 else 0, done):
        _insert(slots, out[i])
    halves = 2 if n <= 1 << 32 else 1
    for half in range(words.size * halves):
        while subset < ends.size and done == ends[subset]:
            subset += 1
            slots[:] = _EMPTY_SLOT
        if subset == ends.size:
            break
        word = words[half // halves]
        if halves == 2:
            word = (word >> np.uint64(32 * (half & 1))) & np.uint64(0xFFFFFFFF)
        value = np.int64(word >> np.uint64(shift))
        if value < n and _insert(slots, value):
            out[done] = value
            done += 1
    return subset, done


def draw_subsets(n: int, sizes: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return independent uniform subsets of 0…n-1 of the given sizes.

    As (offsets, members): subset k is `members[offsets[k]:offsets[k + 1]]`, in random order.
    """
    others = 2 * sizes > n
    drawn = np.where(others, n - sizes, sizes)
    offsets = _offsets(drawn)
    members = _draw_members(n, drawn, offsets, rng)
    if others.any():
        everything = np.arange(n)
        parts = np.split(members, offsets[1:-1])
        for k in np.flatnonzero(others):
            parts[k] = rng.permutation(np.delete(everything, parts[k]))
        return _offsets(sizes), np.concatenate(parts)
    return offsets, members


def _offsets(sizes: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _draw_members(n: int, sizes: IntArray, offsets: IntArray, rng: np.random.Generator) -> IntArray:
    out = np.empty(offsets[-1], dtype=np.int64)
    bits = max(n - 1, 0).bit_length()
    width, halves = (32, 2) if n <= 1 << 32 else (64, 1)
    slots = np.empty(1 << int(2 * sizes.max(initial=1)).bit_length(), dtype=np.int64)
    at = (0, 0)
    while at[1] < out.size:
        # a half is below n with probability n / 2^bits and new in at least half of the cases
        wanted = (out.size - at[1]) * 2.0**bits / n / halves
        words = next_words(rng, min(int(1.1 * wanted) + 8, _CHUNK))
        at = _fill(words, n, width - bits, offsets[1:], out, at, slots)
    return out
