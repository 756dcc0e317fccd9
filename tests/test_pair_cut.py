"""A cut between short and long pairs: its counts, its rule and what it costs."""

from math import inf, sqrt

import numpy as np
import pytest

from stillspace import Budget, PrivatePCA, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import LedgerError
from stillspace.methods import pair_lengths
from stillspace.methods.pair_lengths import (
    PAIR_LENGTH_RULE,
    PairLengths,
    _counts,
    _narrow,
    _wide,
    holds_subspace,
    valley,
    valleys,
)
from stillspace.metrics import subspace_error
from stillspace.models import load_model, save_model
from stillspace.parts.noise import secure_generator
from stillspace.parts.queries import Glad, SecondMoment
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Answer
from stillspace.plans.ledger import Ledger
from stillspace.plans.staged import StagedPlan
from stillspace.privacy import mu_from_budget
from stillspace.recipes import Facts
from stillspace.recipes.fits import SHARES, plan_fit
from stillspace.rows import LeaveOut, Lengths, MemoryRows, Pairs, Sphere, draw_pairs, levels
from stillspace.run import run
from tests.conftest import random_basis

BUDGET = {"epsilon": 6.0, "delta": 1e-6}
"""With system noise: the place of the cut and what is decided in `FAR` and `clusters` then lie five
standard deviations or more from the other side (at ε = 2 they go wrong once in a hundred fits)."""
NOWHERE = np.zeros((1, 1))
BINS = len(_narrow(0, PAIR_LENGTH_RULE)) + 1


def far(n=8000, D=12, r=2, share=0.6, distance=5.0, seed=0):
    """Rows around an unknown centre, and outliers in one far cluster."""
    rng = np.random.default_rng(seed)
    data = make_haystack(n, D, r, inlier_ratio=share, inlier_noise=0.05, random_state=seed)
    X, outside = data.X, ~data.inliers
    other = rng.standard_normal(D)
    X[outside] = 0.1 * X[outside] + distance * other / np.linalg.norm(other)
    return X + rng.standard_normal(D), data.components


FAR, COMPONENTS = far()


def fit_plan(n, D):
    """The plan of a fit on so many pairs."""
    facts = Facts(n, D, 2, *BUDGET.values())
    return plan_fit("auto", facts, {}, (Pairs(), Sphere()), D, cut_pairs=True)


def clusters(n=8000, D=12):
    """Clean rows in three round clusters, whose middles span the answer."""
    rng = np.random.default_rng(1)
    middles = np.zeros((3, D))
    middles[1, 0] = middles[2, 1] = 3.0
    X = middles[rng.integers(3, size=n)] + 0.2 * rng.standard_normal((n, D)) / sqrt(D)
    return X + 1.0, np.eye(D)[:2]


# --- the counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("edges", [_wide(), *(_narrow(at, PAIR_LENGTH_RULE) for at in (128, 126))])
def test_counts_are_those_of_the_lengths(rng, edges):
    """Recomputed by other means; zero differences and rows that are no numbers count nowhere."""
    X = rng.standard_normal((2001, 5)) * 2.0 ** rng.uniform(-30, 30, (2001, 1))
    X[7], X[8], X[9, 2] = X[6], np.nan, np.inf
    pairs = np.concatenate([[[6, 7], [8, 10], [9, 11]], draw_pairs(2001, rng) % 1900 + 100])
    with np.errstate(invalid="ignore"):
        length = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    length = length[np.isfinite(length) & (length > 0)]
    want = np.histogram(np.log2(length), [-2000.0, *edges, 2000.0])[0]
    got = MemoryRows.prepare(X, pairs=pairs).through(Lengths()).add(_counts(edges), NOWHERE, None)
    np.testing.assert_array_equal(got, want)
    assert want.sum() <= 1000


