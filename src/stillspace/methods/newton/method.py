"""What the damped Newton method asks for, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan, sqrt
from typing import ClassVar

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.newton.belief import LARGEST_CAP, Belief
from stillspace.methods.newton.states import (
    CHECKED_AFTER,
    FIRST_STEPS,
    LAST_STEPS,
    MATRIX_SHARE,
    MORE_STEPS,
    MOST_FIRST_STEPS,
    MOST_STEPS,
    SCALAR_SHARE,
    SHARPER,
    Comparison,
    Found,
    LastLook,
    Look,
    MeanLook,
    Moment,
    State,
    Steps,
)
from stillspace.methods.spectrum import Spectrum
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.queries import (
    Curvature,
    CurvatureMatrix,
    GeometricMedian,
    Glad,
    Query,
    SecondMoment,
)
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome

FIRST_LOOK = 0.1
"""Share of the first second moment."""
WEAK = 4.0
"""κ̂ below which the second moment gets everything: plain private PCA."""
TOP_UP = 6.0
"""The start gets the share TOP_UP/κ̂², if that is more than the first look's."""
MEAN_SHARE = 0.01
"""Of the mean of the rows, which a cluster of outliers has and centred inliers have not."""
CLEAR = 5.0
"""There is a mean if it is this many standard deviations off noise."""
AS_STRONG = ONE_SIDED = 0.2
"""What tells that it may be a cluster's (see `_may_be_cluster`)."""
COUNT_SHARE, COUNT_CAP, ENOUGH = 0.004, 0.1, 0.75
"""Of each of two counts of rows near the start with the mean and without, what near is, and which
part of the first the second must be."""
STILL_MOVES = 5.0
"""The first phase goes on while the gradient is this many standard deviations off noise."""

CUT_FROM, CUT, LARGEST_CUT = 5, 3.0, 0.75
"""After so many steps, rows farther away than min(CUT/s, LARGEST_CUT) are left out."""
LARGEST_PART, ALONE = 0.3, 1.25
"""The largest part of the curvature's cap (see `_part`), and what one direction's share counts."""
REOPENED = 0.05
"""What the error's variance grows by, over D − r, when the cut moves the optimum."""

JUDGED_AT, NOISY = 3, 2.2
"""After so many steps the mean weight 1/d tells a noisy table: below NOISY (see `_noisy`)."""
HOPELESS = 0.003
"""The d² above which steps on a noisy table could show nothing."""
SPLIT, SLIGHT = 0.3, 0.1
"""A direction with less than this part of the mean weight is held by other rows, unless it has less
than that part of the mean signal (see `_split`)."""
COMPARED_AT, AGREE = 10, 1.5
"""When steps on a noisy table are compared with the start, and how near is agreement."""
RELIABLE = 10.0
"""κ̂ from which on the steps' own estimate of their error is right to a factor of about two."""


