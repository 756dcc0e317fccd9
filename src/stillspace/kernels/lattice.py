"""Gaussian lattice noise: K = round(s Z), Z ~ N(0, 1), as an integer, from uniform words.

`scale` s = 2^7 w, w an integer in [1, 2^32). The law of `draw_lattice` is within `TOTAL_VARIATION`
= 2^-128 of the law of K, if the words are independent and uniform. The proof:

1. *Rejection.* With h = 2^-7, |sZ| = w (k + u), k a non-negative integer, u in [0, 1), has density
   proportional to exp(-h²(k+u)²/2) = exp(-h²k²/2) exp(-e), e = h²(2ku + u²)/2 = (2ku + u²)/2^15.
   So: draw k with probability p_k proportional to exp(-h²k²/2), a uniform u and a uniform v, and
   keep them if v >= q, q = 1 - exp(-e). Then |K| = w k + floor(w u + 1/2), and an independent sign.
   |sZ| is nowhere half an integer with positive probability, and the sign of K = 0 is immaterial:
   this is round(sZ).
2. *Tail.* k <= `_LAST` = 1727 only, so |Z| < 13.5. Leaving out the rest costs the mass
   P(|Z| >= 13.5) <= exp(-13.5²/2) < 2^-131.
3. *Exact path* (`attempt`). The three uniforms are integers of 233, 256 and 214 bits. In one
   attempt this differs from real uniforms with probability at most
   - k: 1728 thresholds, each within 2^-232 of its true value (rounding to 2^-233, and an error
     below 2^-350 before that: `thresholds`), together 2^-221;
   - rounding w u: w 2^-256 <= 2^-224, the share of u whose last step crosses a half-integer;
   - v against q: 2^-214 for the step of v, 2^-256 for that of u (q' < 1), 2^-310 for the series;
   in all t < 2^-213. Conditioning on acceptance (probability > .99) multiplies
   by less than 3: |P(B|A) - Q(B|A)| <= t/P(A) + Q(B|A) |P(A) - Q(A)|/P(A) <= 2t/P(A).
4. *Shortcut* (`_fill`). The kernel sees only the first 41, 64 and 22 bits of the three uniforms and
   decides only what every continuation of those bits decides alike; otherwise it hands the attempt
   to the exact path, which draws the other 192 bits of each. So the law is that of the exact path:
   - k is certain unless a threshold begins with the same 41 bits;
   - e < (2k+1)/2^15, and q <= e, so v >= (2k+1)/2^15 accepts without computing q;
   - otherwise q is computed in double: the alternating series of 1 - exp(-e), e < .106, cut after
     e^5/120, is wrong by less than e^6/720 < 2^-28.9; rounding and the unseen bits of u add less
     than 2^-45. A distance of `margin` = 2^-26 on both sides of the interval of v is safe;
   - floor(w u + 1/2) is certain unless the interval [b, b+1) w / 2^64 holds a half-integer.
5. 2^-131 + 3 (2^-213) < 2^-128.

No word is used twice. The running time depends on the noise, not on the data.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

import numpy as np
from randomgen import ChaCha

from stillspace._typing import IntArray, WordArray
from stillspace.kernels.jit import bare

TOTAL_VARIATION = 2.0**-128

_STEP_BITS = 7  # h = 2^-7
_LAST = 1727  # the last cell: h (_LAST + 1) = 13.5 standard deviations
_K_BITS, _V_BITS, _EXTRA = 41, 22, 192  # first word: k, v, sign; _EXTRA: bits of a refinement
_GUIDE_BITS = 12
_V_UNIT, _WORD_UNIT, _STEP_UNIT = 2.0**-_V_BITS, 2.0**-64, 2.0 ** -(2 * _STEP_BITS + 1)
_SERIES = 320  # fixed-point bits of the exact series
_FIXED = 400  # and of the thresholds
_MARGIN = 2.0**-26
_CHUNK = 1 << 15  # attempts whose words are in memory at a time

_DONE, _UNDECIDED, _EMPTY = 0, 1, 2


def _exp_of_minus(bits: int) -> int:
    """Return exp(-2^-bits), bits > 0, in fixed point of 400 bits, wrong by less than 2^-390.

    Each of fewer than 100 terms of the series is cut off twice; the errors of those before it
    shrink with it.
    """
    total, term, n = 0, 1 << _FIXED, 0
    while term:
        total += term if n % 2 == 0 else -term
        n += 1
        term = (term >> bits) // n
    return total


@lru_cache(maxsize=1)
def thresholds() -> tuple[int, ...]:
    """Return the distribution function of k, times 2^233, rounded; the last is 2^233.

    By p_{k+1}/p_k = exp(-(2k+1) 2^-15) in fixed point of 400 bits: ratios are wrong by less than
    (k+1) 2^-389, weights (all <= 1) by less than k² 2^-389 < 2^-367, sums by less than 2^-356, and
    the total is above 1.
    """
    ratio, step = _exp_of_minus(2 * _STEP_BITS + 1), _exp_of_minus(2 * _STEP_BITS)
    weight, total, cumulative = 1 << _FIXED, 0, []
    for _ in range(_LAST + 1):
        total += weight
        cumulative.append(total)
        weight = weight * ratio >> _FIXED
        ratio = ratio * step >> _FIXED
    one = 1 << (_K_BITS + _EXTRA + 1)
    return tuple((one * c // total + 1) >> 1 for c in cumulative)


@lru_cache(maxsize=1)
def _tables() -> tuple[WordArray, IntArray]:
    """Return the first 41 bits of the thresholds, and where to begin the search among them."""
    heads = np.array([t >> _EXTRA for t in thresholds()], dtype=np.uint64)
    starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(_K_BITS - _GUIDE_BITS)
    return heads, np.searchsorted(heads, starts, side="left").astype(np.int64)


def attempt(first: int, second: int, extra: tuple[int, int, int], width: int) -> int | None:
    """Return K, or None if this attempt is rejected: the specification, in exact integers.

    `first` is made of 41 bits of k's uniform, 22 of v and the sign; `second` is 64 bits of u;
    `extra` the next 192 bits of each of the three.
    """
    k_uniform = (first >> (_V_BITS + 1)) << _EXTRA | extra[0]
    u, u_bits = second << _EXTRA | extra[1], 64 + _EXTRA
    v = ((first >> 1) & ((1 << _V_BITS) - 1)) << _EXTRA | extra[2]
    k = bisect_right(thresholds(), k_uniform)
    e_bits = 2 * u_bits + 2 * _STEP_BITS + 1
    e = ((k * u << (u_bits + 1)) + u * u) >> (e_bits - _SERIES)
    if v << (_SERIES - _V_BITS - _EXTRA) < _one_minus_exp(e):
        return None
    magnitude = width * k + ((width * u + (1 << (u_bits - 1))) >> u_bits)
    return -magnitude if first & 1 else magnitude


def _one_minus_exp(e: int) -> int:
    """Return 1 - exp(-e) in fixed point, wrong by less than 2^-310 for 0 <= e < 1/8."""
    total, term, n = 0, e, 1
    while term:
        total += term if n % 2 else -term
        n += 1
        term = (term * e >> _SERIES) // n
    return total


@bare
def _fill(
    words: WordArray, out: IntArray, width: int, tables: tuple[WordArray, IntArray], margin: float
) -> tuple[int, int, int]:
    """Fill `out` from pairs of `words`; return (entries filled, words used, status).

    Undecided: the last pair used is for the exact path, and gives the next entry.
    """
    heads, guide = tables
    done, at = 0, 0
    w = np.uint64(width)
    low32 = np.uint64(0xFFFFFFFF)
    half = np.uint64(1 << 63)
    while done < out.size:
        if at + 2 > words.size:
            return done, at, _EMPTY
        first, u = words[at], words[at + 1]
        at += 2
        # k: the number of thresholds below its uniform
        head = first >> np.uint64(_V_BITS + 1)
        k = guide[head >> np.uint64(_K_BITS - _GUIDE_BITS)]
        while heads[k] < head:
            k += 1
        if heads[k] == head:
            return done, at, _UNDECIDED
        # v against q
        v = np.int64((first >> np.uint64(1)) & np.uint64((1 << _V_BITS) - 1))
        if v < (2 * k + 1) << (_V_BITS - 2 * _STEP_BITS - 1):
            x = np.float64(u) * _WORD_UNIT
            e = (2.0 * k + x) * x * _STEP_UNIT
            q = e * (1.0 - e / 2.0 * (1.0 - e / 3.0 * (1.0 - e / 4.0 * (1.0 - e / 5.0))))
            if (v + 1) * _V_UNIT <= q - margin:
                continue
            if v * _V_UNIT < q + margin:
                return done, at, _UNDECIDED
        # w u = j + rest / 2^64, by the two halves of u; then to the nearest integer
        below = (u & low32) * w
        above = (u >> np.uint64(32)) * w + (below >> np.uint64(32))
        rest = (above << np.uint64(32)) | (below & low32)
        j = np.int64(above >> np.uint64(32)) + np.int64(rest >> np.uint64(63))
        if (rest ^ half) > ~w + np.uint64(1):  # rest + 2^63 (mod 2^64) > 2^64 - w
            return done, at, _UNDECIDED
        magnitude = width * k + j
        out[done] = -magnitude if first & np.uint64(1) else magnitude
        done += 1
    return done, at, _DONE


_ALL_ONES = np.uint64(2**64 - 1)
"""As NumPy's type: it takes longer to look at a whole number of Python than to draw 40 words."""

