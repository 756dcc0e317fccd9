"""What the look for outliers asks for, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import cos, pi, sqrt
from typing import ClassVar, TypeAlias

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.division import DIVISION, DivisionRule
from stillspace.methods.outlier_look.caps import Gap, LeftOut, clear_gaps
from stillspace.methods.outlier_look.modes import elliptical_moments, gathering_directions
from stillspace.methods.outlier_look.rule import STANDARD, LookRule
from stillspace.methods.spectrum import Moment
from stillspace.parts.queries import AngleCounts, FourthMoment, SecondMoment
from stillspace.parts.sampling import All, RowPart
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome
from stillspace.plans.ledger import ALL
from stillspace.rows.maps import Caps, View


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

    division: All | RowPart = field(default=ALL, kw_only=True)

    moment: Moment
    groups: tuple[LeftOut, ...]


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
    division: All | RowPart = ALL
    """Part 0 of the rows, if later passes may read parts of them."""

    def plus(self, answer: Answer, share: float) -> Screening:
        """Return this with one release more of the second moment of the rows outside."""
        moment = self.moment.plus(answer, share)
        return replace(self, moment=moment, spent=self.spent + share)


LookState: TypeAlias = First | Modes | Angles | Rest | Screening


@dataclass(frozen=True, slots=True)
class OutlierLook:
    """Second moment, modes, angles and, where groups are found, the second moment without them."""

    D: int
    r: int
    """Number of components, or the largest number that may be chosen."""
    choose: bool = False
    """Whether the number of components is chosen by the second moment."""
    rule: LookRule = STANDARD
    division: DivisionRule = DIVISION
    name: ClassVar[str] = "a look for groups of outliers on the sphere"

    @property
    def n_components(self) -> int:
        """r."""
        return self.r

    @property
    def n_passes(self) -> int:
        """Two second moments, the modes, the angles."""
        return 4

    @property
    def coordinates(self) -> int:
        """The largest number of normals that a run may draw."""
        fourth = FourthMoment(self.D, self._width).noise.coordinates
        angles = self.rule.most_modes * self.rule.bins
        return 2 * (self.D * (self.D + 1) // 2) + fourth + angles

    @property
    def _width(self) -> int:
        return min(self.r + self.rule.more_directions, self.D)

    def smallest_visible(self, allowance: Allowance) -> float:
        """Return the share from which on a tight group stands out of the noise: a public number."""
        sd = allowance.sd(AngleCounts(self.D, 1, self.rule.bins), self.rule.angles_share)
        return self.rule.sure * sqrt(2.0 * self.rule.block) * sd

    def begin(self, allowance: Allowance) -> LookState:
        """Return the state before the first release."""
        return First(allowance)

    def ask(self, state: LookState) -> Ask | None:
        """Return what to release next."""
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
            return Ask(nowhere, ((rest, rule.rest_share),), (caps_of(state.groups),))
        return None

    def take(self, state: LookState, answers: tuple[Answer, ...]) -> LookState:
        """Return the state after a pass."""
        (answer,) = answers
        if isinstance(state, First):
            return self._saw_moment(state, answer)
        if isinstance(state, Modes):
            return self._saw_modes(state, answer)
        if isinstance(state, Angles):
            return self._saw_angles(state, answer)
        assert isinstance(state, Rest)
        return self._saw_rest(state, answer)

    def outcome(self, state: LookState) -> Outcome:
        """Return the leading directions of the rows that are kept, and what is left out."""
        assert isinstance(state, Screening)
        moment, V = state.moment, state.moment.leading(self.r)
        return Outcome(V, moment.value, {"left_out": state.left_out, "screening": state})

    def _saw_moment(self, state: First, answer: Answer) -> LookState:
        """Go on where directions and a minority's share can be told from noise."""
        rule, allowance = self.rule, state.allowance
        moment = Moment(answer.value, rule.moment_share, answer.sd)
        r = self._components(moment)
        kappa = moment.spectrum(r).kappa / sqrt(moment.share)
        division = self.division.first_part(allowance, moment, r)
        visible = self.smallest_visible(allowance)
        if kappa < rule.weak or visible > rule.minority:
            return Screening(moment, (), moment.share, division=division)
        read: All | RowPart = ALL
        if isinstance(division, RowPart):
            read = division if visible * division.parts <= self.division.smallest_group else ALL
        return Modes(allowance, moment, moment.leading(self._width), division, read)

    def _saw_modes(self, state: Modes, answer: Answer) -> LookState:
        """Choose the directions along which there are more rows than in an elliptical law."""
        rule, basis = self.rule, state.basis
        values = np.einsum("dk,de,ek->k", basis, state.moment.value, basis)
        excess = answer.value - elliptical_moments(values)
        least = rule.visible * answer.sd
        modes = gathering_directions(excess, rule.apart, rule.most_modes, least)
        if modes.shape[1] == 0:
            spent = state.moment.share + rule.modes_share
            return Screening(state.moment, (), spent, division=state.division)
        directions = basis @ modes
        return Angles(state.allowance, state.moment, directions, state.division, state.read)

    def _saw_angles(self, state: Angles, answer: Answer) -> LookState:
        """Take groups behind an empty ring for outliers, for now."""
        rule, scale, size = self.rule, state.overlap, state.allowance.size
        gaps = clear_gaps(scale * answer.value, scale * answer.sd, size, rule, self.r)
        if not gaps:
            spent = state.moment.share + rule.modes_share + rule.angles_share
            return Screening(state.moment, (), spent, division=state.division)
        groups = tuple(_group(gap, state.directions, rule) for gap in gaps)
        return Rest(state.moment, groups, division=state.division)

    def _saw_rest(self, state: Rest, answer: Answer) -> LookState:
        """Leave out the groups whose direction the other rows do not share."""
        rule = self.rule
        rest = Moment(answer.value, rule.rest_share, answer.sd)
        V = rest.leading(self._components(rest))
        foreign = tuple(
            group for group in state.groups if _beyond_chance(V, group.direction) < rule.native
        )
        spent = state.moment.share + rule.modes_share + rule.angles_share + rest.share
        # each row that is not zero adds 1 to the trace
        rows = float(np.trace(state.moment.value))
        if not foreign or sum(group.share for group in foreign) > rule.minority * rows:
            return Screening(state.moment, (), spent, division=state.division)
        return Screening(rest, foreign, spent, (caps_of(foreign),), state.division)

    def _components(self, moment: Moment) -> int:
        return moment.count(self.r) if self.choose else self.r


def _beyond_chance(V: FloatArray, direction: FloatArray) -> float:
    """Return how much of a direction lies in a subspace: 1 for all, 0 as for a random one."""
    D, r = V.shape
    inside = float(np.sum((V.T @ direction) ** 2))
    return float((inside - r / D) / (1.0 - r / D))


def _group(gap: Gap, directions: FloatArray, rule: LookRule) -> LeftOut:
    direction = directions[:, gap.at] * (-1.0 if gap.side == -1 else 1.0)
    angle = pi * gap.bins / rule.bins
    return LeftOut(direction, gap.side == 0, angle, gap.share, gap.sd)


def caps_of(groups: tuple[LeftOut, ...]) -> Caps:
    """Return the row map that leaves out all groups."""
    directions, cosines = [], []
    for group in groups:
        for sign in (1.0, -1.0) if group.two_sided else (1.0,):
            directions.append(sign * group.direction)
            cosines.append(cos(group.angle))
    return Caps(FrozenArray.of(np.array(directions).T), FrozenArray.of(cosines))
