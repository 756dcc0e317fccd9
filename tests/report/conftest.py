"""One model with everything that a report can show, shared by all tests of reports."""

import warnings

import numpy as np
import pytest

from stillspace import Budget, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.models import load_model, make_key, save_model
from stillspace.report import render_report

NAMES = [f"lab value {j}" for j in range(11)] + ["<script>alert('x')</script>"]


@pytest.fixture(scope="session")
def reported(tmp_path_factory):
    """A folder with a ledger, a signed model, and its report as page.html."""
    folder = tmp_path_factory.mktemp("report")
    X = make_haystack(1500, 12, 2, inlier_noise=0.05, random_state=3).X
    make_key(folder / "key")
    budget = Budget(folder / "ledger.db", epsilon=3, delta=1e-5, note="a first look")
    fit = PrivateRobustPCA(2, budget=budget, summaries=("variances", "scores", "scree"))
    fit.set_params(center=None, scale=None).fit(X)
    fit.feature_names_in_ = np.array(NAMES, dtype=object)
    save_model(fit, folder / "model.npz", key=folder / "key")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = load_model(folder / "model.npz", key=folder / "key")
    page = render_report(model, budget=budget)
    (folder / "page.html").write_text(page, encoding="utf-8")
    return folder, model, budget, page
