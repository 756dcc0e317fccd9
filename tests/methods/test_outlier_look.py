"""The look for outliers: what it proposes, what it takes for a group, and what it leaves out."""

import warnings
from dataclasses import replace
from math import cos, inf, pi, sqrt

import numpy as np
import pytest

from stillspace import PrivateRobustPCA
from stillspace._frozen import FrozenArray
from stillspace.datasets import make_haystack
from stillspace.exceptions import LeftOutWarning
from stillspace.methods.outlier_look import (
    LOOK_RULE,
    OutlierLook,
    Screening,
    UnitsAgain,
    clear_gaps,
    elliptical_moments,
    gathering_directions,
    loose_gaps,
)
from stillspace.methods.outlier_look.caps import LeftOut, caps_of
from stillspace.methods.outlier_look.method import Angles, Modes, NewMoment, Rest
from stillspace.methods.outlier_look.natural import (
    elliptical_share,
    is_foreign,
    relative_variance,
)
from stillspace.methods.spectrum import Moment
from stillspace.methods.stages import SubspaceStage
from stillspace.methods.standardiser import LARGEST_SCALE, STANDARDISER_RULE, Standardiser
from stillspace.metrics import subspace_error
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import AngleCounts, CapScatter, FourthMoment, SecondMoment
from stillspace.parts.queries.columns import ColumnCounts
from stillspace.parts.queries.moments import squares
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Answer
from stillspace.plans.staged import StagedPlan
from stillspace.rows import Affine, Caps, Fill, MemoryRows, Sphere, Without, through_view
from stillspace.run import run
from tests.conftest import random_basis, unit_rows

BINS = LOOK_RULE.bins


# --- modes ----------------------------------------------------------------------------------------


def test_moments_of_an_elliptical_law_against_drawn_rows(rng):
    """400 000 rows: entries are right to about .002 of the trace."""
    values = np.array([0.4, 0.2, 0.1, 0.05])
    Y = np.sqrt(values)[:, None] * rng.standard_normal((4, 400_000))
    Q = squares(Y) / np.linalg.norm(Y, axis=0)
    np.testing.assert_allclose(elliptical_moments(values), Q @ Q.T / Y.shape[1], atol=2e-3)
    assert np.trace(elliptical_moments(values)) == pytest.approx(values.sum(), rel=1e-6)


def test_moments_of_very_many_directions():
    """The integrand has a product of K numbers, which floats cannot hold from K = 82 on."""
    with np.errstate(all="raise", under="ignore"):
        found = elliptical_moments(np.full(90, 1.0 / 90))
    assert np.trace(found) == pytest.approx(1.0)


def test_directions_of_groups_are_found_and_equal_ones_merged(rng):
    C = random_basis(rng, 6, 3)
    S = squares(np.column_stack([C, C[:, 0] + 0.1 * C[:, 1]]))
    excess = S @ np.diag([0.1, 0.2, 0.05, 0.01]) @ S.T
    found = gathering_directions(excess, 0.85, 6)
    assert found.shape == (6, 3)
    close = np.abs(C.T @ found)
    assert close.max(axis=1).min() > 0.99
    heights = np.einsum("ac,ab,bc->c", squares(found), excess, squares(found))
    assert np.all(np.diff(heights) <= 0.0)
    assert gathering_directions(excess, 0.85, 2).shape == (6, 2)
    above = gathering_directions(excess, 0.85, 6, least=float(heights[1]) - 1e-9)
    np.testing.assert_array_equal(above, found[:, :2])
    assert gathering_directions(-excess, 0.85, 6).shape == (6, 0)
    assert gathering_directions(np.zeros((21, 21)), 0.85, 6).shape == (6, 0)


# --- gaps -----------------------------------------------------------------------------------------


def weighted(angles):
    """Return the histogram of |cos| for angles in degrees, as a share of the rows."""
    weights = np.abs(np.cos(np.radians(angles)))
    found, _ = np.histogram(angles, np.arange(BINS + 1) * 180 / BINS, weights=weights)
    return found / len(angles)


def test_a_group_behind_an_empty_ring_is_found_with_its_share(rng):
    body = np.degrees(np.arccos(np.clip(0.3 * rng.standard_normal(8000), -0.6, 0.6)))
    group = rng.uniform(2, 9, 2000)
    one, other, both = (
        weighted(np.concatenate([body, angles]))
        for angles in (group, 180 - group, np.where(rng.random(2000) < 0.5, group, 180 - group))
    )
    gaps = clear_gaps(np.array([one, other, both, weighted(body)]), 1e-3, 10_000, LOOK_RULE, 2)
    assert [(gap.at, gap.side) for gap in gaps] == [(0, 1), (1, -1), (2, 0)]
    for gap in gaps:
        assert gap.share == pytest.approx(0.2, abs=0.003)
        assert 0.001 < gap.sd < 0.01
        assert 2 <= gap.bins <= 8


def test_one_end_of_a_line_is_no_group(rng):
    """Only one end has an empty ring; the other end is as full, or has few rows."""
    end, middle = rng.uniform(2, 9, 2000), rng.uniform(60, 120, 4000)
    full = np.concatenate([rng.uniform(150, 178, 4000), rng.uniform(120, 150, 2000)])
    few = rng.uniform(125, 178, 3000)
    line, group = (weighted(np.concatenate([end, middle, other])) for other in (full, few))
    assert clear_gaps(line[None], 1e-4, 10_000, LOOK_RULE, 2) == []
    assert [gap.side for gap in clear_gaps(group[None], 1e-4, 10_000, LOOK_RULE, 2)] == [1]
    mirror = replace(LOOK_RULE, mirrored=2.0)
    assert [gap.side for gap in clear_gaps(line[None, ::-1], 1e-4, 10_000, mirror, 2)] == [-1]