def test_one_row_moves_two_counts_by_one():
    """Every row of a small table replaced, by rows of all lengths."""
    rng = np.random.default_rng(0)
    X, pairs = rng.standard_normal((65, 3)), draw_pairs(65, rng)
    for edges in (_wide(), _narrow(126, PAIR_LENGTH_RULE)):
        query = _counts(edges)
        total = MemoryRows.prepare(X, pairs=pairs).through(Lengths()).add(query, NOWHERE, None)
        assert total.sum() == 32
        for i in range(65):
            for scale in (0.0, 1e-300, 1e-3, 1.0, 1e3, 1e300, np.inf):
                other = X.copy()
                other[i] = scale * np.ones(3)
                moved = (
                    MemoryRows.prepare(other, pairs=pairs)
                    .through(Lengths())
                    .add(query, NOWHERE, None)
                )
                assert np.linalg.norm(moved - total) <= query.difference_bound


def test_after_a_cut_one_row_still_changes_one_term():
    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((301, 6)), random_basis(rng, 6, 2)
    pairs = draw_pairs(301, rng)
    for query in (Glad(6, 2), SecondMoment(6)):
        total = MemoryRows.prepare(X, pairs=pairs).through(LeaveOut(3.0)).add(query, V, None)
        for i in range(0, 301, 10):
            other = X.copy()
            other[i] *= rng.choice([1e-3, 1.5, 100.0])
            rows = MemoryRows.prepare(other, pairs=pairs).through(LeaveOut(3.0))
            moved = np.linalg.norm(rows.add(query, V, None) - total)
            assert moved <= query.difference_bound + 1e-9


def test_a_cut_leaves_zero_rows(rng):
    X, pairs = rng.standard_normal((400, 5)), draw_pairs(400, rng)
    rows = MemoryRows.prepare(X, pairs=pairs)
    length = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    got, long = rows.through(LeaveOut(3.0)).sphered(), length >= 3.0
    assert 50 < long.sum() < 350
    assert not got[long].any()
    np.testing.assert_array_equal(got[~long], rows.sphered()[~long])


def test_levels_grow_with_the_length_from_end_to_end(rng):
    inverses = np.sort(2.0 ** rng.uniform(-1074, 1022, 5000))[::-1]
    found = levels(np.concatenate([[2.0**1022], inverses, [5e-324, 0.0]]))
    assert (np.diff(found[:-1]) >= 0).all()
    assert 0.0 < found[0] < found[-2] < 1.0
    assert found[-1] == 0.0
    assert 0.9 < (found[1] - found[-2]) / (levels(inverses[:1]) - levels(inverses[-1:]))[0] < 1.1


def test_a_level_is_made_of_the_bits_of_a_float():
    """Linear in the inverse length between powers of two: no library's logarithm rounds it."""
    inverses = np.array([0.0, 0.5, 0.625, 0.75, 1.0, 1.5, 2.0**-1074, 2.0**1022])
    octaves = [1100.0, 1100.0 - 1.0, 1100.0 - 1.25, 1100.0 - 1.5, 1100.0 - 2.0, 1100.0 - 2.5]
    octaves += [1100.0 + 1072.0, 1100.0 - 1024.0]
    assert levels(inverses).tolist() == [0.0, *(octave * 2.0**-12 for octave in octaves[1:])]


def test_the_level_of_a_pair_has_the_same_bits_anywhere(rng):
    """Alone, and at every place of tables around the limits of blocks and lanes."""
    X = rng.standard_normal((1200, 7)) * 10.0 ** rng.uniform(-200, 200, (1200, 1))
    pairs = draw_pairs(1200, rng)
    together = MemoryRows.prepare(X, pairs=pairs).through(Lengths()).sphered()
    for count in (1, 7, 8, 9, 63, 255, 256, 257, 511):
        part = MemoryRows.prepare(X, pairs=pairs[5 : 5 + count]).through(Lengths()).sphered()
        np.testing.assert_array_equal(part, together[5 : 5 + count])


# --- the rule ------------------------------------------------------------------------------

AT = np.arange(BINS)
ONE_PEAK = {
    "flat": (AT >= 100) & (AT < 140),
    "flat, wide": (AT >= 20) & (AT < 220),
    "one bin": AT == 100,
    "triangle": np.maximum(0.0, 1 - abs(AT - 120) / 30),
    "normal": np.exp(-0.5 * ((AT - 120) / 6) ** 2),
    "ramp": np.where((AT > 60) & (AT <= 120), AT - 60.0, 0.0),
    "nothing": np.zeros(BINS),
}


