"""Released pictures: a map of the scores and a scree plot, and pictures of rows behind a word."""

from math import sqrt

import numpy as np
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.methods.pictures import (
    LEAST_LENGTH,
    MAP_RULE,
    MOST_LENGTH,
    length_counts,
    length_of_map,
    map_bins,
    scree_of,
)
from stillspace.models import load_model, save_model
from stillspace.parts.queries import ScoreCounts
from stillspace.plots import draw_score_map
from stillspace.privacy import mu_from_budget
from stillspace.recipes.fits import SHARES
from stillspace.rows import Affine, Lengths, MemoryRows, Sphere
from tests.conftest import random_basis, unit_rows

N, D = 6000, 8
BUDGET = {"epsilon": 4.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def clusters():
    """Three groups of rows near a plane, and rows far away; the plane, and the groups' scores."""
    rng = np.random.default_rng(0)
    basis = random_basis(rng, D, 2)
    places = np.array([[3.0, 0.0], [-2.0, 2.0], [-1.0, -3.0]])
    scores = places[rng.integers(3, size=N)] + 0.4 * rng.standard_normal((N, 2))
    X = scores @ basis.T + 0.1 * rng.standard_normal((N, D))
    X[:300] = 50.0 * rng.standard_normal((300, D))
    return X


@pytest.fixture(scope="module")
def fit(clusters):
    pictures = ("scores", "scree")
    return PrivateRobustPCA(2, center=None, scale=None, summaries=pictures, **BUDGET).fit(clusters)


def test_the_map_counts_scores(rng):
    XT, V = unit_rows(rng, 300, 5), random_basis(rng, 5, 2)
    XT[:, ::3] *= 0.3
    XT[:, 7] = 0.0
    counts = MemoryRows(XT).add(ScoreCounts(5, 2, 6), V, None)
    kept = np.delete(XT, 7, axis=1)
    edges = np.linspace(-1.0, 1.0, 7)
    want = np.histogram2d(*(V.T @ kept), bins=(edges, edges))[0]
    np.testing.assert_array_equal(counts, want)
    assert counts.sum() == 299  # a zero row is in no cell
    one = MemoryRows(XT).add(ScoreCounts(5, 1, 6), V[:, :1], None)
    np.testing.assert_array_equal(one, np.histogram(V[:, 0] @ kept, bins=edges)[0])


def test_a_released_map_is_near_the_rows(fit, clusters):
    """Cell by cell within six standard deviations: by chance once in 10⁶ maps."""
    found = fit.score_map_
    scaled = clusters * np.minimum(1.0, found.length / np.linalg.norm(clusters, axis=1))[:, None]
    scores = scaled @ fit.components_.T
    edges = found.edges
    want = np.histogram2d(*scores.T, bins=(edges, edges))[0] / N
    assert np.abs(found.shares - want).max() < 6 * found.sd
    share = SHARES.summary - SHARES.map_length
    sd = sqrt(2.0) / (mu_from_budget(*BUDGET.values()) * sqrt(share)) / N
    assert found.sd == pytest.approx(sd, rel=1e-6)
    assert 2.5 < found.length < 8.0  # of the inliers: the far rows are fifty times as long


def test_a_released_scree_is_near_the_spectrum(clusters):
    """Of private PCA, which leaves no row out."""
    fit = PrivatePCA(2, center=None, scale=None, summaries=("scree",), **BUDGET).fit(clusters)
    rows = clusters / np.linalg.norm(clusters, axis=1, keepdims=True)
    want = np.linalg.eigvalsh(rows.T @ rows / N)[::-1]
    np.testing.assert_allclose(fit.scree_.values[:2], want[:2], atol=2 * fit.scree_.noise)
    assert fit.scree_.values[2:].max() < want[1] / 4
    assert np.all(np.diff(fit.scree_.values) <= 0.0)


def test_noise_alone_makes_a_flat_scree():
    """The largest eigenvalue of noise passes 2ω (1 + D^−2/3 · 2) once in a thousand."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 40))
    noise = 0.01 * (A + A.T) / sqrt(2.0) / sqrt(2.0)
    signal = np.diag([0.5, *np.full(39, 0.02)])
    found = scree_of(signal + noise, 0.01)
    assert found.values[0] == pytest.approx(0.5, abs=0.05)
    assert found.values[3:].max() - found.values[3:].min() < 0.02


@pytest.mark.parametrize("octave", [-70.5, -64.0, -3.2, 0.0, 5.5, 63.9, 70.0])
def test_lengths_find_the_reach_of_the_map(octave):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 4))
    X *= np.exp2(octave) / np.linalg.norm(X, axis=1, keepdims=True)
    rows = MemoryRows.of(X).through(Affine()).through(Sphere()).through(Lengths())
    counts = rows.add(length_counts(), np.zeros((1, 1)), None)
    assert counts.sum() == 400
    got = np.log2(length_of_map(counts / 400, 1e-6))
    inside = np.clip(octave, LEAST_LENGTH - 1, MOST_LENGTH + 1)
    assert abs(got - inside) <= 1.0


def test_nothing_clear_is_length_one():
    assert length_of_map(np.full(len(length_counts().edges) + 1, 0.01), 0.01) == 1.0


def test_the_number_of_cells_follows_from_public_facts():
    assert map_bins(100, 50.0) == MAP_RULE.least_bins
    assert map_bins(10**9, 1.0) == MAP_RULE.most_bins
    assert map_bins(20_000, 31.0) == 12


def test_pairs_have_no_map(clusters):
    with pytest.raises(ValueError, match="center='pairs' sees differences"):
        PrivateRobustPCA(2, center="pairs", scale=None, summaries=("scores",)).fit(clusters)


def test_a_clipped_fit_has_the_map_of_its_bound(clusters):
    fit = PrivatePCA(1, norm_bound=5.0, center=None, scale=None, summaries=("scores",), **BUDGET)
    found = fit.fit(clusters).score_map_
    assert found.length == 5.0
    assert found.shares.ndim == 1


def test_pictures_are_kept_in_model_files(fit, tmp_path):
    save_model(fit, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.score_map_.shares, fit.score_map_.shares)
    assert (loaded.score_map_.length, loaded.score_map_.sd) == (
        fit.score_map_.length,
        fit.score_map_.sd,
    )
    np.testing.assert_array_equal(loaded.scree_.values, fit.scree_.values)
    assert loaded.scree_.noise == fit.scree_.noise


def test_the_map_is_drawn_with_its_noise(fit):
    figure = draw_score_map(fit.score_map_)
    drawn = figure.axes[0].collections[0].get_array()
    assert drawn.max() == pytest.approx(100 * fit.score_map_.shares.max())
    assert drawn[drawn > 0].min() > 200 * fit.score_map_.sd
    assert f"{100 * fit.score_map_.sd:.2g} %" in figure.texts[0].get_text()
