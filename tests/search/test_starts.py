"""Starts, cuts and the search that keeps the best of them."""

import numpy as np
import pytest
from scipy.stats import chi

from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.search import chosen, cut_of, disagreement, reach_of, search
from stillspace.search.cuts import distances, nearest, quantiles
from stillspace.search.starts import affine_ransac, pca, ransac, ransac_tries, tyler
from tests.conftest import random_basis


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_distances_are_those_to_the_projection(rng):
    U, V = unit(rng.standard_normal((30, 6))), random_basis(rng, 6, 2)
    want = [np.linalg.norm(u - V @ (V.T @ u)) for u in U]
    np.testing.assert_allclose(distances(U, V), want, atol=1e-15)


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
def test_pca_is_the_top_of_the_singular_value_decomposition(rng, shape):
    U = rng.standard_normal(shape)
    assert subspace_error(pca(U, 3).T, np.linalg.svd(U)[2][:3]) < 1e-20


def test_tylers_matrix_is_a_fixed_point_and_knows_the_shape(rng):
    """Tyler's estimate is that of the shape matrix, whatever the radii: here a known one."""
    A = np.diag([5.0, 3.0, 1.0, 1.0, 1.0]) @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    X = rng.standard_normal((4000, 5)) @ A * rng.pareto(0.5, (4000, 1))
    want = np.linalg.eigh(A.T @ A)[1][:, :-3:-1]
    assert subspace_error(tyler(unit(X), 2).T, want.T) < 0.05


def test_a_cluster_draws_pca_and_not_tyler():
    data = make_haystack(4000, 50, 3, inlier_ratio=0.6, outliers="cluster", random_state=0)
    assert subspace_error(pca(data.X, 3).T, data.components) > 0.5
    assert subspace_error(tyler(data.X, 3).T, data.components) < 0.05


def test_ransac_finds_the_majority(rng):
    data = make_haystack(
        600, 20, 2, inlier_ratio=0.6, inlier_noise=0.05, outliers="cluster", random_state=0
    )
    assert subspace_error(ransac(data.X, 2, rng).T, data.components) < 1e-3
    shifted = data.X * rng.exponential(size=(600, 1)) + 4.0
    shifted[~data.inliers] -= 3.0
    assert subspace_error(affine_ransac(shifted, 2, rng)[0].T, data.components) < 1e-2


def test_the_number_of_tries_finds_inliers_alone_with_99_percent():
    for r in (1, 2, 3):
        missed = (1 - 0.5**r) ** ransac_tries(r)
        assert missed <= 0.01 < missed / (1 - 0.5**r)


@pytest.mark.parametrize("dimensions", [1, 3, 20])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_cut_spares_inliers_and_not_outliers(rng, dimensions, share):
    """Against the law of the inliers' distances: 3 to 6 deviations above the middle."""
    n = 20_000
    d = 0.05 * chi.rvs(dimensions, size=n, random_state=rng)
    d[int(share * n) :] = 1.0
    cut = cut_of(d)
    assert 0.05 * chi.ppf(0.97, dimensions) < cut < 0.06 * chi.ppf(1 - 1e-7, dimensions)
    assert reach_of(1e6 * d, 1e6) == pytest.approx(1e6 * cut, rel=1e-9)


def test_rows_that_are_all_equally_far_count():
    assert cut_of(np.full(10, 0.3)) > 0.3
    assert cut_of(np.zeros(10)) > 0.0
    assert reach_of(np.full(10, 1e-15), 3.0) > 1e-13  # rounding is no distance


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_quantiles_are_those_of_numpy(rng, n):
    d, levels = rng.standard_normal(n), (0.0, 0.1, 0.25, 0.5, 1.0)
    np.testing.assert_allclose(quantiles(d, *levels), np.quantile(d, levels), atol=1e-15)


def test_nearest_goes_by_the_majority():
    tight = np.concatenate([np.zeros(40), np.full(60, 0.8)])
    majority = np.concatenate([np.full(60, 0.1), np.full(40, 1.0)])
    assert nearest([tight, majority]) == 1
    assert nearest([majority, tight]) == 0
    few = np.concatenate([np.full(30, 0.01), np.full(70, 0.9)])
    none = np.full(100, 0.89)
    assert nearest([none, few]) == 1  # medians as good as equal: the lower quartile decides


def test_all_starts_agree_on_easy_data(rng):
    data = make_haystack(800, 15, 2, inlier_noise=0.05, random_state=1)
    for loss in ("glad", "redescending"):
        found = search(data.X, 2, loss, rng)
        assert [c.name for c in found] == ["pca", "tyler", "ransac"]
        assert max(c.angle for c in found) < 0.05
        assert disagreement(found) is None
        best = chosen(found)
        assert subspace_error(best.components, data.components) < 1e-4
        d = np.linalg.norm(data.X - data.X @ best.components.T @ best.components, axis=1)
        assert best.cost == pytest.approx(d.mean())
        assert best.median == pytest.approx(np.median(d))
        assert (best.cut < 1.0) == (loss == "redescending")


def test_glad_keeps_the_lowest_cost_and_redescending_the_majority(rng):
    data = make_haystack(
        3000, 20, 3, inlier_ratio=0.6, inlier_noise=0.02, outliers="cluster", random_state=2
    )
    cheap, near = (search(data.X, 3, loss, rng) for loss in ("glad", "redescending"))
    assert chosen(cheap).cost == min(c.cost for c in cheap)
    assert subspace_error(chosen(cheap).components, data.components) > 0.5
    assert subspace_error(chosen(near).components, data.components) < 1e-5
    assert chosen(cheap).cost < chosen(near).cost  # the cost itself prefers the cluster
    for found in (cheap, near):
        sentence = disagreement(found)
        assert sentence is not None
        assert "starts disagree" in sentence
        assert sentence.count(". ") == 0


def test_a_far_cluster_is_known_by_its_true_distance(rng):
    """On the sphere it looks as near as noisy inliers are."""
    V = random_basis(rng, 50, 3)
    X = rng.standard_normal((2000, 3)) @ V.T + 0.1 * rng.standard_normal((2000, 50))
    X[:600] = rng.standard_normal((600, 50)) + 3.0
    lengths = np.linalg.norm(X, axis=1)
    found = search(unit(X), 3, "redescending", rng, lengths=lengths, also=V)
    assert subspace_error(chosen(found).components, V.T) < 2e-3
    sphere_alone = search(unit(X), 3, "redescending", rng, also=V)
    assert subspace_error(chosen(sphere_alone).components, V.T) > 0.5


def test_few_rows_and_zero_rows(rng):
    U = np.concatenate([unit(rng.standard_normal((2, 9))), np.zeros((20, 9))])
    (only,) = search(U, 3, "redescending", rng)
    assert only.kept
    assert only.cost < 1e-15
    assert np.allclose(only.components @ only.components.T, np.eye(3))
    (none,) = search(np.zeros((5, 9)), 3, "glad", rng)
    assert none.cost == 0.0
