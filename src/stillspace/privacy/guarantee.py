"""What a fit promises, computed from what ran (SPEC 4; house rule 2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stillspace._checks import check_delta
from stillspace._html import facts_in_html
from stillspace.privacy.accounting import PrivacyCurve, privacy_curve
from stillspace.privacy.events import ComposedEvent, Relation, check_relation, of_type, real

_FORMAT = 1
_NEIGHBOURS = {"replace-one": "replaced by {}", "add-or-remove-one": "added or left out"}
LEAD_IN = "What the guarantee assumes, and what it does not cover:"


_SIGNATURES = {
    "": "which is not signed",
    "not checked": "which is signed, but no key was given to check its signature",
    "checked": "whose signature is that of the given key",
}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The (ε, δ)-differential privacy of an event, with what it rests on and what it leaves out.

    No field holds an ε: `epsilon` is computed from `event` whenever it is asked for, so that a
    claim and the run cannot differ. `private` is False when something makes the promise void
    (`not_private_because`); the curve then says what the noise alone would give.
    """

    event: ComposedEvent
    neighboring_relation: Relation
    delta: float | None
    private: bool
    assumptions: tuple[str, ...] = ()
    not_private_because: tuple[str, ...] = ()
    stated_by_file: bool = field(default=False, compare=False)
    """Whether the event was read from a file and did not run here."""
    signature: str = field(default="", compare=False)
    """What is known of the file's signature: "" (none), "not checked" or "checked"."""

    def __post_init__(self) -> None:
        check_relation(self.neighboring_relation)
        if self.delta is not None:
            check_delta(self.delta)
        if not self.private:
            return
        if self.not_private_because or self.event.non_private_reasons:
            reasons = (*self.not_private_because, *self.event.non_private_reasons)
            raise ValueError(f"a guarantee cannot be private: {'; '.join(reasons)}.")
        if self.delta is None:
            raise ValueError("delta is None; a private guarantee states its delta.")

    @classmethod
    def from_event(
        cls,
        event: ComposedEvent,
        neighboring_relation: Relation,
        delta: float | None,
        *,
        assumptions: Iterable[str] = (),
        not_private_because: Iterable[str] = (),
    ) -> Guarantee:
        """Return what `event` promises: nothing, if any reason against it is known."""
        reasons = dict.fromkeys((*not_private_because, *event.non_private_reasons))
        return cls(
            event=event,
            neighboring_relation=neighboring_relation,
            delta=delta,
            private=not reasons,
            assumptions=tuple(assumptions),
            not_private_because=tuple(reasons),
        )

    @property
    def epsilon(self) -> float:
        """The ε at `delta`, computed from the event and rounded up; infinite without a δ."""
        if self.delta is None:
            return math.inf
        return self.get_epsilon(self.delta)

    @property
    def accountant(self) -> str:
        """Which accountant computed `epsilon`."""
        return self._curve.name

    @property
    def _curve(self) -> PrivacyCurve:
        # Without a promise the sampler's error is left out: at the huge ε of a noise that is too
        # small, its term (1 + e^ε) τ would hide what the noise itself gives.
        return privacy_curve(self.event, self.neighboring_relation, ideal_sampler=not self.private)

    def get_delta(self, epsilon: float) -> float:
        """Return the δ that holds at `epsilon`."""
        return self._curve.get_delta(epsilon)

    def get_epsilon(self, delta: float) -> float:
        """Return the ε that holds at `delta`."""
        return _epsilon(self.event, self.neighboring_relation, delta, not self.private)

    def __str__(self) -> str:
        text = " ".join(self._promise() if self.private else self._no_promise())
        return "\n".join([text, *(f"  - {line}" for line in self.assumptions)])

    def __repr__(self) -> str:
        parts = [f"epsilon={number_up(self.epsilon)}"]
        if self.delta is not None:
            parts.append(f"delta={number_up(self.delta)}")
        parts += [f"neighboring_relation={self.neighboring_relation!r}", f"private={self.private}"]
        stated = ", as stated by the file" if self.stated_by_file else ""
        return f"Guarantee({', '.join(parts)}{stated})"

    def _repr_html_(self) -> str:
        """Return the guarantee for a notebook: the numbers, and what they rest on folded in."""
        text = " ".join(self._promise()[:2] if self.private else self._no_promise())
        title = "Privacy guarantee" if self.private else "No privacy guarantee"
        facts = [("in words", text)]
        if self.private:
            facts.insert(0, ("ε, δ", f"{number_up(self.epsilon)}, {number_up(self.delta or 0.0)}"))
            facts.insert(1, ("data sets that differ in", self.neighboring_relation))
        return facts_in_html(title, facts, self.assumptions)

    def _promise(self) -> list[str]:
        k = self.event.rows_per_person
        whose, others = ("any one row is", "another") if k == 1 else (
            f"up to {k} rows of a person are", "others",
        )  # fmt: skip
        changed = _NEIGHBOURS[self.neighboring_relation].format(others)
        assert self.delta is not None  # checked when private
        epsilon, delta = self.epsilon, number_up(self.delta)
        factor = number_up(math.exp(epsilon)) if epsilon < 100 else f"e^{number_up(epsilon)}"
        text = [
            f"({number_up(epsilon)}, {delta})-differential privacy under "
            f"{self.neighboring_relation}. If {whose} {changed}, the probability of any set of "
            f"results of this fit becomes at most {factor} times as large, plus {delta}.",
            f"{self._source}, by the accountant '{self.accountant}'.",
        ]
        if self.assumptions:
            text.append(LEAD_IN)
        return text

    @property
    def _source(self) -> str:
        if self.stated_by_file:
            return f"As stated by the file, {_SIGNATURES[self.signature]}: computed from its event"
        return "Computed from what ran"

    def _no_promise(self) -> list[str]:
        reasons = "; ".join(self.not_private_because) or "no reason was recorded"
        text = [f"No privacy is promised: {reasons}."]
        if self.event.non_private_reasons or self.delta is None:
            return text
        text.append(
            f"The noise alone would give epsilon = {number_up(self.epsilon)} at delta = "
            f"{number_up(self.delta)} under {self.neighboring_relation} "
            f"(accountant: {self.accountant})."
        )
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; `epsilon` is written for readers and never read back."""
        epsilon = self.epsilon
        return {
            "format": _FORMAT,
            "event": self.event.to_dict(),
            "neighboring_relation": self.neighboring_relation,
            "delta": None if self.delta is None else float(self.delta),
            "private": bool(self.private),
            "assumptions": list(self.assumptions),
            "not_private_because": list(self.not_private_because),
            "epsilon": epsilon if math.isfinite(epsilon) else "infinite",
            "accountant": self.accountant,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote; ε is computed again from the event.

        The types must be those that `to_dict` writes. The guarantee says that it is as stated by
        the file.
        """
        if not isinstance(stored, Mapping) or stored.get("format") != _FORMAT:
            found = stored.get("format") if isinstance(stored, Mapping) else None
            raise ValueError(
                f"the stored guarantee has format {found!r}; this version reads format {_FORMAT}."
            )
        try:
            delta = stored["delta"]
            return cls(
                event=ComposedEvent.from_dict(stored["event"]),
                neighboring_relation=stored["neighboring_relation"],
                delta=None if delta is None else real(delta),
                private=of_type(bool, stored["private"]),
                assumptions=_sentences(stored["assumptions"]),
                not_private_because=_sentences(stored["not_private_because"]),
                stated_by_file=True,
            )
        except (AttributeError, KeyError, TypeError, OverflowError):
            raise ValueError("the stored guarantee is not whole; it cannot be read.") from None


def _sentences(stored: Any) -> tuple[str, ...]:
    return tuple(of_type(str, line) for line in of_type(list, stored))


@lru_cache(maxsize=256)
def _epsilon(event: ComposedEvent, relation: Relation, delta: float, ideal_sampler: bool) -> float:
    return privacy_curve(event, relation, ideal_sampler=ideal_sampler).get_epsilon(delta)


def number_up(value: float) -> str:
    """Return an ε, δ or factor to four digits, rounded up: the safe side of each."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.4g}"
