"""RobustPCA on rows as tables have them: clumps, units, missing cells, ranks, variances."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.diagnostics import diagnose
from stillspace.exceptions import DisagreementWarning
from stillspace.metrics import subspace_error
from tests.conftest import random_basis

pytestmark = pytest.mark.filterwarnings("ignore:The starts disagree")


def noisy_table(seed=0, n=800, D=8):
    rng = np.random.default_rng(seed)
    V = random_basis(rng, D, 2)
    X = 3.0 * rng.standard_normal((n, 2)) @ V.T + rng.standard_normal((n, D)) + 5.0
    away = np.linalg.qr(np.column_stack([V, np.eye(D)]))[0][:, 2]
    return X, V, away, rng


@pytest.mark.parametrize(("length", "width"), [(30.0, 0.5), (5.0, 0.05)])
def test_planted_clusters_in_a_noisy_table(length, width):
    X, V, away, rng = noisy_table()
    X[:200] = 5.0 + length * away + width * rng.standard_normal((200, 8))
    fit = RobustPCA(2).fit(X)
    assert subspace_error(fit.components_, V.T) < 0.05
    assert subspace_error(PCA(2).fit(X).components_, V.T) > 0.05 if length > 10 else True
    assert diagnose(fit, X).outliers[:200].all()


def test_clumps_are_reported_in_the_units_of_the_cells():
    X, _, away, rng = noisy_table()
    X[:200] = 5.0 + 5.0 * away + 0.02 * rng.standard_normal((200, 8))
    (clump,) = RobustPCA(2).fit(X).clumps_
    assert np.linalg.norm(clump.center - (5.0 + 5.0 * away)) < 0.3
    assert abs(clump.share - 0.25) < 0.03
    assert RobustPCA(2).fit(X[200:]).clumps_ == ()


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_identical_rows_do_not_turn_the_fit(share):
    X, V, _, _ = noisy_table()
    X[: round(800 * share)] = X[0]
    fit = RobustPCA(2).fit(X)
    assert subspace_error(fit.components_, V.T) < 0.1
    assert diagnose(fit, X).outliers[round(800 * share) :].mean() < 0.08


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_extreme_magnitudes_change_nothing_but_the_unit(size):
    X, _, _, _ = noisy_table()
    plain, fit = RobustPCA(2).fit(X), RobustPCA(2).fit(size * X)
    assert subspace_error(fit.components_, plain.components_) < 1e-6
    np.testing.assert_allclose(fit.center_, size * plain.center_, rtol=0.05)
    flags = [diagnose(*pair).outliers for pair in ((plain, X), (fit, size * X))]
    assert (flags[0] != flags[1]).mean() < 0.01
    X[:5] *= 1e250
    assert subspace_error(RobustPCA(2).fit(X).components_, plain.components_) < 1e-2


def test_scale_mad_makes_units_irrelevant():
    X, _, _, _ = noisy_table()
    units = np.geomspace(1e-3, 1e6, 8)
    first, again = (RobustPCA(2, scale="mad").fit(Z) for Z in (X, X * units))
    assert subspace_error(first.components_, again.components_) < 1e-12
    np.testing.assert_allclose(again.scale_, first.scale_ * units, rtol=1e-9)
    mad = np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    np.testing.assert_allclose(first.scale_, 1.4826 * mad, rtol=1e-9)
    X[:, 3] = np.where(np.arange(800) < 500, 0.0, 4.0)
    X[:, 4] = 1.0
    scale = RobustPCA(2, scale="mad").fit(X).scale_
    assert (scale[3], scale[4]) == (4.0, 1.0)
    with pytest.raises(ValueError, match="'mad'"):
        RobustPCA(2, scale="std").fit(X)


def test_fewer_dimensions_than_components(rng):
    X = 3.0 + np.outer(rng.standard_normal(200), rng.standard_normal(6))
    with pytest.warns(DisagreementWarning, match="span 1 dimensions only"):
        fit = RobustPCA(2).fit(X)
    assert not diagnose(fit, X).orthogonal_outliers.any()
    assert diagnose(fit, X).outliers.mean() < 0.06
    with pytest.raises(ValueError, match="no direction"):
        RobustPCA(2).fit(np.full((30, 4), 7.0))


def test_explained_variances_are_those_of_pca_on_clean_rows():
    X, _, away, _ = noisy_table(n=2000)
    pca = PCA(2).fit(X)
    bad = X.copy()
    bad[:200] += 40.0 * away
    for rows in (X, bad):
        fit = RobustPCA(2).fit(rows)
        np.testing.assert_allclose(fit.explained_variance_, pca.explained_variance_, rtol=0.15)
        np.testing.assert_allclose(
            fit.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=0.15
        )
        np.testing.assert_allclose(fit.noise_variance_, pca.noise_variance_, rtol=0.15)
        assert np.array_equal(fit.mean_, fit.center_)
        assert fit.n_components_ == 2


def test_missing_cells_cost_little():
    data = make_haystack(
        1200, 20, 3, inlier_ratio=0.8, inlier_noise=0.1, spherical=False, random_state=0
    )
    holes = np.random.default_rng(0).random(data.X.shape) < 0.1
    X = np.where(holes, np.nan, data.X + 2.0)
    complete, fit = RobustPCA(3).fit(data.X + 2.0), RobustPCA(3).fit(X)
    errors = [subspace_error(f.components_, data.components) for f in (complete, fit)]
    assert errors[1] < 2.0 * errors[0]
    scores = fit.transform(X)
    assert np.isfinite(scores).all()
    whole = fit.transform(data.X + 2.0)[data.inliers]
    assert np.mean((scores[data.inliers] - whole) ** 2) < 0.05 * np.mean(whole**2)
    assert np.isfinite(fit.score(X))
    assert diagnose(fit, X).outliers[data.inliers].mean() < 0.1


def test_a_missing_code_beside_nan_is_missing_too():
    X, _, _, rng = noisy_table()
    holes = rng.random(X.shape) < 0.05
    coded = np.where(holes & (rng.random(X.shape) < 0.5), -999.0, np.where(holes, np.nan, X))
    fits = [
        RobustPCA(2).fit(np.where(holes, np.nan, X)),
        RobustPCA(2, missing_code=-999.0).fit(coded),
    ]
    assert subspace_error(*(f.components_ for f in fits)) < 1e-6


def test_what_missing_cells_cannot_be():
    X, _, _, _ = noisy_table()
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="column without any number"):
        RobustPCA(2).fit(X)


# Each rate is a mean over 40 tables of 20 rows: √(.04·.96/800) = .7 %; seeds are fixed.
def test_few_clean_rows_are_flagged_in_small_tables():
    flagged = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        V = random_basis(rng, 5, 1)
        X = rng.standard_normal((20, 1)) @ V.T + 0.2 * rng.standard_normal((20, 5))
        flagged.append(diagnose(RobustPCA(1).fit(X), X).outliers.mean())
    assert 0.005 < np.mean(flagged) < 0.045
