"""How groups scatter: what is asked about them, and which of them are like the other rows."""

from dataclasses import replace
from math import cos, inf, sqrt

import numpy as np
import pytest

from stillspace.methods.outlier_look import LOOK_RULE, OutlierLook
from stillspace.methods.outlier_look.caps import LeftOut
from stillspace.methods.outlier_look.method import NewMoment, Rest, Scatter
from stillspace.methods.outlier_look.scatter import ScatterPlan, scatter_plan
from stillspace.methods.spectrum import Moment
from stillspace.parts.queries import CapScatter
from stillspace.parts.sampling import RowPart
from stillspace.plans.adaptive import Allowance, Answer
from stillspace.plans.ledger import ALL
from tests.conftest import random_basis
from tests.methods.test_outlier_look import screening


def minority(rng, like_others, units, n=10_000, share=0.15):
    """Rows near a plane of three dimensions, and some of them about a point far along a column.

    The distances of these from their middle are the same on average, but they vary as the others
    do, or along all columns alike.
    """
    D = 12
    V = random_basis(rng, D, 3)
    V[11] = 0.0

    def rows(count):
        return 2.0 * rng.standard_normal((count, 3)) @ V.T + 0.3 * rng.standard_normal((count, D))

    X = rows(n)
    noise = rows(round(share * n)) if like_others else rng.standard_normal((round(share * n), D))
    X[: len(noise)] = 6.0 * np.eye(D)[11] + 0.3 * 6.0 * noise / np.sqrt((noise**2).sum(1).mean())
    return X * units


@pytest.mark.parametrize("like_others", [False, True])
@pytest.mark.parametrize("units", [1.0, np.r_[3.0, 3.0, 0.5, np.ones(9)]])
def test_a_wide_group_stays_if_it_scatters_as_the_other_rows_do(rng, like_others, units):
    """In whatever units: where two columns have too small a unit, all rows vary along these."""
    X = minority(rng, like_others, units)
    end, _ = screening(X, 2, 4.0, rule=replace(LOOK_RULE, one_column=inf))
    assert end.spent == pytest.approx(0.32)
    assert len(end.left_out) == (0 if like_others else 1)
    narrow = X.copy()
    narrow[:1500] = 6.0 * np.eye(12)[11] + 0.2 * (X[:1500] - 6.0 * np.eye(12)[11])
    assert screening(narrow, 2, 4.0)[0].left_out != ()  # whatever it is like


def scattered(across, along, sd=1e-9, two_sided=False, share=0.2):
    """Whether a group with this scatter is alike; B has 3 of 10 dimensions, and .7 of the rest."""
    sides = 2 if two_sided else 1
    plan = ScatterPlan(CapScatter(11, (0.8,) * sides, 1, 3), np.zeros((11, 5 + sides)), 0.3, 0.7)
    group = LeftOut(np.eye(11)[0], two_sided=two_sided, angle=0.6, share=share, sd=1e-3)
    answer = np.full((sides, 2), [across, along]) / sides / 0.36  # 1 − .8²
    (alike,) = plan.alike((group,), answer, sd, LOOK_RULE)
    return alike


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize(("across", "along", "alike"), [
    (0.0059, 0.0041, False), (0.0057, 0.0043, True), (0.0030, 0.0070, True), (0.0, 0.0, False),
    (0.0006, 0.0013, False), (0.0006, 0.0015, True), (-0.01, -0.01, False),
])  # fmt: skip
def test_how_much_a_group_must_scatter_and_where(across, along, alike, two_sided):
    """Along B: .3 + .3 (.7 − .3) = .42 of all. In all: sin²(.1) = .00997 of the share .2."""
    assert scattered(across, along, two_sided=two_sided) == alike


@pytest.mark.parametrize(("sd", "alike"), [(0.004, True), (0.006, False)])
def test_a_group_is_alike_only_if_noise_cannot_be_the_reason(sd, alike):
    """.58 · .0055 − .42 · .0045 is .0013; one sd of its noise is .36 · .716 sd."""
    assert scattered(0.0045, 0.0055, sd) == alike
    assert scattered(0.0045, 0.0055, sd / sqrt(2.0), two_sided=True) == alike


