"""The Bingham sampler: its envelope, and its law against numerical integration."""

import numpy as np
import pytest

from stillspace.parts.bingham import _best, log_ratio, sample_bingham


@pytest.mark.parametrize("D", [2, 5, 40])
def test_the_envelope_is_never_crossed_and_is_reached(D):
    for b in (0.1, 1.0, D / 2, D):
        u = np.linspace(0.0, 10.0 * D, 5001)
        ratio = log_ratio(u, b, D)
        assert ratio.max() <= 1e-12
        assert log_ratio(np.array([(D - b) / 2]), b, D) == pytest.approx(0.0, abs=1e-12)


def test_the_best_envelope():
    rates = np.array([0.0, 0.0, 3.0, 50.0])
    b = _best(rates)
    assert np.sum(1.0 / (b + 2.0 * rates)) == pytest.approx(1.0)
    assert _best(np.zeros(4)) == 4.0


def test_vectors_in_the_plane():
    """The angle has density exp(κ cos² t); 4000 draws, mean of cos² within 5 standard errors."""
    rng = np.random.default_rng(0)
    for kappa in (0.5, 8.0):
        A = np.diag([kappa, 0.0])
        t = np.linspace(0.0, np.pi, 20001)[:-1]
        weight = np.exp(kappa * np.cos(t) ** 2)
        mean = np.average(np.cos(t) ** 2, weights=weight)
        sd = np.sqrt(np.average(np.cos(t) ** 4, weights=weight) - mean**2)
        drawn = np.array([sample_bingham(A, 1, rng)[0, 0] ** 2 for _ in range(4000)])
        assert abs(drawn.mean() - mean) < 5 * sd / np.sqrt(4000)


def test_planes_against_importance_sampling():
    """E VVᵀ for r = 2, D = 4: rejection against weighted uniform planes, 5 standard errors."""
    rng, A = np.random.default_rng(1), np.diag([3.0, 1.0, 0.0, -1.0])
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    A = turn @ A @ turn.T
    uniform = np.linalg.qr(rng.standard_normal((40000, 4, 2)))[0]
    weight = np.exp(np.einsum("nik,ij,njk->n", uniform, A, uniform))
    value = np.einsum("nik,ij,njk->n", uniform, A, uniform)
    mean = np.average(value, weights=weight)
    effective = weight.sum() ** 2 / (weight**2).sum()
    drawn = [sample_bingham(A, 2, rng) for _ in range(3000)]
    found = np.array([np.trace(V.T @ A @ V) for V in drawn])
    error = np.hypot(found.std() / np.sqrt(3000), found.std() / np.sqrt(effective))
    assert abs(found.mean() - mean) < 5 * error