def test_a_line_is_no_outlier_where_one_component_is_sought(rng):
    body = np.degrees(np.arccos(np.clip(0.3 * rng.standard_normal(8000), -0.6, 0.6)))
    group = rng.uniform(2, 9, 2000)
    both = weighted(np.concatenate([body, np.where(rng.random(2000) < 0.5, group, 180 - group)]))
    assert clear_gaps(both[None], 1e-3, 10_000, LOOK_RULE, 1) == []
    one = weighted(np.concatenate([body, group]))
    assert [gap.side for gap in clear_gaps(one[None], 1e-3, 10_000, LOOK_RULE, 1)] == [1]


def test_no_group_is_seen_in_a_slope_a_majority_or_too_much_noise(rng):
    slope = weighted(90 * rng.beta(1.0, 2.0, 10_000))
    majority = weighted(np.concatenate([rng.uniform(2, 9, 5000), rng.uniform(60, 120, 5000)]))
    group = weighted(np.concatenate([rng.uniform(2, 9, 2000), rng.uniform(60, 120, 8000)]))
    assert clear_gaps(np.array([slope, majority]), 1e-4, 10_000, LOOK_RULE, 2) == []
    assert len(clear_gaps(group[None], 1e-3, 10_000, LOOK_RULE, 2)) == 1
    assert clear_gaps(group[None], 3e-2, 10_000, LOOK_RULE, 2) == []


def test_noise_alone_makes_no_group(rng):
    """2000 · 990 comparisons, each with a chance of 1e-9: a false alarm has a chance of .002."""
    found = sum(
        len(clear_gaps(1e-3 * rng.standard_normal((6, BINS)), 1e-3, 10**9, LOOK_RULE, 2))
        for _ in range(2000)
    )
    assert found == 0


# --- loose groups ---------------------------------------------------------------------------------


def body_and(rng, *groups):
    """Return the histogram of rows that fill all angles alike on both sides, and of groups."""
    body = np.degrees(np.arccos(rng.uniform(-1.0, 1.0, 6000)))
    return weighted(np.concatenate([body, *groups]))


def test_a_loose_group_outnumbers_the_rows_on_its_other_side(rng):
    """Rows near every angle fill the ring; those of the other side are as many, so they do not."""
    group = 28.0 * np.sqrt(rng.uniform(0.0, 1.0, 3000))
    counts = np.array([body_and(rng, group), body_and(rng, 180.0 - group), body_and(rng)])
    assert clear_gaps(counts, 1e-4, 10_000, LOOK_RULE, 2) == []
    gaps = loose_gaps(counts, 1e-4, 10_000, LOOK_RULE)
    assert [(gap.at, gap.side, gap.loose) for gap in gaps] == [(0, 1, True), (1, -1, True)]
    for gap in gaps:
        cap = 6000 * (1.0 - cos(pi * gap.bins / BINS)) / 2.0
        assert gap.share == pytest.approx((3000 + cap) / 9000, abs=0.01)
        assert 6 <= gap.bins <= LOOK_RULE.narrow
        # the mean of cos over the 6000 rows of the body outside the cap
        left = -6000 * (1.0 - cos(pi * gap.bins / BINS) ** 2) / 4.0 / 9000
        assert gap.mean == pytest.approx(left, abs=0.01)


@pytest.mark.parametrize(("change", "found"), [
    ({}, 1), ({"narrow": 3}, 0), ({"smallest": 0.31}, 0), ({"smallest": 0.29}, 1),
    ({"doubt": 2.0}, 1), ({"depth": 0.05}, 0), ({"minority": 0.29}, 0), ({"sure": 60.0}, 0),
])  # fmt: skip
def test_what_a_loose_group_must_be(rng, change, found):
    """3000 of 10 000 rows lie within 20 degrees, 300 on the other side: a tenth of them."""
    angles = [rng.uniform(0, 20, 3000), rng.uniform(160, 180, 300), rng.uniform(80, 100, 6700)]
    counts = weighted(np.concatenate(angles))[None]
    assert len(loose_gaps(counts, 1e-3, 10_000, replace(LOOK_RULE, **change))) == found


def test_noise_of_both_sides_counts_where_one_is_taken_off():
    """A group in two bins against the empty two bins after it: four counts with twice the noise."""
    counts = np.zeros((1, BINS))
    counts[0, :2] = 0.1
    middles = np.cos(np.radians([2.5, 7.5, 12.5, 17.5]))
    (gap,) = loose_gaps(counts, 1e-3, 1e12, LOOK_RULE)
    assert gap.bins == 2
    noise = sqrt(2.0) * 1e-3 * np.linalg.norm(1.0 / middles)
    assert gap.clear == pytest.approx(float((0.1 / middles[:2]).sum()) / noise)


HALF_FULL = np.full((1, BINS), 0.02)
"""Counts: a fifth of the rows within 10 degrees, .02 on their other side, .04 in all rings."""
HALF_FULL[0, :2], HALF_FULL[0, -2:] = 0.1, 0.01
HALF_FULL *= np.abs(np.cos(np.pi * (np.arange(BINS) + 0.5) / BINS))


def test_all_rows_that_are_compared_have_a_sampling_error():
    """.22 of 1000 rows are in both caps, .08 in both rings: a difference of .18 varies by .0173."""
    (gap,) = loose_gaps(HALF_FULL, 1e-9, 1000, LOOK_RULE)
    assert gap.bins == 2
    assert gap.clear == pytest.approx(0.18 / sqrt(0.3 / 1000))