@pytest.mark.parametrize(("sd", "alike"), [(0.0015, True), (0.0025, False)])
def test_a_group_is_wide_only_if_noise_cannot_be_the_reason(sd, alike):
    """.003 is .001 above .2 · .00997; one sd of the noise of the sum is .36 · 1.41 sd."""
    assert scattered(0.0, 0.003, sd) == alike


def moments_with(group, share=0.2, D=8, correlation=0.75):
    """The second moments of all rows and of the others; two of their columns are correlated."""
    rest = np.diag([0.3, 0.2, 0.1, 0.1, 0.05, 0.02, 0.02, 0.01][:D])
    rest[1, 2] = rest[2, 1] = correlation * sqrt(0.2 * 0.1)
    return rest + share * np.outer(group, group), rest


def test_axes_are_sharper_than_the_directions_in_which_groups_were_found():
    middle = np.eye(8)[7]
    all_rows, rest = moments_with(middle)
    seen = cos(0.2) * middle + np.sin(0.2) * np.eye(8)[0]
    group = LeftOut(seen, two_sided=True, angle=0.5, share=0.2, sd=1e-3)
    plan = scatter_plan((group,), (), Moment(all_rows, 0.1, 1e-6), Moment(rest, 0.1, 1e-6))
    weights, axes, span, B = np.split(plan.point, [1, 3, 4], axis=1)
    np.testing.assert_allclose(axes, np.array([middle, -middle]).T, atol=1e-9)
    np.testing.assert_allclose(np.abs(span[:, 0]), middle, atol=1e-9)
    # in the units of the weights columns have variance 1, and two are correlated by .75
    units = 1.0 / np.sqrt(np.maximum(np.diag(rest), 1e-6))
    np.testing.assert_allclose(weights[:, 0], units / units.max())
    np.testing.assert_allclose(np.abs(B[1:3, -1]), sqrt(0.5), atol=1e-6)
    assert B[1, -1] * B[2, -1] > 0.0
    assert B.shape[1] == plan.query.k
    assert plan.part == pytest.approx(plan.query.k / 7)
    # 1.75, .25, and 1 five times; rounding decides which of the ones are above their mean
    assert plan.usual == pytest.approx((0.75 + plan.query.k) / 7.0, rel=1e-3)
    assert plan.query.cosines == pytest.approx((cos(0.5), cos(0.5)))
    assert plan.query.s == 1


