"""One line of the results: what was measured against what, the target and the verdict."""

from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["× faster", "× its time", "s", "exponent", "× X", "passes", "MiB"]


QUIET = 0.1
"""With more of the machine in other hands than this, a ratio is shown but not judged."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> "Spread":
        return cls(value, value, value)


@dataclass(frozen=True, slots=True)
class Target:
    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


def at_least(limit: float) -> Target:
    return Target(limit, at_least=True)


def at_most(limit: float) -> Target:
    return Target(limit)


@dataclass(frozen=True, slots=True)
class Row:
    """`measured` is None where the row could not run; `note` then says why."""

    topic: str
    what: str
    peer: str
    unit: Unit
    measured: Spread | None
    target: Target | None = None
    ours: float | None = None
    """Median seconds of ours."""
    theirs: float | None = None
    """Median seconds of the peer."""
    note: str = ""
    error: bool = False
    """The row stands for a topic that broke off."""
    others: float | None = None
    """Share of the machine that other processes used meanwhile; None where it is not known."""

    @property
    def verdict(self) -> str:
        if self.error:
            return "error"
        if self.measured is None:
            return "not run"
        if self.target is None:
            return "–"
        if self.others is not None and self.others > QUIET:
            return "busy"
        return "pass" if self.target.met(self.measured.median) else "FAIL"

    def to_dict(self) -> dict[str, Any]:
        spread, target = self.measured, self.target
        return {
            "topic": self.topic,
            "what": self.what,
            "peer": self.peer,
            "unit": self.unit,
            "measured": spread and spread.median,
            "quartiles": spread and [spread.low, spread.high],
            "target": target
            and {"sense": ">=" if target.at_least else "<=", "limit": target.limit},
            "verdict": {"–": None}.get(self.verdict, self.verdict.lower()),
            "ours_seconds": self.ours,
            "peer_seconds": self.theirs,
            "others_share": self.others,
            "note": self.note,
        }
