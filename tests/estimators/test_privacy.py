"""What a private fit may and may not do with rows."""

import pickle
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import NotAccountedError
from stillspace.metrics import subspace_error
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.recipes import PRIVATE
from stillspace.rows import pairs as pairs_module

ESTIMATORS = [PrivateRobustPCA, PrivatePCA]


def rows(n=300, D=6, seed=0, **options):
    return make_haystack(n, D, 2, random_state=seed, **options).X


def deep_text(value, depth=0):
    """Every number and word that an estimator holds."""
    if depth > 12:
        return ""
    if hasattr(value, "__dict__"):
        value = vars(value)
    elif hasattr(value, "__slots__"):
        value = {s: getattr(value, s) for s in value.__slots__}
    if isinstance(value, dict):
        return " ".join(f"{k} {deep_text(v, depth + 1)}" for k, v in value.items())
    if isinstance(value, tuple | list):
        return " ".join(deep_text(v, depth + 1) for v in value)
    return repr(value)


@pytest.mark.parametrize("name", [n for n in PRIVATE if n != "ptr"])
def test_a_plan_depends_on_public_facts_only(name):
    options = {"n_iter": 5} if "n_iter" in PRIVATE[name].options else {}
    fits = [
        PrivateRobustPCA(2, algorithm=name, **options).fit(X)
        for X in (rows(), np.zeros((300, 6)), np.full((300, 6), np.nan), 1e300 * rows(seed=1))
    ]
    assert len({fit.plan_ for fit in fits}) == 1
    if not isinstance(fits[0].plan_.main, AdaptivePlan):  # whose passes depend on releases
        assert len({fit.n_iter_ for fit in fits}) == 1
    assert len({str(fit.privacy_) for fit in fits}) == 1
    for fit in fits:
        assert np.isfinite(fit.components_).all()


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("n", [0, 1, 2, 137, 999])
def test_add_or_remove_hides_the_number_of_rows(make, n):
    """Any number of rows takes the same path, and the number stands nowhere in the result."""
    options = {"neighboring_relation": "add-or-remove-one", "public_size": 500}
    X = rows(999)[:n]
    options["center"] = None  # dropped columns follow from releases, and have a length
    fit = make(2, **options).fit(X)
    reference = make(2, **options).fit(rows(300))
    assert fit.plan_ == reference.plan_
    assert str(fit.privacy_) == str(reference.privacy_)
    assert vars(fit).keys() == vars(reference).keys()
    held = deep_text({k: v for k, v in vars(fit).items() if k != "components_"})
    if n in {137, 999}:
        assert not re.search(rf"(?<![.\d]){n}\b", held)
    fit.route_ = reference.route_ = ""  # words that follow from releases
    assert len(pickle.dumps(fit)) == len(pickle.dumps(reference))


