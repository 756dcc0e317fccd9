"""Where short pairs end: a valley in a private histogram of the lengths of differences.

Differences of an inlier and an outlier from far away point one way, all of them, and on the unit
sphere nothing tells them from a direction of the inliers. But they are longer than differences of
two inliers (docs/newton.md, "An unknown centre"). Two releases count pairs by their length: in
wide bins over all that floats can hold, then in narrow ones around the place where most are. What
is decided here is decided from these noisy counts alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import ClassVar

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.spectrum import Spectrum, count_components
from stillspace.parts.queries import DistanceCounts, SecondMoment
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome
from stillspace.rows.maps import LeaveOut, Lengths, levels

LEAST, WIDE, WIDE_BINS = -1024, 8, 257
"""Where wide bins begin (the logarithm of a length, base 2), their width in octaves and number. No
inverse length is above 2^1022 (`kernels.storage`), and no length above 2^1024 times √D."""


@dataclass(frozen=True, slots=True)
class PairLengthRule:
    """The numbers of the cut between short and long pairs that were chosen, not derived."""

    window: int = 4
    """Wide bins that are counted again, in narrow ones: lengths within a factor of 2²⁴ fit in."""
    narrow: int = 8
    """Narrow bins per octave."""
    wide_part: float = 0.15
    """Of this stage's μ²: the counts in wide bins."""
    narrow_part: float = 0.45
    """Of this stage's μ²: the counts in narrow bins."""
    check_part: float = 0.4
    """Of this stage's μ²: the second moment of the shorter pairs, which confirms a cut."""
    blocks: tuple[int, ...] = (2, 4, 8)
    """Narrow bins whose mean is compared. The narrowest valley is a quarter of an octave wide."""
    sure: float = 4.5
    """Standard deviations by which every block may be off: see `valleys`."""
    depth: float = 0.7
    """A valley is at most this part of the peaks on either side."""
    majority: float = 0.25
    """Share of the pairs below a cut, at least: inliers in the majority make more of them."""
    at_least: float = 2.0
    """Standard deviations of the noise by which that share must be reached."""
    visible: float = 2.5
    """In units of the noise's ω: how far a direction of the short pairs stands above the bulk."""
    explained: float = 0.5
    """Share of the short pairs' second moment that these directions hold, at least."""


PAIR_LENGTH_RULE = PairLengthRule()
"""What fits use."""


@dataclass(frozen=True, slots=True, eq=False)
class PairLengthState:
    """What was released: where the window begins, then the length of the cut, then the check."""

    allowance: Allowance
    begin: int | None = None
    """The first wide bin of the window."""
    length: float | None = None
    """Where the valley is; infinite if there is none."""
    confirmed: bool | None = None
    """Whether the short pairs hold a subspace."""


@dataclass(frozen=True, slots=True)
class PairLengths:
    """The length from which pairs are left out, if a valley is clear and a check confirms it.

    Two releases count the lengths of pairs; if there is a valley, a second moment of the shorter
    pairs tells whether they hold a subspace (`holds_subspace`).
    """

    D: int
    r: int
    choose_components: bool = False
    """Whether r is only the largest number of components."""
    rule: PairLengthRule = PAIR_LENGTH_RULE
    """All tuned numbers."""
    name: ClassVar[str] = "counts of the lengths of pairs"
    n_components: ClassVar[int] = 0
    n_passes: ClassVar[int] = 3
    """Wide bins, narrow bins, the check."""

    @property
    def coordinates(self) -> int:
        bins = len(_wide()) + len(_narrow(0, self.rule)) + 2
        return bins + SecondMoment(self.D).noise.coordinates

    def begin(self, allowance: Allowance) -> PairLengthState:
        return PairLengthState(allowance)

    def ask(self, state: PairLengthState) -> Ask | None:
        """Ask for counts in wide bins, then in narrow ones, then for a second moment."""
        if state.length is None:
            query = _counts(_wide() if state.begin is None else _narrow(state.begin, self.rule))
            share = self.rule.wide_part if state.begin is None else self.rule.narrow_part
            return Ask(np.zeros((1, 1)), ((query, share),), (Lengths(),))
        if state.length == inf or state.confirmed is not None:
            return None
        check = (SecondMoment(self.D), self.rule.check_part)
        return Ask(np.empty((0, 0)), (check,), (LeaveOut(state.length),))

    def take(self, state: PairLengthState, answers: tuple[Answer, ...]) -> PairLengthState:
        """Choose the window that most pairs lie in, look for a valley in it, check the cut."""
        answer = answers[0]
        if state.length is not None:
            choose = self.choose_components
            held = holds_subspace(answer.value, answer.sd, self.r, self.rule, choose=choose)
            return replace(state, confirmed=held)
        size = state.allowance.size
        counts, sd = answer.value * size, answer.sd * size
        if state.begin is None:
            sums = np.convolve(counts, np.ones(self.rule.window), mode="valid")
            return replace(state, begin=int(np.argmax(sums)))
        at = valley(counts, sd, self.rule.majority * size, self.rule)
        length = inf if at is None else float(np.exp2(_narrow(state.begin, self.rule)[at - 1]))
        return replace(state, length=length)

    def outcome(self, state: PairLengthState) -> Outcome:
        assert state.length is not None
        through = (LeaveOut(state.length),) if state.confirmed else ()
        found = state.length if state.confirmed else None
        return Outcome(np.array(state.length), facts={"pair_cut": found}, through=through)


