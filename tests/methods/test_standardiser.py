"""The private standardiser: its counts, its belief, its shares, and what a fit makes of it."""

from math import sqrt

import numpy as np
import pytest
from scipy import sparse

from stillspace import Budget, PrivatePCA, PrivateRobustPCA
from stillspace.audit import check_noise
from stillspace.exceptions import AsItIsWarning
from stillspace.methods.standardiser import STANDARDISER_RULE as RULE
from stillspace.methods.standardiser import Standardiser, kappa_of
from stillspace.methods.standardiser.belief import _largest, beliefs_after_first
from stillspace.methods.standardiser.hypotheses import Hypotheses, t3_below, within
from stillspace.methods.standardiser.looks import Look, Range, first_edges, in_one_table
from stillspace.methods.standardiser.reading import Counts, on_simplex, spread
from stillspace.metrics import subspace_error
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries.columns import ColumnCounts, octave_edges
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Answer
from stillspace.privacy import mu_from_budget
from stillspace.rows import MemoryRows
from stillspace.run import run

NOWHERE = np.empty((0, 0))
HARD = [0.0, -0.0, 5e-324, -5e-324, 1.0, -1.0, 2.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 9.0]


# --- the query -----------------------------------------------------------------------------


def count_columns(X, query):
    """Return the sum of `query` over raw rows (n, D), in plain NumPy."""
    values = np.asarray(X, dtype=np.float64)
    counts = np.zeros(query.shape)
    for j, (d, edges) in enumerate(zip(query.columns, query.edges, strict=True)):
        x = values[:, d]
        missing = np.isnan(x) | (x == query.missing if query.missing is not None else False)
        bins = np.searchsorted(edges, x[~missing], side="right")
        counts[j, :-1] = np.bincount(bins, minlength=query.shape[1] - 1)
        counts[j, -1] = missing.sum()
    return counts


@pytest.mark.parametrize("kind", ["f64", "f32", "columns", "csr"])
@pytest.mark.parametrize("columns", [None, (1, 3)])
def test_counts_against_plain_numpy(rng, kind, columns):
    X = rng.choice(HARD, (700, 4))
    X[:300] = rng.standard_normal((300, 4)) * np.exp2(rng.integers(-50, 50, (300, 4)))
    if kind == "f32":
        X = np.where(np.abs(X) < 1e-30, 0.0, np.clip(X, -1e30, 1e30)).astype(np.float32)
    k = 4 if columns is None else len(columns)
    edges = np.tile(octave_edges(-40, 60), (k, 1))
    query = ColumnCounts.of(4, edges, columns=columns, missing=9.0)
    make = {"columns": np.asfortranarray, "csr": sparse.csr_matrix}.get(kind, np.asarray)
    got = MemoryRows.of(make(X)).add(query, NOWHERE, None)
    assert np.array_equal(got, count_columns(X, query))
    assert np.array_equal(got.sum(axis=1), np.full(k, 700.0))


@pytest.mark.parametrize("spacing", ["even", "logarithmic", "crowded", "tiny", "huge", "none"])
def test_bins_are_exact_however_edges_lie(rng, spacing):
    """Cells at, just below and just above every edge; edges that share a class; filled-up rows."""
    make = {
        "even": lambda: np.linspace(-3.0, 3.0, 48),
        "logarithmic": lambda: octave_edges(-40, 60),
        "crowded": lambda: np.sort(np.append(1e3 + 1e-7 * rng.random(300), [-1e9, 0.0, 1e12])),
        "tiny": lambda: 5e-324 * np.arange(-4.0, 5.0),
        "huge": lambda: np.array([-1.7e308, -1e308, 0.0, 1e308, 1.7e308]),
        "none": lambda: np.empty(0),
    }[spacing]
    edges = np.full((2, len(make()) + 2), np.inf)
    edges[0, :-2] = edges[1, :-2] = make()
    finite = edges[np.isfinite(edges)]
    ends = [finite, np.nextafter(finite, np.inf), np.nextafter(finite, -np.inf), -finite, HARD]
    with np.errstate(over="ignore"):
        cells = np.concatenate([*ends, rng.standard_normal(200) * 1e3])
    X = rng.choice(cells, (3 * len(cells), 2))
    query = ColumnCounts.of(2, edges)
    assert np.array_equal(MemoryRows.of(X).add(query, NOWHERE, None), count_columns(X, query))
    chosen = rng.integers(0, len(X), 50)
    some = MemoryRows.of(X).add(query, NOWHERE, chosen)
    assert np.array_equal(some, count_columns(X[chosen], query))


