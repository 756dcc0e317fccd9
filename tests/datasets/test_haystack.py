"""Statistical tests here are two-sided with a false-alarm rate of 1e-6 each, on fixed seeds."""

import numpy as np
import pytest
from scipy import stats

from stillspace.datasets import Haystack, make_haystack
from stillspace.metrics import subspace_error

ALPHA = 1e-6


def assert_chi2(total, freedom):
    law = stats.chi2(freedom)
    assert law.ppf(ALPHA / 2) <= total <= law.ppf(1 - ALPHA / 2)


def assert_law(sample, law):
    assert stats.kstest(np.ravel(sample), law.cdf).pvalue > ALPHA


def outside(X, components):
    return X - X @ components.T @ components


@pytest.mark.parametrize("spherical", [True, False])
@pytest.mark.parametrize("kind", ["isotropic", "low-rank", "cluster"])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.55, 1.0])
def test_shapes_and_labels(kind, spherical, ratio):
    data = make_haystack(
        101, 12, 3, inlier_ratio=ratio, outliers=kind, spherical=spherical, random_state=0
    )
    X, components, inliers, center = data
    assert isinstance(data, Haystack)
    assert X.shape == (101, 12)
    assert X.dtype == np.float64
    assert inliers.shape == (101,)
    assert inliers.dtype == np.bool_
    assert inliers.sum() == round(ratio * 101)
    np.testing.assert_allclose(components @ components.T, np.eye(3), atol=1e-14)
    np.testing.assert_array_equal(center, np.zeros(12))
    distance = np.linalg.norm(outside(X, components), axis=1)
    np.testing.assert_array_equal(distance < 1e-13, inliers)
    if spherical:
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize(("n", "ratio", "expected"), [(1, 0.9, 1), (7, 0.5, 4), (1000, 0.333, 333)])
def test_number_of_inliers_is_exact(n, ratio, expected):
    for seed in range(3):
        data = make_haystack(n, 4, 1, inlier_ratio=ratio, random_state=seed)
        assert data.inliers.sum() == expected


def test_law_of_plain_inliers_and_outliers():
    D, r = 15, 3
    X, components, inliers, _ = make_haystack(
        4000, D, r, inlier_ratio=0.4, spherical=False, random_state=1
    )
    coordinates = X[inliers] @ components.T * np.sqrt(r)
    assert_law(coordinates, stats.norm)
    assert_chi2(np.sum(coordinates**2), 1600 * r)
    rest = X[~inliers] * np.sqrt(D)
    assert_law(rest, stats.norm)
    assert_chi2(np.sum(rest**2), 2400 * D)


def test_law_on_the_sphere():
    D, r = 8, 3
    X, components, inliers, _ = make_haystack(4000, D, r, random_state=2)
    # One squared coordinate of a uniform unit vector in R^k is Beta(1/2, (k − 1)/2).
    assert_law((X[inliers] @ components[0]) ** 2, stats.beta(0.5, (r - 1) / 2))
    assert_law(X[~inliers][:, 0] ** 2, stats.beta(0.5, (D - 1) / 2))


def test_the_sphere_only_scales_rows():
    flat = make_haystack(50, 6, 2, inlier_noise=0.3, spherical=False, random_state=3)
    round_ = make_haystack(50, 6, 2, inlier_noise=0.3, random_state=3)
    norms = np.linalg.norm(flat.X, axis=1, keepdims=True)
    np.testing.assert_allclose(round_.X, flat.X / norms, rtol=1e-13)
    np.testing.assert_array_equal(round_.components, flat.components)


def test_subspace_is_uniform():
    D, r, runs = 5, 2, 1500
    rng = np.random.default_rng(4)
    draws = np.stack([make_haystack(1, D, r, random_state=rng).components for _ in range(runs)])
    for axis in (0, D - 1):
        captured = np.sum(draws[:, :, axis] ** 2, axis=1)
        assert_law(captured, stats.beta(r / 2, (D - r) / 2))
    # The basis itself is uniform too: each row is a uniform unit vector, sign included.
    for j in range(r):
        assert_law((draws[:, j, 0] + 1) / 2, stats.beta((D - 1) / 2, (D - 1) / 2))


def test_inlier_noise():
    D, r, s = 12, 2, 0.25
    X, components, inliers, _ = make_haystack(
        3000, D, r, inlier_noise=s, spherical=False, random_state=5
    )
    assert_chi2(np.sum(outside(X[inliers], components) ** 2) * D / s**2, 1500 * (D - r))
    inside = np.sum((X[inliers] @ components.T) ** 2) / (1 / r + s**2 / D)
    assert_chi2(inside, 1500 * r)
    assert_chi2(np.sum(X[~inliers] ** 2) * D, 1500 * D)  # the outliers get none


