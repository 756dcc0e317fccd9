"""Audits of plans and functions: true claims stand, false ones fall, arguments are checked."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from stillspace.audit import AuditReport, Neighbours, audit, make_neighbours
from stillspace.cli.app import app
from stillspace.parts.outputs import Average
from stillspace.plots import draw_trade_off
from stillspace.plots._figure import png
from stillspace.privacy import ComposedEvent, GaussianEvent, Guarantee, mu_from_budget
from stillspace.recipes import Facts, make_plan

DELTA = 1e-5
FACTS = Facts(400, 2, 1, 3.0, DELTA)
START = np.array([[1.0, 0.0]])


def plan_of(name="dp-ggd", facts=FACTS, n_iter=4, **options):
    return make_plan(name, facts, n_iter=n_iter, start=START, **options)


def with_noise(plan, factor):
    return replace(plan, release=replace(plan.release, z=plan.release.z * factor))


def sold_as(plan):
    """The guarantee that the plan's own event gives."""
    return Guarantee.from_event(plan.event(), plan.relation, DELTA)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dp-ggd", {}),
        ("dp-sggd", {"sampling": "poisson"}),
        ("dp-sggd", {"sampling": "without-replacement"}),
        ("dp-sggd", {"sampling": "with-replacement"}),
        ("dp-gd-reap", {}),
    ],
)
def test_true_claims_stand_and_half_the_noise_falls(name, options):
    plan = plan_of(name, **options)
    runs = 400
    true = audit(plan, delta=DELTA, runs=runs, random_state=2)
    assert not true.refuted
    assert true.tightness > 0.15
    # Fixed sizes are accounted for by a bound that no canary reaches: leave out more noise there.
    factor = 0.5 if options.get("sampling") in (None, "poisson") else 0.25
    false = audit(with_noise(plan, factor), claim=sold_as(plan), runs=runs, random_state=2)
    assert false.refuted
    assert "refuted" in false.verdict
    assert false.epsilon > true.epsilon


def test_add_or_remove_sold_as_replace_one_falls():
    """The noise of one relation under the name of the other: half of what is needed."""
    facts = replace(FACTS, relation="add-or-remove-one")
    cheap = plan_of(facts=facts)
    sigma = cheap.release.sigma(0)
    honest = plan_of()
    sold = with_noise(honest, sigma / honest.release.sigma(0))
    assert sold.release.sigma(0) == pytest.approx(sigma)
    report = audit(sold, claim=sold_as(honest), runs=400, random_state=1)
    assert report.refuted
    assert not audit(cheap, delta=DELTA, runs=400, random_state=1).refuted


def test_the_uncharged_start_falls():
    """A second moment released for nothing beside a loop that has the whole budget."""
    loop = plan_of(n_iter=1)
    start = make_plan("dp-pca", FACTS).start
    both = replace(loop, start=start)
    pair = make_neighbours(both, np.pi / 4, "inliers")
    report = audit(both, claim=sold_as(loop), neighbours=pair, runs=2500, random_state=0)
    assert report.refuted


def test_the_noise_that_the_paper_prints_falls_in_ten_runs():
    facts = Facts(500, 6, 2, 0.8, 500**-0.5, calibration="as-printed")
    plan = make_plan("dp-sggd", facts, n_iter=500, batch_size=20, start=np.eye(6)[:2])
    claim, pair = (0.8, 500**-0.5), make_neighbours(plan, 0.25)
    report = audit(plan, claim=claim, bounds="accuracy", runs=10, neighbours=pair, random_state=0)
    assert report.bounds[0].correct == 10
    assert report.epsilon > 0.95
    assert report.refuted
    eight = make_neighbours(plan, 0.25, count=8)
    many = audit(plan, claim=(0.8, 1e-6), runs=10, canaries=8, neighbours=eight, random_state=0)
    assert many.bounds[0].name == "one-run"
    assert many.epsilon > 3


@pytest.mark.parametrize("adversary", ["last-iterate", "components"])
def test_the_released_subspace_tells_less(adversary):
    plan = replace(plan_of(facts=replace(FACTS, epsilon=20.0)), output=Average())
    seen = audit(plan, delta=DELTA, adversary=adversary, runs=300, random_state=0)
    assert 0 <= seen.epsilon < audit(plan, delta=DELTA, runs=300, random_state=0).epsilon
    assert seen.adversary == adversary
    assert seen.counted_from == 75


