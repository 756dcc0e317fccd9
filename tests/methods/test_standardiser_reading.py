"""The private standardiser in tables that are hard to read: repeated values, and edges of bins."""

from math import sqrt

import numpy as np
import pytest

from stillspace.methods.standardiser import STANDARDISER_RULE as RULE
from stillspace.methods.standardiser import Standardiser
from stillspace.methods.standardiser.hypotheses import astride
from stillspace.methods.standardiser.looks import Look
from stillspace.methods.standardiser.reading import Counts, spread
from stillspace.parts.noise import seeded_generator
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.rows import MemoryRows
from stillspace.run import run


def found(X, kappa, seed=0):
    """Return the centres and scales that a fit with this κ finds."""
    n, D = X.shape
    mu = kappa * sqrt(D) / n * sqrt(RULE.share_of(kappa))
    plan = AdaptivePlan("s", Standardiser(D), n, mu=mu)
    return run(plan, MemoryRows.of(X), seeded_generator(seed)).V


# --- edges of bins -------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [60, 500])
def test_narrow_columns_around_a_power_of_2_get_their_scale(rng, kappa):
    """Half of such a column lies in one octave, half in the next."""
    center = np.repeat([64.0, -0.5, 2048.0], 8)
    scale = np.abs(center) * np.tile(2.0 ** -np.arange(1.0, 9.0), 3)
    _, got = found(center + scale * rng.standard_normal((3000, 24)), kappa)
    assert np.all(np.abs(np.log2(got / scale)) < 1.0)


def test_a_law_around_an_edge_has_the_shares_on_both_sides():
    edge, ones = np.array([64.0, 64.0]), np.ones(2)
    laws = astride(edge, np.array([0.1, 0.0]), np.array([0.3, 0.5]), 64.0 * ones, ones, 5)
    masses = laws.masses(np.array([[64.0], [64.0]]))
    np.testing.assert_allclose(masses[0], [[0.25, 0.75]] * 5, atol=1e-3)
    np.testing.assert_allclose(laws.scale[0], 64.0 / 2.0 ** np.arange(1.0, 6.0))
    assert np.isneginf(laws.prior[1]).all()  # nothing on one side: no such law


def test_a_repeated_value_is_in_the_fullest_bin_that_may_hold_it():
    """The value is 1; the limits that were found for it lie on both sides of the edge 1."""
    edges = np.array([[0.5, 1.0, 2.0], [1.0 - 1e-14, 1.0 + 1e-14, 2.0]])
    look = Look(np.arange(2), edges, np.array([[0.0, 0.1, 0.7, 0.2]] * 2), 0.01)
    low, high = np.full((2, 2), [[1.0 - 1e-14], [1.0 + 1e-14]])
    assert look.fullest(low, high).tolist() == [2, 1]


# --- what is read off the last counts ------------------------------------------------------


def test_noise_beside_a_repeated_value_is_no_spread():
    """62 % of the cells are 5, and some lie from 6 to 8; the bins next to 5 hold noise alone."""
    edges = np.array([0.0, 5.0 - 2e-6, 5.0 - 1e-6, 5.0, 5.0 + 1e-6, 5.0 + 2e-6, 6.0, 8.0])
    shares = np.array([0.0, 0.0, 0.07, 0.07, 0.62, 0.07, 0.01, 0.16, 0.0])
    exact = spread(Counts(edges, shares, np.zeros(9)), RULE)
    assert exact.scale < 1e-5
    noisy = spread(Counts(edges, shares, np.full(9, 0.06**2)), RULE)
    assert noisy.median == exact.median
    assert noisy.scale > 0.5


def test_cells_of_a_heavy_bin_may_all_be_at_its_far_end():
    """48 % zeros and 46 % ones: half of the bin that ends at 1 is no 23 % of the cells."""
    edges = np.array([0.0, 5e-324, 1.0 + 1e-9, 2.0 + 1e-9])
    shares = np.array([0.0, 0.48, 0.46, 0.06, 0.0])
    found_spread = spread(Counts(edges, shares, np.zeros(5)), RULE)
    assert found_spread.scale > 0.5


def test_half_of_the_cells_beside_a_repeated_value_are_enough(rng):
    """The noise of a closer look does not say that such a column is constant."""
    X = np.where(rng.random((3000, 20)) < 0.5, 0.0, 250.0 + 20.0 * rng.standard_normal((3000, 20)))
    dropped = [np.count_nonzero(np.isinf(found(X, 50, seed)[1])) for seed in range(2)]
    assert max(dropped) <= 2


def test_noise_of_the_first_look_moves_no_centre(rng):
    """Its bins are hundreds: their noise together is more than all cells."""
    X = np.where(rng.random((3000, 30)) < 0.13, 0.0, 1.0)
    X[:, :15] = rng.standard_normal((3000, 15))
    for seed in range(3):
        center, scale = found(X, 40, seed)
        assert np.all(np.abs(center - 1.0)[15:][np.isfinite(scale[15:])] < 0.5)
