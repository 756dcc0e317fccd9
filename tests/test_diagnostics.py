"""Outlier maps: distances by their definition, cut-offs by their false alarms, private fits."""

import numpy as np
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.diagnostics import KINDS, diagnose
from stillspace.plots import DimensionDisplay, OutlierMapDisplay
from stillspace.plots._figure import new_figure, png
from tests.conftest import random_basis


def rows(seed, n, D, r, *, spread=1.0):
    """Gaussian scores on a random affine subspace, Gaussian noise around it."""
    rng = np.random.default_rng(seed)
    V = random_basis(rng, D, r)
    scores = rng.standard_normal((n, r)) * np.linspace(1.0, spread, r)
    return scores @ V.T + 0.1 * rng.standard_normal((n, D)) + 5.0, V, rng


# Each rate is a mean over 10 000 rows, so √(.025·.975/10⁴) = .16 %; seeds are fixed.
@pytest.mark.parametrize(("D", "r"), [(3, 2), (10, 2), (50, 1)])
def test_two_and_a_half_percent_of_clean_rows_are_flagged(D, r):
    flagged = []
    for seed in range(2):
        X, _, _ = rows(seed, 5000, D, r)
        flagged.append(diagnose(RobustPCA(r).fit(X), X).outliers.mean())
    assert 0.02 < np.mean(flagged) < 0.03


@pytest.mark.parametrize("level", [0.01, 0.1])
def test_other_levels(level):
    X, _, _ = rows(1, 8000, 10, 2)
    found = diagnose(RobustPCA(2).fit(X), X, false_alarms=level)
    assert found.outliers.mean() == pytest.approx(level, rel=0.3)
    assert found.false_alarms == level


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_outliers_are_found_and_do_not_hide_each_other(share):
    X, _, rng = rows(2, 4000, 20, 3)
    bad = np.arange(4000) < share * 4000
    X[bad] = 8.0 + rng.standard_normal((bad.sum(), 20))
    found = diagnose(RobustPCA(3).fit(X), X)
    assert found.outliers[bad].all()
    assert 0.015 < found.outliers[~bad].mean() < 0.035


def test_distances_by_their_definition():
    X, _, _ = rows(3, 500, 6, 2, spread=3.0)
    fit = RobustPCA(2).fit(X)
    found = diagnose(fit, X)
    scores = fit.transform(X)
    off = X - fit.inverse_transform(scores)
    np.testing.assert_allclose(found.orthogonal_distance, np.linalg.norm(off, axis=1), atol=1e-12)
    inverse = np.linalg.inv(found.scatter)
    want = [np.sqrt((y - found.location) @ inverse @ (y - found.location)) for y in scores]
    np.testing.assert_allclose(found.score_distance, want, rtol=1e-9)
    np.testing.assert_allclose(found.scatter, np.cov(scores.T), rtol=0.3, atol=0.3)
    assert np.array_equal(found.outliers, found.score_outliers | found.orthogonal_outliers)


def test_the_four_kinds():
    X, V, _ = rows(4, 400, 8, 2)
    away = np.linalg.qr(np.column_stack([V, np.eye(8)]))[0][:, 2]
    X[0] = 5.0 + 20.0 * V[:, 0]
    X[1] = X[50] + 5.0 * away
    X[2] = 5.0 + 20.0 * V[:, 0] + 5.0 * away
    found = diagnose(RobustPCA(2).fit(X), X)
    assert found.kinds[:3].tolist() == [KINDS[1], KINDS[2], KINDS[3]]
    assert (found.kinds == KINDS[0]).sum() > 370


def test_rows_on_the_subspace_exactly(rng):
    V = random_basis(rng, 6, 2)
    X = rng.standard_normal((100, 2)) @ V.T
    X[:30] = rng.standard_normal((30, 6))
    found = diagnose(RobustPCA(2, center=None).fit(X), X)
    assert np.array_equal(np.flatnonzero(found.orthogonal_outliers), np.arange(30))


def test_new_rows_by_the_same_cutoffs():
    X, _, _ = rows(5, 2000, 10, 2)
    fit = RobustPCA(2).fit(X[:1000])
    found = diagnose(fit, X[:1000])
    other = found.of(fit, X[1000:])
    assert other.orthogonal_cutoff == found.orthogonal_cutoff
    assert 0.01 < other.outliers.mean() < 0.05
    again = found.of(fit, X[:1000])
    np.testing.assert_allclose(again.score_distance, found.score_distance)


@pytest.mark.parametrize("make", [PrivateRobustPCA, PrivatePCA])
def test_private_fits_need_the_users_word(make):
    X, _, _ = rows(6, 500, 6, 2)
    fit = make(2, center=np.full(6, 5.0), epsilon=5.0).fit(X)
    with pytest.raises(PermissionError, match="rows_may_be_seen=True"):
        diagnose(fit, X)
    found = diagnose(fit, X, rows_may_be_seen=True)
    with pytest.raises(PermissionError):
        found.of(fit, X)
    assert found.of(fit, X, rows_may_be_seen=True).outliers.shape == (500,)


def test_what_is_refused():
    X, _, _ = rows(7, 100, 6, 2)
    fit = RobustPCA(2).fit(X)
    with pytest.raises(ValueError, match="false_alarms"):
        diagnose(fit, X, false_alarms=0.0)
    with pytest.raises(ValueError, match="more than 5 rows"):
        diagnose(fit, X[:4])
    with pytest.raises(TypeError, match="fitted estimator"):
        diagnose(object(), X)


def test_the_pictures_are_drawn():
    X, _, _ = rows(8, 300, 6, 2)
    X[:20] += 4.0
    fit = RobustPCA("auto").fit(X)
    found = diagnose(fit, X)
    ax = OutlierMapDisplay(found).plot(new_figure(6.0, 4.0).subplots()).ax_
    assert sum(len(c.get_offsets()) for c in ax.collections) == 300
    numbers = {int(t.get_text()) for t in ax.texts}
    assert numbers <= set(np.flatnonzero(found.outliers))
    assert len(numbers) == 5
    assert png(ax.figure)[:4] == b"\x89PNG"
    ax = DimensionDisplay.from_estimator(fit, ax=new_figure(6.0, 4.0).subplots()).ax_
    line, chosen = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), fit.profile_.distances)
    assert chosen.get_xdata() == [2]
    assert png(ax.figure)[:4] == b"\x89PNG"
