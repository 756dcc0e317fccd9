"""What the look for outliers asks for, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.division import DIVISION, DivisionRule
from stillspace.methods.outlier_look.caps import Gap, LeftOut, caps_of, clear_gaps, loose_gaps
from stillspace.methods.outlier_look.modes import elliptical_moments, gathering_directions
from stillspace.methods.outlier_look.natural import is_foreign
from stillspace.methods.outlier_look.rule import LOOK_RULE, LookRule
from stillspace.methods.outlier_look.scatter import ScatterPlan, scatter_plan
from stillspace.methods.outlier_look.units import UnitsAgain
from stillspace.methods.spectrum import Moment
from stillspace.methods.standardiser.method import StandardiserState
from stillspace.parts.queries import AngleCounts, FourthMoment, Glad, Query, SecondMoment
from stillspace.parts.sampling import All, RowPart
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome
from stillspace.plans.ledger import ALL
from stillspace.rows.maps import Affine, Caps, Fill, RowMap, Sphere, View, Without, affine_of


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """The second moment of all rows is asked for."""

    allowance: Allowance


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """The fourth moments along the leading directions are asked for."""

    allowance: Allowance
    moment: Moment
    basis: FloatArray
    """(D, K)."""
    division: All | RowPart = ALL
    """Part 0 of the rows, if they are divided."""
    read: All | RowPart = ALL
    """Which rows are asked about."""


@dataclass(frozen=True, slots=True, eq=False)
class Angles:
    """The angles to the directions in which rows gather are counted."""

    allowance: Allowance
    moment: Moment
    directions: FloatArray
    """(D, m), unit vectors as columns."""
    division: All | RowPart = ALL
    read: All | RowPart = ALL

    @property
    def overlap(self) -> float:
        """√A, A the largest eigenvalue of the directions' Gram matrix."""
        return float(np.linalg.norm(self.directions, 2))


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """The second moment of the rows outside the groups found is asked for."""

    allowance: Allowance
    moment: Moment
    groups: tuple[LeftOut, ...]
    means: tuple[float, ...]
    """Of each group: the mean of the rows outside it, along its direction."""
    division: All | RowPart = ALL


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What is known once the rows outside all groups were seen."""

    allowance: Allowance
    moment: Moment
    """Of all rows."""
    rest: Moment
    """Of the rows outside all groups."""
    foreign: tuple[LeftOut, ...]
    """The groups that may be left out."""
    some_stay: bool
    """Whether other groups were found, which stay."""
    division: All | RowPart


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """How the rows of groups scatter about their axes is asked for."""

    judged: Judged
    plan: ScatterPlan


@dataclass(frozen=True, slots=True, eq=False)
class NewUnits:
    """Centre and scale of the rows outside the groups are asked for."""

    screening: Screening
    """The end, as it would be with the units that the rows have."""
    share: float
    """Share of μ² of the whole standardiser."""
    inner: StandardiserState


@dataclass(frozen=True, slots=True, eq=False)
class NewMoment:
    """The second moment of the rows that are kept is asked for: units or kept groups changed."""

    screening: Screening
    """The end, but for the moment."""


@dataclass(frozen=True, slots=True, eq=False)
class Screening:
    """The end: what is left out, and the second moment that the fit starts from."""

    moment: Moment
    """Of the rows outside the region."""
    left_out: tuple[LeftOut, ...]
    spent: float
    """Share of μ² of all releases of the look, that of the moment included."""
    through: View = ()
    """The row map that leaves them out, if there is anything to leave out."""
    whole: bool = False
    """Whether `through` is all that is done to a raw row: units were found again, or missing cells
    are filled."""
    dropped: npt.NDArray[np.bool_] | None = None
    """Columns without units, if units were found again."""
    division: All | RowPart = ALL
    """Part 0 of the rows, if later passes may read parts of them."""

    def plus(self, answer: Answer, share: float) -> Screening:
        """Return this with one release more of the second moment of the rows outside."""
        return replace(self, moment=self.moment.plus(answer, share), spent=self.spent + share)

    def filled(self, affine: Affine, V: FloatArray) -> Screening:
        """Return this with missing cells filled from a basis; rows have the units of `affine`.

        Rows that are left out are told from the others as they were before.
        """
        first: tuple[RowMap, ...] = ()
        for row_map in self.through:
            if isinstance(row_map, Caps):
                first = (Without(affine, row_map),)
            elif isinstance(row_map, Without):
                first = (row_map,)
        units = affine_of(self.through) if self.whole else affine
        view = (*first, units, Fill(FrozenArray.of(V), weighed=True), Sphere())
        return replace(self, through=view, whole=True)

    def ask(
        self, point: FloatArray, *shares: tuple[Query, float], sampling: All | RowPart = ALL
    ) -> Ask:
        """Return a pass over the rows outside."""
        return Ask(point, shares, self.through, self.whole, sampling)

    def outcome(self, V: FloatArray, **facts: Any) -> Outcome:
        """Return what was found of the rows outside, with what was left out."""
        facts |= {"left_out": self.left_out}
        if self.dropped is not None:
            facts |= {"dropped": self.dropped}
        # summaries see filled rows at their full length
        view = tuple(
            replace(row_map, weighed=False) if isinstance(row_map, Fill) else row_map
            for row_map in self.through
        )
        return Outcome(V, self.moment.value, facts, view, self.whole)


LookState: TypeAlias = First | Modes | Angles | Rest | Scatter | NewUnits | NewMoment | Screening


@dataclass(frozen=True, slots=True)
class OutlierLook:
    """Second moment, modes, angles and, where groups are found, the second moment without them."""

    D: int
    r: int
    """Number of components, or the largest number that may be chosen."""
    choose: bool = False
    """Whether the number of components is chosen by the second moment."""
    rule: LookRule = LOOK_RULE
    division: DivisionRule = DIVISION
    leave_out: bool = True
    """Whether groups are looked for; otherwise all rows are kept, and nothing is spent on it."""
    units: UnitsAgain | None = None
    """How centre and scale are found again if a group is left out; None: they are kept."""
    name: ClassVar[str] = "a look for groups of outliers on the sphere"

    @property
    def n_components(self) -> int:
        return self.r

    @property
    def n_passes(self) -> int:
        """Three second moments, modes, angles and scatter; units, if they are found again."""
        return 6 + (0 if self.units is None else self.units.standardiser.n_passes)

    @property
    def coordinates(self) -> int:
        fourth = FourthMoment(self.D, self._width).noise.coordinates
        most = self.rule.most_modes
        angles = most * self.rule.bins + 2 * 2 * most  # and two numbers for each side's scatter
        moment = self.D * (self.D + 1) // 2
        again = 0 if self.units is None else self.units.standardiser.coordinates
        return 3 * moment + fourth + angles + again

    @property
    def _width(self) -> int:
        return min(self.r + self.rule.more_directions, self.D)

    def smallest_visible(self, allowance: Allowance) -> float:
        """Return the share from which on a tight group stands out of the noise: a public number."""
        sd = allowance.sd(AngleCounts(self.D, 1, self.rule.bins), self.rule.angles_share)
        return self.rule.sure * sqrt(2.0 * self.rule.block) * sd

    def at(self, point: FloatArray) -> OutlierLook:
        """Return the look, told the centre and the scale (2, D) that its rows have."""
        return self if self.units is None else replace(self, units=self.units.at(point))

    def begin(self, allowance: Allowance) -> LookState:
        return First(allowance)

    def ask(self, state: LookState) -> Ask | None:
        rule, nowhere = self.rule, np.empty((0, 0))
        if isinstance(state, First):
            return Ask(nowhere, ((SecondMoment(self.D), rule.moment_share),))
        if isinstance(state, Modes):
            query = FourthMoment(self.D, state.basis.shape[1])
            return Ask(state.basis, ((query, rule.modes_share),), sampling=state.read)
        if isinstance(state, Angles):
            m = state.directions.shape[1]
            point = state.directions / state.overlap
            angles = AngleCounts(self.D, m, rule.bins)
            return Ask(point, ((angles, rule.angles_share),), sampling=state.read)
        if isinstance(state, Rest):
            rest = SecondMoment(self.D)
            return Ask(nowhere, ((rest, rule.moment_share),), (caps_of(state.groups),))
        if isinstance(state, Scatter):
            return Ask(state.plan.point, ((state.plan.query, rule.scatter_share),))
        return self._ask_again(state)

    def _ask_again(self, state: LookState) -> Ask | None:
        """Return what to release after a group was left out, if anything."""
        if isinstance(state, NewUnits):
            return self._ask_units(state)
        if isinstance(state, NewMoment):
            moment = SecondMoment(self.D)
            return state.screening.ask(np.empty((0, 0)), (moment, self.rule.moment_share))
        return None

    def _ask_units(self, state: NewUnits) -> Ask:
        """Return a look of the standardiser at the rows outside the groups, as they are."""
        assert self.units is not None
        ask = self.units.standardiser.ask(state.inner)
        assert ask is not None
        shares = tuple((query, state.share * share) for query, share in ask.shares)
        return Ask(ask.point, shares, (self._without(state.screening),), whole=True)

    def _without(self, screening: Screening) -> Without:
        assert self.units is not None
        return Without(self.units.before, caps_of(screening.left_out))

    def take(self, state: LookState, answers: tuple[Answer, ...]) -> LookState:
        (answer,) = answers
        if isinstance(state, First):
            return self._saw_moment(state, answer)
        if isinstance(state, Modes):
            return self._saw_modes(state, answer)
        if isinstance(state, Angles):
            return self._saw_angles(state, answer)
        if isinstance(state, Rest):
            return self._saw_rest(state, answer)
        if isinstance(state, Scatter):
            return self._saw_scatter(state, answer)
        return self._took_again(state, answer)

    def _took_again(self, state: LookState, answer: Answer) -> LookState:
        """Go on after a group was left out."""
        if isinstance(state, NewUnits):
            return self._saw_units(state, answer)
        assert isinstance(state, NewMoment)
        moment = Moment(answer.value, self.rule.moment_share, answer.sd)
        return replace(state.screening, moment=moment)

    def outcome(self, state: LookState) -> Outcome:
        """Return the leading directions of the rows that are kept, and what is left out."""
        assert isinstance(state, Screening)
        return state.outcome(state.moment.leading(self.r), screening=state)

    def _saw_moment(self, state: First, answer: Answer) -> LookState:
        """Go on where directions and a minority's share can be told from noise."""
        rule, allowance = self.rule, state.allowance
        moment = Moment(answer.value, rule.moment_share, answer.sd)
        r = self._components(moment)
        kappa = moment.spectrum(r).kappa / sqrt(moment.share)
        queries = Glad(self.D, r), FourthMoment(self.D, self._width)
        division = self.division.first_part(allowance, moment, r, *queries)
        visible = self.smallest_visible(allowance)
        if not self.leave_out or kappa < rule.weak or visible > rule.minority:
            return Screening(moment, (), moment.share, division=division)
        read: All | RowPart = ALL
        if isinstance(division, RowPart):
            read = division if visible * division.parts <= self.division.smallest_group else ALL
        return Modes(allowance, moment, moment.leading(self._width), division, read)

    def _saw_modes(self, state: Modes, answer: Answer) -> LookState:
        """Choose the directions along which there are more rows than in an elliptical law."""
        rule, basis = self.rule, state.basis
        values = (basis * (state.moment.value @ basis)).sum(axis=0)
        excess = answer.value - elliptical_moments(values)
        least = rule.sure / 2.0 * answer.sd
        modes = gathering_directions(excess, rule.apart, rule.most_modes, least)
        if modes.shape[1] == 0:
            spent = state.moment.share + rule.modes_share
            return Screening(state.moment, (), spent, division=state.division)
        directions = basis @ modes
        return Angles(state.allowance, state.moment, directions, state.division, state.read)

    def _saw_angles(self, state: Angles, answer: Answer) -> LookState:
        """Take groups behind an empty ring for outliers, for now; if there are none, loose ones."""
        rule, scale = self.rule, state.overlap
        size = state.read.expected_size(state.allowance.size)
        counts, sd = scale * answer.value, scale * answer.sd
        gaps = clear_gaps(counts, sd, size, rule, self.r) or loose_gaps(counts, sd, size, rule)
        if not gaps:
            spent = state.moment.share + rule.modes_share + rule.angles_share
            return Screening(state.moment, (), spent, division=state.division)
        groups = tuple(_group(gap, state.directions, rule) for gap in gaps)
        means = tuple(gap.mean for gap in gaps)
        return Rest(state.allowance, state.moment, groups, means, state.division)

    def _saw_rest(self, state: Rest, answer: Answer) -> LookState:
        """Keep the groups that look natural; ask how the others scatter, if that can tell more."""
        rest = Moment(answer.value, self.rule.moment_share, answer.sd)
        foreign: list[LeftOut] = []
        stay: list[LeftOut] = []
        for group, mean in zip(state.groups, state.means, strict=True):
            (foreign if is_foreign(group, mean, rest, self.rule) else stay).append(group)
        facts = state.allowance, state.moment, rest
        judged = Judged(*facts, tuple(foreign), bool(stay), state.division)
        plan = scatter_plan(foreign, stay, state.moment, rest) if foreign else None
        return self._left_out(judged) if plan is None else Scatter(judged, plan)

    def _saw_scatter(self, state: Scatter, answer: Answer) -> LookState:
        """Keep the groups whose rows scatter as the other rows do."""
        judged = state.judged
        alike = state.plan.alike(judged.foreign, answer.value, answer.sd, self.rule)
        foreign = tuple(g for g, same in zip(judged.foreign, alike, strict=True) if not same)
        stay = judged.some_stay or any(alike)
        judged = replace(judged, foreign=foreign, some_stay=stay)
        return self._left_out(judged, self.rule.scatter_share)

    def _left_out(self, judged: Judged, share: float = 0.0) -> LookState:
        """Leave out the groups that do not stay, unless they are a majority.

        `share` is what was spent since the second moment of the rows outside.
        """
        rule, moment, rest, foreign = self.rule, judged.moment, judged.rest, judged.foreign
        spent = moment.share + rule.modes_share + rule.angles_share + rest.share + share
        # each row that is not zero adds 1 to the trace
        rows = float(np.trace(moment.value))
        if not foreign or sum(group.share for group in foreign) > rule.minority * rows:
            return Screening(moment, (), spent, division=judged.division)
        end = Screening(rest, foreign, spent, (caps_of(foreign),), division=judged.division)
        of_units = None if self.units is None else self.units.share(judged.allowance)
        if self.units is not None and of_units is not None:
            inner = self.units.standardiser.begin(judged.allowance.part(of_units))
            return NewUnits(end, of_units, inner)
        if not judged.some_stay:
            return end
        # the moment misses rows of groups that stay
        return NewMoment(replace(end, spent=spent + rule.moment_share))

    def _saw_units(self, state: NewUnits, answer: Answer) -> LookState:
        """Let the standardiser go on; at its end, see the rows outside the groups in new units."""
        assert self.units is not None
        standardiser = self.units.standardiser
        inner = standardiser.take(state.inner, (answer,))
        if standardiser.ask(inner) is not None:
            return replace(state, inner=inner)
        affine, dropped = self.units.after(standardiser.outcome(inner).V)
        view = (self._without(state.screening), affine, Sphere())
        spent = state.screening.spent + state.share + self.rule.moment_share
        facts: dict[str, Any] = {"through": view, "whole": True, "dropped": dropped}
        return NewMoment(replace(state.screening, spent=spent, **facts))

    def _components(self, moment: Moment) -> int:
        return moment.count(self.r) if self.choose else self.r


def _group(gap: Gap, directions: FloatArray, rule: LookRule) -> LeftOut:
    direction = directions[:, gap.at] * (-1.0 if gap.side == -1 else 1.0)
    angle = pi * gap.bins / rule.bins
    return LeftOut(direction, gap.side == 0, angle, gap.share, gap.sd, gap.loose)
