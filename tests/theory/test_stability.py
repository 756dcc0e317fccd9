"""Permeance, alignment, stability and the start condition against definitions and examples."""

from itertools import product
from math import acos, cos, pi, sin

import numpy as np
import pytest

from stillspace.datasets import make_haystack
from stillspace.metrics import principal_angles
from stillspace.theory import Bounds, alignment, pca_start, permeance, stability
from stillspace.theory.stability import alignment_at
from tests.conftest import random_basis

ANGLES = np.linspace(0.0, pi, 20001)


def on_circle(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


def in_the_plane(X, V):
    """σ₁ of the mean GLAD term of the definition, row by row."""
    Q = np.eye(X.shape[1]) - V @ V.T
    total = np.zeros((X.shape[1], V.shape[1]))
    for x in X:
        distance = np.linalg.norm(Q @ x)
        if distance > 1e-12:
            total += np.outer(Q @ x, V.T @ x) / distance
    return np.linalg.norm(total, 2)


def test_permeance_is_the_least_reweighted_moment_along_any_direction(rng):
    Y = rng.standard_normal((200, 2))
    V = random_basis(rng, 6, 2)
    X = Y @ V.T
    directions = on_circle(ANGLES)
    least = min(((Y @ u) ** 2 / np.linalg.norm(Y, axis=1)).sum() for u in directions[::20])
    assert permeance(X, 2) == pytest.approx(least / 200, rel=1e-5)
    assert permeance(X, 2, n=400) == pytest.approx(least / 400, rel=1e-5)


def test_permeance_of_too_few_or_zero_rows_is_zero(rng):
    X = rng.standard_normal((1, 5))
    assert permeance(X, 2) == 0.0
    padded = np.concatenate([X, np.zeros((3, 5))])
    assert permeance(padded, 1) == pytest.approx(np.linalg.norm(X) / 4)


def test_alignment_in_two_dimensions_against_a_grid(rng):
    for seed in range(4):
        X = np.random.default_rng(seed).standard_normal((9, 2))
        values = [in_the_plane(X, on_circle(np.array([t])).T) for t in ANGLES[::20]]
        bounds = alignment(X, 1, n=20)
        best = max(values) / 20
        assert bounds.lower >= 0.98 * best  # it jumps where a row lies on V
        assert bounds.upper >= best
        assert bounds.lower <= bounds.upper


def test_alignment_gradient_is_that_of_differences(rng):
    X, V = rng.standard_normal((30, 7)), random_basis(rng, 7, 3)
    value, E = alignment_at(X, V)
    assert value == pytest.approx(in_the_plane(X, V), rel=1e-12)
    assert np.abs(V.T @ E).max() < 1e-10
    for _ in range(4):
        Z = rng.standard_normal((7, 3))
        Z -= V @ (V.T @ Z)
        h = 1e-5
        moved = [in_the_plane(X, np.linalg.qr(V + t * Z)[0]) for t in (h, -h)]
        assert (E * Z).sum() == pytest.approx((moved[0] - moved[1]) / (2 * h), rel=1e-5, abs=1e-6)


def test_one_outlier_is_aligned_as_much_as_it_is_long():
    bounds = alignment(np.array([[0.0, 3.0, 0.0, 4.0]]), 2, n=10)
    assert bounds.upper == pytest.approx(0.5, rel=1e-12)
    assert bounds.lower > 0.49


def test_alignment_may_exceed_the_largest_eigenvalue():
    # Two orthogonal unit outliers: 1/√2 is approached, λ₁ of their moment is 1/2.
    bounds = alignment(np.eye(4)[:2], 2)
    assert bounds.lower > 0.65
    assert bounds.upper == pytest.approx(1 / np.sqrt(2), rel=1e-12)


def test_random_subspaces_never_beat_the_upper_bound(rng):
    for D, r, m in product((3, 8), (1, 2), (1, 5, 60)):
        X = rng.standard_normal((m, D)) * rng.exponential(size=(m, 1))
        bounds = alignment(X, r)
        seen = max(in_the_plane(X, random_basis(rng, D, r)) for _ in range(100)) / m
        assert seen <= bounds.upper
        assert bounds.lower >= 0.8 * seen


def test_stability_of_haystacks():
    few = make_haystack(2000, 20, 2, inlier_ratio=0.9, random_state=0)
    many = make_haystack(2000, 20, 2, inlier_ratio=0.05, outliers="cluster", random_state=0)
    good, bad = (stability(d.X[d.inliers], d.X[~d.inliers], 2, gamma=0.9) for d in (few, many))
    assert good.verdict == "stable"
    assert good.lower > 0.2
    assert bad.verdict == "not stable"
    assert good.lower <= good.upper
    share = few.inliers.mean()
    assert good.permeance == pytest.approx(share / 2, rel=0.1)  # isotropic on a circle


def test_no_outliers_and_no_inliers(rng):
    X = rng.standard_normal((30, 5))
    assert stability(X, np.empty((0, 5)), 2).alignment == Bounds(0.0, 0.0)
    with pytest.raises(ValueError, match="at least one row"):
        stability(np.empty((0, 5)), X, 2)
    with pytest.raises(ValueError, match="above the upper"):
        Bounds(2.0, 1.0)
    with pytest.raises(ValueError, match="gamma"):
        stability(X, X, 2, gamma=1.5)
    with pytest.raises(ValueError, match="r must be"):
        stability(X, X, 5)


@pytest.mark.parametrize("m", [0.1, 0.5, 0.9])
def test_the_start_condition_is_sharp_and_the_printed_one_too_weak(m):
    """One outlier direction at the worst angle reaches sin 2θ = ‖B‖/λ exactly."""
    phi = (pi - acos(m)) / 2.0  # cos 2φ = −m, the worst case
    inliers, outliers = np.array([[1.0, 0.0]]), np.sqrt(m) * on_circle(np.array([phi]))
    V = np.linalg.eigh(inliers.T @ inliers + outliers.T @ outliers)[1][:, 1:]
    angle = principal_angles(V.T, [[1.0, 0.0]])[0]
    condition = pca_start(inliers, outliers, 1, gamma=cos(angle) - 1e-6)
    assert condition.cosine == pytest.approx(cos(angle), rel=1e-12)
    assert condition.holds
    nearer = pca_start(inliers, outliers, 1, gamma=cos(angle) + 1e-6)
    assert not nearer.holds
    promised = pca_start(inliers, outliers, 1, gamma=cos(angle * 0.97))
    assert (promised.printed > 0.0) == (m > 0.1)  # the paper would promise more than is true
    assert condition.printed == pytest.approx(2 * sin(acos(condition.gamma)) - m)


def test_pca_is_as_close_as_the_condition_says(rng):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        V = random_basis(rng, 6, 2)
        inner = rng.standard_normal((20, 2)) @ V.T
        outer = rng.standard_normal((rng.integers(1, 8), 6)) * rng.exponential() / 3
        found = np.linalg.svd(np.concatenate([inner, outer]))[2][:2]
        cosine = np.cos(principal_angles(found, V.T)[0])
        assert cosine >= pca_start(inner, outer, 2, gamma=0.5).cosine - 1e-12


def test_a_start_condition_that_nothing_meets(rng):
    inner, outer = np.eye(3)[:1], 2 * np.eye(3)[1:]
    condition = pca_start(inner, outer, 1, gamma=0.1)
    assert condition.cosine == 0.0
    assert not condition.holds
    assert pca_start(inner, np.empty((0, 3)), 1, gamma=0.99).holds
