"""Floating-point sums as two whole numbers, so that adding them up is exact.

A number x is written as `(high · 2⁻²⁰ + low · 2⁻⁷⁰) · unit` with 0 ≤ low < 2⁵⁰; what lies below
2⁻⁷⁰ units is rounded once. Whole numbers add up without rounding, so a total over many jobs does
not depend on their order. The low word is carried into the high word at every addition, so that
neither overflows: the high word of a sum of N terms of norm ≤ 1 stays below N · 2²⁰.
"""

from __future__ import annotations

import math

from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.jit import bare

HIGH, LOW = 2.0**-20, 2.0**-70
CARRY = 50
"""Bits of the low word: HIGH / LOW = 2⁵⁰."""
LARGEST = 2.0**42
"""A part of a sum is clipped to this many units: a job of bounded terms never comes near it."""


@bare
def add_words(parts: FloatArray, unit: float, high: IntArray, low: IntArray) -> None:
    """Add the sums of jobs (jobs, entries) to the words of a total; NaN counts as 0."""
    for k in range(parts.shape[0]):
        for i in range(parts.shape[1]):
            x = parts[k, i] / unit
            if not abs(x) <= LARGEST:
                x = LARGEST if x > 0.0 else (-LARGEST if x < 0.0 else 0.0)
            whole = math.floor(x / HIGH)  # exact: HIGH is a power of two
            rest = low[i] + math.floor((x - whole * HIGH) / LOW + 0.5)
            high[i] += whole + (rest >> CARRY)
            low[i] = rest & ((1 << CARRY) - 1)