@pytest.mark.filterwarnings("ignore::stillspace.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_secret_number_of_rows_changes_no_bit_of_a_result(make):
    """Zero rows add nothing to these sums, so a fit with the same noise must not notice them."""
    options = {"neighboring_relation": "add-or-remove-one", "public_size": 500, "random_state": 3}
    options |= {"center": None, "scale": None, "epsilon": 4.0}
    summaries = ("variances", "distances", "scores", "scree", "certificate")
    found = []
    for more in (0, 400):
        X = np.vstack([rows(600), np.zeros((more, 6))])
        fit = make(2, **options, summaries=summaries).fit(X)
        held = {k: v for k, v in vars(fit).items() if k.endswith("_")}
        found.append({k: pickle.dumps(v) for k, v in held.items()})
    assert found[0] == found[1]


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_private_fit_holds_nothing_but_public_things(make):
    fit = make(2).fit(rows())
    fitted = {k for k in vars(fit) if k.endswith("_")}
    assert fitted == {
        "components_",
        "center_",
        "scale_",
        "n_iter_",
        "plan_",
        "privacy_",
        "n_features_in_",
        "sketch_",
        "error_estimate_",
        "route_",
        "variances_",
        "distance_quantiles_",
        "pair_cut_",
        "left_out_",
        "dropped_columns_",
        "certificate_",
        "score_map_",
        "scree_",
        "receipt_",
    }
    assert "Generator" not in deep_text(vars(fit))


@pytest.mark.parametrize("make", ESTIMATORS)
def test_non_finite_rows_count_as_zero_rows(make):
    X = rows()
    bad, zero = X.copy(), X.copy()
    bad[3, 2], bad[7, 0], bad[9] = np.nan, np.inf, -np.inf
    zero[[3, 7, 9]] = 0.0
    with pytest.warns(UserWarning, match="experiments"):
        fits = [make(2, random_state=1, nonfinite="zero").fit(A).components_ for A in (bad, zero)]
    assert np.array_equal(*fits)
    bad[3, 2], zero[3] = X[3, 2], X[3]  # an infinite cell makes a zero row in any case
    with pytest.warns(UserWarning, match="experiments"):
        fits = [make(2, random_state=1).fit(A).components_ for A in (bad, zero)]
    assert np.array_equal(*fits)


def hard_tables():
    """One cell of each is trouble: what happens must not tell that it is there."""
    X = rows()
    missing = pd.DataFrame(X, columns=list("abcdef")).astype("Float64")
    missing.iloc[3, 1] = pd.NA
    objects = X.astype(object)
    objects[5, 0] = 10**400
    nothing = X.astype(object)
    nothing[5, 0] = None
    signalling = X.astype(np.float32)
    signalling.view(np.uint32)[7, 2] = 0x7FA00000
    wide = X.astype(np.longdouble)
    wide[0, 0] = np.longdouble("1e4000")
    thin = X.copy()
    thin[0] = [1, 1e-200, 0, 0, 0, 5e-324]
    polars = pl.DataFrame({c: [None, *X[1:, i]] for i, c in enumerate("abcdef")})
    return {
        "pandas.NA": missing,
        "10**400": objects,
        "None": nothing,
        "signalling NaN": signalling,
        "beyond float64": wide,
        "underflow": thin,
        "polars null": polars,
    }


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("case", hard_tables())
def test_no_warning_or_error_tells_of_a_row(make, case):
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        fit = make(2, center=None).fit(hard_tables()[case])
    assert np.isfinite(fit.components_).all()
    assert fit.privacy_.private


@pytest.mark.parametrize("make", ESTIMATORS)
def test_nonfinite_raise_is_an_assumption(make):
    X = rows()
    fit = make(2, nonfinite="raise").fit(X)
    assert any("NaN" in a for a in fit.privacy_.assumptions)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        make(2, nonfinite="raise").fit(X)


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_the_guarantee(make, relation):
    size = {"public_size": 300} if relation == "add-or-remove-one" else {}
    fit = make(2, epsilon=0.7, delta=1e-7, neighboring_relation=relation, **size).fit(rows())
    promise = fit.privacy_
    assert promise.private
    assert 0.699 <= promise.epsilon <= 0.7
    assert promise.delta == 1e-7
    assert promise.neighboring_relation == relation
    assert promise.accountant == "exact Gaussian"
    assert promise.event == fit.plan_.event()
    assert promise.get_delta(0.7) <= 1e-7
    assert promise.get_epsilon(1e-9) > 0.7
    assert promise.get_delta(0.5) > promise.get_delta(0.7)
    text = " ".join(promise.assumptions)
    for word in (
        "before the fit",
        "scores",
        "other fits",
        "parameters",
        "ChaCha20",
        "number",
        "row",
    ):
        assert word in text


def test_default_delta():
    assert PrivateRobustPCA(2, center=None).fit(rows(300)).privacy_.delta == 1e-6
    fit = PrivateRobustPCA(
        2, neighboring_relation="add-or-remove-one", public_size=1_000_000, center=None
    ).fit(rows(300))
    assert fit.privacy_.delta == pytest.approx(1e-9)


def test_public_arguments_are_assumptions():
    fit = PrivateRobustPCA(
        2,
        center=np.zeros(6),
        algorithm="dp-ggd",
        n_iter=5,
        rows_per_person=3,
        algorithm_options={"start": np.eye(6)[:2]},
    ).fit(rows())
    text = " ".join(fit.privacy_.assumptions)
    assert "center" in text
    assert "given start" in text
    assert "3 rows" in text
    assert "up to 3 rows of a person are replaced by others" in str(fit.privacy_)


def test_the_order_of_the_rows_is_an_assumption_where_they_are_read_by_their_place(
    tmp_path, monkeypatch
):
    """Pairs of a long table in a file are the one such place."""
    np.save(tmp_path / "X.npy", rows())
    paired = PrivatePCA(2, center="pairs")
    short = clone(paired).fit(tmp_path / "X.npy")
    monkeypatch.setattr(pairs_module, "PAIR_CELLS", 60)
    fits = (
        PrivatePCA(2).fit(rows()),
        PrivatePCA(2, neighboring_relation="add-or-remove-one", public_size=300).fit(rows()),
        short,
        clone(paired).fit(rows()),
        PrivatePCA(2).fit(tmp_path / "X.npy"),
        clone(paired).fit(tmp_path / "X.npy"),
    )
    said = [any("was not sorted" in text for text in fit.privacy_.assumptions) for fit in fits]
    assert said == [False, False, False, False, False, True]


def test_as_printed_says_what_it_is():
    fit = PrivateRobustPCA(
        2,
        epsilon=0.8,
        delta=0.01,
        algorithm="dp-sggd",
        n_iter=300,
        calibration="as-printed",
        center=None,
    )
    with pytest.warns(UserWarning, match="1/n"):
        fit.fit(rows(300))
    assert not fit.privacy_.private
    assert fit.privacy_.epsilon > 1000
    assert "No privacy is promised" in str(fit.privacy_)


@pytest.mark.parametrize("sampling", ["with-replacement", "without-replacement"])
def test_as_printed_is_refused_where_nobody_could_say_what_it_gives(sampling):
    options = {"neighboring_relation": "add-or-remove-one", "public_size": 300}
    fit = PrivateRobustPCA(
        2,
        algorithm="dp-sggd",
        n_iter=10,
        calibration="as-printed",
        algorithm_options={"sampling": sampling},
        **options,
    )
    with pytest.raises(NotAccountedError, match="Poisson"):
        fit.fit(rows())


def test_robust_fits_promise_nothing():
    promise = RobustPCA(2).fit(rows()).privacy_
    assert not promise.private
    assert promise.epsilon == np.inf
    assert "No privacy" in str(promise)


def test_a_row_moves_a_seeded_release_by_no_more_than_its_bound():
    """Neighbours and the same noise: the released second moments differ by √2/n at most."""
    X = rows(400)
    Y = X.copy()
    Y[17] = -3.0 * X[200]
    from stillspace.parts.noise import seeded_generator
    from stillspace.recipes import Facts, make_plan
    from stillspace.rows import MemoryRows
    from stillspace.run import run

    plan = make_plan("dp-pca", Facts(400, 6, 2, 1.0, 1e-6))
    moments = [run(plan, MemoryRows.prepare(A), seeded_generator(3)).moment for A in (X, Y)]
    assert np.linalg.norm(moments[0] - moments[1]) <= 2**0.5 / 400 * (1 + 1e-6)
    assert np.linalg.norm(moments[0] - moments[1]) > 0


def test_norm_bound_clips_to_a_public_norm():
    """Long rows count more than short ones, up to the bound; far beyond it, no more."""
    rng = np.random.default_rng(0)
    short = np.zeros((3000, 5))
    short[:, 0] = rng.choice([-0.1, 0.1], 3000)
    long = np.zeros((3000, 5))
    long[:, 1] = rng.choice([-50.0, 50.0], 3000)
    X = np.vstack([short, long])
    fit = PrivatePCA(1, norm_bound=1.0, epsilon=5.0, center=None).fit(X)
    assert abs(fit.components_[0, 1]) > 0.99
    assert fit.privacy_.private
    unit = PrivatePCA(1, norm_bound=1.0, epsilon=5.0, center=None).fit(X / 1e3)
    assert unit.plan_ == fit.plan_


def test_rows_per_person_multiplies_the_noise():
    one = PrivatePCA(2, center=None).fit(rows()).plan_.main.start.release
    three = PrivatePCA(2, rows_per_person=3, center=None).fit(rows()).plan_.main.start.release
    assert three.sigma(0) == pytest.approx(3 * one.sigma(0), rel=1e-6)
    assert replace(three, rows_per_person=1).sensitivity() * 3 == three.sensitivity()


def test_components_are_ordered_by_the_released_moment():
    scales = [3.0, 1.0]
    data = make_haystack(20_000, 8, 2, inlier_ratio=1.0, inlier_scales=scales, random_state=2)
    fit = PrivateRobustPCA(2, epsilon=4.0, center=None).fit(data.X)
    cosines = np.abs(fit.components_ @ data.components.T)
    assert np.diag(cosines).min() > 0.95
    largest = np.argmax(np.abs(fit.components_), axis=1)
    assert (fit.components_[np.arange(2), largest] > 0).all()


@pytest.mark.parametrize("name", [n for n in PRIVATE if n not in {"auto", "ptr"}])
def test_every_private_algorithm_recovers_at_a_generous_budget(name):
    """The limit is forty times the largest error in 15 fits of each."""
    data = make_haystack(20_000, 6, 2, inlier_ratio=0.6, random_state=3)
    fit = PrivateRobustPCA(2, algorithm=name, epsilon=8.0, center=None).fit(data.X)
    assert fit.privacy_.private
    assert subspace_error(fit.components_, data.components) < 0.01


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("center", [None, "pairs"])
def test_everything_that_is_published_is_listed_for_users(make, center):
    """SECURITY.md names every attribute that a private fit leaves behind."""
    frame = pd.DataFrame(rows(), columns=list("abcdef"))
    fit = make(2, center=center, summaries=("variances", "distances")).fit(frame)
    text = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
    published = {name for name in vars(fit) if name.endswith("_")}
    assert published >= {"route_", "error_estimate_", "pair_cut_", "distance_quantiles_"}
    assert {name for name in published if f"`{name}`" not in text} == set()