@pytest.mark.parametrize(("sd", "found"), [(0.006, 1), (0.008, 0)])
def test_the_other_side_of_a_loose_group_must_not_be_empty_by_luck(sd, found):
    """.02 are a tenth of the group, and .15 the limit: .010, which is 1.42 sd of the noise."""
    assert len(loose_gaps(HALF_FULL, sd, 1e9, LOOK_RULE)) == found


def test_loose_groups_are_looked_for_where_no_ring_is_empty():
    """The first direction has a group behind an empty ring, the second a loose one."""
    clear = np.zeros(BINS)
    clear[:2], clear[16:20] = 0.1, 0.02
    for counts, loose in (([clear, HALF_FULL[0]], [False]), ([0.0 * clear, HALF_FULL[0]], [True])):
        state = Angles(Allowance(9.0, 10**6), Moment(np.eye(6) / 6, 0.1, 1e-6), np.eye(6)[:, :2])
        rest = OutlierLook(6, 2).take(state, (Answer(np.array(counts), 1e-6),))
        assert [group.loose for group in rest.groups] == loose


def test_noise_alone_makes_no_loose_group(rng):
    """2000 · 12 · 28 comparisons, each with a chance of 1e-9: a false alarm has one of .001."""
    found = sum(
        len(loose_gaps(1e-3 * rng.standard_normal((6, BINS)), 1e-3, 10**9, LOOK_RULE))
        for _ in range(2000)
    )
    assert found == 0


@pytest.mark.parametrize(("variances", "angle"), [
    ([1.0, 1.0, 1.0, 1.0, 1.0], 0.6), ([3.0, 1.0, 1.0], 0.4), ([0.2, 1.0, 1.0, 1.0], 0.7),
])  # fmt: skip
def test_the_share_of_an_elliptical_law_in_a_cap(rng, variances, angle):
    """Against 400 000 drawn rows: five standard errors are .004 at most."""
    D, mean = len(variances), float(np.mean(variances))
    Y = rng.standard_normal((400_000, D)) * np.sqrt(variances)
    inside = Y[:, 0] > cos(angle) * np.linalg.norm(Y, axis=1)
    share = elliptical_share(variances[0] / mean, D, D - 1.0, angle)
    assert share == pytest.approx(float(inside.mean()), abs=0.004)
    assert share > 0.009


def test_a_cap_of_a_round_law_has_its_part_of_the_sphere():
    """In three columns it is (1 − cos θ)/2, by Archimedes."""
    for angle in (0.1, 0.7, 1.4):
        assert elliptical_share(1.0, 3, 2.0, angle) == pytest.approx((1.0 - cos(angle)) / 2.0)
    assert elliptical_share(0.0, 3, 2.0, 0.7) == 0.0
    assert elliptical_share(3.0, 3, 2.0, 0.7) == pytest.approx(0.5)


@pytest.mark.parametrize(("share", "cut"), [(0.0195, False), (0.0205, True)])
def test_a_loose_group_is_much_denser_than_an_elliptical_law(share, cut):
    """.8 of the rows lie alike in 5 of 9 columns and hardly in the others: the cap of .5 rad around
    one of the five holds .00247 of them, and ten times as many are 1.98 % of all rows."""
    variances = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    u = np.r_[1.0, -1.0, np.zeros(7)] / sqrt(2.0)
    group = LeftOut(u, two_sided=False, angle=0.5, share=share, sd=1e-3, loose=True)
    rest = Moment(0.8 * np.diag(variances) / 5.0, 0.1, 1e-6)
    cap = 0.8 * elliptical_share(1.8, 9, 4.0, 0.5)
    state = Rest(Allowance(1.0, 5000), rest, (group,), (0.0,))
    rule = replace(LOOK_RULE, dense=0.02 / cap, natural=9.0)
    end = OutlierLook(9, 2, rule=rule).take(state, (Answer(rest.value, 1e-6),))
    assert (end.left_out != ()) == cut
    assert (
        OutlierLook(9, 2, rule=rule)
        .take(replace(state, groups=(replace(group, loose=False),)), (Answer(rest.value, 1e-6),))
        .left_out
    )  # a group behind an empty ring need not be so dense


@pytest.mark.parametrize("sd", [1e-6, 0.02, 0.04])
@pytest.mark.parametrize(("of_limit", "cut"), [(0.99, False), (1.01, True)])
def test_noise_makes_no_law_narrow_and_none_wide(sd, of_limit, cut):
    """It is taken off the variance along the group, and off the squares of the other variances."""
    u, values = np.eye(9)[8], np.array([0.3, 0.2, 0.1, 0.05, 0.05, 0.0, 0.0, 0.0, 0.1])
    squares = float(np.sum(values[:8] ** 2)) - 36 * sd**2  # 8 · 9/2 entries, each of variance sd²
    share = elliptical_share((0.1 - sd) * 9 / 0.8, 9, 0.7**2 / squares, 0.5)
    rule = replace(LOOK_RULE, natural=9.0, one_column=2.0, doubt=1.0)
    group = LeftOut(u, two_sided=False, angle=0.5, share=8.0 * of_limit * share, sd=1, loose=True)
    assert is_foreign(group, 0.0, Moment(np.diag(values), 0.1, sd), rule) == cut


@pytest.mark.parametrize("D", [2, 3, 9])
@pytest.mark.parametrize("sd", [1e-9, 0.1, 100.0])
def test_whatever_moment_is_released_a_group_is_judged(D, sd):
    """None gives an infinite share, a division by zero, or a variance that is no number."""
    crossed = np.eye(D)[::-1] * 5.0
    moments = (np.zeros((D, D)), -np.eye(D), np.eye(D), crossed, -crossed, np.diag(np.eye(D)[0]))
    group = LeftOut(np.eye(D)[0], two_sided=False, angle=0.6, share=1e9, sd=sd, loose=True)
    rule = replace(LOOK_RULE, natural=inf)
    for value in moments:
        rest = Moment(value, 0.1, sd)
        assert relative_variance(rest, group, 0.3, rule) >= 0.0
        assert is_foreign(group, 0.3, rest, rule)  # a billion times the table is more than any law
        assert not is_foreign(replace(group, share=-1.0), 0.3, rest, rule)