def test_rows_that_were_left_out_are_not_counted_as_stored(rng):
    """Only rows that nothing was done to are read as they are stored."""
    X = rng.standard_normal((100, 2)) + 5.0
    kept = np.arange(100) < 40
    query = ColumnCounts.of(2, np.tile([0.0, 1.0], (2, 1)))
    got = MemoryRows.of(X).only(kept).add(query, NOWHERE, None)
    assert np.array_equal(got, count_columns(np.where(kept[:, None], X, 0.0), query))


def test_a_row_moves_one_count_per_column(rng):
    """Both bounds, by search over hard rows: norm √k, difference √(2k), and both are reached."""
    query = ColumnCounts.of(3, np.tile(octave_edges(-3, 3), (3, 1)), missing=9.0)
    rows = rng.choice(HARD, (200, 3))
    terms = [MemoryRows.of(row[None]).add(query, NOWHERE, None) for row in rows]
    norms = [np.linalg.norm(term) for term in terms]
    gaps = [np.linalg.norm(a - b) for a in terms[:40] for b in terms[:40]]
    assert max(norms) == pytest.approx(query.norm_bound, rel=1e-15) == pytest.approx(sqrt(3))
    assert max(gaps) == pytest.approx(query.difference_bound, rel=1e-15) == pytest.approx(sqrt(6))
    X = rng.choice(HARD, (300, 3))
    whole = MemoryRows.of(X).add(query, NOWHERE, None)
    assert np.array_equal(whole, MemoryRows.of(X[::-1]).add(query, NOWHERE, None))


def test_octaves_are_told_apart_at_their_ends():
    edges = octave_edges(-2, 2)
    values = np.array([-4.0, -2.0, -1.0, -0.1, 0.0, 0.1, 0.25, 1.0, 2.0, 3.99, 4.0])
    bins = np.searchsorted(edges, values, side="right")
    assert len(set(bins[[4]])) == 1
    assert bins[9] == bins[8]  # 2 ≤ x < 4
    assert bins[10] == bins[9] + 1
    assert bins[0] < bins[1] < bins[2] < bins[3] < bins[4] < bins[5]


def test_what_the_query_refuses():
    with pytest.raises(ValueError, match="ascending numbers from 0 to 2"):
        ColumnCounts.of(3, np.zeros((2, 1)), columns=(1, 1))
    with pytest.raises(ValueError, match="ascending numbers"):
        ColumnCounts.of(1, np.array([[2.0, 1.0]]))
    with pytest.raises(ValueError, match="shape"):
        ColumnCounts.of(3, np.zeros((2, 1)))
    with pytest.raises(ValueError, match="missing code"):
        ColumnCounts.of(1, np.zeros((1, 1)), missing=np.nan)


# --- formulas ------------------------------------------------------------------------------


def test_the_law_of_a_hypothesis_is_students():
    from scipy.stats import t

    x = np.array([-np.inf, -50.0, -1.0, 0.0, 0.3, 7.0, np.inf])
    np.testing.assert_allclose(t3_below(x), t(3).cdf(x), atol=1e-12)


def test_shares_on_the_simplex_are_the_nearest(rng):
    for _ in range(20):
        y = rng.standard_normal(6)
        x = on_simplex(y)
        assert x.min() >= 0.0
        assert x.sum() == pytest.approx(1.0)
        others = rng.dirichlet(np.ones(6), 200)
        assert np.linalg.norm(x - y) <= np.linalg.norm(others - y, axis=1).min() + 1e-12
    np.testing.assert_array_equal(on_simplex(np.array([1e20, -1e20, 0.0])), [1.0, 0.0, 0.0])


def histogram(x, edges):
    counts = np.bincount(np.searchsorted(edges, x, side="right"), minlength=len(edges) + 1)
    return Counts(edges, counts / len(x), np.zeros(len(counts)))


