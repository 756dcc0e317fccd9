"""The private standardiser in tables that are hard to read: repeated values, and edges of bins."""

from math import sqrt

import numpy as np
import pytest

from stillspace.methods.standardiser import STANDARDISER_RULE as RULE
from stillspace.methods.standardiser import Standardiser, belief
from stillspace.methods.standardiser.hypotheses import astride, log_sum
from stillspace.methods.standardiser.looks import Look, first_edges
from stillspace.methods.standardiser.reading import UNKNOWN, Counts, spread
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


def test_much_narrower_columns_get_their_scale_in_small_tables(rng):
    """Down to 2⁻¹⁶ of their place: quantiles gather at the edge of the heavy bin."""
    center = np.repeat([64.0, -0.5, 2048.0], 8)
    scale = np.abs(center) * np.tile(2.0 ** -np.arange(9.0, 17.0), 3)
    X = center + scale * rng.standard_normal((3000, 24))
    off = [np.abs(np.log2(found(X, 60, seed)[1] / scale)) for seed in range(2)]
    assert np.count_nonzero(np.array(off) > 1.0) <= 3


def test_a_law_around_an_edge_has_the_shares_on_both_sides():
    edge, ones = np.array([64.0, 64.0]), np.ones(2)
    laws = astride(edge, np.array([0.1, 0.0]), np.array([0.3, 0.5]), 64.0 * ones, ones, 5)
    masses = laws.masses(np.array([[64.0], [64.0]]))
    np.testing.assert_allclose(masses[0], [[0.25, 0.75]] * 5, atol=1e-3)
    np.testing.assert_allclose(laws.scale[0], 64.0 / 2.0 ** np.arange(1.0, 6.0))
    assert log_sum(laws.prior[:1]) == pytest.approx(1.0)  # the weight of all laws together
    assert np.isneginf(laws.prior[1]).all()  # nothing on one side: no such law


def test_a_repeated_value_is_in_the_fullest_bin_that_may_hold_it():
    """The value is 1; the limits that were found for it lie on both sides of the edge 1."""
    edges = np.array([[0.5, 1.0, 2.0], [1.0 - 1e-14, 1.0 + 1e-14, 2.0]])
    look = Look(np.arange(2), edges, np.array([[0.0, 0.1, 0.7, 0.2]] * 2), 0.01)
    low, high = np.full((2, 2), [[1.0 - 1e-14], [1.0 + 1e-14]])
    assert look.fullest(low, high).tolist() == [2, 1]


def straddling(cells):
    """Return what is believed after a first look at a column and the value 1, which is 70 % of it.

    The limits found for that value lie on both sides of 1, an edge of the first look.
    """
    x = np.concatenate([np.ones(7 * len(cells)), np.repeat(cells, 3)])
    edges = first_edges(RULE)
    counts = np.bincount(np.searchsorted(edges, x, side="right"), minlength=len(edges) + 1)
    look = Look.of(np.arange(1), edges[None], counts[None] / len(x), 1e-3)
    found = belief.beliefs_after_first(look, np.zeros(1), (None,), RULE)
    return found._replace(atoms=np.array([[[1.0 - 1e-14, 1.0 + 1e-14, 0.7]]]))


def test_a_repeated_value_on_both_sides_of_an_edge_is_taken_from_the_bin_that_holds_it(rng):
    begun = straddling(100.0 + rng.standard_normal(500)).begun(np.arange(1))
    assert np.isnan(begun.heavy[0]).all()  # 1 ≤ x < 2 is as good as empty then
    middle = np.sum(begun.weights * begun.laws.center, axis=1)
    np.testing.assert_allclose(middle, 96.0, atol=32.0)
    look = Look(np.arange(1), np.array([[0.5, 1.0, 2.0]]), np.array([[0.0, 0.0, 0.7, 0.3]]), 1e-3)
    masses = begun.masses(look, begun.laws)
    np.testing.assert_allclose(masses[0, :, 2], 0.7, atol=0.05)
    np.testing.assert_allclose(masses[0, :, 1], 0.0, atol=0.05)


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