# --- regions --------------------------------------------------------------------------------------


def inside(caps, XT):
    """Which rows, given as columns, a cap takes; zero rows are in no cap."""
    XT = np.ascontiguousarray(XT)
    kept = MemoryRows(XT).through(caps).sphered().any(axis=1)
    return (XT.any(axis=0) & ~kept).tolist()


def test_caps_hold_rows_near_their_directions(rng):
    XT = unit_rows(rng, 500, 5)
    C = random_basis(rng, 5, 2)
    caps = Caps(FrozenArray.of(C), FrozenArray.of([cos(pi / 4), 0.9]))
    want = (C[:, 0] @ XT > cos(pi / 4)) | (C[:, 1] @ XT > 0.9)
    assert 0 < want.sum() < 500
    rows = MemoryRows.prepare(np.ascontiguousarray(3.0 * XT.T))
    kept = rows.through(caps).sphered()
    assert np.array_equal(~kept.any(axis=1), want)
    assert np.array_equal(kept[~want], rows.sphered()[~want])


def test_a_row_at_the_edge_of_a_cap_is_on_one_side_wherever_it_stands(rng):
    c = random_basis(rng, 20, 1)
    caps = Caps(FrozenArray.of(c), FrozenArray.of([0.8]))
    away = random_basis(rng, 20, 20)
    away -= c @ (c.T @ away)
    X = 0.8 * c + 0.6 * away / np.linalg.norm(away, axis=0)
    X = X * (1.0 + rng.integers(-3, 4, 20) * 2.0**-53)
    alone = [inside(caps, X[:, i : i + 1])[0] for i in range(20)]
    assert len(set(alone)) == 2
    for width in (9, 64, 257):
        block = np.zeros((20, width))
        block[:, -9:] = X[:, :9]
        assert inside(caps, block)[-9:] == alone[:9]


# --- the whole look -------------------------------------------------------------------------------


def screening(X, r, mu, seed=0, **options):
    n, D = X.shape
    plan = AdaptivePlan("look", OutlierLook(D, r, **options), n, mu=mu)
    result = run(plan, MemoryRows.prepare(X), seeded_generator(seed))
    return result.facts["screening"], result


def with_cluster(share, seed=0, n=10_000, D=20, r=2, noise=0.5, two_sided=False):
    data = make_haystack(n, D, r, inlier_ratio=1.0, inlier_noise=noise, random_state=seed)
    rng = np.random.default_rng(seed)
    c = rng.standard_normal(D)
    c /= np.linalg.norm(c)
    count = round(share * n)
    sign = rng.choice([-1.0, 1.0], (count, 1)) if two_sided else 1.0
    data.X[:count] = sign * c + 0.1 / sqrt(D) * rng.standard_normal((count, D))
    return data.X, data.components.T, c


@pytest.mark.parametrize(("share", "two_sided"), [(0.1, False), (0.45, False), (0.3, True)])
def test_a_tight_group_is_left_out_and_told(share, two_sided):
    X, V, c = with_cluster(share, two_sided=two_sided)
    end, result = screening(X, 2, 0.5)
    (group,) = end.left_out
    assert group.two_sided == two_sided
    assert abs(float(group.direction @ c)) > 0.97
    assert group.share == pytest.approx(share, abs=0.03)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    gone = np.array(inside(end.through[0], X.T))
    assert gone[: round(share * len(X))].mean() > 0.999
    assert gone[round(share * len(X)) :].mean() < 0.01
    assert subspace_error(result.V.T, V.T) < 0.05
    rule = LOOK_RULE
    spent = 2.0 * rule.moment_share + rule.modes_share + rule.angles_share + rule.scatter_share
    assert end.spent == pytest.approx(spent)
    assert end.moment.share == rule.moment_share
    # the moment is that of the kept rows: 400 entries within 5 standard deviations
    want = X[~gone].T @ X[~gone] / len(X)
    assert np.max(np.abs(end.moment.value - want)) < 5.0 * end.moment.sd


def test_a_loose_group_in_few_columns_is_left_out_and_a_skewed_table_is_kept(rng):
    """A fifth of the rows are half as wide as they are far, in seven columns where other rows are
    near every direction. Skewed columns put as many rows on one side, but over a wider angle."""
    n, D = 10_000, 7
    X = rng.standard_normal((n, D)) * [2.0, 1.6, 1, 1, 1, 1, 1]
    skewed = X.copy()
    skewed[:, 2:] = rng.exponential(1.0, (n, D - 2)) - np.log(2.0)
    c = np.r_[0.0, 0.0, np.ones(5)] / sqrt(5.0)
    length = np.median(np.linalg.norm(X, axis=1))
    X[:2000] = length * (c + 0.5 * rng.standard_normal((2000, D)) / sqrt(D))
    end, _ = screening(X, 2, 1.0)
    (group,) = end.left_out
    assert group.loose
    assert float(group.direction @ c) > 0.97
    gone = np.array(inside(end.through[0], unit(X).T))
    assert gone[:2000].mean() > 0.9
    assert gone[2000:].mean() < 0.05
    assert screening(skewed, 2, 1.0)[0].left_out == ()


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_a_fit_says_that_it_left_a_group_out():
    X, _, _ = with_cluster(0.3)
    with pytest.warns(LeftOutWarning, match=r"About (29|30|31)\.\d% of the rows .* groups='keep'"):
        PrivateRobustPCA(2, epsilon=4.0, center=None, scale=None).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftOutWarning)
        PrivateRobustPCA(2, epsilon=4.0, center=None, scale=None).fit(with_cluster(0.0)[0])


