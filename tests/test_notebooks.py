"""What a notebook shows, `summary()`, scikit-learn's attributes on private fits, check_pipeline."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA, check_pipeline
from stillspace._html import facts_in_html
from stillspace.datasets import make_haystack
from stillspace.diagnostics import diagnose
from stillspace.exceptions import PrivacyWarning

DATA = make_haystack(600, 6, 2, inlier_noise=0.1, random_state=0)
PUBLIC = {"center": None, "scale": None}


@pytest.fixture(scope="module")
def private():
    return PrivateRobustPCA(2, epsilon=2.0, summaries=("variances",), **PUBLIC).fit(DATA.X)


@pytest.fixture(scope="module")
def robust():
    return RobustPCA(2).fit(DATA.X)


class Balanced(HTMLParser):
    """Raise unless every tag is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in {"br", "input", "img", "path", "circle"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in {"path", "circle"}:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_text_is_escaped():
    text = facts_in_html("<script>", [("a & b", "<i>")], ["<b>"], warning="<u>")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<i>" not in text
    Balanced(text)


def test_an_estimator_shows_what_it_found(private, robust):
    assert "fitted</strong>" not in PrivatePCA(2)._repr_html_()
    shown = private._repr_html_()
    assert private._repr_mimebundle_()["text/html"].endswith(shown[-500:])
    assert "2 of 6 columns" in shown
    assert "epsilon=2" in shown
    assert "No privacy is promised." not in shown
    assert "No privacy is promised." in robust._repr_html_()


def test_a_guarantee_a_plan_and_a_map(private, robust):
    words = Balanced(private.privacy_._repr_html_()).text
    assert "Privacy guarantee" in words
    assert "each person owns one row" in words
    assert "No privacy guarantee" in Balanced(robust.privacy_._repr_html_()).text
    plan = Balanced(private.plan_._repr_html_()).text
    assert "scale each row to length 1" in plan
    assert "variances (5% of the budget)" in plan
    found = diagnose(robust, DATA.X)
    counts = Balanced(found._repr_html_()).text
    assert f"regular{np.count_nonzero(found.kinds == 'regular')} rows" in counts
    assert "no privacy guarantee covers them" in counts


def test_a_budget_lists_its_fits(tmp_path):
    budget = Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5, note="a <look>")
    PrivatePCA(2, epsilon=1.0, delta=1e-6, budget=budget, **PUBLIC).fit(DATA.X)
    text = budget._repr_html_()
    assert "by 1 fits" in text
    assert "a &lt;look&gt;" in text
    assert str(tmp_path) not in text
    Balanced(text)


def test_summary_has_what_a_reader_needs(private, robust):
    text = robust.summary()
    assert f"{robust.explained_variance_[0]:.3g}" in text
    assert f"{robust.explained_variance_[0]:.3g}" in robust._repr_html_()
    assert "no guarantee" in robust._repr_html_()
    text = private.summary()
    assert private.route_.partition("; ")[0] in text
    assert private.error_meaning_ in text
    assert "variances" in text


def test_private_fits_have_what_was_bought(private):
    assert private.n_components_ == 2
    np.testing.assert_array_equal(private.mean_, private.center_)
    np.testing.assert_array_equal(private.explained_variance_, private.variances_)
    assert 0.0 < private.explained_variance_ratio_.sum() < 1.1
    bare = PrivatePCA(2, epsilon=2.0, norm_bound=2.0, **PUBLIC).fit(DATA.X)
    assert not hasattr(bare, "explained_variance_")
    with pytest.raises(AttributeError, match='summaries=\\("variances",\\)'):
        _ = bare.explained_variance_
    with pytest.raises(AttributeError, match="norm_bound"):
        _ = bare.explained_variance_ratio_
    pairs = PrivatePCA(2, epsilon=2.0, center="pairs", scale=None).fit(DATA.X)
    with pytest.raises(AttributeError, match="cancels"):
        _ = pairs.mean_


def test_steps_that_learn_are_named():
    pipe = make_pipeline(SimpleImputer(), StandardScaler(), PrivatePCA(2), LogisticRegression())
    with pytest.warns(PrivacyWarning) as caught:
        found = check_pipeline(pipe)
    assert [str(w.message) for w in caught] == list(found)
    assert len(found) == 3
    assert "'simpleimputer'" in found[0]
    assert "sits at the centre" in found[0]
    assert "scale='private'" in found[1]
    assert "coefficients and predictions are not private" in found[2]


def test_steps_on_single_rows_are_fine():
    assert check_pipeline(make_pipeline(Normalizer(), "passthrough", PrivatePCA(2))) == ()


def test_nested_steps_are_found():
    columns = ColumnTransformer(
        [("units", StandardScaler(), ["a"]), ("rest", "passthrough", ["b"])]
    )
    pipe = make_pipeline(make_pipeline(columns), PrivateRobustPCA(1))
    with pytest.warns(PrivacyWarning, match="pipeline__columntransformer__units"):
        check_pipeline(pipe)
    pipe.named_steps["pipeline"].fit(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 3.0]}))
    with pytest.warns(PrivacyWarning, match="units"):
        check_pipeline(pipe)


def test_a_pipeline_without_a_private_step_is_refused():
    with pytest.raises(ValueError, match="PrivatePCA or PrivateRobustPCA"):
        check_pipeline(make_pipeline(StandardScaler(), RobustPCA(2)))
