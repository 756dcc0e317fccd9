"""`benchmarks/utility`: peers against independent formulas, and the way from cells to a page."""

import json
import sys
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest
from benchmarks import _facts
from benchmarks.utility import __main__ as command
from benchmarks.utility import coinpress, effort, neighbours, page, picture, power
from benchmarks.utility import contenders as contest
from benchmarks.utility.cells import Contest, Grid, Reference, contests, sources
from benchmarks.utility.hindsight import Fixed, build, grid
from benchmarks.utility.problems import (
    DRAWN,
    FACTS,
    FEW,
    FRESH,
    HELD_OUT,
    KINDS,
    LARGE,
    NOISELESS,
    TABLES,
    Regime,
    Table,
    is_large,
    sphered,
)
from benchmarks.utility.references import glad_optimum, mean_distance, pca_optimum
from benchmarks.utility.results import EXACT, Entry, Results, interval, predicted
from reproduction.store import Store
from reproduction.workers import run_cells
from scipy.stats import chi2

from stillspace.metrics import subspace_error
from stillspace.plans.starts import RunStart
from stillspace.prediction import predict
from stillspace.privacy import ComposedEvent, GaussianEvent, full_batch_mu, privacy_curve
from stillspace.recipes import Facts

TINY = Regime("tiny 1", "fresh", 600, 6, 2, 0.7, "low-rank", 0.1, 3.0, rank=2, seed=3)
EFFORT = replace(
    effort.QUICK, least_seeds=3, most_seeds=3, other_seeds=2, table_seeds=3, every_plan=25
)

HELD_FIRST = (1814, 62, 7, 213363043)
HELD_LAST = (3011, 446, 2, 449760018)
FRESH_LAST = (6948, 35, 2, 1995962452)
LARGE_LAST = (87037, 43, 9, 1396974090)


