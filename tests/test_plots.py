"""Displays: data in fields, axes given or made, rows of private fits only on request."""

import os
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.audit import AuditReport, Bound, Claim
from stillspace.datasets import make_haystack
from stillspace.plots import (
    AuditDisplay,
    BiplotDisplay,
    BudgetDisplay,
    DimensionDisplay,
    EmbeddingDisplay,
    LoadingsDisplay,
    OutlierMapDisplay,
    PlannerDisplay,
    PrivacyCurveDisplay,
    ScreeDisplay,
)
from stillspace.plots._figure import new_figure
from stillspace.prediction import predict

mpl.use("Agg")
DATA = make_haystack(600, 6, 2, inlier_noise=0.1, random_state=0)
PUBLIC = {"center": None, "scale": None}


@pytest.fixture(scope="module")
def robust():
    return RobustPCA("auto").fit(DATA.X)


@pytest.fixture(scope="module")
def private():
    return PrivateRobustPCA(2, epsilon=2.0, summaries=("variances",), **PUBLIC).fit(DATA.X)


@pytest.fixture
def ax():
    return new_figure(4, 3).subplots()


def words(ax):
    return " ".join(text.get_text() for text in ax.texts)


def test_an_embedding_has_one_point_for_each_row(robust, ax):
    display = EmbeddingDisplay.from_estimator(robust, DATA.X, labels=DATA.inliers, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert [len(c.get_offsets()) for c in ax.collections] == [300, 300]
    np.testing.assert_array_equal(display.scores, robust.transform(DATA.X)[:, :2])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["False (300)", "True (300)"]


@pytest.mark.parametrize("display", [EmbeddingDisplay, BiplotDisplay, OutlierMapDisplay])
def test_rows_behind_a_private_fit_are_drawn_only_on_request(display, private, ax):
    with pytest.raises(PermissionError, match="rows_may_be_seen"):
        display.from_estimator(private, DATA.X)
    display.from_estimator(private, DATA.X, rows_may_be_seen=True, ax=ax)
    assert "not private" in words(ax)


def test_a_biplot_names_the_columns_with_the_largest_loadings(robust, ax):
    BiplotDisplay.from_estimator(robust, DATA.X, shown=3, ax=ax)
    named = {int(t.get_text()) for t in ax.texts if t.get_text()}
    lengths = np.linalg.norm(robust.components_[:2], axis=0)
    assert named == set(np.argsort(lengths)[-3:])


def test_loadings_are_those_of_the_component(private, ax):
    LoadingsDisplay.from_estimator(private, component=1, shown=4, ax=ax)
    widths = sorted(abs(bar.get_width()) for bar in ax.patches)
    np.testing.assert_allclose(widths, np.sort(np.abs(private.components_[1]))[-4:])
    with pytest.raises(ValueError, match="0 to 1"):
        LoadingsDisplay.from_estimator(private, component=2)


def test_a_scree_plot_shows_what_was_bought(robust, private, ax):
    ScreeDisplay.from_estimator(private, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), private.variances_)
    assert ScreeDisplay.from_estimator(robust, ax=ax).noise == robust.noise_variance_
    fit = PrivatePCA(2, epsilon=2.0, **PUBLIC).fit(DATA.X)
    with pytest.raises(ValueError, match="summaries"):
        ScreeDisplay.from_estimator(fit)


def test_the_curve_passes_through_the_stated_pair(private, robust, ax):
    display = PrivacyCurveDisplay.from_estimator(private, ax=ax)
    guarantee = private.privacy_
    assert display.stated == (guarantee.epsilon, guarantee.delta)
    assert np.all(np.diff(display.epsilons) < 0.0)
    assert display.epsilons[6] == guarantee.get_epsilon(float(display.deltas[6]))
    with pytest.raises(ValueError, match="no curve"):
        PrivacyCurveDisplay.from_estimator(robust)


