"""Discrete Laplace noise: each part of the sampler against its exact probability.

Chi-square statistics with a false alarm once in 1e6.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2

from stillspace.parts import laplace
from stillspace.parts.laplace import draw_laplace
from stillspace.parts.noise import half_laplace, seeded_generator

ALARM = 1e-6


def within(successes, trials, chance):
    low, high = binom.ppf(ALARM / 2, trials, chance), binom.isf(ALARM / 2, trials, chance)
    return low <= successes <= high


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 64, 2**64, 2**64 + 1, 3 * 2**100])
def test_integers_below_a_limit(limit):
    rng = seeded_generator(limit % 1000)
    drawn = [laplace._below(limit, rng) for _ in range(2000)]
    assert min(drawn) >= 0
    assert max(drawn) < limit
    if limit > 1:
        assert within(sum(d < limit // 2 for d in drawn), 2000, limit // 2 / limit)
    if limit == 7:
        counts = np.bincount(drawn, minlength=7)
        assert chi2.sf(np.sum((counts - 2000 / 7) ** 2 / (2000 / 7)), 6) > ALARM


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(0.7), Fraction(1)])
def test_coins_of_probability_exp(gamma):
    rng = seeded_generator(1)
    heads = sum(laplace._exp_coin(gamma, rng) for _ in range(4000))
    assert within(heads, 4000, math.exp(-gamma))


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(0.4), Fraction(1), Fraction(7, 2)])
def test_law(rate):
    """Every cell of noticeable probability, the two tails as one cell each."""
    rng, n = seeded_generator(2), 6000
    drawn = np.array([draw_laplace(rate, rng) for _ in range(n)])
    p = math.exp(-rate)
    last = max(int(math.log(n * (1 - p) / (1 + p) / 8) / float(rate)), 0)
    cells = np.arange(-last, last + 1)
    expected = n * (1 - p) / (1 + p) * p ** np.abs(cells)
    tail = n * p ** (last + 1) / (1 + p)
    counts = np.array([np.sum(drawn == k) for k in cells])
    statistic = np.sum((counts - expected) ** 2 / expected)
    for beyond in (drawn > last, drawn < -last):
        statistic += (np.sum(beyond) - tail) ** 2 / tail
    assert chi2.sf(statistic, len(cells) + 1) > ALARM


def test_a_wrong_rate_turns_it_red():
    rng, n = seeded_generator(2), 6000
    zeros = sum(draw_laplace(Fraction(1, 2), rng) == 0 for _ in range(n))
    p = math.exp(-1.0)
    assert not within(zeros, n, (1 - p) / (1 + p))


def test_half_integers():
    rng, n, epsilon = seeded_generator(3), 6000, 0.8
    drawn = np.array([half_laplace(epsilon, rng) for _ in range(n)])
    assert np.array_equal(2 * drawn, np.rint(2 * drawn))
    assert np.any(drawn % 1 == 0.5)
    p = math.exp(-epsilon / 2)
    assert within(np.sum(drawn == 0), n, (1 - p) / (1 + p))
    # P(x >= t) = e^{-εt}/(1 + e^{-ε/2}): what a threshold of propose-test-release rests on.
    assert within(np.sum(drawn >= 3.0), n, math.exp(-3 * epsilon) / (1 + p))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(ValueError, match="positive number"):
        half_laplace(epsilon, seeded_generator(0))


def test_rate_is_checked():
    with pytest.raises(ValueError, match="rate must be positive"):
        draw_laplace(Fraction(0), seeded_generator(0))
