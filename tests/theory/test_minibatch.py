"""Stability of minibatches: sampled, and bounded from below."""

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.theory import minibatch_bound, paper_minibatch_value, sampled_minibatches
from stillspace.theory.stability import permeance


@pytest.fixture(scope="module")
def split():
    data = make_haystack(400, 10, 2, inlier_ratio=0.9, random_state=0)
    return data.X[data.inliers], data.X[~data.inliers]


@pytest.mark.parametrize("batch", [20, 100, 1000])
def test_the_bound_lies_below_the_sampled_mean(split, batch):
    bound = minibatch_bound(*split, 2, batch)
    sampled = sampled_minibatches(*split, 2, batch, batches=30)
    # Batches' certified stabilities are at most 1 apart; 30 of them: six standard errors.
    assert bound <= sampled.mean[0] + 6 * sampled.standard_error
    assert sampled.mean[0] <= sampled.mean[1]
    assert np.all(sampled.lower <= sampled.upper)


def test_large_batches_come_near_the_whole(split):
    inner, outer = split
    n = len(inner) + len(outer)
    whole = permeance(inner, 2, n) - np.sqrt(len(outer)) * np.linalg.norm(outer, 2) / n
    bounds = [minibatch_bound(*split, 2, 10**k) for k in range(1, 9)]
    assert np.all(np.diff(bounds) > 0.0)
    assert bounds[-1] == pytest.approx(whole, rel=1e-2)


def test_the_printed_value_is_no_lower_bound():
    """Jensen goes the other way: with small batches it lies above the true mean."""
    data = make_haystack(400, 10, 3, inlier_ratio=0.9, random_state=0)
    split = data.X[data.inliers], data.X[~data.inliers]
    sampled = sampled_minibatches(*split, 3, 6, batches=60)
    assert paper_minibatch_value(*split, 3) > sampled.mean[1] + 6 * sampled.standard_error


def test_the_printed_value_by_its_definition(split):
    inner, outer = split
    share = len(inner) / (len(inner) + len(outer))
    inside = np.linalg.eigvalsh(inner.T @ inner / len(inner))[-2]
    outside = np.linalg.eigvalsh(outer.T @ outer / len(outer))[-1]
    want = 0.8 * share * inside - (1 - share) * outside
    assert paper_minibatch_value(*split, 2, gamma=0.8) == pytest.approx(want)


def test_without_outliers_only_the_permeance_counts(split):
    inner, _ = split
    bound = minibatch_bound(inner, np.empty((0, 10)), 2, 10_000)
    assert 0.9 * permeance(inner, 2) < bound < permeance(inner, 2)
    with pytest.raises(ValueError, match="batch_size"):
        minibatch_bound(inner, inner, 2, 0)


def test_one_batch_has_no_standard_error(split):
    assert sampled_minibatches(*split, 2, 10, batches=1).standard_error == np.inf
