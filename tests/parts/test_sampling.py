"""The laws of the selections, tested with stated false-alarm rates, and their facts."""

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import stats

from stillspace.kernels import choice
from stillspace.parts.noise import seeded_generator
from stillspace.parts.sampling import All, Poisson, WithoutReplacement, WithReplacement

N, B, DRAWS = 40, 10, 20_000


def counts(sampling):
    rng = seeded_generator(11)
    total = np.zeros(N)
    sizes = []
    pairs = 0
    for _ in range(DRAWS):
        chosen = sampling.draws(N, 1, rng)[0]
        np.add.at(total, chosen, 1)
        sizes.append(len(chosen))
        pairs += int(0 in chosen and 1 in chosen)
    return total, np.array(sizes), pairs


@pytest.mark.parametrize(
    ("sampling", "variance", "pair"),
    [
        (Poisson(0.25), 0.25 * 0.75, 1 / 16),
        (WithoutReplacement(B, N), 0.25 * 0.75, (B / N) * (B - 1) / (N - 1)),
        (WithReplacement(B, N), B / N * (1 - 1 / N), None),
    ],
    ids=["poisson", "without", "with"],
)
def test_each_row_and_each_pair_comes_as_often_as_it_should(sampling, variance, pair):
    """Normal approximations at 6.2 standard deviations: a false alarm a 1e9 draws."""
    total, sizes, pairs = counts(sampling)
    sd = np.sqrt(DRAWS * variance)
    assert np.abs(total - DRAWS * 0.25).max() < 6.2 * sd
    if pair is not None:
        assert abs(pairs - DRAWS * pair) < 6.2 * np.sqrt(DRAWS * pair * (1 - pair))
    if not isinstance(sampling, Poisson):
        assert set(sizes) == {B}


def test_poisson_batch_sizes_are_binomial():
    _, sizes, _ = counts(Poisson(0.25))
    observed = np.bincount(sizes, minlength=N + 1)[2:21]
    expected = stats.binom.pmf(np.arange(2, 21), N, 0.25) * DRAWS
    keep = expected > 20
    chi2 = np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep])
    assert stats.chi2.sf(chi2, keep.sum() - 1) > 1e-6


def test_draws_with_replacement_repeat_rows():
    rng = seeded_generator(5)
    repeats = sum(len(set(WithReplacement(B, N).draws(N, 1, rng)[0])) < B for _ in range(2000))
    none = np.prod(1 - np.arange(B) / N)
    assert abs(repeats - 2000 * (1 - none)) < 6.2 * np.sqrt(2000 * none * (1 - none))


def test_all_means_all():
    rng = seeded_generator(0)
    assert All().draws(N, 1, rng) is None
    assert np.array_equal(np.sort(Poisson(1.0).draws(N, 1, rng)[0]), np.arange(N))


@pytest.mark.parametrize(
    "sampling",
    [Poisson(0.2), Poisson(0.8), Poisson(1.0), WithoutReplacement(9, N), WithoutReplacement(35, N)],
    ids=str,
)
def test_the_order_of_a_selection_is_random(sampling):
    """Otherwise the rounding of a sum would depend on the order of the table.

    Whether row 0 comes before row N − 1 is a fair coin: 6.2 standard deviations, false alarm 1e-9.
    """
    rng, first, both = seeded_generator(3), 0, 0
    drawn = sampling.draws(N, 4000, rng)
    for k in range(4000):
        places = [np.flatnonzero(drawn[k] == row) for row in (0, N - 1)]
        if all(map(len, places)):
            both += 1
            first += int(places[0][0] < places[1][0])
    assert both > 50
    assert abs(first - both / 2) < 6.2 * np.sqrt(both / 4)


def test_poisson_reads_any_number_of_rows():
    assert len(Poisson(0.5).draws(0, 1, seeded_generator(0))[0]) == 0
    assert set(Poisson(0.999999).draws(1, 1, seeded_generator(0))[0]) <= {0}


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan")])
def test_a_rate_is_a_probability(rate):
    with pytest.raises(ValueError, match="rate"):
        Poisson(rate)


@pytest.mark.parametrize("make", [WithoutReplacement, WithReplacement])
@pytest.mark.parametrize("size", [0, N + 1])
def test_a_batch_is_not_larger_than_the_rows(make, size):
    with pytest.raises(ValueError, match="batch_size"):
        make(size, N)


def test_public_divisors():
    assert All().expected_size(N) == N
    assert Poisson(0.25).expected_size(N) == 10
    assert WithReplacement(B, N).expected_size(N) == B


