"""The number of components chosen by the second moment that the steps start from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stillspace._typing import FloatArray
from stillspace.methods.division import DIVISION, DivisionRule
from stillspace.methods.newton.method import DampedNewton
from stillspace.methods.newton.rule import NEWTON_RULE, NewtonRule
from stillspace.methods.newton.states import Looking, NewtonState
from stillspace.methods.outlier_look import OutlierLook, Screening
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome
from stillspace.rows.maps import Affine


@dataclass(frozen=True, slots=True)
class ChosenNewton:
    """`DampedNewton` with the number of components that the rows kept by the look show: free."""

    D: int
    most: int
    look: OutlierLook | None = None
    """The look for outliers before the steps, which chooses; None means the standard one."""
    affine: Affine | None = None
    rule: NewtonRule = NEWTON_RULE
    division: DivisionRule = DIVISION
    """As in `DampedNewton`."""

    @property
    def name(self) -> str:
        return f"{self._first.name}, the number of components chosen by the first look"

    @property
    def n_components(self) -> int:
        """The largest number that may be chosen."""
        return self.most

    @property
    def n_passes(self) -> int:
        return self._first.n_passes

    @property
    def coordinates(self) -> int:
        """Those of the largest number of components."""
        return self._first.coordinates

    @property
    def _first(self) -> DampedNewton:
        look = OutlierLook(self.D, self.most, choose=True) if self.look is None else self.look
        return DampedNewton(self.D, self.most, look, self.rule, self.division, self.affine)

    def at(self, point: FloatArray) -> ChosenNewton:
        """Return the method, told the centre and the scale (2, D) that its rows have."""
        first = self._first.at(point)
        return replace(self, look=first.look, affine=first.affine)

    def begin(self, allowance: Allowance) -> tuple[DampedNewton, NewtonState]:
        """Return the state before the first release, which does not depend on the number."""
        return self._first, self._first.begin(allowance)

    def ask(self, state: tuple[DampedNewton, NewtonState]) -> Ask | None:
        return state[0].ask(state[1])

    def take(
        self, state: tuple[DampedNewton, NewtonState], answers: tuple[Answer, ...]
    ) -> tuple[DampedNewton, NewtonState]:
        """Choose the number of components when the look ends, then go on."""
        method, inner = state
        if not isinstance(inner, Looking):
            return method, method.take(inner, answers)
        screening = self._first.after_look(inner, answers)
        if isinstance(screening, Screening):
            method = replace(method, r=screening.moment.count(self.most))
            return method, method.enter(inner.allowance, screening)
        return method, replace(inner, look=screening)

    def outcome(self, state: tuple[DampedNewton, NewtonState]) -> Outcome:
        """Return what was found, with as many components as were chosen."""
        return state[0].outcome(state[1])
