"""Filters before the search: clumps, outlyingness; and filling missing cells."""

import numpy as np

from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.search import chosen, filtered_search, find_clumps, outside
from stillspace.search.missing import filled_by_neighbours, filled_from_subspace
from stillspace.search.outlyingness import Outlyingness
from tests.conftest import random_basis


def noisy_table(rng, n=600, D=8):
    """Rows with two directions that stand out little from the noise, in random order."""
    V = random_basis(rng, D, 2)
    return 2.0 * rng.standard_normal((n, 2)) @ V.T + rng.standard_normal((n, D)), V


def test_a_tight_cluster_is_a_clump_and_counts_once(rng):
    S, _ = noisy_table(rng)
    S[:180] = 3.0 + 0.02 * rng.standard_normal((180, 8))
    S = S[rng.permutation(600)]
    (clump,) = find_clumps(S)
    assert abs(clump.share - 0.3) < 0.01
    assert np.linalg.norm(clump.center - 3.0) < 0.3
    counts = outside(S, [clump])
    members = np.linalg.norm(S - 3.0, axis=1) < 0.5
    assert counts[members].sum() == 1
    assert counts[~members].all()


def test_rows_spread_over_a_subspace_are_no_clump(rng):
    V = random_basis(rng, 10, 1)
    S = rng.uniform(-1, 1, (500, 1)) @ V.T
    S[:200] = rng.standard_normal((200, 10))
    assert find_clumps(S[rng.permutation(500)]) == []
    assert find_clumps(noisy_table(rng)[0]) == []


def test_equal_rows_are_a_clump_whatever_their_share(rng):
    S, _ = noisy_table(rng)
    for share in (0.1, 0.6):
        T = S.copy()
        T[: round(600 * share)] = S[0]
        (clump,) = find_clumps(T[rng.permutation(600)])
        assert abs(clump.share - share) < 0.01
        assert outside(T, [clump]).sum() == 600 - round(600 * share) + 1
    assert find_clumps(np.ones((50, 3))) == []


def test_a_clump_is_found_at_any_scale_of_the_table(rng):
    """Most distances between rows are 10⁵ times as large as the tight group."""
    S = 1e5 * rng.standard_normal((1000, 6))
    S[:700] = rng.standard_normal((700, 6))
    S[:300] = 3.0 + 0.02 * rng.standard_normal((300, 6))
    (tight,) = find_clumps(S[rng.permutation(1000)])
    assert 0.2 < tight.share < 0.4
    np.testing.assert_allclose(tight.center, 3.0, atol=0.2)
    assert tight.radius < 1.0


def test_a_one_sided_group_hardly_moves_the_middle_of_a_column_of_counts(rng):
    """55 % zeros: an eighth of the rows on one side moves the medians from 0 to 1."""
    S = rng.permuted(np.repeat([0.0, 1.0, 2.0], [550, 250, 200])[:, None] * np.ones(8), axis=0)
    assert not Outlyingness.of(S, rng).middle.any()
    S[:125] = 20.0
    assert (np.median(S, axis=0) == 1.0).all()
    assert (Outlyingness.of(S, rng).middle <= 0.5).all()


def test_only_directions_that_leave_out_a_row_are_kept(rng):
    S, _ = noisy_table(rng)
    S[:60] = 15.0 + rng.standard_normal((60, 8))
    found = Outlyingness.of(S, rng)
    out = np.abs(np.clip(S, found.low, found.high) @ found.directions - found.location)
    assert found.directions.shape[1] < 60
    assert (out.max(axis=0) > found.limit).all()


def test_outlyingness_does_not_depend_on_units(rng):
    S, _ = noisy_table(rng, n=300)
    first, again = (
        Outlyingness.of(T, np.random.default_rng(5)).measured(T)
        for T in (S, 1e5 * S + np.arange(8.0))
    )
    np.testing.assert_allclose(first, again, rtol=1e-6)
    equal = np.ones((20, 4))
    assert Outlyingness.of(equal, rng).keeps(equal).all()


