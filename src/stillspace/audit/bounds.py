"""Lower bounds on ε from the guesses of an adversary, each valid at its stated level.

An audit flips a fair coin for each run, gives the mechanism one of two neighbouring data sets and
lets an adversary guess the coin. If the mechanism is (ε, δ)-private, no adversary does better than
a certain rate; one that did better refutes every smaller ε. All levels are one-sided: the true ε
lies below a bound with probability at most α.

None of these knows how the scores were made. What they need: a threshold that does not depend on
the runs that are counted; one coin per run and independent runs (`clopper_pearson`, `accuracy`,
`trade_off`); for `one_run` independent coins, which may share a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv
from scipy.stats import binom

from stillspace.privacy import ComposedEvent, GaussianEvent, PrivacyCurve, Relation, privacy_curve

_LARGEST = 100.0
"""No finite number of guesses supports a larger ε: the search ends here."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How often the adversary was wrong, by coin: guesses of 1 at 0, and of 0 at 1."""

    false_positives: int
    negatives: int
    false_negatives: int
    positives: int

    @property
    def runs(self) -> int:
        """All guesses."""
        return self.negatives + self.positives

    @property
    def correct(self) -> int:
        """Right guesses."""
        return self.runs - self.false_positives - self.false_negatives


def upper_rate(errors: int, trials: int, alpha: float) -> float:
    """Return p with P(Binomial(trials, p) <= errors) = α (Clopper and Pearson 1934)."""
    if errors >= trials:
        return 1.0
    return float(betaincinv(errors + 1, trials - errors, 1.0 - alpha))


def clopper_pearson(counts: Counts, delta: float, alpha: float) -> float:
    """Return a lower bound on ε at `delta` from the two error rates, α/2 for each.

    (ε, δ)-privacy means 1 − FNR ≤ e^ε FPR + δ and 1 − FPR ≤ e^ε FNR + δ. Without a model.
    """
    wrong_at_0 = upper_rate(counts.false_positives, counts.negatives, alpha / 2)
    wrong_at_1 = upper_rate(counts.false_negatives, counts.positives, alpha / 2)
    best = 0.0
    for one, other in ((wrong_at_0, wrong_at_1), (wrong_at_1, wrong_at_0)):
        if 1.0 - other - delta > one:
            best = max(best, math.log((1.0 - other - delta) / one))
    return best


def accuracy(correct: int, runs: int, delta: float, alpha: float) -> float:
    """Return a lower bound on ε at `delta` from the share of right guesses of a fair coin.

    Adding the two inequalities above: a guess is right with probability at most
    (e^ε + δ)/(1 + e^ε). One binomial instead of two, so that a few runs say more. No model.
    """
    rate = 1.0 - upper_rate(runs - correct, runs, alpha)
    if rate >= 1.0:
        return _LARGEST
    return max(0.0, math.log(max(rate - delta, 1e-300) / (1.0 - rate)))


def scaled_curve(event: ComposedEvent, relation: Relation, scale: float) -> PrivacyCurve:
    """Return the curve of `event` with all noise multiplied by `scale`: the plan's own family."""
    parts = tuple(
        (replace(e, sigma=e.sigma * scale) if isinstance(e, GaussianEvent) else e, count)
        for e, count in event
    )
    return privacy_curve(ComposedEvent(parts), relation, ideal_sampler=True)


def trade_off(
    correct: int,
    runs: int,
    event: ComposedEvent,
    relation: Relation,
    delta: float,
    alpha: float,
) -> tuple[float, float]:
    """Return a lower bound on ε at `delta`, and the noise scale that it belongs to.

    Model-based: it assumes that the mechanism's trade-off curve is one of the claimed event's own,
    with all noise multiplied by some s (Gaussian curves for full batches, those of the mixtures for
    sampled ones). A fair coin is guessed right with probability at most (1 + TV_s)/2, where
    TV_s = δ_s(0), whatever the adversary; a lower bound on that probability is an upper bound on s.

    That s < 1 refutes the claimed *curve* without any model: it says that some test tells the
    neighbours apart better than the claim allows. The ε at δ rests on the family.
    """
    rate = 1.0 - upper_rate(runs - correct, runs, alpha)
    advantage = 2.0 * rate - 1.0
    if advantage <= 0.0:
        return 0.0, math.inf
    log_scale = _log_scale(event, relation, advantage)
    if log_scale is None:
        return _LARGEST, 0.0
    # A hair more noise than the root: its tolerance must not raise the bound.
    scale = math.exp(log_scale + 2e-5)
    return min(scaled_curve(event, relation, scale).get_epsilon(delta), _LARGEST), scale


@lru_cache(maxsize=256)
def _log_scale(event: ComposedEvent, relation: Relation, advantage: float) -> float | None:
    """Return log s with TV_s = advantage; None where no noise at all has no more than that."""

    def excess(log_scale: float) -> float:
        return scaled_curve(event, relation, math.exp(log_scale)).get_delta(0.0) - advantage

    low, high = 0.0, 0.0
    while excess(low) < 0.0:
        low -= 1.0
        if low < -9.0:
            return None
    while excess(high) > 0.0:
        high += 1.0
        if high > 40.0:  # an advantage next to nothing
            return high
    return float(brentq(excess, low, high, xtol=1e-5)) if low < high else low


def one_run(correct: int, guesses: int, coins: int, delta: float, alpha: float) -> float:
    """Return a lower bound on ε from coins that may share a run (Steinke, Nasr, Jagielski 2023).

    `coins` were flipped, `guesses` of them guessed, `correct` of those rightly. Theorem 5.2 there:
    P(correct >= v) ≤ β + 2·coins·δ·max_i P(v > B >= v − i)/i, B ~ Binomial(guesses, e^ε/(1+e^ε))
    and β = P(B >= v). Several independent runs count as one mechanism: a coin is in one of them.
    """

    def p_value(epsilon: float) -> float:
        rate = 1.0 / (1.0 + math.exp(-epsilon))
        beta = float(binom.sf(correct - 1, guesses, rate))
        if correct == 0:
            return 1.0
        steps = np.arange(1, correct + 1)
        below = binom.sf(correct - 1 - steps, guesses, rate) - beta
        return beta + 2.0 * coins * delta * float(np.max(below / steps))

    if p_value(0.0) > alpha:
        return 0.0
    if p_value(_LARGEST) <= alpha:
        return _LARGEST
    return float(brentq(lambda e: p_value(e) - alpha, 0.0, _LARGEST, xtol=1e-9))
