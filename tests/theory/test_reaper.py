"""REAPER's statistics, and what they promise, against a solver."""

from math import pi, sqrt

import numpy as np
import pytest

from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.theory import reaper_alignment, reaper_permeance, reaper_stability
from tests.conftest import random_basis


def test_permeance_against_a_grid(rng):
    V = random_basis(rng, 6, 2)
    Y = rng.standard_normal((60, 2)) * [3.0, 1.0]
    angles = np.linspace(0.0, pi, 5001)
    least = min(np.abs(Y @ [np.cos(t), np.sin(t)]).sum() for t in angles) / 60
    bounds = reaper_permeance(Y @ V.T, V.T)
    assert bounds.lower <= least
    assert bounds.upper == pytest.approx(least, rel=1e-3)
    assert bounds.lower > 0.3 * least
    halved = reaper_permeance(Y @ V.T, V.T, n=120)
    assert halved.upper == pytest.approx(bounds.upper / 2)


def test_permeance_of_isotropic_inliers_is_known():
    data = make_haystack(20_000, 10, 2, inlier_ratio=1.0, random_state=0)
    bounds = reaper_permeance(data.X, data.components)
    assert bounds.upper == pytest.approx(2 / pi, rel=0.02)  # E|cos|
    assert bounds.lower == pytest.approx(1 / 2, rel=0.02)  # E cos²


def test_alignment_by_its_definition(rng):
    V, X = random_basis(rng, 7, 2), rng.standard_normal((20, 7))
    R = X - X @ V @ V.T
    want = np.linalg.norm(X, 2) * np.linalg.norm(R / np.linalg.norm(R, axis=1)[:, None], 2)
    assert reaper_alignment(X, V.T) == pytest.approx(want / 20)
    assert reaper_alignment(X, V.T, n=50) == pytest.approx(want / 50)
    assert reaper_alignment(np.empty((0, 7)), V.T) == 0.0


def test_positive_stability_means_exact_recovery():
    data = make_haystack(400, 30, 1, inlier_ratio=0.95, random_state=1)
    found = reaper_stability(data.X[data.inliers], data.X[~data.inliers], data.components)
    assert found.lower > 0.0
    assert found.lower <= found.upper
    fit = RobustPCA(1, algorithm="reaper-irls").fit(data.X)
    assert subspace_error(fit.components_, data.components) < 1e-14
    assert found.distance(0.01) == pytest.approx(pi / 2 * 0.01 / found.lower)


def test_instability_promises_nothing():
    data = make_haystack(400, 10, 2, inlier_ratio=0.2, random_state=1)
    found = reaper_stability(data.X[data.inliers], data.X[~data.inliers], data.components)
    assert found.upper < 0.0
    assert found.distance(0.01) == float("inf")
    assert found.r == 2
    assert found.lower == pytest.approx(found.permeance.lower / (4 * sqrt(2)) - found.alignment)
