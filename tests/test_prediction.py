"""What a budget is said to buy."""

from math import exp, lgamma, sqrt

import numpy as np
import pytest
from typer.testing import CliRunner

from stillspace.cli.app import app
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.parts.noise import seeded_generator
from stillspace.prediction import _curvatures, predict
from stillspace.recipes import Facts, make_plan
from stillspace.rows import MemoryRows
from stillspace.run import run


def measured_and_said(name, seeds, n, D, r, share, noise, epsilon):
    """The median error of a few fits, and the prediction."""
    plan, found = make_plan(name, Facts(n, D, r, epsilon, 1e-6)), []
    for seed in range(seeds):
        data = make_haystack(n, D, r, inlier_ratio=share, inlier_noise=noise, random_state=seed)
        result = run(plan, MemoryRows.prepare(data.X), seeded_generator(seed))
        found.append(subspace_error(result.V.T, data.components))
    facts = {"inlier_share": share, "inlier_noise": noise, "known_units": True}
    return np.median(found), predict(n, D, r, epsilon=epsilon, delta=1e-6, **facts)


@pytest.mark.parametrize(
    ("n", "D", "r", "share", "noise", "epsilon"),
    [(4000, 20, 2, 0.6, 0.05, 1.0), (10_000, 40, 3, 0.8, 0.1, 1.0), (3000, 15, 1, 0.5, 0.1, 3.0)],
)
def test_predicted_and_measured(n, D, r, share, noise, epsilon):
    """Within a factor of 2.5; seeded, so it never fails by chance."""
    measured, said = measured_and_said("auto", 4, n, D, r, share, noise, epsilon)
    assert 0.4 < measured / said.error < 2.5


def test_the_weakest_direction_is_predicted_too():
    """Within a factor of 2.5; told of equal directions it is three times too small. Seeded."""
    n, D, r, scales = 4000, 20, 2, np.array([1.8, 0.2]) ** 0.5
    data = make_haystack(
        n, D, r, inlier_ratio=0.8, inlier_noise=0.1, inlier_scales=scales, random_state=0
    )
    plan = make_plan("auto", Facts(n, D, r, 1.0, 1e-6))
    rows = MemoryRows.prepare(data.X)
    answers = [run(plan, rows, seeded_generator(seed)).V for seed in range(5)]
    measured = np.median([subspace_error(V.T, data.components) for V in answers])
    even = predict(n, D, r, epsilon=1.0, delta=1e-6, inlier_share=0.8, known_units=True)
    uneven = even.changed(inlier_anisotropy=3.0)
    assert 0.4 < measured / uneven.error < 2.5
    assert measured / even.error > 3.0
    # on the sphere E[y_2²/(y_1² + y_2²)] is √v_2/(√v_1 + √v_2) = ¼ in place of ½
    assert uneven.kappa == pytest.approx(0.5 * even.kappa, rel=0.1)
    assert "anisotropy 3" in str(uneven)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
@pytest.mark.parametrize(
    ("n", "D", "r", "share", "noise"), [(5000, 20, 2, 1.0, 0.1), (3000, 40, 3, 0.8, 0.5)]
)
def test_private_pca_is_predicted_with_its_sampling_error(n, D, r, share, noise, epsilon):
    """Within a factor of 2, of which sampling is 25 × the noise at ε = 20; seeded."""
    measured, said = measured_and_said("dp-pca", 3, n, D, r, share, noise, epsilon)
    assert 0.5 < measured / said.pca_error < 2.0


def test_nothing_is_predicted_above_the_largest_angle():
    at = predict(10, 200, 3, epsilon=0.01)
    assert at.error == pytest.approx(3 * np.pi**2 / 4)
    assert at.pca_error <= 3 * np.pi**2 / 4
    steps = predict(200, 20, 2, epsilon=0.5, inlier_share=0.2, inlier_noise=2.0).newton_error
    assert steps == np.inf or steps <= 2 * np.pi**2 / 4


@pytest.mark.parametrize(("variances", "noise"), [([1.0], 0.2), ([0.8, 0.15, 0.05], 0.5)])
def test_curvatures_are_expectations(variances, noise):
    """Against 400 000 draws: six standard errors, a false alarm in 1e8."""
    terms = np.random.default_rng(0).standard_normal((400_000, len(variances))) ** 2 * variances
    terms /= noise * np.sqrt(terms.sum(axis=1, keepdims=True) + noise**2)
    errors = terms.std(axis=0) / sqrt(len(terms))
    found = _curvatures(np.array(variances), noise)
    assert np.all(np.abs(found - terms.mean(axis=0)) < 6.0 * errors)


@pytest.mark.parametrize("r", [1, 2, 300])
def test_curvature_of_equal_directions_in_closed_form(r):
    """E‖y‖/r for little noise: √(2/r) Γ((r+1)/2)/Γ(r/2)/(rτ)."""
    c = sqrt(2.0 / r) * exp(lgamma((r + 1) / 2) - lgamma(r / 2))
    found = _curvatures(np.full(r, 1.0 / r), 1e-4)
    np.testing.assert_allclose(found, c / (r * 1e-4), rtol=1e-3)


def test_more_of_anything_helps():
    at = predict(5000, 40, 3, epsilon=1.0)
    assert at.useful
    for facts in ({"n": 10_000}, {"epsilon": 2.0}, {"inlier_share": 0.9}, {"D": 20}):
        assert at.changed(**facts).error < at.error
    assert at.changed(relation="add-or-remove-one").error < at.error


def test_a_hopeless_budget_is_called_so():
    at = predict(300, 200, 3, epsilon=0.5)
    assert not at.useful
    needed = at.needed_epsilon()
    assert needed > 0.5
    assert at.changed(epsilon=1.01 * needed).useful
    assert "Hopeless" in str(at)
    assert "sketch" in str(at)
    assert "no epsilon up to 50" in str(predict(10, 2000, 9, epsilon=1.0))


def test_a_weak_signal_is_said_to_end_with_private_pca():
    at = predict(400, 50, 2, epsilon=0.5, inlier_share=0.9)
    assert at.kappa < 4.0
    assert at.error == pytest.approx(at.pca_error)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"n": 1}, "2 rows"),
        ({"r": 40}, "components < columns"),
        ({"inlier_share": 0.0}, r"\(0, 1\]"),
        ({"inlier_noise": -1.0}, r"in \[0, ∞\)"),
        ({"inlier_anisotropy": 0.5}, r"in \[1, ∞\)"),
        ({"inlier_anisotropy": np.nan}, r"in \[1, ∞\)"),
        ({"relation": "swap"}, "replace-one"),
    ],
)
def test_wrong_facts_are_named(facts, words):
    with pytest.raises(ValueError, match=words):
        predict(**{"n": 100, "D": 10, "r": 2, "epsilon": 1.0, **facts})


def test_the_command(tmp_path):
    picture = tmp_path / "plan.png"
    options = ["plan", "-n", "5000", "-d", "20", "-r", "2", "--epsilon", "1"]
    options += ["--inlier-anisotropy", "1.5"]
    result = CliRunner().invoke(app, [*options, "--picture", str(picture)])
    assert result.exit_code == 0
    assert "damped Newton steps" in result.stdout
    assert "anisotropy 1.5" in result.stdout
    assert "Expected squared error" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    wrong = CliRunner().invoke(app, ["plan", "-n", "5", "-d", "2", "-r", "2", "--epsilon", "1"])
    assert wrong.exit_code == 2
    assert "--components must be below --features" in wrong.stderr
