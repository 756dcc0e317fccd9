"""About a hundred fixed plans, of which the best is chosen after the truth is seen.

No private method can do that: it is what a perfect choice of parameters would reach. A plan is
a private PCA start with a share of the budget, T gradient steps on GLAD with step sizes that fall
geometrically, and from half of the steps on a cut that leaves rows farther away than that out.
Gaussian-noise PCA is one more.
"""

from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np

from benchmarks.utility.contenders import facts_of, ran, seeds_of
from benchmarks.utility.effort import Effort
from benchmarks.utility.problems import Data, Problem
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import Polar
from stillspace.parts.queries import Glad, SecondMoment
from stillspace.parts.schedules import Geometric
from stillspace.plans.fixed import Plan
from stillspace.plans.starts import MomentStart, RunStart
from stillspace.recipes import Facts, make_plan

SEMI_FINALISTS, MORE_SEEDS = 20, 2
"""All plans run once; as many, the best by that, run with more seeds."""
FINALISTS, FRESH_SEEDS = 4, 9
"""As many, the best by the median of these, run again with fresh ones."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Parameters of a plan; share 1 is Gaussian-noise PCA."""

    share: float = 1.0
    steps: int = 0
    first: float = 1.0
    last: float = 1.0
    cut: float = inf

    @property
    def name(self) -> str:
        if not self.steps:
            return "Gaussian-noise PCA"
        cut = "" if self.cut == inf else f", cut {self.cut:g}"
        return f"share {self.share:g}, T={self.steps}, {self.first:g}→{self.last:g}{cut}"


def grid() -> tuple[Fixed, ...]:
    """Return the plans."""
    ranges = ((1.0, 0.1), (1.0, 0.01), (1.0, 0.001), (0.3, 0.003))
    plans = [
        Fixed(share, steps, first, last, cut)
        for share, steps, (first, last), cut in product(
            (0.1, 0.3), (15, 30, 100), ranges, (inf, 0.05, 0.15, 0.4)
        )
    ]
    tiny = [Fixed(0.1, 100, 1.0, last) for last in (1e-4, 1e-6, 1e-8)]  # for noiseless inliers
    return (Fixed(), *plans, *tiny)


def build(fixed: Fixed, facts: Facts) -> Plan:
    """Return the calibrated plan."""
    assert facts.epsilon is not None
    assert facts.delta is not None
    if not fixed.steps:
        plan = make_plan("dp-pca", facts)
        assert isinstance(plan, Plan)
        return plan
    T, r = fixed.steps, facts.r
    moment = facts.release(SecondMoment(facts.D))
    whole = Geometric(fixed.first, fixed.last, T)
    if fixed.cut == inf:
        start: MomentStart | RunStart = MomentStart(moment, fixed.share)
        return _loop(facts, start, whole, inf, T).calibrate(facts.epsilon, facts.delta)
    # The steps before the cut are the start of those after it; each step has the same share.
    half = T // 2
    share = fixed.share + (1.0 - fixed.share) * half / T
    before = Geometric(fixed.first, whole.step(half - 1), half)
    after = Geometric(whole.step(half), fixed.last, T - half)
    inner = _loop(facts, MomentStart(moment, fixed.share / share), before, inf, half)
    outer = _loop(facts, RunStart(inner, share), after, fixed.cut, T - half)
    assert outer.n_components == r
    return outer.calibrate(facts.epsilon, facts.delta)


def _loop(
    facts: Facts, start: MomentStart | RunStart, schedule: Geometric, cut: float, steps: int
) -> Plan:
    return Plan(
        name="fixed",
        start=start,
        release=facts.release(Glad(facts.D, facts.r, cut=cut)),
        geometry=Polar(facts.r),
        n_components=facts.r,
        n_iter=steps,
        schedule=schedule,
    )


def best_in_hindsight(problem: Problem, data: Data, effort: Effort) -> dict[str, object]:
    """Return the best plan with its d², and those of the others as far as they came.

    The lowest of a hundred numbers is partly luck. So there are rounds, and what counts is the
    lowest of the last round's medians, which are of fresh seeds.
    """
    facts, truth = facts_of(problem), data.targets["truth"]
    plans = {fixed.name: build(fixed, facts) for fixed in grid()[:: effort.every_plan]}

    def errors(name: str, first: int, count: int) -> list[float]:
        answers = ran(plans[name], data, seeds_of(name, problem, count, first))
        return [subspace_error(V.T, truth.T) for V, _ in answers]

    first = {name: errors(name, 0, 1) for name in plans}
    second = {name: first[name] + errors(name, 1, MORE_SEEDS) for name in _best(first)}
    last = {name: errors(name, 1 + MORE_SEEDS, FRESH_SEEDS) for name in _best(second)[:FINALISTS]}
    best = _best(last)[0]
    return {"best": best, "d2": float(np.median(last[best])), "rounds": [first, second, last]}


def _best(found: dict[str, list[float]]) -> list[str]:
    """Return the best plans by their medians, best first."""
    return sorted(found, key=lambda name: float(np.median(found[name])))[:SEMI_FINALISTS]