def test_a_budget_is_drawn_fit_by_fit(tmp_path, ax):
    budget = Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5, note="first look")
    for _ in range(2):
        PrivatePCA(2, epsilon=1.0, delta=1e-6, budget=budget, **PUBLIC).fit(DATA.X)
    display = BudgetDisplay.from_budget(budget, ax=ax)
    assert display.spent[-1] == pytest.approx(budget.spent())
    assert words(ax).count("first look") == 2
    empty = Budget(tmp_path / "empty.db", epsilon=3, delta=1e-5)
    assert len(BudgetDisplay.from_budget(empty, ax=new_figure(2, 2).subplots()).spent) == 0


@pytest.mark.parametrize("over", ["epsilon", "n"])
def test_the_planner_draws_what_is_possible(over, ax):
    at = predict(2000, 20, 2, epsilon=0.3)
    display = PlannerDisplay.from_prediction(at, over, ax=ax)
    most = 2 * np.pi**2 / 4
    assert all(np.max(line.get_ydata()) <= most + 1e-9 for line in ax.lines)
    assert display.errors == [found.error for found in display.predictions]
    assert "the largest possible error" in words(ax)
    with pytest.raises(ValueError, match="'epsilon' or 'n'"):
        PlannerDisplay.from_prediction(at, "D")


def test_a_profile_needs_auto(robust, private, ax):
    DimensionDisplay.from_estimator(robust, ax=ax)
    assert ax.lines[1].get_xdata()[0] == robust.profile_.n_components
    with pytest.raises(ValueError, match="auto"):
        DimensionDisplay.from_estimator(private)


def audited(shift, claim, n=400):
    """An audit of Gaussian scores whose mean moves by `shift`."""
    rng = np.random.default_rng(5)
    coins = np.arange(n) % 2 == 0
    scores = rng.standard_normal(n) + shift * coins
    bound = Bound("accuracy", 0.0 if shift < 1 else 5.0, 0.05, False, 0.0, n, n // 2)
    return AuditReport("m", "a", "n", Claim(claim, 1e-5), 0.95, n, (bound,), scores, coins, 0)


def test_chance_does_not_look_like_a_violation(ax):
    """An attack without a finding stays out of the region; a clear violation enters it."""
    honest = audited(0.4, 0.3)
    fpr, fnr = honest.rates()
    display = AuditDisplay.from_report(honest, ax=ax)
    assert not honest.refuted
    assert np.all(fnr >= display.beyond_chance(fpr))
    assert "more than is claimed, beyond chance" in str(
        [t.get_text() for t in ax.get_legend().get_texts()]
    )
    broken = audited(4.0, 0.3)
    fpr, fnr = broken.rates()
    assert np.any(fnr < AuditDisplay(broken).beyond_chance(fpr))


def test_wrong_things_are_refused(robust):
    with pytest.raises(TypeError, match="fitted estimator of stillspace, got str"):
        LoadingsDisplay.from_estimator("fit")
    with pytest.raises(ValueError, match="two numbers"):
        EmbeddingDisplay.from_estimator(robust, DATA.X, components=(0, 7))
    with pytest.raises(ValueError, match="600 rows and 2 labels"):
        EmbeddingDisplay.from_estimator(robust, DATA.X, labels=[1, 2])


def test_new_axes_and_figures_show_themselves():
    """As in a fresh notebook kernel: nothing was imported, and the figure gives a PNG."""
    code = (
        "from stillspace.plots import PlannerDisplay, draw_expected_error\n"
        "from stillspace.prediction import predict\n"
        "at = predict(2000, 20, 2, epsilon=0.3)\n"
        "assert draw_expected_error(at)._repr_png_()[:4] == b'\\x89PNG'\n"
        "import matplotlib.pyplot as plt\n"
        "assert not plt.get_fignums()\n"
        "display = PlannerDisplay.from_prediction(at)\n"
        "assert plt.gcf() is display.figure_ and plt.gca() is display.ax_\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