def test_the_span_of_several_axes_is_orthonormal_and_holds_them():
    middles = np.array([np.eye(8)[7], 0.6 * np.eye(8)[6] + 0.8 * np.eye(8)[7]])
    all_rows, rest = moments_with(middles[0])
    all_rows += 0.2 * np.outer(middles[1], middles[1])
    groups = [LeftOut(u, two_sided=False, angle=0.3, share=0.2, sd=1e-3) for u in middles]
    plan = scatter_plan(groups, (), Moment(all_rows, 0.1, 1e-6), Moment(rest, 0.1, 1e-6))
    _, axes, A, B = np.split(plan.point, [1, 3, 5], axis=1)
    np.testing.assert_allclose(A.T @ A, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(A @ A.T @ axes, axes, atol=1e-12)
    np.testing.assert_allclose(B.T @ A, 0.0, atol=1e-12)
    np.testing.assert_allclose(B.T @ B, np.eye(plan.query.k), atol=1e-12)


@pytest.mark.parametrize("why", ["noise", "no shape", "another axis", "no room"])
def test_nothing_is_asked_where_the_answer_would_say_nothing(why):
    D = 3 if why == "no room" else 8
    u = np.eye(D)[-1]
    groups = [LeftOut(u, two_sided=False, angle=0.3, share=0.2, sd=1e-3)]
    others = () if why != "no room" else (replace(groups[0], direction=np.eye(D)[0]),)
    all_rows, rest = moments_with(
        np.eye(D)[-2] if why == "another axis" else u,
        D=D,
    )
    if why == "no shape":
        all_rows, rest = all_rows - rest + np.eye(D) / 10, np.eye(D) / 10
    less = Moment(rest, 0.1, 1e-6)
    sd = 0.055 if why == "noise" else 1e-6  # the edge is .055 · √4, and twice that is .22
    assert scatter_plan(groups, others, Moment(all_rows, 0.1, sd), less) is None
    if why == "noise":
        assert scatter_plan(groups, others, Moment(all_rows, 0.1, 0.045), less) is not None


@pytest.mark.parametrize("D", range(4, 40))
def test_rows_that_vary_alike_in_all_directions_have_no_shape(D):
    """Noise alone has none, and the mean of equal numbers may be rounded down."""
    group = LeftOut(np.eye(D)[0], two_sided=False, angle=0.3, share=0.2, sd=1e-3)
    rest = np.diag([0.0, *np.linspace(0.99, 1.01, D - 1) * 0.8 / (D - 1)])
    all_rows = rest + 0.2 * np.outer(group.direction, group.direction)
    moments = (Moment(matrix, 0.1, 0.01 / sqrt(D)) for matrix in (all_rows, rest))
    assert scatter_plan((group,), (), *moments) is None


def test_a_group_that_scatters_alike_stays_in_the_start():
    """Two groups on one line: only one is alike, so the moment without both misses its rows."""
    method, u = OutlierLook(8, 2), np.eye(8)[7]
    all_rows, rest = moments_with(u, share=0.4)
    groups = tuple(
        LeftOut(s * u, two_sided=False, angle=0.3, share=0.2, sd=1e-3) for s in (1.0, -1.0)
    )
    state = Rest(Allowance(1.0, 5000), Moment(all_rows, 0.1, 1e-6), groups, (0.0, 0.0))
    state = method.take(state, (Answer(rest, 1e-6),))
    assert isinstance(state, Scatter)
    ask = method.ask(state)
    assert (ask.shares, ask.through) == (((state.plan.query, 0.05),), ())
    assert ask.point is state.plan.point
    end = method.take(state, (Answer(np.array([[0.3, 0.01], [0.01, 0.3]]), 1e-6),))
    assert isinstance(end, NewMoment)
    assert end.screening.left_out == groups[:1]
    assert end.screening.spent == pytest.approx(0.42)
    none = method.take(state, (Answer(np.array([[0.01, 0.3], [0.01, 0.3]]), 1e-6),))
    assert (none.left_out, none.through) == ((), ())
    assert none.spent == pytest.approx(0.32)
    np.testing.assert_array_equal(none.moment.value, all_rows)


def test_the_start_has_the_rows_of_groups_that_stayed_before_the_scatter_was_asked_for():
    """A natural group along the strongest direction, and one that scatters unlike the others. Rows
    are divided, but the answer must be as precise as its noise: all rows are read."""
    method, e = OutlierLook(8, 2), np.eye(8)
    all_rows, rest = moments_with(e[7])
    natural, foreign = (
        LeftOut(u, two_sided=False, angle=0.3, share=0.2, sd=1e-3) for u in (e[0], e[7])
    )
    moment = Moment(all_rows + 0.2 * np.outer(e[0], e[0]), 0.1, 1e-6)
    groups, part = (natural, foreign), RowPart(4, 0)
    state = Rest(Allowance(1.0, 5000), moment, groups, (0.0, 0.0), part)
    state = method.take(state, (Answer(rest, 1e-6),))
    assert isinstance(state, Scatter)
    assert state.judged.foreign == (foreign,)
    assert state.plan.query.s == 2  # the natural group's rows are in the difference of moments, too
    assert method.ask(state).sampling == ALL
    end = method.take(state, (Answer(np.array([[0.3, 0.01]]), 1e-6),))
    assert isinstance(end, NewMoment)
    assert end.screening.left_out == (foreign,)
    assert end.screening.division == part