def test_a_far_quarter_is_outlying_and_clean_rows_are_not(rng):
    S, _ = noisy_table(rng)
    assert Outlyingness.of(S, rng).keeps(S).mean() > 0.98
    S[:150] = 15.0 + rng.standard_normal((150, 8))
    kept = Outlyingness.of(S, rng).keeps(S)
    assert not kept[:150].any()
    assert kept[150:].mean() > 0.95


def test_a_far_quarter_does_not_hide_behind_the_tails_of_the_columns(rng):
    """Columns of t with two degrees of freedom."""
    S = rng.standard_t(2.0, (800, 8))
    S[:200] = 8.0 + 0.5 * rng.standard_normal((200, 8))
    kept = Outlyingness.of(S, rng).keeps(S)
    assert kept[:200].mean() < 0.05
    assert kept[200:].mean() > 0.85


def test_a_wild_cell_is_not_hidden_by_its_cap(rng):
    S, _ = noisy_table(rng)
    S[:60, 3] *= 1000.0
    kept = Outlyingness.of(S, rng).keeps(S)
    assert kept[:60].mean() < 0.1
    assert kept[60:].mean() > 0.97


def test_the_measure_is_the_same_in_other_coordinates(rng):
    S, _ = noisy_table(rng, n=200)
    Q = random_basis(rng, 12, 8)
    found = Outlyingness.of(S, rng, columns=False)
    lifted = found.in_columns(Q @ found.directions, Q @ found.middle)
    np.testing.assert_allclose(lifted.measured(S @ Q.T), found.measured(S), rtol=1e-9)
    assert np.mean(lifted.keeps(S @ Q.T) == found.keeps(S)) > 0.98  # rounding at the longest row


def test_a_majority_is_not_left_out(rng):
    # Rows of 256 independent cells lie so near to the middle along the 10 directions of the other
    # rows that the other rows, half of all, seem to lie far out.
    data = make_haystack(2000, 256, 10, inlier_noise=0.05, random_state=0)
    assert not Outlyingness.of(data.X, rng).keeps(data.X)[data.inliers].any()
    found = filtered_search(data.X, 10, "redescending", np.zeros(256), rng)
    assert found.far_out is None
    assert subspace_error(chosen(found.candidates).components, data.components) < 1e-3


def test_the_search_leaves_out_far_and_tight_rows(rng):
    for plant in ("far", "tight"):
        S, V = noisy_table(rng, n=1000)
        u = np.linalg.qr(np.column_stack([V, np.eye(8)]))[0][:, 2]
        width, length = (0.5, 25.0) if plant == "far" else (0.05, 3.0)
        S[:250] = length * u + width * rng.standard_normal((250, 8))
        found = filtered_search(S[rng.permutation(1000)], 2, "redescending", "pairs", rng)
        V_found = chosen(found.candidates).components
        assert subspace_error(V_found, V.T) < 0.1
        assert len(found.clumps) == (plant == "tight")


def test_neighbours_fill_only_what_is_missing(rng):
    V = random_basis(rng, 10, 2)
    X = rng.standard_normal((400, 2)) @ V.T
    holes = rng.random(X.shape) < 0.1
    filled = filled_by_neighbours(np.where(holes, np.nan, X), rng)
    assert np.array_equal(filled[~holes], X[~holes])
    left = np.mean((filled - X)[holes] ** 2) / np.mean(X[holes] ** 2)
    assert left < 0.2  # column medians would leave all of it


def test_cells_from_the_subspace_are_conditional_expectations(rng):
    """Against the Gaussian formula Σ_mo Σ_oo⁻¹ x_o."""
    V, along, noise = random_basis(rng, 6, 2), np.array([4.0, 1.0]), 0.3
    x = rng.standard_normal(6)
    gone = np.array([True, False, False, True, False, False])
    cov = V @ np.diag(along) @ V.T + noise * np.eye(6)
    want = cov[np.ix_(gone, ~gone)] @ np.linalg.solve(cov[np.ix_(~gone, ~gone)], x[~gone])
    found = filled_from_subspace(np.where(gone, np.nan, x)[None], V, along, noise)[0]
    np.testing.assert_allclose(found[gone], want, rtol=1e-9)
    assert np.array_equal(found[~gone], x[~gone])
    assert not filled_from_subspace(np.full((1, 6), np.nan), V, along, noise).any()