def test_private_pca_with_two_equal_eigenvalues():
    """Components only: where two directions are equally strong one row decides between them."""
    facts = Facts(100, 3, 1, 30.0, DELTA)
    plan = make_plan("dp-pca", facts)
    report = audit(plan, delta=DELTA, adversary="components", runs=400, random_state=0)
    balanced = audit(plan, delta=DELTA, adversary="components", runs=400, random_state=0,
                     neighbours=make_neighbours(plan, np.pi / 4, "balanced"))  # fmt: skip
    apart = audit(plan, delta=DELTA, adversary="components", runs=400, random_state=0,
                  neighbours=make_neighbours(plan, 0.1, "inliers"))  # fmt: skip
    assert apart.epsilon + 2 < balanced.epsilon < 30
    # All eigenvalues equal, at zero: found by the pilot, and worse still.
    assert report.neighbours == "zeros, angle 0.79"
    assert balanced.epsilon < report.epsilon < 30


def noisy_sum(sigma):
    """The release of a sum with plain normals, as a user's own mechanism."""
    rng = np.random.default_rng(7)
    return lambda X: X.sum(axis=0) + sigma * rng.standard_normal(X.shape[1])


def test_functions_with_and_without_a_score():
    X0, X1 = np.zeros((5, 3)), np.zeros((5, 3))
    X1[0, 1] = 1.0
    event = ComposedEvent.of([GaussianEvent(0.5, 1.0, 1.0)])
    claim = Guarantee.from_event(event, "replace-one", DELTA)
    true = audit(noisy_sum(0.5), claim=claim, neighbours=(X0, X1), runs=2000, random_state=0)
    assert not true.refuted
    assert true.tightness > 0.8
    assert true.adversary == "the best linear score on a split"
    by_score = audit(
        noisy_sum(0.5),
        claim=(claim.epsilon, DELTA),
        neighbours=(X0, X1),
        score=lambda out: out[1],
        runs=2000,
        bounds=["clopper-pearson", "accuracy"],
        random_state=0,
    )
    assert not by_score.refuted
    assert [bound.level for bound in by_score.bounds] == pytest.approx([0.025, 0.025])
    false = audit(noisy_sum(0.2), claim=claim, neighbours=(X0, X1), runs=2000, random_state=0)
    assert false.refuted


def test_coverage_on_a_tight_gaussian():
    """200 audits of a mechanism that just keeps its claim: 5 % may pass it.

    P(Binomial(200, .05) > 28) < 1e-6.
    """
    mu = mu_from_budget(0.8, DELTA)
    event = ComposedEvent.of([GaussianEvent(1.0 / mu, 1.0, 1.0)])
    claim = Guarantee.from_event(event, "replace-one", DELTA)
    rng = np.random.default_rng(0)
    tables = (np.zeros((1, 1)), np.ones((1, 1)))
    above = 0
    for _ in range(200):
        report = audit(
            lambda X: float(X[0, 0]) + rng.normal() / mu,
            claim=claim, neighbours=tables, runs=200,
        )  # fmt: skip
        above += report.refuted
    assert above <= 28


def test_more_processes_give_the_same_report():
    plan = plan_of(n_iter=2)
    pair = make_neighbours(plan, 0.2)
    one, two = (
        audit(plan, delta=DELTA, runs=420, neighbours=pair, n_jobs=jobs, random_state=3)
        for jobs in (1, 2)
    )
    assert np.array_equal(one.scores, two.scores)
    assert np.array_equal(one.coins, two.coins)
    fresh = audit(plan, delta=DELTA, runs=50, neighbours=pair)
    assert not np.array_equal(
        fresh.scores, audit(plan, delta=DELTA, runs=50, neighbours=pair).scores
    )


def test_rows_per_person_are_canaries_of_that_many_rows():
    plan = plan_of(facts=replace(FACTS, rows_per_person=3))
    pair = make_neighbours(plan, 0.2)
    assert pair.copies == 3
    assert pair.table(np.array([True])).shape == (400, 2)
    report = audit(plan, delta=DELTA, runs=1000, random_state=2)
    assert not report.refuted
    assert report.tightness > 0.3