def test_inlier_scales():
    scales = np.array([3.0, 1.0, 0.1])
    X, components, inliers, _ = make_haystack(
        3000, 10, 3, inlier_scales=scales, spherical=False, random_state=6
    )
    sums = np.sum((X[inliers] @ components.T) ** 2, axis=0) * 3 / scales**2
    for total in sums:
        assert_chi2(total, 1500)


def test_low_rank_outliers():
    X, components, inliers, _ = make_haystack(
        2000, 20, 2, outliers="low-rank", outlier_rank=4, spherical=False, random_state=7
    )
    rest = X[~inliers]
    assert np.linalg.matrix_rank(rest) == 4
    assert_chi2(np.sum(rest**2) * 4, 1000 * 4)
    basis = np.linalg.svd(rest, full_matrices=False)[2][:4]
    assert_law(rest @ basis.T * 2, stats.norm)
    assert subspace_error(basis[:2], components) > 0.1


@pytest.mark.parametrize(("D", "rank"), [(30, 10), (7, 7)])
def test_default_outlier_rank(D, rank):
    data = make_haystack(200, D, 2, outliers="low-rank", random_state=8)
    assert np.linalg.matrix_rank(data.X[~data.inliers]) == rank


@pytest.mark.parametrize(("given", "spread"), [(None, 0.1), (0.02, 0.02), (1.5, 1.5)])
def test_clustered_outliers(given, spread):
    D = 10
    X, _, inliers, _ = make_haystack(
        2000, D, 2, outliers="cluster", cluster_spread=given, spherical=False, random_state=9
    )
    rest = X[~inliers]
    mean = rest.mean(axis=0)
    assert_chi2(np.sum((rest - mean) ** 2) * D / spread**2, 999 * D)
    # ‖mean‖ − 1 is at most the mean error: D‖error‖² n / spread² is chi² with D degrees.
    slack = spread * np.sqrt(stats.chi2(D).ppf(1 - ALPHA) / (D * 1000))
    assert abs(np.linalg.norm(mean) - 1.0) <= slack


def test_zero_spread_is_one_point():
    data = make_haystack(40, 5, 1, outliers="cluster", cluster_spread=0.0, random_state=1)
    rest = data.X[~data.inliers]
    np.testing.assert_array_equal(rest, np.broadcast_to(rest[0], rest.shape))


@pytest.mark.parametrize("spherical", [True, False])
def test_shift_comes_after_scaling(spherical):
    plain = make_haystack(60, 7, 2, spherical=spherical, random_state=10)
    moved = make_haystack(60, 7, 2, spherical=spherical, center_shift=4.0, random_state=10)
    np.testing.assert_allclose(np.linalg.norm(moved.center), 4.0, rtol=1e-14)
    np.testing.assert_allclose(moved.X - moved.center, plain.X, atol=1e-14)
    np.testing.assert_array_equal(moved.inliers, plain.inliers)
    distance = np.linalg.norm(outside(moved.X - moved.center, moved.components), axis=1)
    np.testing.assert_array_equal(distance < 1e-13, moved.inliers)


def test_shift_direction_is_uniform():
    rng = np.random.default_rng(11)
    first = [make_haystack(1, 4, 1, center_shift=1, random_state=rng).center[0] for _ in range(800)]
    assert_law((np.array(first) + 1) / 2, stats.beta(1.5, 1.5))


def test_rows_are_shuffled():
    """The sum of the inliers' positions: 300 data sets, mean and spread of a random order."""
    n, m, runs = 30, 12, 300
    rng = np.random.default_rng(12)
    sums = np.array(
        [
            np.flatnonzero(
                make_haystack(n, 3, 1, inlier_ratio=m / n, random_state=rng).inliers
            ).sum()
            for _ in range(runs)
        ]
    )
    variance = m * (n - m) * (n + 1) / 12
    z = (sums - m * (n - 1) / 2) / np.sqrt(variance)
    limit = stats.norm.ppf(1 - ALPHA / 2)
    assert abs(z.mean()) * np.sqrt(runs) <= limit
    assert abs(np.mean(z**2) - 1) * np.sqrt(runs / 2) <= limit


def test_inliers_are_shuffled_among_themselves():
    """Inlier noise aside, the k-th drawn inlier must not always be the k-th in the table."""
    one = make_haystack(200, 5, 1, inlier_ratio=1.0, random_state=0)
    few = make_haystack(200, 5, 1, inlier_ratio=0.5, random_state=0)
    # Same seed: the same stream of coordinates, so an unshuffled table would share its start.
    assert not np.allclose(one.X[one.inliers][:100], few.X[few.inliers])


