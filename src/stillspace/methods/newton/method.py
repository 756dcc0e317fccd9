"""What the damped Newton method asks for, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot, inf, nan, sqrt

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.division import DIVISION, DivisionRule
from stillspace.methods.newton.belief import Belief
from stillspace.methods.newton.routes import (
    BOTH,
    FLAT,
    HOPELESS_TABLE,
    NO_SIGNAL,
    NOISY_TABLE,
    SPLIT_ROWS,
    WEAK_SIGNAL,
    filled_cells,
    noise_alone,
    with_reason,
)
from stillspace.methods.newton.rule import NEWTON_RULE, NewtonRule
from stillspace.methods.newton.spread import Across, Spread
from stillspace.methods.newton.states import (
    Counting,
    Found,
    LastMoment,
    Looking,
    NewtonState,
    Steps,
    TopUp,
)
from stillspace.methods.outlier_look import LookState, OutlierLook, Screening
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import polar
from stillspace.parts.queries import (
    Curvature,
    CurvatureMatrix,
    Glad,
    IncompleteRows,
    Query,
    SecondMoment,
)
from stillspace.parts.sampling import RowPart
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome
from stillspace.plans.ledger import ALL
from stillspace.rows.maps import Affine


@dataclass(frozen=True, slots=True)
class DampedNewton:
    """Private PCA start, then damped Newton steps on GLAD, the later ones without far rows."""

    D: int
    r: int

    @property
    def name(self) -> str:
        filled = "" if self.affine is None else ", with missing cells filled in the later steps"
        return f"private PCA, then damped Newton steps with a late cut{filled}"

    @property
    def n_components(self) -> int:
        return self.r

    look: OutlierLook | None = None
    """The look for outliers before the steps; None means the standard one."""
    rule: NewtonRule = NEWTON_RULE
    """All tuned numbers."""

    division: DivisionRule = DIVISION
    """When the look and the first phase read parts of the rows."""

    affine: Affine | None = None
    """Centre, scale and missing cells of the rows, if later steps are to fill these cells from the
    subspace found so far; None: they stay at the centre."""

    @property
    def _look(self) -> OutlierLook:
        if self.look is None:
            return OutlierLook(self.D, self.r, division=self.division)
        return self.look

    @property
    def n_passes(self) -> int:
        """The look, two more second moments, a count, steps in vain, and the steps."""
        count = self.affine is not None
        return self._look.n_passes + 2 + count + self.rule.settled + self.rule.most_steps

    @property
    def coordinates(self) -> int:
        D, r = self.D, self.r
        step = D * r + 1 + r * (r + 1) // 2
        others = 2 * (D * (D + 1) // 2) + (self.affine is not None)
        return self._look.coordinates + others + (self.rule.settled + self.rule.most_steps) * step

    def at(self, point: FloatArray) -> DampedNewton:
        """Return the method, told the centre and the scale (2, D) that its rows have."""
        affine = self.affine
        if affine is not None:
            center, scale = map(FrozenArray.of, point)
            affine = replace(
                affine, center=center, scale=None if np.all(point[1] == 1.0) else scale
            )
        return replace(self, look=self._look.at(point), affine=affine)

    def begin(self, allowance: Allowance) -> NewtonState:
        return Looking(allowance, self._look.begin(allowance))

    def ask(self, state: NewtonState) -> Ask | None:
        """Return what to release next: after the look, of the rows that it did not leave out."""
        if isinstance(state, Found):
            return None
        if isinstance(state, Looking):
            return self._look.ask(state.look)
        if isinstance(state, Counting):
            assert self.affine is not None
            missing, holes = self.affine.missing, self.affine.holes
            count = IncompleteRows(self.D, missing, holes), self.rule.holes_share
            return Ask(np.empty((0, 0)), (count,), whole=True)
        screening = state.screening
        if isinstance(state, TopUp | LastMoment):
            return screening.ask(np.empty((0, 0)), (SecondMoment(self.D), state.share))
        D, r, cut, cap = self.D, self.r, state.cut, state.belief.cap
        gradient, scalar, matrix = state.shares
        queries: list[tuple[Query, float]] = [
            (Glad(D, r, cut=cut), gradient),
            (Curvature(D, r, cap, cut), scalar),
        ]
        if matrix > 0.0:
            queries.append((CurvatureMatrix(D, r, cap, cut), matrix))
        return screening.ask(state.belief.V, *queries, sampling=state.sampling)

    def take(self, state: NewtonState, answers: tuple[Answer, ...]) -> NewtonState:
        if isinstance(state, Steps):
            return self._with_cells(self._stepped(state, answers))
        if isinstance(state, Counting):
            return self._counted(state.steps, answers[0])
        if isinstance(state, Looking):
            look = self.after_look(state, answers)
            if isinstance(look, Screening):
                return self.enter(state.allowance, look)
            return replace(state, look=look)
        if isinstance(state, TopUp):
            screening = state.screening.plus(answers[0], state.share)
            return self._step_from(state.allowance, screening)
        assert isinstance(state, LastMoment)
        return self._end_with_pca(state, answers[0])

    def outcome(self, state: NewtonState) -> Outcome:
        """Return the subspace, what is believed of its error d², the route, what was left out."""
        assert isinstance(state, Found)
        return state.screening.outcome(state.V, error_estimate=state.error, route=state.route)

    # --- the start -------------------------------------------------------------------------

    def after_look(self, state: Looking, answers: tuple[Answer, ...]) -> LookState:
        """Return the state of the look after a pass."""
        return self._look.take(state.look, answers)

    def enter(self, allowance: Allowance, screening: Screening) -> NewtonState:
        """Go to private PCA where the signal is weak; else to the steps, from a good start."""
        moment = screening.moment
        spectrum = moment.spectrum(self.r)
        kappa = spectrum.kappa / sqrt(moment.share)  # as if with the whole budget
        if kappa < self.rule.weak:
            return LastMoment(screening, 1.0 - screening.spent, WEAK_SIGNAL)
        wanted = self.rule.top_up / kappa**2 - moment.share
        if wanted > 0.0:  # and where units were found again, half is left for the steps
            return TopUp(allowance, screening, min(wanted, (1.0 - screening.spent) / 2.0))
        return self._step_from(allowance, screening)

    def _step_from(self, allowance: Allowance, screening: Screening) -> Steps:
        D, r, moment = self.D, self.r, screening.moment
        left = 1.0 - screening.spent
        scalar = min(self.rule.curvature_share, self.rule.most_curvature * left)
        matrix = scalar if r > 1 else 0.0
        variance = moment.sd**2 / 2.0  # of the noise between two directions
        V, spectrum = moment.leading(r), moment.spectrum(r)
        spread = Spread.at(spectrum, moment.sd)
        across = Across.of(moment.leading(min(r + self.rule.leading, D))[:, r:], spectrum)
        others = variance / float(spectrum.signal[-1]) ** 2 * np.eye(r)
        P = np.concatenate([spread.covariances[: len(across.near) - 1], others[None]])
        part = self._part(allowance, spectrum.signal, scalar)
        steps = Steps(
            allowance,
            screening,
            V,
            spectrum,
            parts=(left - scalar - matrix, scalar, matrix),
            belief=Belief.at(V, P, part, across, spectrum.squares, self.rule).reopened(),
            spread=spread,
            spent=screening.spent,
            rule=self.rule,
            sampling=screening.division,
        )
        return steps if steps.divisible else replace(steps, sampling=ALL)

    def _part(self, allowance: Allowance, signal: FloatArray, scalar: float) -> float:
        """Return the share of near rows from which on the curvature can grow.

        Half of the signal is enough, but neither one direction alone nor noise. `scalar` is the
        share of μ² of the curvature in all steps together.
        """
        query = Curvature(self.D, self.r, self.rule.largest_cap)
        noise = allowance.sd(query, scalar / (self.rule.first_steps + self.rule.last_steps))
        alone = self.rule.alone * float(signal[0]) if self.r > 1 else 0.0
        least = max(float(signal.sum()) / 2.0, alone, self.rule.sure * noise)
        return min(self.rule.largest_part, least)

    def _end_with_pca(self, state: LastMoment, answer: Answer) -> Found:
        """Return private PCA; where steps agreed with it, both, weighed by their errors."""
        screening = state.screening.plus(answer, state.share)
        moment, steps = screening.moment, state.steps
        V, error = moment.leading(self.r), moment.spectrum(self.r).pca_error(moment.sd)
        if steps is not None:
            part = error / (error + steps.spread.error)
            error = (1.0 - part) ** 2 * error + part**2 * steps.spread.error
            V = _between(V, steps.belief.V, part)
        if state.route == WEAK_SIGNAL:
            return Found(V, screening, error, state.route)
        return Found(V, screening, nan, with_reason(state.route, noise_alone(error)))

    # --- the steps -------------------------------------------------------------------------

    def _stepped(self, state: Steps, answers: tuple[Answer, ...]) -> NewtonState:
        step = state.belief.after(self._with_sampling_error(state, answers))
        gains = step.belief.across.every(step.gain, self.D - self.r)
        spread = state.spread.after(step.axes, gains, answers[0].sd)
        spent = state.spent + state.cost
        state = replace(state, belief=step.belief, spread=spread, k=state.k + 1, spent=spent)
        if isinstance(state.sampling, RowPart):
            number = state.k % state.sampling.parts
            state = replace(state, sampling=replace(state.sampling, number=number))
        if state.k == self.rule.settled and self._noisy(state):
            return self._judge_noisy(state)
        if state.k >= self.rule.cut_from:
            state = self._cut(state)
        if state.doubt and state.k == self.rule.compared_at:
            if self._agrees(state):
                return self._back(state, BOTH, state)
            state = replace(state, doubt=False, route=NOISY_TABLE)
        return self._next_phase(state, step.surprise)

    def _with_sampling_error(self, state: Steps, answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
        """Return the answers of a part of the rows, with what other rows would have changed.

        A term of the gradient has norm at most 1: over m rows the entries of its mean vary by at
        most 1/√(m(D − r)r).
        """
        if not isinstance(state.sampling, RowPart):
            return answers
        m = state.sampling.expected_size(state.allowance.size)
        sampling = 1.0 / sqrt(m * (self.D - self.r) * self.r)
        gradient = replace(answers[0], sd=hypot(answers[0].sd, sampling))
        return gradient, *answers[1:]

    def _judge_noisy(self, state: Steps) -> NewtonState:
        """Go back at once, compare later, or go on: a group that was left out speaks for itself."""
        if self._hopeless(state):
            return self._back(state, HOPELESS_TABLE)
        state = self._read_all(state)
        if state.screening.left_out:
            return replace(state, route=NOISY_TABLE)
        return replace(state, doubt=True)

    def _back(self, state: Steps, route: str, steps: Steps | None = None) -> LastMoment:
        return LastMoment(state.screening, 1.0 - state.spent, route, steps)

    def _cut(self, state: Steps) -> Steps:
        """Leave far rows out from now on, except in a noisy table, where inliers are far, too.

        The optimum moves when that begins.
        """
        belief = state.belief
        if self._noisy(state):
            return replace(state, cut=inf)
        if state.cut == inf:
            belief = belief.reopened()
        return replace(state, belief=belief, cut=self.rule.cut / belief.s)

    def _noisy(self, state: Steps) -> bool:
        """Whether a second moment tells more than gradients with the same share of μ²."""
        return state.gradient_error > state.pca_error

    def _hopeless(self, state: Steps) -> bool:
        """Whether steps would be too imprecise to show that outliers moved the start."""
        return state.gradient_error > self.rule.hopeless

    def _agrees(self, state: Steps) -> bool:
        """Whether steps and start differ by no more than their own errors."""
        apart, moment = subspace_error(state.belief.V.T, state.start.T), state.screening.moment
        return apart < state.spread.error + state.spectrum.pca_error(moment.sd)

    def _split(self, state: Steps) -> bool:
        """Whether different rows hold different directions: a cluster took some of them.

        Inliers near one subspace have about the same mean weight 1/d along all of its directions,
        unless they hardly vary along some: on the sphere the rows that do are noisier ones.
        """
        squares = state.spectrum.squares
        slight = squares[-1] < self.rule.slight * squares.mean()
        weakest, weight = state.belief.weakest / squares[-1], state.belief.s / squares.sum()
        return bool(not slight and weakest < self.rule.split * weight)

    def _sharpens(self, state: Steps) -> bool:
        """Whether the curvature has grown as it does near noiseless inliers: as 1/error."""
        assert state.check is not None
        return state.belief.s > self.rule.sharper * state.check[1]

    def _next_phase(self, state: Steps, surprise: float) -> NewtonState:
        k, moves = state.k, surprise >= self.rule.sure
        if state.end is None:
            return state if self._first_goes_on(state, moves) else self._after_first(state)
        assert state.check is not None
        if k == state.check[0]:
            few = self.rule.last_few - state.widened  # large tables: each step takes long
            more = self.rule.more_steps if moves and self._sharpens(state) else few
            return replace(state, end=k + more)
        if k < state.end:
            return state
        return self._found(state)

    def _first_goes_on(self, state: Steps, moves: bool) -> bool:
        """Whether the first phase has another step; one follows it that reads all rows.

        Where little is left (units found again, a weak signal), a step must leave as much again.
        """
        if state.doubt or state.widened:
            return state.doubt
        k, rule = state.k, self.rule
        left = 2.0 * state.cost <= 1.0 - state.spent
        return k < rule.first_steps or (moves and left and k < rule.most_first_steps)

    def _after_first(self, state: Steps) -> NewtonState:
        """Begin the second phase, or make one more step of the first that reads all rows."""
        if state.sampling != ALL:
            return self._read_all(state)
        if self._split(state):
            return self._back(state, SPLIT_ROWS)
        # the step over all rows between the phases counts
        check = state.k + self.rule.settled - state.widened, state.belief.s
        return replace(state, end=state.k + self.rule.last_steps, check=check)

    def _with_cells(self, state: NewtonState) -> NewtonState:
        """Fill missing cells from the subspace found so far, if rows were seen to have some."""
        if self.affine is None or not isinstance(state, Steps):
            return state
        if state.k == self.rule.cut_from:
            return Counting(state)
        if state.incomplete == 0.0:
            return state
        return replace(state, screening=state.screening.filled(self.affine, state.belief.V))

    def _counted(self, state: Steps, answer: Answer) -> NewtonState:
        """Begin to fill missing cells, if there are any: the optimum moves."""
        share = float(answer.value)
        state = replace(state, spent=state.spent + self.rule.holes_share)
        if share <= self.rule.sure * answer.sd:
            return state
        assert self.affine is not None
        belief = state.belief.reopened()
        screening = state.screening.filled(self.affine, belief.V)
        return replace(state, belief=belief, screening=screening, incomplete=min(share, 1.0))

    def _read_all(self, state: Steps) -> Steps:
        """Go over to all rows, whose optimum is another than that of some of them."""
        if state.sampling == ALL:
            return state
        belief = state.belief.reopened()
        return replace(state, belief=belief, sampling=ALL, widened=True)

    def _found(self, state: Steps) -> Found:
        """Return where the steps ended, with their error or the reason why it is not known."""
        reason = ""
        if state.kappa < self.rule.reliable:
            reason = NO_SIGNAL
        elif state.spread.flattest(state.belief.axes) < self.rule.flattest:
            reason = FLAT
        elif state.incomplete > 0.0:
            reason = filled_cells(state.incomplete)
        error = nan if reason else state.spread.error
        route = with_reason(state.route, reason) if reason else state.route
        return Found(state.belief.V, state.screening, error, route)


def _between(V: FloatArray, other: FloatArray, part: float) -> FloatArray:
    """Return the leading eigenvectors of `(1 − part) VVᵀ + part WWᵀ`, W the other basis.

    They lie in the span of both: the singular vectors of `[√(1 − part) V, √part W]`.
    """
    both = np.hstack([sqrt(1.0 - part) * V, sqrt(part) * other])
    U, _, _ = np.linalg.svd(both, full_matrices=False)
    return polar(U[:, : V.shape[1]])
