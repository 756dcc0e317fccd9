"""The officer's report: what it says, what it leaves out, and that no byte depends on a row."""

import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.estimators import _private
from stillspace.exceptions import SeededNoiseWarning
from stillspace.models import load_model, save_model, writing
from stillspace.parts.noise import seeded_generator
from stillspace.plans.fixed import fingerprint
from stillspace.plans.release import Release
from stillspace.report import render_report, write_report
from stillspace.report.sections import SLACK
from stillspace.run import loop
from tests.estimators.test_replay import Replay


class Elements(HTMLParser):
    """Collects elements and their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_nothing_is_loaded_and_nothing_runs(reported):
    page = reported[3]
    elements = Elements(page).found
    assert not {tag for tag, _ in elements} & {"script", "link", "img", "iframe", "object", "form"}
    assert not any({"src", "href", "srcset", "onclick", "onload"} & set(a) for _, a in elements)
    assert "url(" not in page
    assert "@import" not in page
    assert not re.search(r"https?:", page)
    assert ("html", {"lang": "en"}) in elements
    policies = [a["content"] for tag, a in elements if a.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_names_of_columns_are_text_and_no_code(reported):
    assert "<script>" not in reported[3]
    assert "&lt;script&gt;alert(&#x27;x&#x27;)" in reported[3]


def test_every_assumption_is_there_and_what_is_not_covered_has_no_box(reported):
    _, model, _, page = reported
    boxes = sum(tag == "input" for tag, _ in Elements(page).found)
    rests_on = [a for a in model.privacy_.assumptions if not a.startswith("not covered")]
    assert boxes == len(rests_on)
    for text in model.privacy_.assumptions:
        told = text.removeprefix("not covered: ")
        assert told[1:] in page


def test_the_numbers_are_those_of_the_guarantee(reported):
    _, model, budget, page = reported
    privacy = model.privacy_
    assert "(1, 1e-06)-differential privacy" in page
    assert f"{50 * (1 + privacy.get_delta(0.0)):.1f} % of all cases" in page
    factor = SLACK * math.exp(privacy.epsilon)
    assert f"{100 * factor * 0.5 / (factor * 0.5 + 0.5):.3g} %" in page
    assert "except with a probability of at most 2e-05" in page
    assert budget.entries()[0].hash[:16] in page
    assert "a first look" in page
    assert model.file_.sha256 in page
    assert fingerprint(model.plan_) in page
    assert "made with the given key" in page
    for value in model.components_[:2, 0]:
        assert f"{value:+.2f}" in page


def test_beliefs_move_no_further_than_the_gaussian_mechanism_moves_them(reported):
    """The exact law of the odds of a Gaussian release, against what the report says of it."""
    from scipy.stats import norm

    from stillspace.privacy import mu_from_budget

    privacy = reported[1].privacy_
    mu = mu_from_budget(privacy.epsilon, privacy.delta)
    limit = math.log(SLACK) + privacy.epsilon
    beyond = norm.sf((limit - mu**2 / 2) / mu)
    assert beyond <= 10 * privacy.delta


def test_an_audit_of_another_plan_is_refused(reported):
    model = reported[1]
    found = {
        "plan": fingerprint(model.plan_), "verdict": "No violation was found.", "refuted": False,
        "adversary": "white-box", "neighbours": "zeros", "runs": 8, "coins": 8, "confidence": 0.95,
    }  # fmt: skip
    assert "No violation was found." in render_report(model, audit=found)
    with pytest.raises(ValueError, match="not one of this model's plan"):
        render_report(model, audit={**found, "plan": "other"})


def test_another_ledger_is_refused(reported, tmp_path):
    from stillspace import Budget

    other = Budget(tmp_path / "other.db", epsilon=1, delta=1e-5)
    with pytest.raises(ValueError, match="does not hold the entry of this model"):
        render_report(reported[1], budget=other)


@pytest.mark.parametrize("seeded", [True, False])
def test_no_promise_is_said_loudly(seeded, tmp_path):
    X = make_haystack(200, 4, 1, random_state=0).X
    if seeded:
        with pytest.warns(SeededNoiseWarning):
            fit = PrivatePCA(1, random_state=0).fit(X)
    else:
        fit = RobustPCA(1, algorithm="ggd", max_iter=5).fit(X)
    save_model(fit, tmp_path / "m.npz")
    page = render_report(load_model(tmp_path / "m.npz"))
    assert "There is none." in page
    assert "Treat it as personal data" in page
    assert not any(tag == "input" for tag, _ in Elements(page).found)
    assert "Random noise" not in page


def test_a_model_that_was_not_stored_is_refused():
    X = make_haystack(200, 4, 1, random_state=0).X
    with pytest.raises(ValueError, match="save the model"):
        render_report(PrivatePCA(1).fit(X))


SUMMARIES = {"summaries": ("variances", "distances", "scores", "scree")}
FITS = {
    "robust": lambda: PrivateRobustPCA(2, epsilon=2.0, center=None, scale=None, **SUMMARIES),
    "pairs": lambda: PrivateRobustPCA("auto", epsilon=2.0, center="pairs", scale=None),
    "standardised": lambda: PrivatePCA(
        2, epsilon=4.0, center="private", scale="private", **SUMMARIES
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_no_byte_depends_on_a_row(name, monkeypatch, tmp_path):
    """A second fit, on entirely other rows, is given the releases of the first.

    Both model files and both reports must have the same bytes: whatever they hold follows from
    releases and public facts.
    """
    monkeypatch.setattr(_private, "generator", lambda _: seeded_generator(7))
    monkeypatch.setattr(loop, "compiled_loop", lambda *_: None)
    monkeypatch.setattr(writing, "_origin", lambda _: ("2026-01-01T00:00:00+00:00", "0"))
    rng = np.random.default_rng(5)
    first = 5.0 + make_haystack(900, 5, 2, inlier_noise=0.05, random_state=3).X
    second = 1e3 * rng.standard_cauchy((900, 5))
    second[rng.random((900, 5)) < 0.1] = np.nan
    files, shown = [], None
    for X in (first, second):
        replay = Replay(shown)
        monkeypatch.setattr(Release, "noisy_mean", lambda *args, r=replay: r.noisy_mean(*args))
        path = tmp_path / "model.npz"
        save_model(FITS[name]().fit(X), path)
        monkeypatch.setattr(Release, "noisy_mean", replay.real)
        write_report(load_model(path), tmp_path / "page.html")
        files.append((path.read_bytes(), (tmp_path / "page.html").read_bytes()))
        first_seen, shown = shown, replay.seen
    assert any((kept[1] != own[1]).any() for kept, own in zip(first_seen, shown, strict=True))
    assert files[0][0] == files[1][0]
    assert files[0][1] == files[1][1]