@pytest.mark.parametrize("n_components", [2, "auto"])
def test_groups_can_be_kept(n_components):
    """Then nothing is spent on a look: the passes go from one second moment to the steps."""
    X, _, c = with_cluster(0.3)
    known = {"epsilon": 4.0, "center": None, "scale": None}
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftOutWarning)
        est = PrivateRobustPCA(n_components, groups="keep", **known).fit(X)
    assert est.left_out_ == ()
    assert np.linalg.norm(est.components_ @ c) > 0.9  # the cluster is one of the components
    look = est.plan_.main.method.look
    assert not look.leave_out
    kept = Answer(np.diag([0.4, 0.3, *np.full(18, 0.3 / 18)]), 1e-6)
    end = look.take(look.begin(Allowance(0.5, 10_000)), (kept,))
    assert isinstance(end, Screening)
    assert end.spent == LOOK_RULE.moment_share


def test_an_unknown_word_for_groups_is_refused():
    X, _, _ = with_cluster(0.0, n=100)
    with pytest.raises(ValueError, match="leave-out"):
        PrivateRobustPCA(2, groups="drop").fit(X)
    with pytest.raises(ValueError, match="groups"):
        PrivateRobustPCA(2, groups="keep", algorithm="dp-ggd", center=None).fit(X)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_left_out_of_clean_rows(seed):
    X, _, _ = with_cluster(0.0, seed)
    end, _ = screening(X, 2, 2.0, seed)
    assert end.left_out == ()
    assert end.through == ()
    assert end.moment.share == LOOK_RULE.moment_share
    assert end.spent <= 0.17 + 1e-12


def test_a_group_in_a_direction_of_the_inliers_stays(rng):
    """Inliers along e0 and e1, and a third of the rows in one tight group at e0: it is theirs."""
    X = 0.1 * rng.standard_normal((10_000, 10))
    X[:, :2] += rng.standard_normal((10_000, 2)) * [1.5, 1.0]
    X[:3000] = np.eye(10)[0] + 0.03 * rng.standard_normal((3000, 10))
    end, result = screening(X, 2, 2.0)
    assert end.left_out == ()
    assert end.spent == pytest.approx(0.27)  # there was a group, and it was asked about
    assert end.moment.share == LOOK_RULE.moment_share
    assert subspace_error(result.V.T, np.eye(10)[:2]) < 1e-3


def test_it_does_not_look_where_it_could_not_see():
    method = OutlierLook(10, 2)
    blind, seeing = Allowance(0.2, 500), Allowance(0.2, 5000)
    assert method.smallest_visible(blind) == pytest.approx(10.0 * method.smallest_visible(seeing))
    assert method.smallest_visible(blind) > 0.48 > method.smallest_visible(seeing)
    clear = Answer(np.diag([0.4, 0.3, *np.full(8, 0.3 / 8)]), 1e-6)
    for allowance, looks in ((blind, False), (seeing, True)):
        state = method.take(method.begin(allowance), (clear,))
        assert isinstance(state, Screening) != looks
    noise = Answer(np.diag([0.4, 0.3, *np.full(8, 0.3 / 8)]), 0.1)
    assert isinstance(method.take(method.begin(seeing), (noise,)), Screening)


def test_a_direction_must_stand_out_of_the_noise():
    """A fourth moment of .3 along one direction: counted above 3 standard deviations."""
    method, allowance = OutlierLook(6, 2), Allowance(2.0, 10_000)
    first = Answer(np.diag([0.4, 0.3, 0.1, 0.1, 0.05, 0.05]), 1e-6)
    modes = method.take(method.begin(allowance), (first,))
    assert isinstance(modes, Modes)
    c = modes.basis.T @ np.eye(6)[2]
    bump = 0.3 * np.outer(squares(c[:, None])[:, 0], squares(c[:, None])[:, 0])
    values = np.einsum("dk,de,ek->k", modes.basis, first.value, modes.basis)
    for sd, seen in ((0.09, True), (0.11, False)):
        state = method.take(modes, (Answer(elliptical_moments(values) + bump, sd),))
        assert isinstance(state, Angles) == seen
        if seen:
            assert abs(float(state.directions[2, 0])) > 0.99
        else:
            assert isinstance(state, Screening)
            assert state.spent == pytest.approx(0.12)


@pytest.mark.parametrize(("shares", "nonzero", "cut"), [
    ((0.3, 0.15), 1.0, True), ((0.3, 0.2), 1.0, False), ((0.3, 0.15), 0.9, False),
])  # fmt: skip
def test_all_groups_together_are_a_minority_of_the_rows_that_are_not_zero(shares, nonzero, cut):
    method, V = OutlierLook(6, 2), np.diag([0.5, 0.3, 0.1, 0.1, 0.0, 0.0])
    groups = tuple(
        LeftOut(np.eye(6)[4 + k], two_sided=False, angle=0.2, share=share, sd=1e-3)
        for k, share in enumerate(shares)
    )
    state = Rest(Allowance(1.0, 5000), Moment(nonzero * V, 0.1, 1e-6), groups, (0.0, 0.0))
    end = method.take(state, (Answer(V, 1e-6),))
    assert isinstance(end, Screening)
    assert end.left_out == (groups if cut else ())
    assert (end.through != ()) == cut
    assert end.spent == pytest.approx(0.27)


