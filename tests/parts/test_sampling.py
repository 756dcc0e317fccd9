"""The laws of the selections, tested with stated false-alarm rates, and their facts."""

import numpy as np
import pytest
from scipy import stats

from stillspace.parts.noise import seeded_generator
from stillspace.parts.sampling import All, Poisson, WithoutReplacement, WithReplacement

N, B, DRAWS = 40, 10, 20_000


def counts(sampling):
    rng = seeded_generator(11)
    total = np.zeros(N)
    sizes = []
    pairs = 0
    for _ in range(DRAWS):
        chosen = sampling.draw(N, rng)
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
    repeats = sum(len(set(WithReplacement(B, N).draw(N, rng))) < B for _ in range(2000))
    none = np.prod(1 - np.arange(B) / N)
    assert abs(repeats - 2000 * (1 - none)) < 6.2 * np.sqrt(2000 * none * (1 - none))


def test_selections_are_sorted_and_all_means_all():
    rng = seeded_generator(0)
    assert All().draw(N, rng) is None
    for sampling in (Poisson(0.5), WithoutReplacement(B, N), WithReplacement(B, N)):
        chosen = sampling.draw(N, rng)
        assert np.array_equal(chosen, np.sort(chosen))
    assert np.array_equal(Poisson(1.0).draw(N, rng), np.arange(N))


def test_poisson_reads_any_number_of_rows():
    assert len(Poisson(0.5).draw(0, seeded_generator(0))) == 0
    assert set(Poisson(0.999999).draw(1, seeded_generator(0))) <= {0}


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