@dataclass(frozen=True, slots=True)
class DampedNewton:
    """Private PCA start, then damped Newton steps on GLAD, the later ones without far rows."""

    D: int
    r: int
    name: ClassVar[str] = "private PCA, then damped Newton steps with a late cut"

    @property
    def n_components(self) -> int:
        """r."""
        return self.r

    @property
    def n_passes(self) -> int:
        """Three second moments, the mean, two counts, steps in vain, and the steps."""
        return 6 + JUDGED_AT + MOST_STEPS

    @property
    def coordinates(self) -> int:
        """The largest number of normals that a run may draw."""
        D, r = self.D, self.r
        step = D * r + 1 + r * (r + 1) // 2
        return 3 * (D * (D + 1) // 2) + D + 2 + (JUDGED_AT + MOST_STEPS) * step

    def begin(self, allowance: Allowance) -> State:
        """Return the state before the first release."""
        return Look(allowance, FIRST_LOOK)

    def ask(self, state: State) -> Ask | None:
        """Return what to release next."""
        if isinstance(state, Found):
            return None
        if isinstance(state, Look | LastLook):
            return Ask(np.empty((0, 0)), ((SecondMoment(self.D), state.share),))
        if isinstance(state, MeanLook):
            return Ask(np.zeros(self.D), ((GeometricMedian(self.D), MEAN_SHARE),))
        if isinstance(state, Comparison):
            aside = None if state.near is None else state.aside
            V = top_eigenvectors(state.moment.without(aside, self.r), self.r)
            return Ask(V, ((Curvature(self.D, self.r, COUNT_CAP), COUNT_SHARE),))
        D, r, cut, cap = self.D, self.r, state.cut, state.belief.cap
        gradient, scalar, matrix = state.shares
        queries: list[tuple[Query, float]] = [
            (Glad(D, r, cut=cut), gradient),
            (Curvature(D, r, cap, cut), scalar),
        ]
        if matrix > 0.0:
            queries.append((CurvatureMatrix(D, r, cap, cut), matrix))
        return Ask(state.belief.V, tuple(queries))

    def take(self, state: State, answers: tuple[Answer, ...]) -> State:
        """Return the state after a pass."""
        if isinstance(state, Steps):
            return self._stepped(state, answers)
        if isinstance(state, Look):
            return self._looked(state, answers[0])
        if isinstance(state, MeanLook):
            return self._saw_mean(state, answers[0])
        if isinstance(state, Comparison):
            return self._compared(state, answers[0])
        assert isinstance(state, LastLook)
        return self._looked_last(state, answers[0])

    def outcome(self, state: State) -> Outcome:
        """Return the subspace, what is believed of its error d², and the route taken."""
        assert isinstance(state, Found)
        facts = {"error_estimate": state.error, "route": state.route}
        return Outcome(state.V, state.moment.value, facts)

    # --- the start -------------------------------------------------------------------------

    def _looked(self, state: Look, answer: Answer) -> State:
        first = state.moment is None
        moment = (
            Moment(answer.value, state.share, answer.sd)
            if state.moment is None
            else state.moment.plus(answer, state.share)
        )
        spectrum = Spectrum.of(moment.value, moment.sd, self.r)
        kappa = spectrum.kappa / sqrt(moment.share)  # as if with the whole budget
        if first and kappa < WEAK:
            route = "private PCA: too weak a signal for steps"
            return LastLook(moment, 1.0 - moment.share, state.allowance.size, route)
        wanted = TOP_UP / kappa**2
        if first and wanted > moment.share:
            return Look(state.allowance, wanted - moment.share, moment)
        return MeanLook(state.allowance, moment)

    def _saw_mean(self, state: MeanLook, answer: Answer) -> State:
        """Where there is a mean, ask whether a start without it is nearly as good.

        Inliers around the origin have none; a cluster of outliers is nearly all mean.
        """
        squares = float(answer.value @ answer.value)
        surprise = (squares / answer.sd**2 - self.D) / sqrt(2.0 * self.D)
        if surprise >= CLEAR and self._may_be_cluster(state.moment, answer):
            return Comparison(state.allowance, state.moment, answer.value)
        return self._enter(state.allowance, state.moment, state.moment.share + MEAN_SHARE)

    def _may_be_cluster(self, moment: Moment, mean: Answer) -> bool:
        """Tell a cluster's mean from that of inliers that are not quite centred.

        Beside r directions there is one more, not much weaker; and rows that extend along the mean
        do so mostly on its side.
        """
        if self.r + 2 > self.D:
            return False
        *_, last, more = Spectrum.of(moment.value, moment.sd, self.r + 1).signal
        squares = float(mean.value @ mean.value)
        along = float(mean.value @ moment.value @ mean.value) / squares
        one_sided = squares - self.D * mean.sd**2 >= ONE_SIDED * along
        return bool(more >= AS_STRONG * last and one_sided)

    def _compared(self, state: Comparison, answer: Answer) -> State:
        """Set the mean aside if enough rows are near without it, by two standard deviations."""
        if state.near is None:
            return replace(state, near=answer)
        near, left, sd = float(state.near.value), float(answer.value), answer.sd
        better = left > near + 2.0 * sqrt(2.0) * sd
        enough = left > ENOUGH * near + 2.0 * sqrt(1.0 + ENOUGH**2) * sd
        aside = state.aside if better or (enough and self.r > 1) else None
        spent = state.moment.share + MEAN_SHARE + 2 * COUNT_SHARE
        return self._enter(state.allowance, state.moment, spent, aside, better=better)

    def _enter(
        self, allowance: Allowance, moment: Moment, spent: float, aside: FloatArray | None = None,
        *, better: bool = False,
    ) -> Steps:  # fmt: skip
        D, r = self.D, self.r
        scalar, matrix = SCALAR_SHARE, MATRIX_SHARE if r > 1 else 0.0
        variance = moment.sd**2 / 2.0  # of the noise between two directions
        start = moment.without(aside, r)
        V, spectrum = top_eigenvectors(start, r), Spectrum.of(start, moment.sd, r)
        return Steps(
            allowance,
            moment,
            aside,
            better,
            V,
            weight_unit=float(spectrum.signal.sum() + r * spectrum.bulk),
            weakest_unit=float(spectrum.signal[-1] + spectrum.bulk),
            pca_error=(D - r) * variance * moment.share * float(np.sum(spectrum.signal**-2.0)),
            kappa=spectrum.kappa / sqrt(moment.share),
            parts=(1.0 - spent - scalar - matrix, scalar, matrix),
            belief=Belief.at(
                V,
                0.1 / (D - r) + variance / float(spectrum.signal[-1]) ** 2,
                part=self._part(allowance, spectrum.signal),
            ),
            spent=spent,
            cut=inf if aside is None else LARGEST_CUT,  # the cluster is far, and heavy
        )

    def _part(self, allowance: Allowance, signal: FloatArray) -> float:
        """Return the share of near rows from which on the curvature can grow.

        Half of the signal is enough, but neither one direction alone nor noise.
        """
        query = Curvature(self.D, self.r, LARGEST_CAP)
        noise = allowance.sd(query, SCALAR_SHARE / (FIRST_STEPS + LAST_STEPS))
        alone = ALONE * float(signal[0]) if self.r > 1 else 0.0
        return min(LARGEST_PART, max(float(signal.sum()) / 2.0, alone, 3.0 * noise))

    def _looked_last(self, state: LastLook, answer: Answer) -> Found:
        """Return private PCA; where steps agreed with it, both, weighed by their errors."""
        moment = state.moment.plus(answer, state.share)
        left = moment.without(state.aside, self.r)
        V, steps = top_eigenvectors(left, self.r), state.steps
        if steps is not None:
            errors = steps.pca_error / moment.share, self._error(steps.belief.P)
            part = errors[0] / (errors[0] + errors[1])
            other = steps.belief.V
            V = top_eigenvectors((1.0 - part) * (V @ V.T) + part * (other @ other.T), self.r)
        error = Spectrum.of(left, moment.sd, self.r, state.size).pca_error
        return Found(V, moment, error, state.route)

    # --- the steps -------------------------------------------------------------------------

    def _stepped(self, state: Steps, answers: tuple[Answer, ...]) -> State:
        belief, surprise = state.belief.after(answers)
        spent = state.spent + sum(state.shares)
        state = replace(state, belief=belief, k=state.k + 1, spent=spent)
        if state.k == JUDGED_AT and self._noisy(state):
            if state.aside is not None and not state.better:  # start again with the mean
                return self._enter(state.allowance, state.moment, state.spent)
            return self._doubted(state)
        if state.k >= CUT_FROM or state.doubt:
            state = self._cut(state)
        if state.doubt and state.k == COMPARED_AT:
            if self._agrees(state):
                route = "private PCA and steps: a noisy table without visible outliers"
                return self._back(state, route, state)
            state = replace(state, doubt=False, route="newton: a noisy table with outliers")
        return self._next_phase(state, surprise)

    def _doubted(self, state: Steps) -> State:
        """Go back at once, or begin the cut and compare later."""
        if self._hopeless(state):
            route = "private PCA: a noisy table, and too little budget to see outliers"
            return self._back(state, route)
        return self._cut(replace(state, doubt=True))

    def _back(self, state: Steps, route: str, steps: Steps | None = None) -> LastLook:
        left = 1.0 - state.spent
        return LastLook(state.moment, left, state.allowance.size, route, steps, state.aside)

    def _cut(self, state: Steps) -> Steps:
        """Leave far rows out from now on; the optimum moves when that begins."""
        belief = state.belief
        if state.cut == inf:
            belief = belief.reopened(REOPENED / (self.D - self.r))
        return replace(state, belief=belief, cut=min(CUT / belief.s, LARGEST_CUT))

    def _noisy(self, state: Steps) -> bool:
        """Tell a noisy table by its mean weight w = 1/d.

        PCA's gradient has terms `Qx yᵀ` of norm at most ½, GLAD's are 1/d times as large and at
        most 1: at w = 2 a step tells as much as a second moment.
        """
        return state.belief.s < NOISY * state.weight_unit

    def _hopeless(self, state: Steps) -> bool:
        """Whether steps would be too imprecise to show that outliers moved the start."""
        w = state.belief.s / state.weight_unit
        return (2.0 / w) ** 2 * state.pca_error > HOPELESS

    def _agrees(self, state: Steps) -> bool:
        """Whether steps and start differ by no more than their own errors."""
        apart = subspace_error(state.belief.V.T, state.start.T)
        return apart < AGREE * (self._error(state.belief.P) + state.pca_error / state.moment.share)

    def _split(self, state: Steps) -> bool:
        """Whether different rows hold different directions: a cluster took some of them.

        Inliers near one subspace have about the same mean weight 1/d along all of its directions,
        unless they hardly vary along some: on the sphere the rows that do are noisier ones.
        """
        weakest, mean = state.belief.weakest / state.weakest_unit, state.weight_unit / self.r
        slight = state.weakest_unit < SLIGHT * mean
        return not slight and weakest < SPLIT * state.belief.s / state.weight_unit

    def _sharpens(self, state: Steps) -> bool:
        """Whether the curvature has grown as it does near noiseless inliers: as 1/error."""
        assert state.check is not None
        at, before = state.check
        return state.k == at and state.belief.s > SHARPER * before

    def _next_phase(self, state: Steps, surprise: float) -> State:
        k, moves = state.k, surprise >= STILL_MOVES
        if state.end is None:
            goes_on = k < FIRST_STEPS or state.doubt or (moves and k < MOST_FIRST_STEPS)
            if goes_on:
                return state
            if self._split(state):
                return self._back(state, "private PCA: different rows hold different directions")
            check = k + CHECKED_AFTER, state.belief.s
            return replace(state, end=k + LAST_STEPS, check=check)
        if moves and self._sharpens(state):
            return replace(state, end=k + MORE_STEPS)
        if k < state.end:
            return state
        n, s = state.allowance.size, state.belief.s
        error = self._error(state.belief.P) + 0.8 * self.r**2 / (n * s**2)
        if state.kappa < RELIABLE:
            error = nan
        return Found(state.belief.V, state.moment, error, state.route)

    def _error(self, P: FloatArray) -> float:
        return float((self.D - self.r) * np.trace(P))