@pytest.mark.parametrize(("mean", "variance", "share", "angle", "cut"), [
    (0.0, 1.45, 0.2, 0.5, True), (0.0, 1.52, 0.2, 0.5, False),
    (0.0, 1.52, 0.2, 0.4, True), (0.0, 1.52, 0.1, 0.9, True),
    (0.0, 1.03, 0.4, 0.5, True), (0.0, 1.07, 0.4, 0.5, False),
    (-0.3, 2.08, 0.2, 0.5, True), (-0.3, 2.17, 0.2, 0.5, False),
    (-0.6, 1.45, 0.2, 0.5, True), (-0.6, 1.52, 0.2, 0.5, False),
])  # fmt: skip
def test_a_group_stays_if_it_looks_natural(mean, variance, share, angle, cut):
    """Share × angle × v² below .22, v the variance of the other rows along its direction over the
    mean of six. So the limit of v is 1.483 for the first group, and 1.049 for twice its share. The
    mean of the other rows does not count as variance: with -.3 over .8 of the rows the limit is
    1.483 (1 − .1406) + .844 = 2.118. A mean that these rows cannot have says nothing."""
    u = between_columns(6)
    end = judged(u, variance, share, angle, mean)
    assert (end.left_out != ()) == cut


@pytest.mark.parametrize(("sd", "cut"), [(1e-6, False), (0.01, False), (0.02, True)])
def test_a_group_is_natural_only_if_the_releases_show_it(sd, cut):
    """The limit of v is 1.483; the noise .02 makes 1.45 of 1.6."""
    assert (judged(between_columns(6), 1.6, 0.2, 0.5, sd=sd).left_out != ()) == cut


def test_no_run_draws_more_normals_than_are_counted():
    """All that a run may release, each once, with as many directions as there may be."""
    method = OutlierLook(8, 3)
    queries = [SecondMoment(8)] * 3 + [FourthMoment(8, 7), AngleCounts(8, 6, BINS)]
    queries.append(CapScatter(8, (0.5,) * 12, 6, 2))  # both sides of six directions
    assert method.coordinates == sum(query.noise.coordinates for query in queries)
    assert method.n_passes == len(queries)


def between_columns(D):
    """Return a direction along no column."""
    return (np.eye(D)[-1] + np.eye(D)[-2]) / sqrt(2.0)


def judged(u, variance, share, angle, mean=0.0, sd=1e-6):
    """Return what the look makes of a group at u, if the other rows have this variance along it."""
    along, D = 0.8 * variance / len(u), len(u)
    group = LeftOut(u, two_sided=False, angle=angle, share=share, sd=1e-3)
    rest = (0.8 - along) / (D - 1) * np.eye(D) + (along * D - 0.8) / (D - 1) * np.outer(u, u)
    assert u @ rest @ u == pytest.approx(along)
    assert np.trace(rest) == pytest.approx(0.8)
    state = Rest(Allowance(1.0, 5000), Moment(np.eye(D) / D, 0.1, 1e-6), (group,), (mean,))
    return OutlierLook(D, 2).take(state, (Answer(rest, sd),))


@pytest.mark.parametrize(("square", "share", "angle", "cut"), [
    (1.0, 0.2, 0.37, True), (1.0, 0.2, 0.39, False), (0.91, 0.2, 0.39, False),
    (0.89, 0.2, 0.39, True), (1.0, 0.1, 0.7, True), (1.0, 0.4, 0.31, False),
])  # fmt: skip
def test_a_wide_group_along_one_column_stays(square, share, angle, cut):
    """The other rows have variance 1 along it, which counts as 1.7 along one column: the limit is
    share × angle = .0761. Along other directions it would be .22."""
    u = sqrt(square) * np.eye(8)[2] + sqrt(1.0 - square) * np.eye(8)[5]
    assert (judged(u, 1.0, share, angle).left_out != ()) == cut


def test_narrowed_rows_have_no_columns(rng):
    """Their first axis is the direction of the group itself, which is foreign all the same."""
    X = 0.3 / sqrt(300) * rng.standard_normal((8000, 300))
    X[:, :2] += rng.standard_normal((8000, 2))
    X[:2400] = np.eye(300)[5] + 0.8 / sqrt(300) * rng.standard_normal((2400, 300))
    with pytest.warns(LeftOutWarning):
        fit = PrivateRobustPCA(2, epsilon=4.0, center=None, scale=None, sketch=128).fit(X)
    (group,) = fit.left_out_
    assert group.share == pytest.approx(0.3, abs=0.03)
    assert fit.plan_.main.method.look.rule.one_column == inf
    whole = PrivateRobustPCA(2, epsilon=4.0, center=None, scale=None).fit(rng.normal(size=(99, 9)))
    assert whole.plan_.main.method.look.rule == LOOK_RULE


def test_a_code_is_left_out_and_two_clumps_of_a_column_stay(rng):
    """A tenth of the rows has 50 in one column of spread 1; then a third has 5, and two values."""
    X = rng.standard_normal((10_000, 8)) * [1.5, 1.2, 1, 1, 1, 1, 1, 1]
    code, clumps = X.copy(), X.copy()
    code[:1000, 4] = 50.0
    clumps[:3000, 4] = 5.0
    end, _ = screening(code, 2, 4.0)
    (group,) = end.left_out
    assert group.share == pytest.approx(0.1, abs=0.01)
    assert group.angle < 0.3
    end, _ = screening(clumps, 2, 4.0)
    assert end.left_out == ()
    assert end.spent == pytest.approx(0.27)  # there was a group, and it was asked about


