"""Centres: the geometric median, and the position that rows agree on across a subspace."""

import numpy as np
import pytest
from scipy.optimize import minimize

from stillspace.datasets import make_haystack
from stillspace.search import chosen, located, median_center, pairs_center
from tests.conftest import random_basis


def test_the_geometric_median_is_the_minimiser(rng):
    S = rng.standard_normal((41, 3)) * [1, 5, 2]
    found = minimize(
        lambda m: np.linalg.norm(S - m, axis=1).sum(),
        S.mean(axis=0),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000},
    )
    np.testing.assert_allclose(median_center(S), found.x, atol=1e-6)
    np.testing.assert_allclose(median_center(S, 1e-4), found.x, atol=1e-2)


def test_a_majority_at_one_point_is_the_median(rng):
    S = np.concatenate([np.full((11, 4), 2.0), rng.standard_normal((10, 4)) * 100])
    np.testing.assert_allclose(median_center(S), 2.0, atol=1e-9)


def test_located_across_and_along(rng):
    V, m = random_basis(rng, 8, 2), rng.standard_normal(8) * 10
    S = rng.standard_normal((300, 2)) @ V.T + m
    S[:120] = rng.standard_normal((120, 8)) * 3 + 50.0
    center = located(S, V, rng)
    across = (center - m) - V @ (V.T @ (center - m))
    assert np.linalg.norm(across) < 1e-12
    assert np.linalg.norm(center - m) < 0.5  # along: the scores' median, 180 rows


@pytest.mark.parametrize("share", [0.55, 0.8, 1.0])
def test_pairs_find_an_affine_subspace(rng, share):
    data = make_haystack(900, 12, 2, inlier_ratio=share, spherical=False, random_state=3)
    S = data.X + 7.0
    S[~data.inliers] += 5.0 * rng.standard_normal(12)
    center, candidates = pairs_center(S[rng.permutation(900)], 2, "redescending", rng)
    V = chosen(candidates).components.T
    L = data.components
    offset = center - 7.0
    assert np.linalg.norm(offset - offset @ L.T @ L) < 1e-9
    assert np.linalg.norm(V.T - V.T @ L.T @ L) < 1e-9