def test_a_report_in_words_numbers_and_a_picture():
    report = audit(plan_of(), delta=DELTA, runs=100, random_state=3)
    assert isinstance(report, AuditReport)
    assert "An audit can refute a claim and never prove one." in str(report)
    stored = json.loads(json.dumps(report.to_dict()))
    assert stored["claimed_epsilon"] == pytest.approx(3.0, rel=1e-3)
    assert stored["bounds"][0]["model_based"] is True
    fpr, fnr = report.rates()
    assert (fpr[0], fnr[0], fpr[-1], fnr[-1]) == (0, 1, 1, 0)
    assert png(draw_trade_off(report))[:4] == b"\x89PNG"
    pair = audit(noisy_sum(1.0), claim=(1.0, 1e-5), runs=40,
                 neighbours=(np.zeros((2, 2)), np.ones((2, 2))))  # fmt: skip
    assert png(draw_trade_off(pair))[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delta": None}, "give the delta"),
        ({"claim": (1.0, 1e-5)}, "not both"),
        ({"delta": None, "claim": 3.0}, "must be a Guarantee or"),
        ({"delta": None, "claim": (-1.0, 0.1)}, "epsilon >= 0"),
        ({"adversary": "nobody"}, "adversary must be one of .* got 'nobody'"),
        ({"bounds": "magic"}, "must be chosen from"),
        ({"bounds": ["trade-off", "trade-off"]}, "must be chosen from"),
        ({"delta": None, "claim": (1.0, 1e-5), "bounds": "trade-off"}, "is no curve"),
        ({"canaries": 2, "bounds": "trade-off"}, "do not fit"),
        ({"runs": 1}, "at least 8"),
        ({"canaries": 0}, "at least 1"),
        ({"confidence": 1.5}, "confidence must lie"),
        ({"neighbours": (1, 2)}, "must be a Neighbours object"),
        ({"score": float}, "score= is for functions"),
        ({"adversary": "components", "bounds": "one-run"}, "white-box adversary"),
    ],
)
def test_arguments_are_checked(change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        audit(plan_of(), **{"delta": DELTA, "runs": 10, **change})


def test_other_arguments_are_checked():
    with pytest.raises(TypeError, match="takes a Plan"):
        audit(3)
    with pytest.raises(ValueError, match="no claim of its own"):
        audit(noisy_sum(1.0))
    with pytest.raises(TypeError, match="the two tables"):
        audit(noisy_sum(1.0), claim=(1.0, 1e-5))
    silent = make_plan("ggd", Facts(50, 3, 1), n_iter=3)
    with pytest.raises(ValueError, match="promises nothing"):
        audit(silent, delta=DELTA)
    with pytest.raises(ValueError, match="Nothing is left to guess"):
        audit(silent, claim=(1.0, 1e-5))
    wide = make_plan("dp-ggd", Facts(400, 4, 2, 3.0, DELTA), n_iter=2)
    with pytest.raises(ValueError, match="not independent guesses"):
        audit(wide, delta=DELTA, canaries=2, bounds="trade-off", runs=10)
    with pytest.raises(ValueError, match="canaries=2"):
        audit(wide, delta=DELTA, canaries=2, neighbours=make_neighbours(wide, 0.2), runs=10)
    with pytest.raises(ValueError, match="fewer rows"):
        audit(make_plan("dp-pca", Facts(10**7, 20, 1, 1.0, DELTA)), delta=DELTA)
    with pytest.raises(ValueError, match="one shape"):
        Neighbours(np.zeros((3, 2)), np.ones((1, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="same columns"):
        Neighbours(np.zeros((3, 2)), np.ones((1, 3)), None)


def test_the_command(tmp_path):
    picture, report = tmp_path / "a.png", tmp_path / "a.json"
    shown = CliRunner().invoke(
        app,
        ["audit", "dp-sggd", "--epsilon", "3", "--rows", "300", "--n-iter", "3", "--runs", "60",
         "--out", str(picture), "--json", str(report)],
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "Verdict:" in shown.output
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert json.loads(report.read_text())["runs"] == 60


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "Unknown algorithm 'nothing'"),
        (["dp-ggd", "-r", "2"], "--components must be below --features"),
        (["dp-ggd", "--relation", "none"], "--relation must be one of"),
        (["dp-ggd", "--epsilon", "nan"], "--epsilon must be a number in"),
        (["dp-ggd", "--bound", "magic"], "must be chosen from"),
        (["dp-ggd", "--adversary", "x"], "adversary must be one of"),
        (["dp-ggd", "--out", "/nowhere/a.png"], "No such file"),
        (["dp-pca", "--as-printed"], "Nothing is left to guess"),
    ],
)
def test_the_command_says_what_is_wrong(arguments, words):
    shown = CliRunner().invoke(app, ["audit", *arguments, "--runs", "10", "--rows", "50"])
    assert shown.exit_code in (1, 2)
    assert words in shown.output
    assert "Traceback" not in shown.output