def test_rows_of_groups_that_stay_are_in_the_start():
    """One group is foreign, the other natural: the second moment is asked for once more, without
    the foreign one alone."""
    method, allowance = OutlierLook(6, 2), Allowance(1.0, 5000)
    foreign, natural = (
        LeftOut(u, two_sided=False, angle=0.5, share=0.2, sd=1e-3)
        for u in (between_columns(6), np.eye(6)[0])
    )
    first = Moment(np.eye(6) / 6, 0.1, 1e-6)
    state = method.take(
        Rest(allowance, first, (foreign, natural), (0.0, 0.0)), (Answer(np.eye(6) / 10, 1e-6),)
    )
    assert isinstance(state, NewMoment)
    ask = method.ask(state)
    assert [(type(q), share) for q, share in ask.shares] == [(SecondMoment, 0.1)]
    assert ask.through == (caps_of((foreign,)),)
    kept = np.diag([0.4, 0.2, 0.05, 0.05, 0.05, 0.05])
    end = method.take(state, (Answer(kept, 1e-6),))
    assert end.left_out == (foreign,)
    np.testing.assert_array_equal(end.moment.value, kept)
    assert end.through == ask.through
    assert end.spent == pytest.approx(0.37)


def test_cells_are_filled_in_the_units_that_were_found_last():
    first, last = (Affine.of(np.full(3, c), holes=True) for c in (0.0, 2.0))
    caps = Caps(FrozenArray.of(np.eye(3)[:, :1]), FrozenArray.of(np.array([0.9])))
    moment, V = Moment(np.eye(3), 0.1, 1e-3), np.eye(3)[:, :1]
    found = Screening(moment, (), 0.1, (Without(first, caps), last, Sphere()), whole=True)
    assert found.filled(first, V).through == (
        Without(first, caps), last, Fill(FrozenArray.of(V), weighed=True), Sphere()
    )  # fmt: skip
    before = Screening(moment, (), 0.1, (caps,))
    assert before.filled(first, V).filled(first, 2.0 * V).through == (
        Without(first, caps), first, Fill(FrozenArray.of(2.0 * V), weighed=True), Sphere()
    )  # fmt: skip
    assert before.filled(first, V).through[:2] == (Without(first, caps), first)


@pytest.mark.parametrize("along", [0.018 * 1.001, 0.018, 0.018 * 0.999, 0.0, -0.02])
def test_a_direction_without_variance_of_its_own_is_never_natural(along):
    """m²/t is .018: variance a little above or below that is the mean's, whatever noise says."""
    u = between_columns(100)
    group = LeftOut(u, two_sided=False, angle=0.9, share=0.2, sd=1e-3)
    rest = (0.8 - along) / 99 * np.eye(100) + (along - (0.8 - along) / 99) * np.outer(u, u)
    state = Rest(Allowance(1.0, 5000), Moment(np.eye(100) / 100, 0.1, 0.002), (group,), (-0.12,))
    end = OutlierLook(100, 2).take(state, (Answer(rest, 0.002),))
    assert end.left_out


def test_the_mean_of_the_rows_outside_a_group_is_read_off_the_counts(rng):
    """Angles of 100° for the other rows: their cosine is −.17; bins of 5° tell it to .04."""
    group, body = rng.uniform(2, 9, 2000), rng.normal(100, 5, 8000)
    for angles, sign in (
        (np.concatenate([group, body]), 1),
        (180 - np.concatenate([group, body]), -1),
    ):
        (gap,) = clear_gaps(weighted(angles)[None], 1e-3, 10_000, LOOK_RULE, 2)
        assert gap.side == sign
        assert gap.mean == pytest.approx(0.8 * np.cos(np.radians(body)).mean(), abs=0.03)
    both = np.concatenate([group, 180 - group, body])
    (gap,) = clear_gaps(weighted(both)[None], 1e-3, 12_000, LOOK_RULE, 2)
    assert gap.side == 0
    assert gap.mean == pytest.approx(8 / 12 * np.cos(np.radians(body)).mean(), abs=0.03)


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1.0, 1e6])
@pytest.mark.parametrize(("D", "r"), [(3, 1), (7, 4), (30, 2)])
def test_whatever_is_released_the_shares_fit_and_it_ends(rng, scale, D, r):
    units = UnitsAgain(Standardiser(D), center=True, scale=True, holes=False)
    units = units.at(np.array([np.zeros(D), np.ones(D)])) if D == 30 else None
    method = OutlierLook(D, r, choose=D == 7, units=units)
    allowance = Allowance(1.0, 5000)
    for _ in range(10):
        state, shares, passes, coordinates = method.begin(allowance), 0.0, 0, 0
        if units is not None:  # noise alone hardly ever shows a group
            state = Rest(
                allowance, Moment(np.eye(D) / D, 0.1, 1e-3), (group_at(np.eye(D)[-1]),), (0.0,)
            )
            shares = 0.17
        while (ask := method.ask(state)) is not None:
            ((query, share),) = ask.shares
            shares, passes = shares + share, passes + 1
            coordinates += query.noise.coordinates
            value = rng.standard_normal(query.shape) * scale
            if len(query.shape) == 2 and query.shape[0] == query.shape[1]:
                value = value + value.T
            if query.shape == (D, D):
                value = value + np.diag([0.5, *np.full(D - 1, 0.1)])
            if query.shape[0] != query.shape[-1] and ask.point.size:
                assert np.linalg.norm(ask.point, 2) <= 1.0 + 1e-12
            state = method.take(state, (Answer(value, allowance.sd(query, share)),))
        assert shares == pytest.approx(state.spent, abs=0.5 * (units is not None))
        assert shares <= state.spent + 1e-12 <= 1.0
        assert state.whole == (units is not None and state.left_out != ())
        assert passes <= method.n_passes
        assert coordinates <= method.coordinates
        assert method.outcome(state).V.shape == (D, r)


def group_at(direction):
    return LeftOut(direction, two_sided=False, angle=0.2, share=0.2, sd=1e-3)