def unit_rows(n: int, D: int, r: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return sphered(rng.standard_normal((n, D)) * np.r_[np.full(r, 3.0), np.ones(D - r)])


# --- the noisy power method ----------------------------------------------------------------


@pytest.mark.parametrize("r", [1, 3])
def test_power_noise_composes_to_the_budget(r: int):
    n, mu, steps = 500, 0.37, 5
    sigma = n * power.noise_scale(n, r, mu, steps)
    release = GaussianEvent(sigma=sigma, norm_bound=1.0, difference_bound=sqrt(min(r, 2)))
    total = full_batch_mu(ComposedEvent.of([release] * steps), "replace-one")
    assert total == pytest.approx(mu, rel=1e-12)


@pytest.mark.parametrize("r", [1, 2, 4])
def test_power_sensitivity_holds_and_is_reached(r: int):
    rng = np.random.default_rng(1)
    most = 0.0
    for _ in range(300):
        V = np.linalg.qr(rng.standard_normal((6, r)))[0]
        x, y = sphered(rng.standard_normal((2, 6))) * rng.choice([1.0, 0.6, 0.0], (2, 1))
        most = max(most, float(np.linalg.norm((np.outer(x, x) - np.outer(y, y)) @ V)))
    bound = sqrt(min(r, 2))
    assert most <= bound + 1e-12
    V = np.eye(6)[:, :r]
    worst = np.outer(V[:, 0], V[:, 0]) - np.outer(np.eye(6)[1], np.eye(6)[1])
    assert np.linalg.norm(worst @ V) == pytest.approx(bound)


def test_power_without_noise_is_pca_and_with_noise_has_its_scale():
    X = unit_rows(400, 8, 2)
    S, n = X.T @ X / 400, 400
    V = power.noisy_power(S, n, 2, inf, np.random.default_rng(0), steps=60)
    assert subspace_error(V.T, pca_optimum(X, 2).T) < 1e-20
    got = power.noisy_power(S, n, 2, 0.8, np.random.default_rng(4), steps=1)
    rng = np.random.default_rng(4)
    first = np.linalg.qr(rng.standard_normal((8, 2)))[0]
    noisy = S @ first + sqrt(2.0) / (n * 0.8) * rng.standard_normal((8, 2))
    assert subspace_error(got.T, np.linalg.qr(noisy)[0].T) < 1e-25


# --- CoinPress -----------------------------------------------------------------------------


def test_coinpress_without_noise_is_the_second_moment():
    X = unit_rows(800, 5, 2)  # 5 columns: whitened rows stay inside the ball
    S = coinpress.second_moment(X, inf, np.random.default_rng(0))
    np.testing.assert_allclose(S, X.T @ X / 800, atol=1e-14)


def test_coinpress_noise_is_isotropic_with_the_scale_of_its_share():
    # 4000 matrices: a variance is known to ± 2.2 %, and 14 % is beyond 6 standard deviations
    n, radius, mu, share = 70, 1.7, 0.6, 0.25
    rng = np.random.default_rng(2)
    drawn = np.array([coinpress.noise(n, 3, radius, mu, share, rng) for _ in range(4000)])
    sigma = sqrt(2.0) * radius**2 / (n * mu * sqrt(share))
    assert np.array_equal(drawn, drawn.transpose(0, 2, 1))
    expected = np.where(np.eye(3) > 0, sigma**2, sigma**2 / 2)
    np.testing.assert_allclose(drawn.var(axis=0), expected, rtol=0.14)


def test_coinpress_shares_compose_to_the_budget():
    assert sum(coinpress.SHARES) == pytest.approx(1.0)
    mu, n, radius = 0.9, 50, 2.0
    releases = [
        GaussianEvent(
            sigma=sqrt(2.0) * radius**2 / (mu * sqrt(share)),
            norm_bound=radius**2,
            difference_bound=sqrt(2.0) * radius**2,
        )
        for share in coinpress.SHARES
    ]
    assert full_batch_mu(ComposedEvent.of(releases), "replace-one") == pytest.approx(mu)
    rows = unit_rows(n, 4, 1) * 5.0
    clipped = coinpress.clipped_moment(rows, radius)
    assert np.trace(clipped) == pytest.approx(radius**2)


@pytest.mark.parametrize("D", [1, 10, 200])
def test_coinpress_radius_holds_nine_tenths_of_gaussian_rows(D: int):
    assert chi2.sf(coinpress.tail_bound(D) ** 2, D) <= 0.1


# --- problems ------------------------------------------------------------------------------


def test_regimes_are_what_they_are_said_to_be():
    assert len(DRAWN) + len(FRESH) >= 60
    assert len(FRESH) >= 20
    everything = DRAWN + HELD_OUT + FRESH
    assert len({g.seed for g in everything}) == len(everything)
    assert {g.kind for g in everything} == set(KINDS)
    for g in everything:
        assert 1e3 <= g.n <= 1e5
        assert 10 <= g.D <= 500
        assert 1 <= g.r <= 10
        assert 0.5 <= g.share <= 1
        assert 0 <= g.noise <= 1
        assert 0.3 <= g.epsilon <= 4
    assert sum(g.kappa >= 10 for g in FRESH) == 40
    assert all(g.noise == 0 and g.kappa >= 10 for g in NOISELESS)
    for g in FEW:
        assert 0.1 <= g.share <= 0.5
        assert g.noise <= 0.2
        assert g.kappa >= 10
        assert g.contaminated


def test_draws_do_not_change():
    """A held-out regime is set aside once: no later change may draw it anew."""
    for g, known in (
        (HELD_OUT[0], HELD_FIRST),
        (HELD_OUT[-1], HELD_LAST),
        (FRESH[-1], FRESH_LAST),
        (LARGE[-1], LARGE_LAST),
    ):
        assert (g.n, g.D, g.r, g.seed) == known


def test_large_regimes_are_those_that_the_others_leave_out():
    assert all(is_large(g) for g in LARGE)
    assert not any(is_large(g) for g in DRAWN + HELD_OUT + FRESH + NOISELESS + FEW)
    assert len(DRAWN + HELD_OUT) >= 60


@pytest.mark.parametrize(("n", "count"), [(100, 3), (30_000, 1), (90_000, 0)])
def test_dear_reapers_run_once_or_not_at_all(n: int, count: int):
    g = replace(TINY, n=n, D=100)
    assert effort.n_seeds("dp-GD-REAP", g, effort.WHOLE) == count
    assert effort.n_seeds(contest.OURS, g, effort.WHOLE) >= effort.WHOLE.least_seeds


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_a_regime(kind):
    g = replace(TINY, kind=kind, anisotropy=2.0, n=2000, D=12)
    data = g.data()
    np.testing.assert_allclose(np.linalg.norm(data.X, axis=1), 1.0)
    truth = data.targets["truth"]
    near = np.linalg.norm(data.X - data.X @ truth @ truth.T, axis=1) < 0.3
    assert near.mean() == pytest.approx(0.7, abs=0.1)
    assert np.array_equal(data.X, g.data().X)


def test_kappa_of_a_named_regime():
    g = FACTS[0]
    assert g.kappa == pytest.approx(2000 * 0.226 * 0.25 / 1.0025 / sqrt(20), rel=0.1)
    assert replace(g, anisotropy=3.0).kappa < g.kappa


def test_tables_have_targets_of_the_clean_table():
    clean = Table("wine (scaled)", 2, False, 1.0)
    planted = replace(clean, planted=True)
    data, dirty = clean.data(), planted.data()
    assert dirty.X.shape == (planted.n, planted.D) == (222, 13)
    assert len(data.X) / len(dirty.X) == pytest.approx(0.8, abs=0.01)
    assert set(data.targets) == {"PCA", "GLAD"}
    for name, target in data.targets.items():
        np.testing.assert_array_equal(target, dirty.targets[name])
    X = data.X
    assert mean_distance(X, data.targets["GLAD"]) <= mean_distance(X, data.targets["PCA"])
    assert len({t.name for t in TABLES}) == len(TABLES)


def test_glad_optimum_keeps_the_lowest_cost():
    data = TINY.data()
    alone = glad_optimum(data.X, 2)
    helped = glad_optimum(data.X, 2, data.targets["truth"])
    assert mean_distance(data.X, helped) <= mean_distance(data.X, alone) + 1e-12


# --- plans in hindsight --------------------------------------------------------------------


def test_about_a_hundred_plans():
    plans = grid()
    assert 90 <= len(plans) <= 110
    assert len({plan.name for plan in plans}) == len(plans)


@pytest.mark.parametrize(
    "fixed", [Fixed(), Fixed(0.3, 15, 1.0, 0.01), Fixed(0.1, 30, 1.0, 0.1, cut=0.15)]
)
def test_plans_spend_the_whole_budget_and_no_more(fixed: Fixed):
    plan = build(fixed, Facts(500, 8, 2, epsilon=1.3, delta=1e-6))
    spent = privacy_curve(plan.event(), "replace-one").get_epsilon(1e-6)
    assert 1.3 * 0.999 < spent <= 1.3


def test_steps_before_and_after_a_cut_are_one_loop():
    facts = Facts(500, 8, 2, epsilon=1.3, delta=1e-6)
    cut = build(Fixed(0.1, 15, 1.0, 0.01, cut=0.15), facts)
    whole = build(Fixed(0.1, 15, 1.0, 0.01), facts)
    assert isinstance(cut.start, RunStart)
    before = cut.start.plan
    assert cut.release.query.cut == 0.15
    assert before.release.query.cut == inf
    for part in (cut, before):
        assert part.release.sigma(0) == pytest.approx(whole.release.sigma(0), rel=1e-6)
    steps = [before.schedule.step(k) for k in range(before.n_iter)]
    steps += [cut.schedule.step(k) for k in range(cut.n_iter)]
    np.testing.assert_allclose(steps, [whole.schedule.step(k) for k in range(15)])


# --- neighbours ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ('print(\'{"seconds": 1, "components": [[1, 0]]}\')', {"seconds": 1}),
        ("import os, signal; os.kill(os.getpid(), signal.SIGPROF)", {"none": "no answer in 1 s"}),
        ("raise KeyError('secret path')", {"none": "error: KeyError"}),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_a_neighbour_answers_or_not(script, answer, monkeypatch):
    monkeypatch.setattr(neighbours, "_python", lambda home: Path(sys.executable))
    peer = neighbours.Neighbour("peer", ("peer==1",), script)
    got = neighbours.ask(peer, Path("nowhere"), np.eye(2), 1, 1.0, limit=1)
    assert answer.items() <= got.items()


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_a_neighbour_is_ended_after_its_cpu_seconds(monkeypatch):
    monkeypatch.setattr(neighbours, "_python", lambda home: Path(sys.executable))
    endless = neighbours._CHILD.format(imports="", fit="while True: pass")
    peer = neighbours.Neighbour("peer", ("peer==1",), endless)
    assert neighbours.ask(peer, Path("nowhere"), np.eye(2), 1, 1.0, limit=1) == {
        "none": "no answer in 1 s"
    }


def test_every_drawn_and_held_out_regime_has_a_grid():
    assert all(effort.has_grid(g, effort.WHOLE) for g in DRAWN + HELD_OUT)
    assert not any(effort.has_grid(table, effort.WHOLE) for table in TABLES)


def test_a_neighbour_that_cannot_be_installed_is_named(tmp_path, monkeypatch):
    def fail(command: list[str]) -> None:
        raise OSError("/some/path")

    monkeypatch.setattr(neighbours, "_quietly", fail)
    reason = neighbours.install(neighbours.NEIGHBOURS[0], tmp_path)
    assert reason == "diffprivlib 0.6.6 could not be installed"


# --- from cells to a page ------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def results(store: Store) -> Results:
    table = Table("wine (scaled)", 2, True, 1.0)
    named = replace(TINY, name="named 1", group="facts", n=700, noise=0.0)
    problems = (TINY, named, table)
    cells = [cell for problem in problems for cell in contests(problem, EFFORT)]
    cells += [Reference(problem) for problem in problems]
    cells += [Grid(problem, EFFORT) for problem in problems[:2]]
    run_cells(cells, store, workers=1)
    entries = [command.entry_of(problem, EFFORT, store) for problem in problems]
    affine = {'center="pairs", outliers none': {"d2": [1e-5, 2e-5], "not_private": 1e-6}}
    answers = [
        {"neighbour": "a 1", "problem": "p", "d2": 0.1, "seconds": 2.0, "ours": 0.01},
        {"neighbour": "b 1", "problem": "p", "none": "no answer in 60 s", "ours": 0.01},
    ]
    return Results(entries, affine, answers, ["c 1 could not be installed"], 60.0)


def test_contests_recover_and_repeat(results: Results, store: Store):
    entry = results.entries[0]
    assert set(entry.contests) == set(contest.CONTENDERS)
    assert entry.ours() < 0.1
    again = Contest(TINY, contest.GAUSSIAN, 3)
    assert again.compute()["d2"] == store.load(again)["d2"]


def test_finished_cells_are_not_computed_again(results: Results, store: Store, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("computed again")

    cell = Contest(TINY, contest.OURS, 3)
    monkeypatch.setitem(contest.CONTENDERS, contest.OURS, refuse)
    run_cells([cell], store, workers=1)
    with pytest.raises(AssertionError, match="computed again"):
        run_cells([replace(cell, count=4)], store, workers=1)


def test_cells_depend_on_the_sources(monkeypatch):
    assert sources(True) != sources(False)
    before = Contest(TINY, contest.OURS, 3).key()
    monkeypatch.setattr("benchmarks.utility.cells.sources", lambda ours: "other")
    assert Contest(TINY, contest.OURS, 3).key() != before


def test_page_figures_and_document(results: Results, tmp_path: Path):
    text = page.page(results, _facts.facts())
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) >= 6
    for block in blocks:
        assert len({line.replace("\\|", "").count("|") for line in block.splitlines()}) == 1
    assert "no answer in 60 s" in text
    assert "c 1 could not be installed" in text
    assert all(name in text for name in contest.CONTENDERS)
    whats = " ".join(figure.what for figure in results.figures())
    for word in ("regret", "noiseless", "Gaussian-noise PCA", "real tables", "affine", "predicted"):
        assert word in whats
    made = command.document(results, _facts.facts(), quick=True)
    read = json.loads(json.dumps(made))
    assert read["problems"][0]["problem"]["name"] == "tiny 1"
    picture.draw(results, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000
    assert page.text_of(results.figures())
    assert "median" in page.overview(results)


def entry(ours: list[float], gaussian: list[float], best: float, **facts) -> Entry:
    found = {contest.OURS: {"d2": {"truth": ours}}, contest.GAUSSIAN: {"d2": {"truth": gaussian}}}
    reference = {"PCA": {"truth": 0.1}, "GLAD": {"truth": 1e-3}}
    return Entry(replace(TINY, n=60_000, **facts), found, reference, {"d2": best})


def test_ratios_are_of_medians_above_the_floor():
    made = entry([1e-20, 3e-3, 2e-3], [4e-2, 1.0, 2e-2], 1e-3)
    assert made.regret() == pytest.approx(2.0)
    assert made.against_gaussian() == pytest.approx(0.05)
    exact = entry([1e-20] * 3, [1e-2] * 3, 1e-30)
    assert exact.regret() == 1.0
    assert exact.against_gaussian() == pytest.approx(EXACT / 1e-2)


def test_verdicts():
    good = [entry([1e-4] * 3, [1e-2] * 3, 1e-4) for _ in range(5)]
    met = {f.what: f.met for f in Results(good).figures()}
    regret = next(value for what, value in met.items() if what.startswith("regret of auto, fresh"))
    assert regret is True
    bad = [*good, entry([6e-4] * 3, [1e-4] * 3, 1e-4)]
    figures = Results(bad).figures()
    assert figures[0].met is False
    assert "6.00" in figures[0].measured
    worse = next(f for f in figures if "nowhere" in f.asked)
    assert worse.met is False
    assert "6.00–6.00" in worse.note


def test_our_default_alone_is_shown_beside_the_last_numbers_of_others(
    results: Results, store: Store
):
    made = command.document(results, _facts.facts(), quick=False)
    known = json.loads(json.dumps(made["problems"][0]))
    known["d2"][contest.OURS]["truth"] = [1e-9] * 3
    cell = Contest(TINY, contest.OURS, 3)
    renewed = command.entry_from(known, cell, store)
    assert renewed.ours() == results.entries[0].ours()
    assert renewed.all_d2(contest.GAUSSIAN) == known["d2"][contest.GAUSSIAN]["truth"]
    assert renewed.regret() == pytest.approx(results.entries[0].regret(), rel=1e-3)
    again = command.document(Results([renewed], others=_facts.facts()), {}, quick=False)
    assert again["problems"][0]["before"]["truth"] == [1e-9] * 3
    text = page.page(
        Results([renewed], others={**_facts.facts(), "date": "1999-01-01"}), _facts.facts()
    )
    assert "Numbers of all other methods were taken 1999-01-01" in text


@pytest.mark.parametrize(("before", "met"), [([1e-4] * 3, True), ([8e-5] * 3, False)])
def test_a_loss_since_the_last_run_of_everything_is_named(before: list[float], met: bool):
    made = replace(entry([1e-4] * 3, [1e-2] * 3, 1e-4), before={"truth": before})
    figure = Results([made]).figures()[-1]
    assert figure.met is met
    assert ("tiny 1 1.25" in figure.note) is not met


def test_predictions_are_told_the_noise_off_the_subspace_and_the_anisotropy_if_asked():
    g = replace(TINY, n=60_000, anisotropy=3.0)
    even, uneven = predicted(g, uneven=False), predicted(g, uneven=True)
    assert even == predicted(replace(g, anisotropy=1.0), uneven=True)
    assert uneven > 1.2 * even
    # Of noise 0.1 in 6 directions, 4 are off the subspace.
    said = predict(
        60_000, 6, 2, epsilon=3.0, delta=1e-6, inlier_share=0.7, inlier_noise=0.1 * sqrt(4 / 6),
        known_units=True,
    )  # fmt: skip
    assert even == pytest.approx(said.error, rel=0.01)


def test_interval_covers_the_ratio():
    rng = np.random.default_rng(0)
    low, high = interval(list(rng.chisquare(9, 99)), list(2 * rng.chisquare(9, 99)))
    assert low < 0.5 < high
    assert high / low < 2


@pytest.mark.parametrize("arguments", [["--write", "--quick"], ["--write", "--regimes", "drawn"]])
def test_refused_options(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        command.parse(arguments)
    assert "whole run" in capsys.readouterr().err


def test_quick_is_small_and_groups_can_be_named():
    quick = command.chosen("all", quick=True)
    assert len(quick) <= 30
    assert (
        {"facts", "drawn", "held-out", "tables"} <= {p.group for p in quick} <= set(command.GROUPS)
    )
    assert {p.group for p in command.chosen("held-out", quick=False)} == {"held-out"}
    everything = (FACTS, DRAWN, HELD_OUT, FRESH, LARGE, NOISELESS, FEW, TABLES)
    assert len(command.chosen("all", quick=False)) == sum(map(len, everything))


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (0.123, "0.12"), (4.44e-5, "4.4e-5"), (1234.0, "1.2e3")]
)
def test_numbers_for_people(value: float, shown: str):
    assert page.number(value) == shown