def test_median_and_scale_of_a_fine_histogram(rng):
    x = rng.standard_normal(200_000) * 3.0 + 5.0
    edges = np.linspace(-20.0, 30.0, 2001)
    found = spread(histogram(x, edges), RULE)
    assert found.median == pytest.approx(np.median(x), abs=0.03)
    assert found.scale == pytest.approx(3.0, rel=0.01)
    assert found.others > 0.9


def test_an_atom_at_the_median_leaves_the_scale_to_the_other_cells(rng):
    x = np.where(rng.random(100_000) < 0.7, 5.0, 5.0 + 2.0 * rng.standard_normal(100_000))
    edges = np.unique(np.concatenate([np.linspace(-5.0, 15.0, 801), [5.0, np.nextafter(5.0, 6.0)]]))
    found = spread(histogram(x, edges), RULE)
    assert found.median == 5.0
    assert found.scale == pytest.approx(2.0, rel=0.05)


def test_public_facts_decide():
    assert RULE.share_of(1e9) == 0.3
    assert RULE.share_of(50.0) == pytest.approx(2.74 / 50.0**0.5)
    assert RULE.share_of(RULE.least_kappa) == pytest.approx(2.74 / 5.0)
    assert kappa_of(0.5, 1000, 25) == 100.0


def test_what_follows_from_other_constants():
    assert RULE.first_share == pytest.approx(0.3)
    assert RULE.most_zooms * RULE.zoom_share == pytest.approx(RULE.all_zooms_share)
    assert RULE.atom_width == 2.0**-16
    assert RULE.negligible == pytest.approx(0.0005)


# --- the method ----------------------------------------------------------------------------


def test_laws_inside_the_narrowest_bin_have_a_scale():
    laws = within(np.array([0.0, np.nan]), np.array([5e-324, np.nan]), np.zeros(2), 10)
    assert np.all(laws.scale > 0.0)
    masses = laws.masses(np.array([[0.0, 5e-324, 1.0]] * 2))
    np.testing.assert_allclose(masses.sum(axis=2), 1.0)
    assert np.isneginf(laws.prior).tolist() == [[False] * 10, [True] * 10]  # no bin, no weight


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 1e6, 1e18, 1e40, 1e300])
def test_whatever_is_released_the_shares_fit_and_it_ends(rng, scale):
    method, allowance = Standardiser(4), Allowance(0.5, 3000)
    for _ in range(6):
        state, spent, coordinates, passes = method.begin(allowance), 0.0, 0, 0
        while (ask := method.ask(state)) is not None:
            ((query, share),) = ask.shares
            spent, coordinates = spent + share, coordinates + query.noise.coordinates
            value = scale * rng.standard_normal(query.shape)
            state = method.take(state, (Answer(value, allowance.sd(query, share)),))
            passes += 1
        assert spent <= 1.0 + 1e-12
        assert coordinates <= method.coordinates
        assert passes <= method.n_passes
        center, found = method.outcome(state).V
        assert np.isfinite(center).all()
        assert (found > 0.0).all()


def found(X, mu=0.5, seed=0, **options):
    plan = AdaptivePlan("s", Standardiser(X.shape[1], **options), len(X), mu=mu)
    return run(plan, MemoryRows.of(X), seeded_generator(seed)).V


def table(rng, n=20_000):
    """Columns of all kinds, and the centre and scale that each should come to."""
    z = rng.standard_normal((n, 9))
    X = np.column_stack(
        [
            z[:, 0],
            1e9 + z[:, 1],  # an offset of thirty octaves
            -4e-7 * (5.0 + z[:, 2]),
            np.round(3.0 * z[:, 3]),
            np.exp(2.0 * z[:, 4]),
            np.where(z[:, 5] > 0.0, 250.0 + 20.0 * z[:, 6], 0.0),  # half of it zeros
            2000.0 + np.round(10.0 * z[:, 7]),
            rng.standard_t(2, n) * 0.01,
            rng.integers(0, 2, n).astype(float),
        ]
    )
    middle = np.median(X, axis=0)
    return X, middle, 1.4826 * np.median(np.abs(X - middle), axis=0)


