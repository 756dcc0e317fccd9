"""scikit-learn's own checks, and the places where its users put an estimator."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import PrivacyWarning, SeededNoiseWarning

ESTIMATORS = [RobustPCA, PrivateRobustPCA, PrivatePCA]
ROBUST = [
    RobustPCA(algorithm=a)
    for a in ("auto", "fms", "reaper-irls", "pca", "ggd", "sggd", "gd-reap", "smd-reap")
]
PRIVATE = [
    PrivateRobustPCA(),
    PrivateRobustPCA(center=None),
    PrivateRobustPCA(algorithm="dp-sggd", n_iter=5),
    PrivatePCA(),
]


@pytest.mark.filterwarnings("ignore::stillspace.exceptions.PrivacyWarning")
@pytest.mark.filterwarnings("ignore::stillspace.exceptions.SeededNoiseWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::stillspace.exceptions.DisagreementWarning")  # pure noise
@pytest.mark.parametrize("estimator", ROBUST + PRIVATE, ids=repr)
def test_scikit_learns_checks(estimator):
    """Nothing fails, and nothing is skipped but what is listed here with its reason."""
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = [(r["check_name"], repr(r["exception"])) for r in results if r["status"] == "failed"]
    assert failed == []
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    allowed = {
        # needs SCIPY_ARRAY_API in the environment; we take NumPy arrays
        "check_array_api_input",
    }
    assert skipped <= allowed
    assert sum(r["status"] == "passed" for r in results) > 30


@pytest.fixture(scope="module")
def data():
    return make_haystack(300, 6, 2, inlier_noise=0.05, random_state=0)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_shapes_and_inverse(make, data):
    est = make(2).fit(data.X)
    assert est.components_.shape == (2, 6)
    np.testing.assert_allclose(est.components_ @ est.components_.T, np.eye(2), atol=1e-12)
    Z = est.transform(data.X)
    np.testing.assert_allclose(Z, (data.X - est.center_) @ est.components_.T, atol=1e-14)
    np.testing.assert_allclose(est.inverse_transform(Z), Z @ est.components_ + est.center_)
    assert (make is RobustPCA) == est.center_.any()
    on_subspace = est.inverse_transform(Z)
    np.testing.assert_allclose(est.transform(on_subspace), Z, atol=1e-12)
    assert est.fit_transform(data.X).shape == (300, 2)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_public_center_and_scale(make, data):
    center, scale = np.arange(6.0), np.linspace(1, 2, 6)
    X = data.X * scale + center
    est = make(2, center=center, scale=scale).fit(X)
    np.testing.assert_allclose(
        est.transform(X), ((X - center) / scale) @ est.components_.T, atol=1e-12
    )
    back = est.inverse_transform(est.transform(X))
    np.testing.assert_allclose(est.transform(back), est.transform(X), atol=1e-10)
    if make is RobustPCA:
        plain = RobustPCA(2, center=None).fit(data.X)
        np.testing.assert_allclose(est.components_, plain.components_, atol=1e-8)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_frames_in_and_out(make, data):
    names = list("abcdef")
    pandas = pd.DataFrame(data.X, columns=names)
    est = make(2).set_output(transform="pandas").fit(pandas)
    out = est.transform(pandas)
    prefix = make.__name__.lower()
    assert list(out.columns) == [f"{prefix}0", f"{prefix}1"]
    assert list(est.get_feature_names_out()) == list(out.columns)
    assert list(est.feature_names_in_) == names
    polars = pl.DataFrame(data.X, schema=names)
    est = make(2).set_output(transform="polars").fit(polars)
    assert isinstance(est.transform(polars), pl.DataFrame)
    with pytest.raises(ValueError, match="feature names"):
        est.transform(polars.select(names[::-1]))


@pytest.mark.parametrize("make", ESTIMATORS)
def test_pickle_and_clone(make, data):
    est = make(2).fit(data.X)
    again = pickle.loads(pickle.dumps(est))
    assert np.array_equal(again.components_, est.components_)
    assert again.plan_ == est.plan_
    assert str(again.privacy_) == str(est.privacy_)
    assert clone(est).get_params() == est.get_params()


@pytest.mark.filterwarnings("ignore::stillspace.exceptions.DisagreementWarning")  # r = 1 of 2
def test_pipeline_and_grid_search(data):
    pipe = make_pipeline(FunctionTransformer(), RobustPCA(2))
    assert pipe.fit(data.X).transform(data.X).shape == (300, 2)
    search = GridSearchCV(RobustPCA(), {"n_components": [1, 2]}, cv=3).fit(data.X)
    assert search.best_params_ == {"n_components": 2}


def test_a_private_fit_in_cross_validation_needs_the_users_own_score(data):
    def distance(estimator, X, y=None):
        R = X - estimator.inverse_transform(estimator.transform(X))
        return -np.linalg.norm(R, axis=1).mean()

    assert not hasattr(PrivateRobustPCA(center=None), "score")
    scores = cross_validate(
        PrivateRobustPCA(2, epsilon=5, center=None), data.X, cv=3, scoring=distance
    )
    assert np.isfinite(scores["test_score"]).all()


def test_score_is_minus_the_mean_distance(data):
    est = RobustPCA(2).fit(data.X)
    Q = np.eye(6) - est.components_.T @ est.components_
    rows = data.X - est.center_
    assert est.score(data.X) == pytest.approx(-np.linalg.norm(rows @ Q, axis=1).mean())


def test_dtypes(data):
    for make in ESTIMATORS:
        for dtype in (np.float32, np.int8, np.float16, np.bool_):
            X = data.X > 0.0 if dtype is np.bool_ else (data.X * 50).astype(dtype)
            assert make(2).fit(X).components_.dtype == np.float64
        assert make(2).fit(data.X.astype(object)).components_.shape == (2, 6)
        assert make(2).fit(data.X[::-1, ::-1]).components_.shape == (2, 6)
        assert make(2).fit(np.asfortranarray(data.X)).components_.shape == (2, 6)


def test_robust_fits_do_not_depend_on_memory_layout_or_dtype_of_whole_numbers(data):
    X = np.rint(data.X * 100)
    want = RobustPCA(2).fit(X).components_
    for same in (X.astype(np.int16), np.asfortranarray(X), pd.DataFrame(X), X.tolist()):
        assert np.array_equal(RobustPCA(2).fit(same).components_, want)


@pytest.mark.parametrize("make", [PrivateRobustPCA, PrivatePCA])
def test_seeds_are_for_experiments(make, data):
    with pytest.warns(SeededNoiseWarning, match="experiments"):
        first = make(2, random_state=4).fit(data.X)
    with pytest.warns(SeededNoiseWarning):
        second = make(2, random_state=4).fit(data.X)
    with pytest.warns(SeededNoiseWarning):
        other = make(2, random_state=np.random.default_rng(4)).fit(data.X)
    assert np.array_equal(first.components_, second.components_)
    assert not np.array_equal(first.components_, other.components_)
    assert not first.privacy_.private
    assert "seed" in str(first.privacy_)
    secure = [make(2).fit(data.X).components_ for _ in range(3)]
    assert not np.array_equal(secure[0], secure[1])
    assert not np.array_equal(secure[1], secure[2])


@pytest.mark.filterwarnings("ignore:The starts disagree")  # about a wrong centre
@pytest.mark.parametrize("make", ESTIMATORS)
def test_x_is_never_changed(make, data):
    X = data.X.copy()
    X.flags.writeable = False
    make(2, center=np.ones(6)).fit(X).transform(X)
    assert np.array_equal(X, data.X)


def test_a_plain_private_fit_warns_of_nothing(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits = [make(2, center=None).fit(data.X) for make in (PrivateRobustPCA, PrivatePCA)]
    assert all(fit.privacy_.private for fit in fits)


def test_weak_promises_warn(data):
    with pytest.warns(PrivacyWarning, match="1/n"):
        PrivateRobustPCA(2, delta=0.1, center=None).fit(data.X)
    with pytest.warns(PrivacyWarning, match="hardly a guarantee"):
        PrivateRobustPCA(2, epsilon=21.0, center=None).fit(data.X)
