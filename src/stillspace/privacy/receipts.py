"""What a ledger wrote down for one fit, small enough to travel with its model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any


@dataclass(frozen=True, slots=True)
class Receipt:
    """One entry of a ledger: which one, when, and how much of the ledger it took. Public facts.

    The hash is a link of the ledger's chain. Whoever has the ledger can look the entry up by it.
    """

    number: int
    """Of the entry; the first is 1."""
    time: str
    """UTC, as the ledger has it."""
    hash: str
    share: float
    """The part of the ledger's budget that this fit took, 0 to 1 (at its own best Rényi order)."""
    epsilon: float
    """Of the ledger: all its fits together."""
    delta: float
    kind: str
    neighboring_relation: str
    plan: str
    """The fingerprint of the plan that was charged."""

    def __str__(self) -> str:
        return (
            f"entry {self.number} of a ledger, charged {self.time}: {100 * self.share:.3g} % of a "
            f"budget of epsilon = {self.epsilon:g}, delta = {self.delta:g} under "
            f"{self.neighboring_relation} (hash {self.hash[:16]}…)"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Any) -> Receipt:
        """Return what `to_dict` wrote, every type checked; anything else is a ValueError."""
        kinds = {"int": int, "float": float, "str": str}
        if not isinstance(stored, Mapping) or set(stored) != {f.name for f in fields(cls)}:
            raise ValueError("the stored ledger entry has other facts than an entry has.")
        for field in fields(cls):
            if type(stored[field.name]) is not kinds[str(field.type)]:
                raise ValueError(f"the {field.name} of the stored ledger entry has a wrong type.")
        found = cls(**stored)
        numbers = (found.share, found.epsilon, found.delta)
        if found.number < 1 or any(not (isfinite(x) and x >= 0.0) for x in numbers):
            raise ValueError("the stored ledger entry has a number that no entry has.")
        return found
