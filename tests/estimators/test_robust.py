"""RobustPCA: its default against an oracle, centring, losses, warnings."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import DisagreementWarning
from stillspace.metrics import subspace_error

STRUCTURED = {
    "isotropic": (20, 2, 0.5, {}),
    "low-rank": (50, 3, 0.6, {"outliers": "low-rank", "outlier_rank": 5}),
    "cluster": (50, 3, 0.8, {"outliers": "cluster"}),
}


@pytest.mark.parametrize("case", STRUCTURED)
def test_as_good_as_if_the_outliers_were_known(case):
    D, r, share, more = STRUCTURED[case]
    data = make_haystack(3000, D, r, inlier_ratio=share, inlier_noise=0.05, random_state=0, **more)
    oracle = RobustPCA(r, loss="glad", center=None).fit(data.X[data.inliers]).components_
    want = subspace_error(oracle, data.components)
    default, glad = (RobustPCA(r, loss=loss).fit(data.X) for loss in (None, "glad"))
    assert subspace_error(default.components_, data.components) < 1.5 * want
    if case == "low-rank":
        assert subspace_error(glad.components_, data.components) > 3 * want
    assert len(default.clumps_) == (case == "cluster")
    assert default.converged_
    assert (np.diff(default.costs_) <= 1e-14).all()
    assert default.plan_.release.query.cut < 1.0
    assert glad.plan_.release.query.cut == np.inf


@pytest.mark.parametrize("loss", [None, "glad"])
def test_a_cluster_of_forty_percent_is_beaten_and_reported(loss):
    data = make_haystack(
        3000, 30, 3, inlier_ratio=0.6, inlier_noise=0.05, outliers="cluster", random_state=0
    )
    fit = RobustPCA(3, center=None, loss=loss).fit(data.X)
    assert subspace_error(fit.components_, data.components) < 5e-5
    assert {s.name for s in fit.starts_} == {"pca", "tyler", "ransac"}
    assert sum(s.kept for s in fit.starts_) == 1
    (clump,) = fit.clumps_
    assert abs(clump.share - 0.4) < 0.03


@pytest.mark.parametrize("share", [0.5, 0.6, 0.9])
def test_affine_subspaces_without_noise(share):
    data = make_haystack(800, 20, 2, inlier_ratio=share, center_shift=5.0, random_state=0)
    fit = RobustPCA(2).fit(data.X)
    assert subspace_error(fit.components_, data.components) < 1e-20
    offset = fit.center_ - data.center
    assert np.linalg.norm(offset - offset @ fit.components_.T @ fit.components_) < 1e-9
    lost = RobustPCA(2, center="median").fit(data.X)
    assert subspace_error(lost.components_, data.components) > 1e-15  # not exact, as it is above


@pytest.mark.filterwarnings("ignore::stillspace.exceptions.DisagreementWarning")
def test_outliers_far_away_on_one_side(rng):
    data = make_haystack(
        1500, 20, 2, inlier_ratio=0.6, inlier_noise=0.05, spherical=False, random_state=1
    )
    X = data.X + rng.standard_normal(20)
    X[~data.inliers] += 30.0 * rng.standard_normal(20)
    for center in ("pairs", "median"):
        fit = RobustPCA(2, center=center).fit(X)
        assert subspace_error(fit.components_, data.components) < 1e-4


def test_scale_and_missing_code_go_with_the_centre(rng):
    data = make_haystack(600, 8, 2, inlier_ratio=0.8, center_shift=2.0, random_state=2)
    scale = np.geomspace(1.0, 50.0, 8)
    plain = RobustPCA(2).fit(data.X)
    scaled = RobustPCA(2, scale=scale).fit(data.X * scale)
    np.testing.assert_allclose(scaled.components_, plain.components_, atol=1e-6)
    np.testing.assert_allclose(scaled.center_, plain.center_ * scale, rtol=1e-6, atol=1e-7)
    holes = data.X.copy()
    holes[rng.random(holes.shape) < 0.01] = -99.0
    fit = RobustPCA(2, missing_code=-99.0).fit(holes)
    assert subspace_error(fit.components_, data.components) < 1e-3


def test_named_algorithms_keep_the_origin():
    data = make_haystack(300, 8, 2, random_state=0)
    assert not RobustPCA(2, algorithm="irls").fit(data.X).center_.any()
    assert RobustPCA(2, algorithm="irls", center="pairs").fit(data.X).center_.any()
    assert RobustPCA(2, algorithm="irls").fit(data.X).starts_ == ()


def test_the_same_rows_give_the_same_fit():
    data = make_haystack(3000, 10, 2, inlier_noise=0.1, random_state=0)
    first, again = (RobustPCA(2).fit(data.X) for _ in range(2))
    assert np.array_equal(first.components_, again.components_)
    other = RobustPCA(2, random_state=7).fit(data.X)
    assert 0.0 < subspace_error(first.components_, other.components_) < 1e-4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "huber"}, "loss must be one of 'redescending', 'glad'"),
        ({"loss": "glad", "algorithm": "fms"}, "is for algorithm='auto'"),
        ({"center": "mean"}, "'pairs' or 'median'"),
        ({"n_components": "all"}, "n_components"),
        ({"algorithm_options": {"cut": -1.0}}, "cut must be"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        RobustPCA(**parameters).fit(make_haystack(50, 5, 2, random_state=0).X)


def test_a_given_start_is_taken_as_it_is():
    data = make_haystack(300, 8, 2, random_state=0)
    fit = RobustPCA(2, center=None, algorithm_options={"start": data.components}).fit(data.X)
    assert fit.starts_ == ()
    assert subspace_error(fit.components_, data.components) < 1e-25


def test_pure_noise_ends_soon_and_is_called_noise(rng):
    X = rng.standard_normal((4000, 40))
    with pytest.warns(DisagreementWarning, match="Nothing stands out") as said:
        fit = RobustPCA(2).fit(X)
    assert len(said) == 1
    assert fit.converged_
    assert fit.n_iter_ <= 20
    assert (np.diff(fit.costs_) <= 1e-14).all()
    assert "Nothing stands out" in fit.summary()


def test_weak_directions_stand_out_from_noise(rng):
    X = rng.standard_normal((2000, 20))
    X[:, 0] *= 1.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = RobustPCA(1).fit(X)
    assert abs(fit.components_[0, 0]) > 0.9


def test_the_moment_step_ends_where_power_steps_end():
    """Slow power steps: the second and the third direction are nearly as strong."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 12)) * np.r_[3.0, 1.12, 1.0, np.full(9, 1.0)]
    quick = RobustPCA(2, center=None).fit(X)
    slow = RobustPCA(2, center=None, tol=1e-9, max_iter=5000).fit(X)
    assert quick.n_iter_ < slow.n_iter_
    assert subspace_error(quick.components_, slow.components_) < 4e-3  # sampling adds some 4e-2


def test_the_summary_tells_variances_and_clumps():
    data = make_haystack(400, 8, 2, inlier_ratio=0.9, inlier_noise=0.2, random_state=0)
    X = data.X.copy()
    X[:60] = X[0]
    fit = RobustPCA(2).fit(X)
    text = fit.summary()
    assert "2 of 8 columns" in text
    assert f"{fit.explained_variance_ratio_[0]:.3g}" in text
    assert "groups of nearly equal rows" in text
    assert "15.0%" in text
    assert max(map(len, text.splitlines())) < 100
    with pytest.raises(NotFittedError):
        RobustPCA(2).summary()