@pytest.mark.parametrize("law", ONE_PEAK)
def test_one_peak_has_no_valley(rng, law):
    """At most .6 % of tables each; with that rate more than 8 of 300 would be seen once in 2000."""
    shape = np.asarray(ONE_PEAK[law], dtype=float)
    shape = shape / max(shape.sum(), 1.0)
    found = 0
    for size, sd in ((10_000, 24.0), (10_000, 1.0), (500, 48.0)):
        for _ in range(100):
            counts = rng.poisson(size * shape) + sd * rng.standard_normal(BINS)
            found += bool(valleys(counts, sd))
    assert found <= 8


def humps(*parts):
    """Return counts of normal humps, each (place, pairs); 3 bins wide."""
    return sum(n * np.exp(-0.5 * ((AT - at) / 3) ** 2) / (3 * sqrt(2 * np.pi)) for at, n in parts)


def test_valleys_are_found_where_they_are(rng):
    counts = humps((60, 1600), (100, 3600), (140, 4800)) + 20 * rng.standard_normal(BINS)
    low, high = valleys(counts, 20.0)
    assert 66 <= low <= 94
    assert 106 <= high <= 134


def test_a_group_of_less_than_a_quarter_is_no_majority(rng):
    """Short pairs of outliers among themselves: the cut is above the pairs of inliers."""
    counts = humps((60, 2000), (100, 3000), (140, 5000)) + 20 * rng.standard_normal(BINS)
    assert 106 <= valley(counts, 20.0, 2500) <= 134
    assert valley(counts, 20.0, 6000) is None
    few = humps((60, 2000), (100, 8000)) + 20 * rng.standard_normal(BINS)
    assert valley(few, 20.0, 2500) is None


def test_a_shallow_dip_is_no_valley():
    counts = np.where(AT < 100, 500.0, np.where(AT < 110, 400.0, 500.0))
    assert valleys(counts, 1.0) == []


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6])
def test_whatever_is_released_the_shares_fit_and_it_ends(rng, scale):
    method, allowance = PairLengths(4, 2), Allowance(0.5, 300)
    for _ in range(20):
        state, spent, coordinates, passes = method.begin(allowance), 0.0, 0, 0
        while (ask := method.ask(state)) is not None:
            ((query, share),) = ask.shares
            if passes < 2:
                assert list(query.edges) == sorted(query.edges)
                assert ask.through == (Lengths(),)
            else:
                assert isinstance(ask.through[0], LeaveOut)
            spent, coordinates = spent + share, coordinates + query.noise.coordinates
            value = scale * rng.standard_normal(query.shape)
            state = method.take(state, (Answer(value, allowance.sd(query, share)),))
            passes += 1
        assert spent <= 1.0
        assert coordinates <= method.coordinates
        assert 2 <= passes <= method.n_passes
        assert 0.0 < float(method.outcome(state).V) <= inf


def test_any_unit_of_length_will_do():
    """Seeded: the cut moves with the rows, from end to end of what floats hold."""
    rng = np.random.default_rng(0)
    pairs = draw_pairs(len(FAR), rng)
    plan = AdaptivePlan("lengths", PairLengths(12, 2), len(pairs), mu=0.2)
    for unit in (1e-290, 1.0, 1e290):
        rows = MemoryRows.prepare(FAR * unit, pairs=pairs)
        assert 2.0 < float(run(plan, rows, rng).V) / unit < 4.5


def test_short_pairs_must_hold_a_subspace(rng):
    D, sd = 20, 1e-3
    noise = rng.standard_normal((D, D)) * sd / 2
    noise = noise + noise.T
    flat, low = np.eye(D) / (2 * D), np.diag([0.15, 0.15, *([0.2 / D] * (D - 2))])
    assert holds_subspace(low + noise, sd, 2)
    assert not holds_subspace(flat + noise, sd, 2)
    one = np.diag([0.3, *([0.2 / D] * (D - 1))])
    assert holds_subspace(one + noise, sd, 1)
    assert not holds_subspace(one + noise, sd, 2)  # the short pairs span less than is wanted
    assert not holds_subspace(low + noise, sd, 1)  # half of it is not in one direction
    assert not holds_subspace(low / 200 + noise, sd, 2)
    assert not holds_subspace(noise, sd, 2)
    assert holds_subspace(low + noise, sd, 10, choose=True)


