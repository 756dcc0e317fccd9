"""The default centre and scale of private fits, public ranges, and what is said about them."""

import warnings

import numpy as np
import pytest

from stillspace import Budget, PrivatePCA, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import AsItIsWarning
from stillspace.methods.standardiser import STANDARDISER_RULE, Standardiser, kappa_of
from stillspace.metrics import subspace_error
from stillspace.privacy import mu_from_budget

PRIVATE = (PrivateRobustPCA, PrivatePCA)
UNITS = np.array([1e-3, 1.0, 40.0, 1e4, 7.0, 300.0])
MIDDLES = np.array([5.0, -20.0, 1e4, 0.0, 1900.0, 2e3])


@pytest.fixture(scope="module")
def table():
    """A table of 6000 rows with its right components: two factors, units, means, bad rows."""
    rng = np.random.default_rng(11)
    loadings = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    X = rng.standard_normal((6000, 2)) @ (loadings * [3.0, 2.0]).T
    X += 0.4 * rng.standard_normal(X.shape)
    X /= 1.4826 * np.median(np.abs(X), axis=0)
    _, _, right = np.linalg.svd(X / np.linalg.norm(X, axis=1, keepdims=True))
    return X * UNITS + MIDDLES, right[:2]


def stages(fit):
    return [type(stage).__name__ for stage in fit.plan_.stages]


