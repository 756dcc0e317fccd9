"""The number of components chosen by the first look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillspace.methods.newton.method import DampedNewton
from stillspace.methods.newton.states import State
from stillspace.methods.spectrum import count_components
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome


@dataclass(frozen=True, slots=True)
class ChosenNewton:
    """`DampedNewton` with the number of components that its first second moment shows: free."""

    D: int
    most: int
    name: ClassVar[str] = DampedNewton.name + ", the number of components chosen by the first look"

    @property
    def n_components(self) -> int:
        """The largest number that may be chosen."""
        return self.most

    @property
    def n_passes(self) -> int:
        """As with a given number."""
        return DampedNewton(self.D, self.most).n_passes

    @property
    def coordinates(self) -> int:
        """Those of the largest number of components."""
        return DampedNewton(self.D, self.most).coordinates

    def begin(self, allowance: Allowance) -> tuple[DampedNewton, State, bool]:
        """Return the state before the first release, which does not depend on the number."""
        method = DampedNewton(self.D, self.most)
        return method, method.begin(allowance), False

    def ask(self, state: tuple[DampedNewton, State, bool]) -> Ask | None:
        """Return what to release next."""
        return state[0].ask(state[1])

    def take(
        self, state: tuple[DampedNewton, State, bool], answers: tuple[Answer, ...]
    ) -> tuple[DampedNewton, State, bool]:
        """Choose the number of components after the first look, then go on."""
        method, inner, chosen = state
        if not chosen:
            look = answers[0]
            method = replace(method, r=count_components(look.value, look.sd, self.most))
        return method, method.take(inner, answers), True

    def outcome(self, state: tuple[DampedNewton, State, bool]) -> Outcome:
        """Return what was found, with as many components as were chosen."""
        return state[0].outcome(state[1])