def _wide() -> FloatArray:
    return LEAST + WIDE * np.arange(1.0, WIDE_BINS)


def _narrow(begin: int, rule: PairLengthRule) -> FloatArray:
    """Return those of the window's bins; what lies outside counts in the first or the last."""
    edges = LEAST + WIDE * begin + np.arange(rule.window * WIDE * rule.narrow + 1) / rule.narrow
    return np.clip(edges, -1022.0, 1022.0)


def _counts(edges: FloatArray) -> DistanceCounts:
    """Return the query that counts levels; their distance to the zero subspace is they."""
    return DistanceCounts(1, 1, tuple(levels(np.exp2(-edges)).tolist()))


def valley(
    counts: FloatArray, sd: float, least: float, rule: PairLengthRule = PAIR_LENGTH_RULE
) -> int | None:
    """Return the edge (bins before it) at the bottom of the lowest valley above `least` counts."""
    below = _mass_below(counts, sd, rule)
    return next((at for at in valleys(counts, sd, rule) if below[at] >= least), None)


def valleys(counts: FloatArray, sd: float, rule: PairLengthRule = PAIR_LENGTH_RULE) -> list[int]:
    """Return the bottoms of all clear valleys, each the deepest place between its neighbours.

    For each block of bins the expected count lies between two bounds, but for `sure` standard
    deviations of the noise and of the sampling together (the score interval of a Poisson count). A
    block is a valley if its mean is at most `depth` of a block's on either side for all values
    within the bounds. A law with one peak has no valley: the mean of a block is at least that
    of all blocks on the left or of all on the right. So one is found only if one of 2 · 3 · 258
    bounds fails: by normal tails with probability .6 %, whatever the law (as long as the window
    holds all lengths).
    """
    at = _deepest(counts, sd, rule)
    if at is None:
        return []
    right = valleys(counts[at:], sd, rule)
    return [*valleys(counts[:at], sd, rule), at, *(at + other for other in right)]


def _deepest(counts: FloatArray, sd: float, rule: PairLengthRule) -> int | None:
    """Return the middle of the clear valley with the lowest upper bound."""
    n, before, after = len(counts), np.full(len(counts) + 1, -inf), np.full(len(counts) + 1, -inf)
    blocks = {width: _bounds(counts, sd, width, rule.sure) for width in rule.blocks if width <= n}
    for width, (low, _) in blocks.items():
        before[width:] = np.maximum(before[width:], low)
        after[: n + 1 - width] = np.maximum(after[: n + 1 - width], low)
    before = np.maximum.accumulate(before)
    after = np.maximum.accumulate(after[::-1])[::-1]
    lowest, found = inf, None
    for width, (_, high) in blocks.items():
        peaks = np.minimum(before[: n + 1 - width], after[width:])
        clear = np.where(high <= rule.depth * peaks, high, inf)
        if clear.min() < lowest:
            lowest, found = float(clear.min()), int(clear.argmin()) + width // 2
    return found


def _bounds(
    counts: FloatArray, sd: float, width: int, sure: float
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds on the mean count of all blocks of this width."""
    sums = np.convolve(counts, np.ones(width), mode="valid")
    middle = sums + sure**2 / 2.0
    spread = sure * np.sqrt(np.maximum(sums + sure**2 / 4.0 + width * sd**2, 0.0))
    return (middle - spread) / width, (middle + spread) / width


def _mass_below(counts: FloatArray, sd: float, rule: PairLengthRule) -> FloatArray:
    """Return how much lies below each edge, less `at_least` standard deviations of the noise.

    Counted from where it is most: the noise of empty bins on the way would only blur it.
    """
    total = np.concatenate([[0.0], np.cumsum(counts)])
    at = np.arange(len(total))
    length = np.maximum(at[:, None] - at, 0)
    sums = total[:, None] - total - rule.at_least * sd * np.sqrt(length)
    return np.asarray(np.max(np.where(length > 0, sums, 0.0), axis=1))


def holds_subspace(
    moment: FloatArray,
    sd: float,
    r: int,
    rule: PairLengthRule = PAIR_LENGTH_RULE,
    *,
    choose: bool = False,
) -> bool:
    """Tell from a noisy second moment of the short pairs whether the inliers' subspace is in them.

    Clusters that span the subspace between them, each round, have a valley too; their short pairs
    are round, and the long ones hold the answer. So r directions must stand out, `visible` times
    the noise's ω above the bulk, and hold `explained` of the short pairs: inliers in the majority
    do. With `choose` it is as many of r directions as show.
    """
    r = count_components(moment, sd, r) if choose else r
    spectrum = Spectrum.of(moment, sd, r)
    least = (rule.visible + sqrt(rule.visible**2 - 4.0)) / 2.0 * spectrum.edge
    visible = spectrum.signal[-1] >= least
    return bool(visible and spectrum.signal.sum() >= rule.explained * np.trace(moment))
