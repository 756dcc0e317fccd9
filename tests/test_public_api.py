"""The public names, what importing them costs, and the examples that a newcomer pastes."""

import gc
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stillspace

ROOT = Path(__file__).parent.parent
FACES = {
    "stillspace": [
        "Budget",
        "Guarantee",
        "PrivatePCA",
        "PrivateRobustPCA",
        "RobustPCA",
        "__version__",
        "check_pipeline",
        "register_recipe",
    ],
    "stillspace.extending": ["register_recipe", "unregister_recipe"],
    "stillspace.datasets": [
        "Europe",
        "Genotypes",
        "Haystack",
        "load_popres",
        "make_europe",
        "make_genotypes",
        "make_haystack",
    ],
    "stillspace.audit": [
        "AuditReport",
        "Bound",
        "Claim",
        "Finding",
        "Neighbours",
        "NoiseReport",
        "Subject",
        "audit",
        "check_noise",
        "check_selection",
        "make_neighbours",
        "search_sensitivity",
    ],
    "stillspace.estimators": ["PrivatePCA", "PrivateRobustPCA", "RobustPCA"],
    "stillspace.metrics": ["chordal_gap", "principal_angles", "subspace_error"],
    "stillspace.pipelines": ["check_pipeline"],
    "stillspace.prediction": ["Prediction", "predict"],
    "stillspace.rows.sketch": ["Sketch"],
    "stillspace.diagnostics": ["OutlierMap", "diagnose"],
    "stillspace.plots": [
        "AuditDisplay",
        "BiplotDisplay",
        "BudgetDisplay",
        "DimensionDisplay",
        "EmbeddingDisplay",
        "LoadingsDisplay",
        "OutlierMapDisplay",
        "Panel",
        "PlannerDisplay",
        "PrivacyCurveDisplay",
        "ScreeDisplay",
        "draw_expected_error",
        "draw_score_map",
        "draw_side_views",
        "draw_trade_off",
    ],
    "stillspace.theory": [
        "Bounds",
        "Certificate",
        "IterationBound",
        "LinearConvergence",
        "LocalStability",
        "LowerBound",
        "MinibatchStability",
        "PrivateCertificate",
        "ReaperRate",
        "ReaperStability",
        "RecoveryPrediction",
        "RestartSchedule",
        "Stability",
        "StartCondition",
        "Statement",
        "alignment",
        "boundary_rows",
        "certify",
        "exact_certificate",
        "iteration_bound",
        "largest_restarts",
        "linear_convergence",
        "local_stability",
        "lower_bound",
        "minibatch_bound",
        "most_halvings",
        "noise_floor",
        "paper_minibatch_value",
        "pca_start",
        "permeance",
        "predict_recovery",
        "private_pca_start",
        "reaper_alignment",
        "reaper_permeance",
        "reaper_rate",
        "reaper_stability",
        "restarts",
        "sampled_minibatches",
        "stability",
    ],
}


@pytest.mark.parametrize("name", FACES)
def test_public_names(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == FACES[name]
    for public in module.__all__:
        assert getattr(module, public) is not None
    assert set(module.__all__) <= set(dir(module))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'RobustPCa'"):
        _ = stillspace.RobustPCa


def test_importing_the_package_imports_no_third_party_module():
    code = (
        "import sys; before = set(sys.modules); import stillspace; "
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    found = set(re.findall(r"'(\w+)'", out))
    assert "stillspace" in found
    assert not found & {"numpy", "scipy", "sklearn", "numba", "randomgen", "matplotlib", "typer"}


def test_private_estimators_load_without_the_search_of_robust_ones():
    code = (
        "import sys; from stillspace import PrivateRobustPCA; "
        "print([name for name in sys.modules if name.startswith('stillspace.search')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_readme_examples_run_and_their_figures_hold(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    units, example, *_ = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    exec(compile(units, "README.md", "exec"), names)
    pca = names["pca"]
    assert len(pca.dropped_columns_) == 0
    np.testing.assert_allclose(pca.center_[:2], [170.0, 63.0], rtol=0.02)
    assert abs(pca.components_[0, 2]) < 0.3  # height and weight go together, income alone
    assert "differential privacy" in capsys.readouterr().out
    exec(compile(example, "README.md", "exec"), names)
    pca, data = names["pca"], names["data"]
    assert names["subspace_error"](pca.components_, data.components) < 1e-3
    assert pca.privacy_.get_epsilon(delta=1e-9) > pca.privacy_.epsilon


def test_types_are_shipped():
    assert (Path(stillspace.__file__).parent / "py.typed").exists()


def test_version_is_stated_once():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {stillspace.__version__}" in citation
    assert f"## {stillspace.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_loading_leaves_the_garbage_collector_as_it_was(collects, frozen, monkeypatch):
    """Collection is off while the package loads, and on again afterwards, or off if it was off."""
    told, calls = [], []
    monkeypatch.setattr(stillspace, "import_module", lambda name: told.append(gc.isenabled()))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: int(frozen))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    was = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        stillspace._loaded("stillspace.privacy")
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()
    assert told == [False]
    assert calls == ([] if frozen else ["freeze", "unfreeze"])
