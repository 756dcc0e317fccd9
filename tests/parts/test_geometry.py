"""Projections against a convex solver and optimality certificates; retractions; IRLS-REAPER."""

import cvxpy as cp
import numpy as np
import pytest

from stillspace.parts import geometry as geo
from tests.conftest import random_basis, random_in_h


def symmetric(rng, D, scale=1.0):
    A = rng.standard_normal((D, D)) * scale
    return (A + A.T) / 2


def in_h(P, r, tol=1e-12):
    eigenvalues = np.linalg.eigvalsh(P)
    return (
        eigenvalues[0] >= -tol
        and eigenvalues[-1] <= 1 + tol
        and abs(np.trace(P) - r) <= 1e-10
        and np.array_equal(P, P.T)
    )


def frank_wolfe_gap(gradient, P, r):
    """max over P' in H of <gradient, P − P'>: zero exactly at the minimiser of a convex cost."""
    return np.sum(gradient * P) - np.linalg.eigvalsh(gradient)[:r].sum()


@pytest.mark.parametrize(("D", "r"), [(4, 1), (6, 2), (9, 8), (30, 5)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_water_filling_is_optimal(rng, D, r, scale):
    """½‖P − A‖² is 1-strongly convex, so a gap of 1e-16 means a distance of 1e-8."""
    A = symmetric(rng, D, scale)
    P = geo.WaterFilling(r).enter(A)
    assert in_h(P, r)
    assert frank_wolfe_gap(P - A, P, r) <= 1e-13 * max(1.0, scale)


@pytest.mark.parametrize(("D", "r"), [(4, 1), (6, 2), (8, 5)])
def test_water_filling_against_a_convex_solver(rng, D, r):
    A = symmetric(rng, D)
    P = cp.Variable((D, D), symmetric=True)
    constraints = [P >> 0, np.eye(D) - P >> 0, cp.trace(P) == r]
    tight = {f"tol_{k}": 1e-12 for k in ("gap_abs", "gap_rel", "feas")}
    cp.Problem(cp.Minimize(cp.sum_squares(P - A)), constraints).solve(cp.CLARABEL, **tight)
    np.testing.assert_allclose(geo.WaterFilling(r).enter(A), P.value, atol=1e-8)


@pytest.mark.parametrize(("D", "r"), [(4, 1), (6, 2), (9, 8), (30, 5)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_entropic_projection_is_optimal(rng, D, r, scale):
    """Minimises tr(P log P − P log A − P): its gradient is log P − log A."""
    log_A = symmetric(rng, D, scale)
    state = geo.MirrorState(np.eye(D), log_A)
    new = geo.EntropicMirror(r).step(state, np.zeros((D, D)), 1.0)
    assert in_h(new.P, r)
    assert frank_wolfe_gap(new.log_P - log_A, new.P, r) <= 1e-12 * max(1.0, scale) * D


@pytest.mark.parametrize(("D", "r"), [(5, 2), (8, 5), (12, 3)])
def test_entropic_fill_against_a_convex_solver(rng, D, r):
    log_a = rng.standard_normal(D) * 2
    p = cp.Variable(D)
    cost = cp.sum(-cp.entr(p)) - p @ log_a - cp.sum(p)
    tight = {f"tol_{k}": 1e-13 for k in ("gap_abs", "gap_rel", "feas")}
    cp.Problem(cp.Minimize(cost), [p >= 0, p <= 1, cp.sum(p) == r]).solve(cp.CLARABEL, **tight)
    np.testing.assert_allclose(np.exp(geo.entropic_fill(log_a, r)), p.value, atol=1e-8)


def test_entropic_fill_far_beyond_the_range_of_exp():
    filled = geo.entropic_fill(np.array([5000.0, 0.0, -3000.0, 4000.0, -3001.0]), 2)
    assert np.exp(filled).sum() == pytest.approx(2.0, abs=1e-12)
    assert filled[0] == 0.0
    assert filled[4] < filled[2] < filled[1] <= filled[3] <= 0.0


def test_capping_matters_and_trace_rescaling_is_as_printed(rng):
    """SPEC 9.13: when an eigenvalue passes 1 the two differ; otherwise they agree."""
    log_P = np.diag([2.0, 0.0, 0.0, -1.0])
    printed = geo.EntropicMirror(2, capped=False).step(
        geo.MirrorState(np.eye(4), log_P), np.zeros((4, 4)), 1.0
    )
    np.testing.assert_allclose(
        np.diag(printed.P), 2 * np.exp(np.diag(log_P)) / np.exp(np.diag(log_P)).sum()
    )
    assert printed.P.max() > 1.0
    capped = geo.EntropicMirror(2).step(geo.MirrorState(np.eye(4), log_P), np.zeros((4, 4)), 1.0)
    assert capped.P.max() <= 1.0
    mild = np.diag([0.1, 0.0, 0.0, -0.1])
    both = [
        geo.EntropicMirror(2, capped=c).step(
            geo.MirrorState(np.eye(4), mild), np.zeros((4, 4)), 1.0
        )
        for c in (True, False)
    ]
    np.testing.assert_allclose(both[0].P, both[1].P, rtol=1e-12)


def test_mirror_dual_is_the_logarithm(rng):
    state = geo.EntropicMirror(3).enter(random_in_h(rng, 8, 3))
    for k in range(20):
        state = geo.EntropicMirror(3).step(state, symmetric(rng, 8), 1.0 / (k + 1))
    eigenvalues, U = np.linalg.eigh(state.log_P)
    np.testing.assert_allclose((U * np.exp(eigenvalues)) @ U.T, state.P, atol=1e-12)


@pytest.mark.parametrize("make", [geo.Polar, geo.Geodesic])
def test_steps_on_the_grassmannian_stay_there(rng, make):
    V = random_basis(rng, 9, 3)
    for _ in range(200):
        V = make(3).step(V, rng.standard_normal((9, 3)), 0.3)
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-13)


def test_polar_is_the_nearest_orthonormal_matrix(rng):
    A = rng.standard_normal((6, 2))
    best = np.linalg.norm(A - geo.polar(A))
    assert all(np.linalg.norm(A - random_basis(rng, 6, 2)) >= best - 1e-12 for _ in range(500))


def test_geodesic_has_the_right_length_and_direction(rng):
    """Exp moves by exactly ‖ηH‖ along principal angles = singular values of ηH."""
    V = random_basis(rng, 10, 2)
    H = rng.standard_normal((10, 2))
    H -= V @ (V.T @ H)
    singular = np.linalg.svd(H, compute_uv=False)
    W = geo.Geodesic(2).step(V, H, 0.1)
    cosines = np.linalg.svd(V.T @ W, compute_uv=False)
    np.testing.assert_allclose(np.sort(np.arccos(cosines)), np.sort(0.1 * singular), rtol=1e-8)
    small = geo.Geodesic(2).step(V, H, 1e-6)
    np.testing.assert_allclose((small - V) / 1e-6, H, atol=1e-5)


def test_polar_and_geodesic_agree_to_third_order(rng):
    V = random_basis(rng, 10, 2)
    H = rng.standard_normal((10, 2))
    H -= V @ (V.T @ H)
    gaps = [
        np.linalg.norm(
            geo.as_matrix(geo.Polar(2).step(V, H, t)) - geo.as_matrix(geo.Geodesic(2).step(V, H, t))
        )
        for t in (1e-2, 5e-3)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(8.0, rel=0.05)


@pytest.mark.parametrize(("D", "r"), [(5, 2), (9, 1), (9, 8)])
def test_least_squares_step_is_optimal(rng, D, r):
    """tr((I−P) G (I−P)) over H: gradient −(G(I−P) + (I−P)G)."""
    B = rng.standard_normal((D, 2 * D))
    G = B @ B.T * np.exp(rng.standard_normal())
    P = geo.LeastSquares(r).step(np.eye(D), G, 1.0)
    assert in_h(P, r)
    E = np.eye(D) - P
    assert frank_wolfe_gap(-(G @ E + E @ G), P, r) <= 1e-10 * np.trace(G)


def test_least_squares_with_a_singular_moment():
    filled = geo.least_squares_fill(np.array([0.0, 0.0, 0.0, 2.0, 3.0]), 2)
    np.testing.assert_allclose(filled, [0, 0, 0, 1, 1], atol=1e-12)
    # With fewer zeros than D − r: p is 0 there, and the rest shares r as if they were not there.
    filled = geo.least_squares_fill(np.array([0.0, 0.0, 1.0, 2.0, 3.0]), 1)
    np.testing.assert_allclose(filled[:2], 0.0)
    rest = geo.least_squares_fill(np.array([1.0, 2.0, 3.0]), 1)
    np.testing.assert_allclose(filled[2:], rest)
    assert filled.sum() == pytest.approx(1.0)


def test_top_eigenvectors_and_conversions(rng):
    V = random_basis(rng, 7, 2)
    P = geo.as_matrix(V)
    W = geo.as_basis(P, 2)
    np.testing.assert_allclose(W @ W.T, P, atol=1e-12)
    assert geo.as_basis(V, 2) is V
    assert geo.as_matrix(P) is P
    M = np.diag([1.0, 5.0, 3.0])
    np.testing.assert_allclose(np.abs(geo.top_eigenvectors(M, 2)), np.eye(3)[:, [1, 2]])


def test_mirror_starts_inside_the_set(rng):
    """A projector has eigenvalues 0, whose logarithm is no dual."""
    state = geo.EntropicMirror(2).enter(random_basis(rng, 6, 2))
    assert np.isfinite(state.log_P).all()
    assert in_h(state.P, 2)
    assert np.linalg.eigvalsh(state.P)[-2] > 0.99


def test_a_few_eigenvectors_of_a_large_matrix(rng, monkeypatch):
    """Lanczos against the dense routine; a matrix of zeros still has an orthonormal answer."""
    monkeypatch.setattr(geo, "LANCZOS_FROM", 128)
    A = rng.standard_normal((200, 200))
    for M in (A + A.T, A @ A.T, -A @ A.T):
        found = geo.top_eigenvectors(M, 3)
        dense = np.linalg.eigh(M)[1][:, :-4:-1]
        np.testing.assert_allclose(np.abs(np.sum(found * dense, axis=0)), 1.0, atol=1e-9)
        np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-12)
        np.testing.assert_array_equal(found, geo.top_eigenvectors(M, 3))
    zero = geo.top_eigenvectors(np.zeros((200, 200)), 2)
    np.testing.assert_allclose(zero.T @ zero, np.eye(2), atol=1e-12)


@pytest.mark.parametrize("D", [12, 300])
def test_one_decomposition_gives_values_and_leading_vectors(rng, D):
    """By LAPACK's whole path, and by the tridiagonal form."""
    A = rng.standard_normal((D, D))
    M = (A + A.T) / 2.0 + np.diag(np.r_[90.0, 80.0, 80.0, np.zeros(D - 3)])
    found, (values, U) = geo.Eigen(M), np.linalg.eigh(M)
    np.testing.assert_allclose(found.values, values, atol=1e-11)
    V = found.top(4)
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(V @ V.T, U[:, -4:] @ U[:, -4:].T, atol=1e-10)


@pytest.mark.parametrize("M", [np.zeros((300, 300)), np.eye(300), np.diag(np.arange(300) < 2.0)])
def test_a_decomposition_is_there_for_equal_eigenvalues(M):
    found = geo.Eigen(np.asarray(M, dtype=np.float64))
    V = found.top(3)
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.diag(V.T @ M @ V), found.values[:-4:-1], atol=1e-12)