def test_columns_of_all_kinds_are_resolved(rng):
    X, middle, mad = table(rng)
    center, scale = found(X)
    for j in (0, 2, 3, 6, 7):
        assert abs(np.log2(scale[j] / mad[j])) < 0.7, j
        assert abs(center[j] - middle[j]) < 0.5 * mad[j], j
    # Strong skew and a far offset may be dropped; a scale that is far too small never comes out.
    assert scale[4] > mad[4] / 2.0
    assert scale[1] > mad[1] / 2.0
    assert 5.0 < scale[5] < 1000.0  # half zeros: the units of the others
    assert np.isinf(scale[8]) or 0.1 < scale[8] < 10.0


def test_constants_and_empty_columns_are_dropped(rng):
    X = rng.standard_normal((5000, 4))
    X[:, 1], X[:, 2] = 7.0, np.nan
    _, scale = found(X)
    assert np.isfinite(scale).tolist() == [True, False, False, True]


def test_missing_cells_and_outliers_do_not_move_the_scale(rng):
    X = 50.0 + 3.0 * rng.standard_normal((20_000, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[rng.random(len(X)) < 0.2] = 1e6
    X[rng.random(X.shape) < 0.1] = -99.0
    center, scale = found(X, missing=-99.0)
    np.testing.assert_allclose(center, 50.0, atol=3.0)
    assert np.all(np.abs(np.log2(scale / 3.0)) < 1.5)


@pytest.mark.parametrize("missing", [0.0, 0.6])
def test_centre_and_scale_are_those_of_the_present_cells(missing):
    """Four values: missing cells must not spread over the bins between them."""
    drawn = np.random.default_rng(0)
    X = drawn.choice([1.0, 2.0, 3.0, 4.0], (20_000, 4), p=[0.05, 0.25, 0.3, 0.4])
    X[drawn.random(X.shape) < missing] = np.nan
    center, scale = found(X, mu=0.6)
    np.testing.assert_allclose(center, 3.0, atol=0.1)
    np.testing.assert_allclose(scale, RULE.to_sd, atol=0.1)  # cells one away from the median


def test_a_missing_code_is_known_in_float32_too(rng):
    X = 50.0 + 3.0 * rng.standard_normal((20_000, 2))
    X[rng.random(X.shape) < 0.6] = -99.9  # float32 has no such number
    for A in (X, X.astype(np.float32)):
        center, _ = found(A, missing=-99.9)
        np.testing.assert_allclose(center, 50.0, atol=1.5)


# --- in a fit ------------------------------------------------------------------------------


def units(rng, n=10_000, D=8):
    """Two strong directions in standard units, then columns in units of their own."""
    V = np.linalg.qr(rng.standard_normal((D, 2)))[0]
    Z = rng.standard_normal((n, 2)) @ V.T + 0.15 * rng.standard_normal((n, D))
    scale = np.exp2(rng.integers(-12, 12, D))
    center = 20.0 * scale * rng.standard_normal(D)
    return Z * scale + center, np.linalg.svd(Z / Z.std(axis=0), full_matrices=False)[2][:2]


def test_units_and_offsets_do_not_matter_to_a_standardised_fit(rng):
    X, components = units(rng)
    fit = PrivateRobustPCA(2, epsilon=2.0, center="private", scale="private").fit(X)
    assert subspace_error(fit.components_, components) < 0.05
    with pytest.warns(AsItIsWarning, match="one direction"):
        as_it_is = PrivateRobustPCA(2, epsilon=2.0, center=None).fit(X)
    assert subspace_error(as_it_is.components_, components) > 0.5
    assert fit.privacy_.private
    assert 1.99 < fit.privacy_.epsilon <= 2.0
    assert fit.plan_.event() == fit.privacy_.event
    assert len(fit.dropped_columns_) == 0
    scores = fit.transform(X)
    assert 0.3 < np.median(np.abs(scores)) < 5.0


def test_dropped_columns_take_no_part(rng):
    X, _ = units(rng)
    X[:, 3] = 5.0
    fit = PrivatePCA(2, epsilon=2.0, center="private", scale="private").fit(X)
    assert fit.dropped_columns_.tolist() == [3]
    assert np.array_equal(fit.components_[:, 3], np.zeros(2))
    np.testing.assert_allclose(fit.components_ @ fit.components_.T, np.eye(2), atol=1e-12)
    assert np.isfinite(fit.inverse_transform(fit.transform(X))).all()


def test_the_stage_is_charged_and_has_the_noise_that_it_states(rng, tmp_path):
    X, _ = units(rng, n=3000)
    budget = Budget(tmp_path / "l.db", epsilon=3.0, delta=1e-5)
    fit = PrivateRobustPCA(2, delta=1e-6, center="private", scale="private", budget=budget).fit(X)
    ((first, _), *_) = fit.privacy_.event.parts
    kappa = kappa_of(mu_from_budget(1.0, 1e-6), 3000, 8)
    share = float(first.squared_mu("replace-one")) / mu_from_budget(1.0, 1e-6) ** 2
    assert share == pytest.approx(RULE.share_of(kappa), rel=1e-6)
    assert budget.entries()[-1].event == fit.privacy_.event
    assert check_noise(fit.plan_, X, random_state=0).ok


def test_tables_that_are_too_small_are_refused_before_the_charge(tmp_path):
    budget = Budget(tmp_path / "l.db", epsilon=3.0, delta=1e-5)
    X = np.ones((100, 9))
    with pytest.raises(ValueError, match="kappa"):
        PrivateRobustPCA(2, scale="private", budget=budget).fit(X)
    with pytest.raises(ValueError, match="does not go with center='pairs'"):
        PrivateRobustPCA(2, center="pairs", scale="private", budget=budget).fit(np.ones((9000, 9)))
    assert budget.entries() == ()


def test_any_rows_take_the_same_path():
    """No error, warning or attribute depends on the rows, whatever they hold."""
    tables = [np.zeros((4000, 5)), np.full((4000, 5), np.nan), np.full((4000, 5), 1e300)]
    fits = [PrivatePCA(2, center="private", scale="private").fit(X) for X in tables]
    assert len({fit.plan_ for fit in fits}) == 1
    assert len({str(fit.privacy_) for fit in fits}) == 1
    for fit in fits:
        assert np.isfinite(fit.components_).all()
        assert np.isfinite(fit.scale_).all()


def test_the_largest_scores_are_kept(rng):
    """Ties and infinities among them."""
    score = np.round(4.0 * rng.standard_normal((6, 3000)), 1)
    score[rng.random(score.shape) < 0.1] = -np.inf
    for row, some in zip(score, _largest(score, 64), strict=True):
        assert np.array_equal(np.sort(row[some]), np.sort(row)[-64:])
        assert len(set(some)) == 64


def laws_of(rng, columns, k):
    center = rng.standard_normal((columns, k))
    side = rng.choice([-1.0, 0.0, 1.0], (columns, k))
    octave = rng.uniform(-3.0, 3.0, (columns, k))
    return Hypotheses(center, 0.1 * np.exp2(octave), octave, side, rng.random((columns, k)))


def test_masses_of_laws_are_those_of_students_law(rng):
    from scipy.stats import t

    laws, edges = laws_of(rng, 3, 7), np.sort(rng.standard_normal((3, 6)), axis=1)
    edges[1, 4:] = np.inf  # filled up
    got = laws.masses(edges)
    for c in range(3):
        for k in range(7):
            side = laws.side[c, k]
            below = t.cdf((edges[c] - laws.center[c, k]) / laws.scale[c, k], 3)
            below = np.clip((1.0 + abs(side)) * below - max(side, 0.0), 0.0, 1.0)
            want = np.diff(below, prepend=0.0, append=1.0)
            np.testing.assert_allclose(got[c, k], want, atol=3e-7)


def test_a_law_without_weight_stretches_no_quantile():
    """A column with one likely law, beside a column with two: both are handled at once."""
    center, octave = np.array([[0.0, 1e6], [0.0, 5.0]]), np.zeros((2, 2))
    laws = Hypotheses(center, octave, octave, octave, octave)
    weights = np.array([[1.0, 0.0], [0.6, 0.4]])
    levels = np.arange(1.0, 48.0) / 48.0
    one, two = laws.quantiles(weights, levels)
    assert np.max(np.abs(one)) < 5.0
    assert 5.0 < np.max(two) < 10.0


def test_parts_of_a_box_fill_it_and_share_its_weight(rng):
    laws = laws_of(rng, 4, 5)
    laws.reach[:2] *= 40.0
    laws.prior[2, 3] = -np.inf
    found = laws.split(np.linspace(-9.0, 9.0, 400)[None].repeat(4, axis=0), RULE.parts_of_heavy_bin)
    for c in range(4):
        live, parts = ~np.isneginf(laws.prior[c]), ~np.isneginf(found.prior[c])
        weight = np.exp(found.prior[c, parts])
        assert weight.sum() == pytest.approx(np.exp(laws.prior[c, live]).sum())
        assert found.reach[c, parts].sum() == pytest.approx(laws.reach[c, live].sum())
        middle = (laws.center * np.exp(laws.prior))[c, live].sum()
        assert (found.center[c, parts] * weight).sum() == pytest.approx(middle)
    twice = laws.halved(np.array([1.0, 1.0, 0.25, 1.0]), 0.25)
    total = np.exp(twice.prior).sum(axis=1)
    np.testing.assert_allclose(total, np.exp(laws.prior).sum(axis=1))
    assert np.isneginf(twice.prior[2, 5:]).all()


def test_quantiles_of_a_mixture_are_where_its_mass_is(rng):
    laws = laws_of(rng, 3, 40)
    laws.side[:] = 0.0
    weights = -np.sort(-rng.dirichlet(np.full(40, 0.5), 3), axis=1)
    levels = np.arange(1, 16) / 16.0
    for c, got in enumerate(laws.quantiles(weights, levels)):
        masses = laws[c].masses(got)  # a law stands for a box of centres
        below = np.cumsum(weights[c] @ masses)[:-1]
        np.testing.assert_allclose(below, levels, atol=0.06)


@pytest.mark.parametrize("weights", [(1.0,), (0.5, 0.5), (0.9, 0.1), (0.98, 0.01, 0.01)])
def test_quantiles_of_few_laws_do_not_gather(weights):
    """Scales of 1, 1.1, …: each of the 48 bins holds its part of the mixture."""
    k = len(weights)
    zero, octave = np.zeros((1, k)), np.log2(1.0 + 0.1 * np.arange(k))[None]
    laws, levels = Hypotheses(zero, zero, octave, zero, zero), np.arange(1.0, 48.0) / 48.0
    (got,) = laws.quantiles(np.array([weights]), levels)
    below = np.cumsum(np.array(weights) @ laws[0].masses(got))[:-1]
    np.testing.assert_allclose(below, levels, atol=0.1 / 48.0)


def test_the_half_of_a_law_has_its_whole_weight():
    one, zero = np.ones((1, 2)), np.zeros((1, 2))
    laws = Hypotheses(zero, zero, zero, one * [1.0, -1.0], zero)
    (got,) = laws.quantiles(np.array([[0.75, 0.25]]), np.array([0.24, 0.26]))
    assert got[0] < 0.0 < got[1]


def test_quantiles_of_a_look_are_those_of_its_clear_closed_bins():
    edges = np.array([[0.0, 1.0, 2.0, 4.0, np.inf]])
    look = Look(np.arange(1), edges, np.array([[0.3, 0.2, 0.001, 0.4, 0.099, 0.0]]), 1e-3)
    np.testing.assert_allclose(look.quantiles(0, np.array([1 / 6, 2 / 3]), 3.0), [0.5, 3.0])
    assert len(look.quantiles(0, np.array([0.5]), 1e3)) == 0


def first_look(tables, sd=1e-3):
    known = tuple(r for _, r in tables)
    edges = in_one_table([first_edges(RULE, r) for r in known])
    counts = [np.searchsorted(e, x, side="right") for (x, _), e in zip(tables, edges, strict=True)]
    shares = [np.bincount(c, minlength=edges.shape[1] + 1) / len(c) for c in counts]
    return Look.of(np.arange(len(known)), edges, np.array(shares), sd), known


def test_the_last_look_counts_cells_that_a_narrow_belief_forgets(rng):
    """A frequent value, 8, may be taken for a narrow column: the other cells lie around it."""
    x = np.where(rng.random(5000) < 0.4, 8.0, np.rint(8.0 + 2.5 * rng.standard_normal(5000)))
    look, known = first_look([(x, None)])
    found = beliefs_after_first(look, np.zeros(1), known, RULE)
    zero = np.zeros_like(found.weights)
    narrow = Hypotheses(zero + 8.0, zero, zero - 9.0, zero, zero)
    found = found._replace(laws=narrow, heavy=np.full((1, 3), np.nan))
    for last in (True, False):
        (edges,) = found.next_edges(np.arange(1), 1e-3, last=last)
        away = np.abs(edges - 8.0)
        assert np.count_nonzero((away > 0.5) & (away < 8.0)) >= 15 * last
        assert last or away.max() < 0.5
        assert len(edges) < RULE.most_bins


def test_columns_are_weighed_as_if_each_were_alone(rng):
    """Atoms, heavy bins and public ranges of one column change nothing for another."""
    cells = 1e6 + rng.standard_normal(5000)
    tables = [
        (cells, None),
        (np.where(rng.random(5000) < 0.6, 0.0, cells), None),
        (rng.standard_normal(5000), None),
        (rng.integers(0, 9, 5000) + 0.0, Range(0.0, 8.0)),
    ]
    look, known = first_look(tables)
    together = beliefs_after_first(look, np.zeros(4), known, RULE)
    edges = in_one_table(together.next_edges(np.arange(4), 1e-3, last=False))
    shares = np.full((4, edges.shape[1] + 1), 1.0 / (edges.shape[1] + 1))
    after = together.after(Look.of(np.arange(4), edges, shares, 1e-3))
    for j, table_ in enumerate(tables):
        look, known = first_look([table_])
        alone = beliefs_after_first(look, np.zeros(1), known, RULE)
        np.testing.assert_allclose(alone.octave, np.array(together.octave)[:, [j]], atol=1e-4)
        alone = alone.after(Look.of(np.arange(1), edges[[j]], shares[[j]], 1e-3))
        np.testing.assert_allclose(alone.octave, np.array(after.octave)[:, [j]], atol=1e-4)
        np.testing.assert_allclose(alone.uncertainty, after.uncertainty[[j]], rtol=1e-3)


def test_a_look_has_no_more_bins_than_are_accounted_for(rng):
    """The most quantiles, a heavy bin, and an atom from the first and from every closer look."""
    look, known = first_look([(rng.standard_normal(5000) * 3.0 + 100.0, None)])
    first, method = beliefs_after_first(look, np.zeros(1), known, RULE), Standardiser(1)
    places = 100.0 + np.arange(1.0 + RULE.most_zooms) / 7.0
    atoms = np.column_stack([places, np.nextafter(places, np.inf), np.full(len(places), 0.01)])
    full = first._replace(atoms=atoms[None], heavy=np.array([[90.0, 110.0, 0.5]]))
    (edges,) = full.next_edges(np.arange(1), 1e-6, last=False)
    assert RULE.most_bins + RULE.parts_of_heavy_bin < len(edges)
    of_first = ColumnCounts.of(1, first_edges(RULE)[None]).noise.coordinates
    rest = (1 + RULE.most_zooms) * ColumnCounts.of(1, edges[None]).noise.coordinates
    assert of_first + rest <= method.coordinates <= of_first + 1.01 * rest


def test_bins_that_decide_nothing_change_no_weight(rng):
    """The outline of the first look gives the weights that all of its bins would give."""
    look, known = first_look([(rng.standard_normal(5000) * s + m, None) for s, m in MANY])
    found = beliefs_after_first(look, np.zeros(len(MANY)), known, RULE)
    assert found.outline.edges.shape[1] < look.edges.shape[1] / 2
    rows = np.arange(len(MANY))
    both = found, found._replace(outline=look)
    outline, whole = (belief._logarithms(rows, found.laws) for belief in both)
    outline, whole = (x - x.max(axis=1, keepdims=True) for x in (outline, whole))
    likely = found.weights > 1e-3
    np.testing.assert_allclose(outline[likely], whole[likely], atol=0.05)


MANY = [(1.0, 0.0), (1e-6, 0.0), (3.0, 100.0), (50.0, -20.0)]