def test_what_is_read_off_has_the_noise_of_the_present_cells(rng, monkeypatch):
    """Half of the cells are missing: shares of the others are twice those of the rows."""
    read, edges, sd = [], first_edges(RULE), 0.01
    monkeypatch.setattr(belief, "spread", lambda counts, rule: read.append(counts) or UNKNOWN)
    shares = np.zeros((1, len(edges) + 1))
    x = 3.0 + rng.standard_normal(5000)
    np.add.at(shares[0], np.searchsorted(edges, x, side="right"), 0.5 / len(x))
    first = belief.beliefs_after_first(
        Look.of(np.arange(1), edges[None], shares, sd), np.array([0.5]), (None,), RULE
    )
    own = np.linspace(0.0, 6.0, 13)
    counted = np.bincount(np.searchsorted(own, x, side="right"), minlength=14) * 0.5 / len(x)
    counted[3] += 0.3  # more than noise or a law of another shape make
    first.after(Look.of(np.arange(1), own[None], counted[None], sd)).centers_and_scales()
    trust = RULE.misfit**2 / (RULE.misfit**2 + sd**2)
    (counts,) = read
    inner = counts.variances[np.searchsorted(counts.edges, 0.0) + 1 :][:12] / (sd / 0.5) ** 2
    assert inner[2] == pytest.approx(1.0)
    assert np.all(np.isclose(inner, trust**2) | np.isclose(inner, 1.0))
    assert np.isclose(inner, trust**2).any()


def test_open_bins_are_split_as_the_first_look_has_them():
    """From −1 down and from 4 up; the first look has an edge between those of the last one, too."""
    last = Counts(np.array([0.0, 1.0]), np.array([0.2, 0.5, 0.3]), np.array([4.0, 1.0, 6.0]))
    outer_edges = np.array([-2.0, -1.0, 0.5, 4.0, 8.0])
    outer = np.array([0.1, 0.0, 0.3, 0.2, 0.1, 0.0])
    edges, shares, variances = last.with_tails(outer_edges, outer)
    assert edges.tolist() == [-2.0, -1.0, 0.0, 1.0, 4.0, 8.0]
    np.testing.assert_allclose(shares, [0.05, 0.0, 0.15, 0.5, 0.2, 0.1, 0.0])
    np.testing.assert_allclose(variances, [1.0, 0.0, 3.0, 1.0, 4.0, 2.0, 0.0])
    nothing = last.with_tails(outer_edges, np.zeros(6))
    np.testing.assert_allclose(nothing.shares, [0.2 / 3] * 3 + [0.5] + [0.1] * 3)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_noise_in_the_bin_of_the_median_hides_no_other_cells(noise):
    """45 % of the cells lie below 0, the median is 2, and from −1 to 5 there are 57.5 %."""
    edges, shares = np.array([-1.0, 0.0, 10.0, 20.0]), np.array([0.0, 0.45, 0.25, 0.3, 0.0])
    found_spread = spread(Counts(edges, shares, np.array([0.0, 0.0, noise, 0.0, 0.0])), RULE)
    assert found_spread.median == pytest.approx(2.0)
    assert found_spread.scale == pytest.approx(RULE.to_sd * (2.0 + 0.45 / 0.475))


def test_no_part_of_a_heavy_bin_counts_before_all_of_it_does():
    """The bin from 0 to 1 has 45 % of the cells, the zeros 47 %; an edge lies at −.2. A quarter of
    the bin and all up to 0 would be 60 %, but no cell need lie in this quarter."""
    edges = np.array([-0.6, -0.4, -0.2, 0.0, 5e-324, 1.0, 2.0])
    shares = np.array([0.0, 0.0, 0.0, 0.02, 0.47, 0.45, 0.06, 0.0])
    found_spread = spread(Counts(edges, shares, np.zeros(8)), RULE)
    assert found_spread.median == pytest.approx(0.03 / 0.45 - 0.02 / 0.45)
    assert found_spread.scale > 0.6


def test_the_median_of_a_bin_that_holds_one_number_is_this_number():
    edges, shares = np.array([-1.0, 0.0, 5e-324, 1.0]), np.array([0.0, 0.1, 0.6, 0.3, 0.0])
    assert spread(Counts(edges, shares, np.zeros(5)), RULE).median == 0.0


def test_noise_farther_out_does_not_take_back_what_was_certain():
    edges = np.array([-5.0, -4.0, -3.0, -1.0, 0.0, 1.0, 2.0, 4.0, 5.0, 6.0])
    shares = np.array([0.0, 0.01, 0.0, 0.01, 0.33, 0.3, 0.33, 0.01, 0.01, 0.0, 0.0])
    variances = np.where(shares > 0.1, 0.0, 1.0)
    found_spread = spread(Counts(edges, shares, variances), RULE)
    assert found_spread.scale == pytest.approx(RULE.to_sd * (0.5 + 0.25 / 0.66))


def test_all_cells_together_are_certain():
    """However much noise the bins have, their sum is known."""
    edges, shares = np.arange(4.0), np.array([0.0, 0.3, 0.4, 0.3, 0.0])
    variances = np.array([0.0, 0.1, 0.1, 0.1, 0.0])
    assert np.isfinite(spread(Counts(edges, shares, variances), RULE).scale)


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