def test_noise_and_outlier_kind_leave_the_rest_as_drawn():
    plain = make_haystack(80, 9, 2, spherical=False, random_state=13)
    noisy = make_haystack(80, 9, 2, spherical=False, inlier_noise=0.1, random_state=13)
    other = make_haystack(80, 9, 2, spherical=False, outliers="cluster", random_state=13)
    np.testing.assert_array_equal(noisy.X[~noisy.inliers], plain.X[~plain.inliers])
    np.testing.assert_array_equal(other.X[other.inliers], plain.X[plain.inliers])
    assert np.all(np.any(noisy.X[noisy.inliers] != plain.X[plain.inliers], axis=1))
    for data in (noisy, other):
        np.testing.assert_array_equal(data.components, plain.components)
        np.testing.assert_array_equal(data.inliers, plain.inliers)


@pytest.mark.parametrize(
    "source", [lambda: 7, lambda: np.int64(7), lambda: np.random.RandomState(7)]
)
def test_a_seed_fixes_everything(source):
    first, again = (make_haystack(20, 5, 2, random_state=source()) for _ in range(2))
    for left, right in zip(first, again, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("maker", [np.random.default_rng, np.random.RandomState])
def test_a_generator_is_advanced(maker):
    rng, twin = maker(7), maker(7)
    first, second = (make_haystack(20, 5, 2, random_state=rng) for _ in range(2))
    assert not np.array_equal(first.X, second.X)
    np.testing.assert_array_equal(make_haystack(20, 5, 2, random_state=twin).X, first.X)
    np.testing.assert_array_equal(make_haystack(20, 5, 2, random_state=twin).X, second.X)


def test_no_seed_means_new_data_and_global_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert not np.array_equal(make_haystack(9, 4, 1).X, make_haystack(9, 4, 1).X)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_extreme_scales_still_land_on_the_sphere():
    for scale in (1e-200, 1e200):
        data = make_haystack(
            30, 5, 2, inlier_ratio=1.0, inlier_scales=[scale, scale], random_state=14
        )
        np.testing.assert_allclose(np.linalg.norm(data.X, axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be a whole number of at least 1, got 0"),
        ({"n_samples": 2.5}, "n_samples must be a whole number .*got 2.5"),
        ({"n_samples": True}, "n_samples must be a whole number .*got True"),
        ({"n_features": 1}, "n_features must be a whole number of at least 2, got 1"),
        (
            {"n_components": 0},
            r"n_components must be a whole number in 1…4 \(below n_features\), got 0",
        ),
        ({"n_components": 5}, r"in 1…4 \(below n_features\), got 5"),
        ({"inlier_ratio": -0.1}, r"inlier_ratio must be a number in \[0, 1\], got -0.1"),
        ({"inlier_ratio": 1.1}, r"inlier_ratio must be a number in \[0, 1\], got 1.1"),
        ({"inlier_ratio": float("nan")}, "inlier_ratio must be a number .*got nan"),
        ({"inlier_ratio": "half"}, "inlier_ratio must be a number .*got 'half'"),
        ({"inlier_noise": -1}, r"inlier_noise must be a number in \[0, ∞\), got -1"),
        ({"inlier_noise": float("inf")}, "inlier_noise must be a number .*got inf"),
        ({"center_shift": -1.0}, r"center_shift must be a number in \[0, ∞\), got -1.0"),
        (
            {"outliers": "weird"},
            "outliers must be one of 'isotropic', 'low-rank', 'cluster', got 'weird'",
        ),
        ({"outlier_rank": 3}, "outlier_rank=3 has no effect .*outliers='low-rank'"),
        ({"cluster_spread": 0.1}, "cluster_spread=0.1 has no effect .*outliers='cluster'"),
        (
            {"outliers": "low-rank", "outlier_rank": 0},
            r"outlier_rank must be a whole number in 1…5 \(n_features\), got 0",
        ),
        ({"outliers": "low-rank", "outlier_rank": 6}, r"in 1…5 \(n_features\), got 6"),
        (
            {"outliers": "cluster", "cluster_spread": -1.0},
            r"cluster_spread must be .*got -1",
        ),
        ({"inlier_scales": [1.0]}, r"inlier_scales=\[1.0\] .*n_components=2 positive"),
        ({"inlier_scales": [1.0, 0.0]}, "positive finite"),
        ({"inlier_scales": [1.0, float("inf")]}, "positive finite"),
        ({"inlier_scales": ["a", "b"]}, "positive finite"),
        ({"random_state": -1}, "random_state=-1 .*numpy Generator"),
        ({"random_state": "seed"}, "random_state='seed' .*numpy Generator"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        make_haystack(**{"n_samples": 10, "n_features": 5, "n_components": 2} | arguments)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