# --- many selections at once ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampling",
    [Poisson(0.25), Poisson(0.9), WithoutReplacement(B, N), WithReplacement(B, N)],
    ids=["poisson", "dense", "without", "with"],
)
def test_stacked_selections_have_the_law_of_single_ones(sampling):
    """Rows at 6.2 standard deviations, sizes by χ² at 1e-6: false alarms below 1e-5 in all."""
    draws = sampling.draws(N, DRAWS, seeded_generator(2))
    assert len(draws.offsets) == DRAWS + 1
    sizes = np.diff(draws.offsets)
    mean = sampling.expected_size(N) / N
    row_variance = mean * (1 - (1 / N if isinstance(sampling, WithReplacement) else mean))
    total = np.bincount(draws.chosen, minlength=N)
    assert np.abs(total - DRAWS * mean).max() < 6.2 * np.sqrt(DRAWS * row_variance)
    if isinstance(sampling, Poisson):
        expected = stats.binom.pmf(np.arange(N + 1), N, sampling.rate) * DRAWS
        keep = expected > 20
        observed = np.bincount(sizes, minlength=N + 1)
        chi2 = np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep])
        assert stats.chi2.sf(chi2, keep.sum() - 1) > 1e-6
    else:
        assert set(sizes) == {B}
    if not isinstance(sampling, WithReplacement):
        assert all(len(set(draws[i])) == sizes[i] for i in range(200))


@pytest.mark.parametrize(("n", "size"), [(5, 2), (6, 3), (5, 4), (4, 0), (4, 4)])
def test_every_subset_is_equally_likely(n, size):
    """χ² over all subsets at 1e-6."""
    count = 20_000
    offsets, members = choice.draw_subsets(n, np.full(count, size), seeded_generator(4))
    parts = np.split(members, offsets[1:-1])
    found = dict.fromkeys(combinations(range(n), size), 0)
    for part in parts:
        found[tuple(sorted(int(i) for i in part))] += 1
    assert len(found) == comb(n, size)
    expected = count / len(found)
    chi2 = sum((seen - expected) ** 2 / expected for seen in found.values())
    assert len(found) == 1 or stats.chi2.sf(chi2, len(found) - 1) > 1e-6


def test_subsets_go_on_where_the_words_ran_out(monkeypatch):
    """The same words in small portions give the same subsets: nothing is drawn again."""

    tape = choice.next_words(seeded_generator(9), 1000)
    answers = []
    for chunk in (1 << 18, 3):
        left = list(tape)

        def take(rng, count, left=left):
            return np.array([left.pop(0) for _ in range(count)])

        monkeypatch.setattr(choice, "next_words", take)
        monkeypatch.setattr(choice, "_CHUNK", chunk)
        answers.append(choice.draw_subsets(50, np.array([7, 0, 20, 1, 25]), None))
    for one, other in zip(*answers, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("n", [1, 2, 2**31 + 5, 2**32, 2**33 + 1])
def test_subsets_of_many_rows(n):
    size = min(n, 300)
    _, members = choice.draw_subsets(n, np.array([size]), seeded_generator(0))
    assert len(set(members)) == size
    assert members.min() >= 0
    assert members.max() < n
    if n > 1000:  # 300 uniform numbers: a maximum below a half has probability 2^-300
        assert members.max() > n / 2


@pytest.mark.parametrize(("n", "q"), [(1, 0.5), (7, 0.3), (40, 2.0**-20), (30, 0.999), (0, 0.5)])
def test_binomial_thresholds_are_exact_where_the_whole_law_fits(n, q):
    first, thresholds = choice.binomial_thresholds(n, q)
    rate, cumulative = Fraction(q), Fraction(0)
    for k in range(n + 1):
        cumulative += comb(n, k) * rate**k * (1 - rate) ** (n - k)
        i = min(k - first, len(thresholds) - 1)
        got = Fraction(thresholds[i], 2**256) if i >= 0 else Fraction(0)
        assert abs(got - cumulative) < Fraction(1, 2**150)


@pytest.mark.parametrize(("n", "q"), [(10**6, 1e-3), (10**5, 0.5), (10**9, 1e-6)])
def test_binomial_tables_are_narrow_and_close(n, q):
    first, thresholds = choice.binomial_thresholds(n, q)
    sd = np.sqrt(n * q * (1 - q))
    assert len(thresholds) < 45 * sd
    assert thresholds[-1] == 2**256
    for i in range(0, len(thresholds), 97):
        got = thresholds[i] / 2**256
        assert got == pytest.approx(stats.binom.cdf(first + i, n, q), rel=1e-7, abs=1e-12)


def test_an_undecided_count_looks_at_more_bits(monkeypatch):
    """Where the first word equals the head of a threshold, the other bits decide."""
    n, q = 12, 0.37
    first, thresholds = choice.binomial_thresholds(n, q)
    head, rest = divmod(thresholds[4], 2**192)
    for tail, want in ((rest - 1, first + 4), (rest, first + 5), (rest + 1, first + 5)):
        words = [np.array([head], np.uint64)]
        words.append(np.array([(tail >> (64 * j)) % 2**64 for j in range(3)], np.uint64))
        monkeypatch.setattr(choice, "next_words", lambda rng, count, w=words: w.pop(0))
        assert choice.draw_binomial(n, q, 1, None)[0] == want


def test_a_wide_binomial_has_its_mean_and_variance():
    """10⁴ draws, normal approximations at 6 standard deviations: false alarms below 1e-8."""
    n, q, count = 10**6, 0.01, 10_000
    drawn = choice.draw_binomial(n, q, count, seeded_generator(6))
    variance = n * q * (1 - q)
    assert abs(drawn.mean() - n * q) < 6 * np.sqrt(variance / count)
    assert abs(drawn.var() / variance - 1) < 6 * np.sqrt(2 / count)
