"""What an audit found, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.audit.bounds import Counts
from stillspace.privacy import Guarantee, PrivacyCurve, privacy_curve

BoundName: TypeAlias = Literal["trade-off", "clopper-pearson", "accuracy", "one-run"]

CLOSE = 0.85
"""From this part of the claimed ε on, an audit counts as tight."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The (ε, δ) that is put to the test, with the guarantee behind it if there is one."""

    epsilon: float
    delta: float
    guarantee: Guarantee | None = None

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta < 1):
            got = f"{self.epsilon}, {self.delta}"
            raise ValueError(f"A claim needs epsilon >= 0 and 0 <= delta < 1, got {got}.")

    @property
    def curve(self) -> PrivacyCurve | None:
        """The claimed privacy curve, if more than one point of it is known."""
        if self.guarantee is None:
            return None
        relation = self.guarantee.neighboring_relation
        return privacy_curve(self.guarantee.event, relation, ideal_sampler=True)


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on ε at the claimed δ, wrong with probability at most `level`."""

    name: BoundName
    epsilon: float
    level: float
    model_based: bool
    threshold: float
    """Scores above it were guessed to be 1."""
    guesses: int
    correct: int

    def __str__(self) -> str:
        kind = "trade-off fit (model-based)" if self.model_based else self.name
        return (
            f"{kind}: epsilon >= {self.epsilon:.4g} at {100 * (1 - self.level):.4g} % confidence, "
            f"{self.correct} of {self.guesses} guesses right"
        )


@dataclass(frozen=True, slots=True, eq=False)
class AuditReport:
    """What an adversary achieved against a claim. `str()` says it in words.

    Attributes
    ----------
    mechanism, adversary, neighbours : str
        What was attacked, with what view of it, and on which data sets.
    claim : Claim
        The claimed (ε, δ).
    bounds : tuple of Bound
        Lower bounds on the true ε at the claimed δ. All of them hold together with the stated
        confidence.
    runs : int
        How often the mechanism ran.
    scores, coins : arrays
        One of each a coin; the adversary's score is larger where it takes the coin to show 1.
    """

    mechanism: str
    adversary: str
    neighbours: str
    claim: Claim
    confidence: float
    runs: int
    bounds: tuple[Bound, ...]
    scores: FloatArray
    coins: npt.NDArray[np.bool_]
    counted_from: int
    """Scores before this one served to choose thresholds; the plot leaves them out."""
    plan: str = ""
    """The fingerprint of the plan that was attacked; empty for a function."""

    @property
    def epsilon(self) -> float:
        """The largest lower bound on ε: the true ε is smaller with probability 1 − confidence."""
        return max(bound.epsilon for bound in self.bounds)

    @property
    def tightness(self) -> float:
        """The bound as a part of the claimed ε."""
        return self.epsilon / self.claim.epsilon if self.claim.epsilon > 0 else math.inf

    @property
    def refuted(self) -> bool:
        """Whether a bound lies above the claim."""
        return self.epsilon > self.claim.epsilon

    @property
    def verdict(self) -> str:
        """The result in one or two sentences."""
        best = max(self.bounds, key=lambda bound: bound.epsilon)
        found, claimed = f"{best.epsilon:.3g}", f"{self.claim.epsilon:.3g}"
        sure = f"{100 * self.confidence:.4g} % confidence"
        if self.refuted:
            text = f"The claim is refuted: epsilon is at least {found}, not {claimed}, with {sure}."
            if best.model_based:
                text += (
                    " (Without any model: the releases tell more than the claimed trade-off curve "
                    "allows. The number assumes curves of the claim's own family.)"
                )
            return text
        share = f"{100 * self.tightness:.0f} % of the claimed {claimed}"
        if self.tightness >= CLOSE:
            return (
                f"No violation was found, and the attack comes close: epsilon is at least {found}, "
                f"{share}, with {sure}. Little room is left for a flaw that these data sets show."
            )
        return (
            f"No violation was found: epsilon is at least {found}, {share}, with {sure}. That is a "
            "weak test: more runs, or an adversary who sees more, may find what this one did not. "
            "An audit can refute a claim and never prove one."
        )

    def rates(self) -> tuple[FloatArray, FloatArray]:
        """Return false-positive and false-negative rates for all thresholds, for a picture."""
        scores, coins = self.scores[self.counted_from :], self.coins[self.counted_from :]
        order = np.argsort(-scores, kind="stable")
        ones = np.concatenate([[0], np.cumsum(coins[order])])
        zeros = np.concatenate([[0], np.cumsum(~coins[order])])
        return zeros / max(zeros[-1], 1), 1.0 - ones / max(ones[-1], 1)

    def __str__(self) -> str:
        facts = [
            f"audited: {self.mechanism}",
            f"adversary: {self.adversary}; data sets: {self.neighbours}",
            f"{self.runs} runs, {len(self.coins)} coins",
            *self.bounds,
        ]
        return "\n  - ".join([self.verdict, *map(str, facts)])

    def __repr__(self) -> str:
        return (
            f"AuditReport(epsilon>={self.epsilon:.4g}, claimed={self.claim.epsilon:.4g}, "
            f"delta={self.claim.delta:.3g}, runs={self.runs}, refuted={self.refuted})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without the scores."""
        return {
            "mechanism": self.mechanism,
            "plan": self.plan,
            "adversary": self.adversary,
            "neighbours": self.neighbours,
            "claimed_epsilon": float(self.claim.epsilon),
            "delta": float(self.claim.delta),
            "confidence": float(self.confidence),
            "runs": int(self.runs),
            "coins": len(self.coins),
            "bounds": [
                {name: value for name, value in asdict(bound).items() if name != "threshold"}
                for bound in self.bounds
            ],
            "tightness": float(self.tightness) if math.isfinite(self.tightness) else "infinite",
            "refuted": self.refuted,
            "verdict": self.verdict,
        }


def count(scores: FloatArray, coins: npt.NDArray[np.bool_], threshold: float) -> Counts:
    """Count the errors of guessing 1 where the score is above the threshold."""
    guessed = scores > threshold
    kinds = (guessed & ~coins, ~coins, ~guessed & coins, coins)
    return Counts(*(int(np.sum(kind)) for kind in kinds))


_THRESHOLDS = 400


def best_threshold(
    scores: FloatArray, coins: npt.NDArray[np.bool_], value: Callable[[Counts], float]
) -> float:
    """Return the threshold that would have been best on these runs; the median if none was."""
    tried = np.unique(np.quantile(scores, np.linspace(0.0, 1.0, _THRESHOLDS)))
    between = (tried[1:] + tried[:-1]) / 2.0
    values = np.array([value(count(scores, coins, t)) for t in between])
    if not len(values) or values.max() <= 0.0:
        return float(np.median(scores))
    best = np.flatnonzero(values >= values.max() - 1e-12)
    return float(between[best[len(best) // 2]])  # in the middle of equals, away from both sides
