"""Maps of the scores per label: a public list of labels, and a private label per row."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.models import load_model, save_model
from stillspace.parts.queries import ScoreCounts
from stillspace.plots import draw_score_map
from stillspace.privacy import mu_from_budget
from stillspace.recipes.fits import SHARES
from stillspace.report import render_report
from stillspace.rows import LabelledRows, MemoryRows, label_codes
from tests.conftest import random_basis, unit_rows

N, D = 6000, 8
BUDGET = {"epsilon": 4.0, "delta": 1e-6}
LISTED = ("a", "b")


@pytest.fixture(scope="module")
def table():
    """Two groups of rows at two places, and some rows with a label that is not listed."""
    rng = np.random.default_rng(0)
    basis = random_basis(rng, D, 2)
    group = rng.integers(3, size=N)
    places = np.array([[3.0, 0.0], [-2.0, 2.0], [-1.0, -3.0]])
    X = (places[group] + 0.4 * rng.standard_normal((N, 2))) @ basis.T
    return X + 0.1 * rng.standard_normal((N, D)), np.array(["a", "b", "secret"])[group]


@pytest.fixture(scope="module")
def fit(table):
    options = {"center": None, "scale": None, "summaries": ("scores",), "labels": LISTED}
    return PrivateRobustPCA(2, **options, **BUDGET).fit(*table)


def test_a_label_is_looked_up_by_itself():
    listed = ("a", 1, 2.5)
    given = ["a", 1.0, 2.5, "1", None, np.nan, ["a"], np.str_("a"), np.float32(1)]
    assert label_codes(given, listed).tolist() == [0, 1, 2, 3, 3, 3, 3, 0, 1]
    assert label_codes(np.array(["b", "a"]), listed).tolist() == [3, 0]
    assert label_codes(pd.Series([1, None, 2.5]), listed).tolist() == [1, 3, 2]


def test_counts_are_kept_apart_by_label(rng):
    XT, V = unit_rows(rng, 300, 5), random_basis(rng, 5, 2)
    codes = rng.integers(3, size=300)
    rows, query = LabelledRows(MemoryRows(XT), codes), ScoreCounts(5, 2, 6, groups=3)
    counts = rows.add(query, V, None)
    edges = np.linspace(-1.0, 1.0, 7)
    for group in range(3):
        want = np.histogram2d(*(V.T @ XT[:, codes == group]), bins=(edges, edges))[0]
        np.testing.assert_array_equal(counts[group], want)
    some = np.sort(rng.choice(300, 50, replace=False))
    of_some = rows.add(query, V, some)
    assert of_some.sum() == 50
    np.testing.assert_array_equal(
        of_some.sum(axis=0), MemoryRows(XT).add(ScoreCounts(5, 2, 6), V, some)
    )
    without = MemoryRows(XT).add(query, V, None)  # rows without labels are all in the last group
    assert without[:2].sum() == 0
    assert without[2].sum() == 300


def test_a_person_moves_two_counts_by_one_at_most(rng):
    """Whatever of the row and its label changes: the bound that is charged, √2, is reached."""
    XT, V = unit_rows(rng, 40, 5), random_basis(rng, 5, 2)
    codes, query = rng.integers(3, size=40), ScoreCounts(5, 2, 6, groups=3)
    before, worst = LabelledRows(MemoryRows(XT), codes).add(query, V, None), 0.0
    for _ in range(200):
        others, other_codes = XT.copy(), codes.copy()
        at = rng.integers(40)
        others[:, at] = unit_rows(rng, 1, 5)[:, 0]
        other_codes[at] = rng.integers(3)
        after = LabelledRows(MemoryRows(others), other_codes).add(query, V, None)
        worst = max(worst, float(np.linalg.norm(after - before)))
    assert worst == pytest.approx(query.difference_bound)
    alone = LabelledRows(MemoryRows(XT[:, 1:]), codes[1:]).add(query, V, None)
    assert np.linalg.norm(before - alone) == query.norm_bound


def test_maps_per_label_are_near_the_rows_and_have_the_noise_that_is_claimed(fit, table):
    """Cell by cell within six standard deviations (false alarms: once in 10⁵ runs).

    The standard deviation of all cells is within five of its own: once in 10⁶ runs.
    """
    X, y = table
    found = fit.score_map_
    assert found.labels == LISTED
    assert [title for title, _ in found.maps] == ["a", "b", "other"]
    X = X * np.minimum(1.0, found.length / np.linalg.norm(X, axis=1))[:, None]
    scores, edges = X @ fit.components_.T, found.edges
    sd = (
        sqrt(2.0)
        / (mu_from_budget(*BUDGET.values()) * sqrt(SHARES.summary - SHARES.map_length))
        / N
    )
    assert found.sd == pytest.approx(sd, rel=1e-6)
    errors = []
    for title, shares in found.maps:
        of_label = y == ("secret" if title == "other" else title)
        want = np.histogram2d(*scores[of_label].T, bins=(edges, edges))[0] / N
        errors.append(shares - want)
    errors = np.array(errors)
    assert np.abs(errors).max() < 6 * sd
    assert abs(errors.std() / sd - 1.0) < 5.0 / sqrt(2 * errors.size)


def test_labels_cost_nothing_more(fit, table):
    plain = PrivateRobustPCA(2, center=None, scale=None, summaries=("scores",), **BUDGET)
    assert plain.fit(*table).privacy_.epsilon == fit.privacy_.epsilon
    assert fit.privacy_.private
    assert any("the list of labels" in line for line in fit.privacy_.assumptions)
    assert "secret" not in repr(fit.plan_) + repr(fit.score_map_) + str(fit.privacy_)


def test_a_model_file_and_the_report_keep_the_maps(fit, tmp_path):
    save_model(fit, tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz").score_map_
    np.testing.assert_array_equal(again.shares, fit.score_map_.shares)
    assert again.labels == LISTED
    page = render_report(load_model(tmp_path / "m.npz"))
    assert all(page.count(f'class="label">{title}</p>') == 1 for title in ("a", "b", "other"))
    assert "secret" not in page
    assert len(draw_score_map(fit.score_map_).axes) == 3


def test_one_component_and_clipped_rows(table):
    found = PrivatePCA(
        1, norm_bound=5.0, center=None, scale=None, summaries=("scores",), labels=LISTED, **BUDGET
    ).fit(*table)
    assert found.score_map_.shares.shape[0] == 3
    assert found.score_map_.shares.ndim == 2
    draw_score_map(found.score_map_)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": ()}, "1 to 32 different"),
        ({"labels": "ab"}, "1 to 32 different"),
        ({"labels": ("a", "a")}, "one of them twice"),
        ({"labels": (["a"],)}, "texts or numbers"),
        ({"labels": (np.nan,)}, "texts or numbers"),
        ({"summaries": ()}, "add summaries"),
        ({"y": None}, "the label of every row"),
        ({"y": "ab"}, "the label of every row"),
        ({"y": ["a"]}, "one label per row"),
        ({"y": np.full((N, 1), "a")}, "one label per row"),
    ],
)
def test_wrong_labels_are_refused_in_words(table, changed, message):
    options = {"labels": LISTED, "summaries": ("scores",), "y": table[1], **changed}
    y = options.pop("y")
    with pytest.raises(ValueError, match=message) as caught:
        PrivateRobustPCA(2, center=None, scale=None, **options).fit(table[0], y)
    assert str(N) not in str(caught.value)


def test_y_is_ignored_without_a_list(table):
    fit = PrivatePCA(2, center=None, scale=None, epsilon=1.0).fit(table[0], "ignored")
    assert fit.score_map_ is None
