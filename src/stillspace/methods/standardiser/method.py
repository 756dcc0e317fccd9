"""A private centre and scale of every column, from noisy histograms of the cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.standardiser.belief import Beliefs, beliefs_after_first
from stillspace.methods.standardiser.looks import Look, Range, first_edges, in_one_table
from stillspace.methods.standardiser.rule import STANDARDISER_RULE, StandardiserRule
from stillspace.parts.queries.columns import ColumnCounts
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome


def kappa_of(mu: float, n: int, D: int) -> float:
    """Return κ = μn/√D: how far the rows of a table stand out of the noise on D columns."""
    return mu * n / sqrt(D)


@dataclass(frozen=True, slots=True, eq=False)
class StandardiserState:
    """What was released, what is asked next, and which part of the shares is spent."""

    allowance: Allowance
    asked: ColumnCounts | None
    share: float
    beliefs: Beliefs | None = None
    zoomed: float = 0.0
    """Share of all closer looks so far."""
    zooms: int = 0
    last: bool = False
    """Whether the last look is asked for."""


@dataclass(frozen=True, slots=True)
class Standardiser:
    """Histograms of all columns: a first look, closer looks where needed, a last look.

    The rows are raw: neither centred nor scaled, and of any length. The outcome is an array
    (2, D): medians and spreads (see `StandardiserRule.level`); a column that is not resolved has an
    infinite scale.
    """

    D: int
    missing: float | None = None
    """The public code of a missing cell, if there is one; NaN is always missing."""
    bounds: FrozenArray | None = None
    """Public ranges of the columns, (D, 2), NaN where nothing is known: what to expect of cells,
    not a bound on them."""
    rule: StandardiserRule = STANDARDISER_RULE
    """All tuned numbers."""
    name: ClassVar[str] = "private centre and scale of each column"
    n_components: ClassVar[int] = 0
    takes_raw_rows: ClassVar[bool] = True

    @property
    def n_passes(self) -> int:
        """The first look, the closer looks, the last look."""
        return 2 + self.rule.most_zooms

    @property
    def coordinates(self) -> int:
        """One normal per bin and column of each look, at most.

        A closer look has edges at quantiles, around the parts of a heavy bin, and around atoms. One
        atom may be there after the first look, and each closer look adds one at most.
        """
        rule = self.rule
        edges = rule.most_bins + rule.parts_of_heavy_bin + 2 * (1 + rule.most_zooms)
        return self.D * (len(self._first_edges()[0]) + 2 + (1 + rule.most_zooms) * (edges + 2))

    def begin(self, allowance: Allowance) -> StandardiserState:
        """Ask for the first look at all columns."""
        query = ColumnCounts.of(self.D, self._first_edges(), missing=self.missing)
        return StandardiserState(allowance, query, self.rule.first_share)

    def ask(self, state: StandardiserState) -> Ask | None:
        """Return the histograms to release next."""
        if state.asked is None:
            return None
        return Ask(np.empty((0, 0)), ((state.asked, state.share),))

    def take(self, state: StandardiserState, answers: tuple[Answer, ...]) -> StandardiserState:
        """Weigh what may be believed of the columns that were looked at, and go on."""
        assert state.asked is not None
        (answer,) = answers
        with np.errstate(all="ignore"):
            columns = np.array(state.asked.columns)
            look = Look.of(columns, state.asked.edges, answer.value, answer.sd)
            if state.beliefs is None:
                beliefs = beliefs_after_first(look, answer.value[:, -1], self._ranges(), self.rule)
            else:
                beliefs = state.beliefs.after(look)
            return self._next(replace(state, beliefs=beliefs), beliefs)

    def outcome(self, state: StandardiserState) -> Outcome:
        """Return centres and scales."""
        assert state.beliefs is not None
        with np.errstate(all="ignore"):
            return Outcome(state.beliefs.centers_and_scales())

    def _ranges(self) -> tuple[Range | None, ...]:
        if self.bounds is None:
            return (None,) * self.D
        ranges = (Range(*map(float, ends)) for ends in self.bounds.array)
        return tuple(known if np.isfinite(known).all() else None for known in ranges)

    def _first_edges(self) -> FloatArray:
        return in_one_table([first_edges(self.rule, known) for known in self._ranges()])

    def _next(self, state: StandardiserState, beliefs: Beliefs) -> StandardiserState:
        """Look closer at columns that are not resolved, then at all of them for the last time."""
        if state.last:
            return replace(state, asked=None)
        hopeless = beliefs.hopeless
        live = np.flatnonzero(~hopeless).tolist()
        unclear = np.flatnonzero(~(hopeless | beliefs.resolved)).tolist()
        share = self.rule.zoom_share * len(unclear) / self.D
        if unclear and state.zooms < self.rule.most_zooms:
            asking = self._asking(state, beliefs, unclear, share)
            return replace(asking, zoomed=state.zoomed + share, zooms=state.zooms + 1)
        if not live:
            return replace(state, asked=None)
        rest = 1.0 - self.rule.first_share - state.zoomed
        return self._asking(replace(state, last=True), beliefs, live, rest)

    def _asking(
        self, state: StandardiserState, beliefs: Beliefs, columns: list[int], share: float
    ) -> StandardiserState:
        """Ask for histograms of some columns, each between its own edges."""
        some = tuple(columns)
        probe = ColumnCounts.of(self.D, np.zeros((len(some), 0)), columns=some)
        sd = state.allowance.sd(probe, share)
        edges = in_one_table(beliefs.next_edges(np.array(some), sd, state.last))
        query = ColumnCounts.of(self.D, edges, columns=some, missing=self.missing)
        return replace(state, asked=query, share=share)