# --- the stage -----------------------------------------------------------------------------


def test_the_noise_of_the_counts_is_as_large_as_stated():
    """Both histograms, of no rows at all: χ² within six standard deviations."""
    stage = fit_plan(500, 40).stages[0]
    rng, seen = secure_generator(), []
    nothing = MemoryRows.prepare(np.zeros((500, 40)))
    for _ in range(10):
        run(stage.plan, nothing, rng, witness=seen.append)
    for which, part in ((0, PAIR_LENGTH_RULE.wide_part), (1, PAIR_LENGTH_RULE.narrow_part)):
        noise = np.concatenate([s.released.ravel() * 500 for s in seen[which::2]])
        sigma = seen[which].release.sigma(0)
        share = SHARES.pair_lengths * part
        assert sigma >= sqrt(2 / share) / mu_from_budget(*BUDGET.values())
        assert abs(np.mean((noise / sigma) ** 2) - 1) < 6 * sqrt(2 / len(noise))


def test_the_second_moment_of_short_pairs_has_the_noise_that_is_stated(monkeypatch):
    """What the decision sees against the exact moment: χ² within six standard deviations."""
    stage = fit_plan(len(FAR) // 2, 12).stages[0]
    rows = MemoryRows.prepare(FAR, pairs=draw_pairs(len(FAR), np.random.default_rng(0)))
    seen, shown = [], []
    monkeypatch.setattr(
        pair_lengths, "holds_subspace", lambda *args, **_: seen.append(args) or True
    )
    found = run(stage.plan, rows, secure_generator(), witness=shown.append)
    ((moment, sd, r, _),) = seen
    assert r == 2
    (leave_out,) = found.through
    assert 2.0 < leave_out.length == found.facts["pair_cut"] < 4.5
    assert sd * rows.n_rows == pytest.approx(shown[-1].release.sigma(0), rel=1e-12)
    exact = rows.through(leave_out).add(SecondMoment(12), np.empty((0, 0)), None) / rows.n_rows
    square = np.sum((moment - exact) ** 2) / sd**2 / (12 * 13 / 2)
    assert abs(square - 1) < 6 * sqrt(2 / (12 * 13 / 2))


def test_the_stage_has_its_share_and_is_accounted_for(tmp_path):
    budget = Budget(tmp_path / "l.db", epsilon=7.0, delta=1e-5)
    fit = PrivateRobustPCA(2, center="pairs", budget=budget, **BUDGET).fit(FAR)
    lengths, _ = (part for part, count in fit.privacy_.event.parts if count == 1)
    mu = mu_from_budget(*BUDGET.values())
    share = float(lengths.squared_mu("replace-one")) / mu**2
    assert 0.999 < share / SHARES.pair_lengths < 1 + 1e-9
    assert 5.99 < fit.privacy_.epsilon <= 6.0
    assert budget.entries()[-1].event == fit.privacy_.event


@pytest.mark.parametrize("X", [FAR, clusters()[0]], ids=["cut", "no cut"])
def test_what_is_not_planned_or_not_recorded_withholds_the_fit(monkeypatch, X):
    fit = PrivateRobustPCA(2, center="pairs", summaries=("variances",), **BUDGET)
    for left_out in (0, 1, 2):
        with monkeypatch.context() as patch:

            def event(self, k=left_out):
                kept = [s.plan.event() for i, s in enumerate(self.stages) if i != k]
                return sum(kept[1:], kept[0])

            patch.setattr(StagedPlan, "event", event)
            with pytest.raises(LedgerError, match="withheld"):
                fit.fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", lambda *_: None)
        with pytest.raises(LedgerError, match="withheld"):
            fit.fit(X)
    assert not hasattr(fit, "pair_cut_")


def test_plan_and_guarantee_depend_on_public_facts_only():
    tables = (FAR, np.zeros_like(FAR), np.full_like(FAR, np.nan), 1e300 * FAR, 1e-300 * FAR)
    fits = [PrivateRobustPCA(2, center="pairs", **BUDGET).fit(X) for X in tables]
    assert len({fit.plan_ for fit in fits}) == 1
    assert len({str(fit.privacy_) for fit in fits}) == 1
    assert {vars(fit).keys() == vars(fits[0]).keys() for fit in fits} == {True}


@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_few_rows(n):
    fit = PrivateRobustPCA(1, center="pairs", **BUDGET).fit(FAR[:n])
    assert np.isfinite(fit.components_).all()


def test_fits_without_a_cut():
    """PCA that is not robust, the paper's own noise, propose-test-release: pairs as they are."""
    pca = PrivatePCA(2, center="pairs", **BUDGET).fit(FAR)
    printed = PrivateRobustPCA(
        2, center="pairs", algorithm="dp-ggd", calibration="as-printed", n_iter=3
    )
    printed.fit(FAR)
    vote = PrivateRobustPCA(1, center="pairs", algorithm="ptr", epsilon=8.0, delta=1e-5)
    X = np.random.default_rng(0).standard_normal((8000, 1)) @ np.eye(12)[:1]
    vote.fit(X)
    for fit in (pca, printed, vote):
        assert fit.pair_cut_ is None
    assert len(pca.privacy_.event.parts) == len(vote.privacy_.event.parts) == 1


# --- what it is for ------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["auto", "dp-pca", "dp-sggd"])
def test_a_far_cluster_is_left_out(algorithm):
    """Measured d² are 1e-5, 2e-4 and 2e-5, above 1 with all pairs. System noise, far off."""
    fit = PrivateRobustPCA(2, center="pairs", algorithm=algorithm, **BUDGET).fit(FAR)
    assert 2.0 < fit.pair_cut_ < 4.5
    assert subspace_error(fit.components_, COMPONENTS) < 0.05
    assert subspace_error(PrivatePCA(2, center="pairs", **BUDGET).fit(FAR).components_,
                          COMPONENTS) > 0.5  # fmt: skip


def test_outliers_around_the_centre_and_clean_rows_keep_all_pairs():
    for share in (0.6, 1.0):
        data = make_haystack(8000, 12, 2, inlier_ratio=share, inlier_noise=0.05, random_state=3)
        fit = PrivateRobustPCA(2, center="pairs", **BUDGET).fit(data.X + 5.0)
        assert fit.pair_cut_ is None
        assert subspace_error(fit.components_, data.components) < 5e-3


def test_round_clusters_keep_the_pairs_between_them():
    """They have a clear valley, but the short pairs hold no subspace."""
    X, components = clusters()
    fit = PrivateRobustPCA(2, center="pairs", **BUDGET).fit(X)
    assert fit.pair_cut_ is None
    assert subspace_error(fit.components_, components) < 5e-3
    rows = MemoryRows.prepare(X, pairs=draw_pairs(8000, np.random.default_rng(0)))
    found = run(fit_plan(4000, 12).stages[0].plan, rows, secure_generator())
    assert float(found.V) < inf
    assert found.through == ()


def test_the_cut_with_a_sketch_summaries_and_a_chosen_number():
    X, _ = far(n=12_000, D=40, r=2)
    fit = PrivateRobustPCA(
        "auto", center="pairs", sketch=20, summaries=("variances", "distances"), **BUDGET
    ).fit(X)
    assert 2.0 < fit.pair_cut_ < 5.0
    assert len(fit.components_) == 2
    # pairs that are left out do not count as pairs at distance 0
    assert fit.distance_quantiles_[0] > 0.01


def test_a_model_file_keeps_the_cut(tmp_path):
    fit = PrivateRobustPCA(2, center="pairs", **BUDGET).fit(FAR)
    save_model(fit, tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").pair_cut_ == fit.pair_cut_ > 0.0
    clean = PrivateRobustPCA(2, **BUDGET).fit(FAR)
    save_model(clean, tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").pair_cut_ is None