def silently(make, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error", AsItIsWarning)
        return make.fit(X)


@pytest.mark.parametrize("estimator", PRIVATE)
def test_a_table_with_units_and_means_is_right_without_options(estimator, table):
    """Of 500 fits none had an error above .008, a scale off by .25 octaves or a centre by .12."""
    X, components = table
    fit = silently(estimator(2, epsilon=2.0), X)
    assert stages(fit)[0] == "StandardiseStage"
    assert np.all(np.abs(np.log2(fit.scale_ / UNITS)) < 1.0)
    assert np.all(np.abs(fit.center_ - MIDDLES) < 0.5 * UNITS)
    assert subspace_error(fit.components_, components) < 0.05
    assert fit.privacy_.private
    assert 1.99 < fit.privacy_.epsilon <= 2.0


@pytest.mark.parametrize("estimator", PRIVATE)
def test_public_facts_decide_whether_units_are_found(estimator, table, tmp_path):
    X, mu = table[0], mu_from_budget(1.0, 1e-6)
    enough = int(np.ceil(STANDARDISER_RULE.safe_kappa * np.sqrt(X.shape[1]) / mu))
    kappas = [kappa_of(mu, n, X.shape[1]) for n in (enough - 1, enough)]
    assert kappas[0] < STANDARDISER_RULE.safe_kappa <= kappas[1]
    fit = silently(estimator(2, delta=1e-6), X[:enough])
    assert stages(fit)[0] == "StandardiseStage"
    budget = Budget(tmp_path / "ledger", epsilon=5.0, delta=1e-4)
    small = estimator(2, delta=1e-6, budget=budget)
    with pytest.warns(AsItIsWarning, match=r"too small .* 40 is needed"):
        small.fit(X[: enough - 1])
    assert "StandardiseStage" not in stages(small)
    assert np.all(small.scale_ == 1.0)
    assert np.all(small.center_ == 0.0)


def test_the_word_about_a_small_table_comes_before_the_charge(table, tmp_path):
    budget = Budget(tmp_path / "ledger", epsilon=5.0, delta=1e-4)
    with pytest.raises(AsItIsWarning):
        silently(PrivateRobustPCA(2, budget=budget), table[0][:100])
    assert len(budget.entries()) == 0


def test_a_secret_number_of_rows_does_not_decide(table):
    """Under add-or-remove-one the public size decides, whatever the rows are."""
    facts = {"neighboring_relation": "add-or-remove-one", "public_size": 6000, "delta": 1e-6}
    for X in (table[0], table[0][:40]):
        assert stages(silently(PrivateRobustPCA(2, **facts), X))[0] == "StandardiseStage"
    with pytest.warns(AsItIsWarning):
        PrivateRobustPCA(2, **{**facts, "public_size": 300}).fit(table[0])


@pytest.mark.parametrize(
    ("given", "center", "scale"),
    [
        ({"center": None}, None, None),
        ({"scale": None}, None, None),
        ({"center": np.zeros(6)}, "given", None),
        ({"scale": UNITS}, None, "given"),
        ({"center": "pairs"}, None, None),
        ({"center": "private"}, "private", "private"),
        ({"scale": "private"}, "private", "private"),
        ({"center": "private", "scale": None}, "private", None),
        ({"center": None, "scale": "private"}, None, "private"),
    ],
)
def test_auto_follows_what_is_given(given, center, scale, table):
    fit = PrivateRobustPCA(2, **given).fit(table[0])
    standardised = [s for s in fit.plan_.stages if type(s).__name__ == "StandardiseStage"]
    assert bool(standardised) == ("private" in (center, scale))
    for stage in standardised:
        assert stage.center == (center == "private")
        assert stage.scale == (scale == "private")
    assert np.all(fit.scale_ == 1.0) == (scale is None)


def test_fits_without_a_place_for_a_stage_take_rows_as_they_are(table):
    start = np.eye(6)[:2]
    options = {"algorithm": "dp-ggd", "n_iter": 5, "algorithm_options": {"start": start}}
    assert "StandardiseStage" not in stages(silently(PrivateRobustPCA(2, **options), table[0]))
    printed = PrivateRobustPCA(2, algorithm="dp-ggd", n_iter=5, calibration="as-printed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "StandardiseStage" not in stages(printed.fit(table[0]))


def test_wide_rows_are_taken_as_they_are_with_a_word():
    X = np.random.default_rng(0).standard_normal((50, 300))
    with pytest.warns(AsItIsWarning, match="more columns than rows"):
        PrivateRobustPCA(2, epsilon=5.0).fit(X)


def test_rows_along_one_line_are_pointed_out(table):
    X, _ = table
    for column, factor, offset in ((3, 1e3, 0.0), (2, 1.0, 1e6)):
        Y = X.copy()
        Y[:, column] = factor * Y[:, column] + offset
        with pytest.warns(AsItIsWarning, match="one direction"):
            PrivateRobustPCA(2, center=None).fit(Y)
        silently(PrivateRobustPCA(2), Y)
    silently(PrivateRobustPCA(2, center=MIDDLES, scale=UNITS), X)
    haystack = make_haystack(3000, 8, 2, random_state=0)
    silently(PrivateRobustPCA(2, center=None), haystack.X)


def test_ranges_are_expectations_not_limits(table):
    """Ranges that hold two thirds of the cells clip none; at most a column is dropped by name."""
    X, _ = table
    span = np.column_stack([MIDDLES - 8 * UNITS, MIDDLES + 8 * UNITS])
    span[0] = np.nan
    wrong = np.column_stack([MIDDLES - UNITS, MIDDLES + UNITS])
    for bounds in (span, wrong):
        fit = silently(PrivateRobustPCA(2, epsilon=2.0, bounds=bounds), X)
        kept = np.delete(np.arange(6), fit.dropped_columns_)
        assert len(kept) >= 5
        assert np.all(np.abs(np.log2(fit.scale_[kept] / UNITS[kept])) < 1.0)
        assert any("(bounds)" in text for text in fit.privacy_.assumptions)
    method = fit.plan_.stages[0].plan.method
    assert isinstance(method, Standardiser)
    np.testing.assert_array_equal(method.bounds.array, wrong)


def test_ranges_help_where_rows_are_few(table):
    """With κ = 26 and ranges every fit resolves at least 4 of 6 columns within a factor of 3.

    Without ranges 4 is the least as often as not. In 200 fits with ranges it was 6 columns in 177
    and 5 in the others: less than 4 was never seen.
    """
    X, mu = table[0], mu_from_budget(1.0, 1e-6)
    n = int(np.ceil(26.0 * np.sqrt(6) / mu))
    bounds = np.column_stack([MIDDLES - 8 * UNITS, MIDDLES + 8 * UNITS])
    for _ in range(5):
        fit = PrivateRobustPCA(2, delta=1e-6, center="private", bounds=bounds).fit(X[:n])
        assert np.sum((fit.scale_ < 3.0 * UNITS) & (fit.scale_ > UNITS / 3.0)) >= 4


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (np.zeros((5, 2)), r"shape \(6, 2\), got shape \(5, 2\)"),
        ([[1.0, 0.0]] * 6, r"column 0 must have the smaller number first"),
        (np.zeros(6), "two numbers"),
    ],
)
def test_wrong_ranges_are_refused(bounds, words, table):
    with pytest.raises(ValueError, match=words):
        PrivateRobustPCA(2, bounds=bounds).fit(table[0])


def test_ranges_without_a_private_unit_are_refused(table):
    with pytest.raises(ValueError, match="leave bounds out"):
        PrivateRobustPCA(2, center=None, bounds=np.tile([0.0, 1.0], (6, 1))).fit(table[0])
