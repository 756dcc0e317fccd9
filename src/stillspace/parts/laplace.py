"""Discrete Laplace noise, exactly: P(K = k) ∝ exp(−rate·|k|) on the integers, from uniform words.

Canonne, Kamath and Steinke (2020), algorithms 1 and 2, in Python's integers: no floating point, so
no error at all, if the words are independent and uniform. `rate` is a fraction; a float is one.

1. *exp(−γ), 0 ≤ γ ≤ 1.* Flip coins of probability γ/1, γ/2, γ/3, … until one fails, at the N-th.
   Then P(N > n) = γⁿ/n!, so P(N is odd) = Σ (−γ)ⁿ/n! = exp(−γ).
2. *Geometric.* With rate = s/t: U uniform below t, kept with probability exp(−U/t); V counts heads
   of coins exp(−1); then U + tV has P(x) ∝ exp(−x/t), and ⌊(U + tV)/s⌋ has P(y) ∝ exp(−y·s/t).
3. *Sign.* A fair one, and the pair (−, 0) is drawn again, so that 0 is not counted twice.

The running time depends on the noise, not on the data.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

_WORD = 64


def _below(limit: int, rng: np.random.Generator) -> int:
    """Return a uniform integer in [0, limit), by rejection."""
    bits = (limit - 1).bit_length()
    count = -(-bits // _WORD)
    while True:
        words = rng.integers(0, 2**64, size=count, dtype=np.uint64) if count else ()
        drawn = sum(int(word) << (_WORD * i) for i, word in enumerate(words))
        drawn >>= _WORD * count - bits
        if drawn < limit:
            return drawn


def _coin(chance: Fraction, rng: np.random.Generator) -> bool:
    """Return True with the given probability."""
    return _below(chance.denominator, rng) < chance.numerator


def _exp_coin(gamma: Fraction, rng: np.random.Generator) -> bool:
    """Return True with probability exp(−γ), 0 ≤ γ ≤ 1."""
    n = 1
    while _coin(gamma / n, rng):
        n += 1
    return n % 2 == 1


def draw_laplace(rate: Fraction, rng: np.random.Generator) -> int:
    """Return one draw of P(K = k) ∝ exp(−rate·|k|)."""
    if rate <= 0:
        raise ValueError(f"rate must be positive, got {float(rate)}")
    s, t = rate.numerator, rate.denominator
    one = Fraction(1)
    while True:
        u = _below(t, rng)
        if not _exp_coin(Fraction(u, t), rng):
            continue
        v = 0
        while _exp_coin(one, rng):
            v += 1
        size = (u + t * v) // s
        negative = _below(2, rng) == 1
        if size or not negative:
            return -size if negative else size