MANY_WORDS = 1 << 12
"""From so many words on, `chacha` makes them faster: below, handling the state takes longer."""


def next_words(rng: np.random.Generator, count: int) -> WordArray:
    """Return the next words of the generator. The generator then stands behind them."""
    source = rng.bit_generator
    if type(source) is not ChaCha:
        # for some other generators random_raw has 32 random bits only
        return rng.integers(0, _ALL_ONES, size=count, dtype=np.uint64, endpoint=True)
    if count < MANY_WORDS:  # the same words, without numpy's checks, which take longer
        return np.asarray(source.random_raw(count))
    from stillspace.kernels.chacha import many_words  # noqa: PLC0415  (small fits need none)

    return many_words(source, count)


def _extra(rng: np.random.Generator) -> tuple[int, int, int]:
    count = _EXTRA // 64
    words = [int(word) for word in next_words(rng, 3 * count)]
    one, two, three = (
        sum(word << (64 * i) for i, word in enumerate(words[j : j + count]))
        for j in range(0, 3 * count, count)
    )
    return one, two, three


def draw_lattice(
    scale: int, count: int, rng: np.random.Generator, *, margin: float = _MARGIN
) -> IntArray:
    """Return `count` independent draws of round(scale Z).

    `scale` is a multiple of 2^7 below 2^39. A larger `margin` sends more attempts to the exact
    path: the law stays the same.
    """
    width, remainder = divmod(scale, 1 << _STEP_BITS)
    if remainder or not 1 <= width < 1 << 32:
        raise ValueError(f"scale must be a multiple of 128 in [128, 2**39), got {scale}")
    if margin < _MARGIN:
        raise ValueError(f"margin must be at least 2**-26 for the proof, got {margin}")
    tables = _tables()
    out = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        attempts = min(_CHUNK, (count - done) + (count - done) // 128 + 2)
        words, status = next_words(rng, 2 * attempts), _UNDECIDED
        while status == _UNDECIDED:
            filled, used, status = _fill(words, out[done:], width, tables, margin)
            done += filled
            if status == _UNDECIDED:
                first, second = int(words[used - 2]), int(words[used - 1])
                drawn = attempt(first, second, _extra(rng), width)
                if drawn is not None:
                    out[done] = drawn
                    done += 1
            words = words[used:]
    return out