def planted_table(seed=0, n=8000, D=10):
    """Rows in units of their own, a fifth of them in a tight group; the group comes first."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, D)) + rng.standard_normal((n, D))
    u = rng.standard_normal(D)
    Z[: n // 5] = 1.5 * sqrt(D) * u / np.linalg.norm(u) + 0.05 * rng.standard_normal((n // 5, D))
    center, scale = 100.0 * rng.standard_normal(D), np.exp(3.0 * rng.standard_normal(D))
    return center + scale * Z, n // 5


def test_units_are_found_again_without_the_group():
    """Medians within .1 of the scale (noise and sampling: about .02), where the group moved some
    by .2 and more; the rows that were left out stay so in the new units."""
    X, count = planted_table()
    with pytest.warns(LeftOutWarning):
        est = PrivateRobustPCA(2, epsilon=4.0).fit(X)
    (group,) = est.left_out_
    assert group.share == pytest.approx(0.2, abs=0.02)
    center, spoilt = np.median(X[count:], axis=0), np.median(X, axis=0)
    scale = 1.4826 * np.median(np.abs(X[count:] - center), axis=0)
    assert np.max(np.abs(est.center_ - center) / scale) < 0.1
    assert np.max(np.abs(spoilt - center) / scale) > 0.2
    assert np.max(np.abs(np.log2(est.scale_ / scale))) < 0.4
    given = PrivateRobustPCA(2, epsilon=4.0, center=center, scale=scale)
    best = given.fit(X[count:]).components_
    brought = np.linalg.qr((est.components_ * est.scale_ / scale).T)[0].T
    assert subspace_error(brought, best) < 0.02


def test_a_group_stays_left_out_in_the_new_units():
    X, count = planted_table()
    n, D = X.shape
    center, scale = np.median(X, axis=0), X.std(axis=0)
    units = UnitsAgain(Standardiser(D), center=True, scale=True, holes=False)
    look = OutlierLook(D, 2, units=units.at(np.array([center, scale])))
    seen = []
    plan = StagedPlan(
        "look",
        (Affine.of(center, scale), Sphere()),
        (SubspaceStage(AdaptivePlan("look", look, n, mu=2.0), None),),
        D,
    )
    result = run(plan, MemoryRows.of(X), seeded_generator(3), witness=seen.append)
    end = result.facts["screening"]
    assert end.whole
    assert [type(row_map) for row_map in result.view] == [Without, Affine, Sphere]
    kept = through_view(MemoryRows.of(X), result.view).sphered().any(axis=1)
    assert kept[:count].mean() < 0.001
    assert kept[count:].mean() > 0.99
    # every release after the group was found says all that was done to a row
    counts = [o for o in seen if isinstance(o.release.query, ColumnCounts)]
    assert counts
    assert all(o.whole and [type(m) for m in o.view] == [Without] for o in counts)
    assert seen[-1].view == result.view
    # the moment is that of the kept rows in the new units: 100 entries within 5 sd
    rows = through_view(MemoryRows.of(X), result.view).sphered()
    assert np.max(np.abs(end.moment.value - rows.T @ rows / n)) < 5.0 * end.moment.sd


def test_a_column_that_is_not_resolved_again_is_dropped():
    units = UnitsAgain(Standardiser(3), center=True, scale=True, holes=True)
    first = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, LARGEST_SCALE]])
    found = np.array([[7.0, 8.0, 9.0], [2.0, np.inf, np.inf]])
    affine, dropped = units.at(first).after(found)
    assert affine == Affine.of([7.0, 0.0, 0.0], [2.0, LARGEST_SCALE, LARGEST_SCALE], holes=True)
    assert dropped.tolist() == [False, True, True]
    center_only = replace(units, scale=False).at(first)
    assert center_only.after(found)[0].scale == center_only.before.scale
    assert not center_only.after(found)[1].any()


def test_units_are_not_found_again_where_rows_are_few():
    units = UnitsAgain(Standardiser(9), center=True, scale=True, holes=False)
    known = units.at(np.array([np.zeros(9), np.ones(9)]))
    assert units.share(Allowance(1.0, 1000)) is None  # nobody told the first ones
    assert known.share(Allowance(1.0, 1000)) == STANDARDISER_RULE.share_of(1000 / 3)
    assert known.share(Allowance(0.01, 1000)) is None


def test_raw_rows_are_for_stages_alone():
    X, _ = planted_table(n=100)
    units = UnitsAgain(Standardiser(10), center=True, scale=True, holes=False)
    look = OutlierLook(10, 2, units=units.at(np.array([np.zeros(10), np.ones(10)])))
    ask = replace(look.ask(look.begin(Allowance(1.0, 100))), whole=True)

    class Asks:
        D, n_components, coordinates, name = 10, 2, 1000, "asks"
        begin = staticmethod(lambda _: ask)
        ask = staticmethod(lambda state: state)

    plan = AdaptivePlan("asks", Asks(), 100, mu=1.0)
    with pytest.raises(ValueError, match="stage of a fit"):
        run(plan, MemoryRows.prepare(X), seeded_generator(0))


def test_a_wide_span_of_many_components_is_searched(rng):
    """r = 10: fourteen directions, 105 pairs; the group is still the first mode."""
    D, r = 30, 10
    X, _, c = with_cluster(0.2, D=D, r=r, noise=0.3, n=40_000)
    end, _ = screening(X, r, 2.0)
    (group,) = end.left_out
    assert abs(float(group.direction @ c)) > 0.97
    assert FourthMoment(D, 14).shape == (105, 105)


def test_a_rule_can_be_changed():
    X, _, _ = with_cluster(0.2)
    rule = replace(LOOK_RULE, minority=0.1)
    assert screening(X, 2, 1.0)[0].left_out != ()
    assert screening(X, 2, 1.0, rule=rule)[0].left_out == ()
