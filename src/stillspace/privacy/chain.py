"""The entries of a ledger and their hash chain: each link holds the one before it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from stillspace.privacy import schema
from stillspace.privacy.events import ComposedEvent
from stillspace.privacy.filters import Charge, LedgerTerms
from stillspace.privacy.guarantee import Guarantee


class DamagedError(Exception):
    """What the file holds is not what stillspace wrote."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge: public facts only."""

    number: int
    time: str
    """UTC."""
    name: str
    """The algorithm."""
    neighboring_relation: str
    """That the fit was made for; the charge is under the ledger's."""
    charge: Charge
    event_json: str
    about_json: str
    hash: str
    """Of this entry and, through the one before it, of all before it."""

    @property
    def event(self) -> ComposedEvent:
        """What the fit was charged for."""
        return ComposedEvent.from_dict(json.loads(self.event_json))

    @property
    def plan(self) -> str:
        """The fingerprint of the fit's plan (`stillspace.plans.fixed.fingerprint`), if known."""
        return str(json.loads(self.about_json)["plan"])

    @property
    def note(self) -> str:
        """What was noted with the charge."""
        return str(json.loads(self.about_json)["note"])

    @property
    def guarantee(self) -> Guarantee:
        """What the fit alone promised, computed from its event."""
        delta = json.loads(self.about_json)["delta"]
        return Guarantee.from_event(self.event, self.neighboring_relation, delta)  # type: ignore[arg-type]

    def content(self) -> tuple[Any, ...]:
        """Return everything but the hash, as plain values."""
        amounts = json.dumps([str(amount) for amount in self.charge.amounts])
        return (
            self.number,
            self.time,
            self.name,
            self.neighboring_relation,
            amounts,
            str(self.charge.sampler),
            self.event_json,
            self.about_json,
        )


def link_hash(previous: str, content: Any) -> str:
    """Return the hash of an entry's content and of all that came before it."""
    text = json.dumps([previous, content], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def start_hash(terms: LedgerTerms) -> str:
    """Return the first link, before any entry."""
    return link_hash("", terms.to_dict())


def rows_from(connection: sqlite3.Connection, number: int) -> list[tuple[Any, ...]]:
    """Return the stored rows from an entry on."""
    query = f"SELECT {schema.COLUMNS} FROM entries WHERE number >= ? ORDER BY number"
    return connection.execute(query, [number]).fetchall()


def checked_chain(connection: sqlite3.Connection, terms: LedgerTerms) -> list[Entry]:
    """Return all entries, if each is what was written, in its place."""
    stored = connection.execute(f"SELECT {schema.COLUMNS} FROM entries ORDER BY number").fetchall()
    try:
        entries = [_entry(row, terms) for row in stored]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError("an entry cannot be read") from error
    previous = start_hash(terms)
    for i, entry in enumerate(entries):
        previous = link_hash(previous, entry.content())
        if entry.hash != previous or entry.number != i + 1:
            raise DamagedError(f"entry {i + 1} is not what was written")
    return entries


def _entry(row: tuple[Any, ...], terms: LedgerTerms) -> Entry:
    number, when, name, relation, amounts, sampler, event, about, chained = row
    charge = Charge(tuple(int(amount) for amount in json.loads(amounts)), int(sampler))
    if len(charge.amounts) != len(terms.limits) or min(*charge.amounts, charge.sampler) < 0:
        raise ValueError("a charge of another kind of ledger, or a negative one")
    facts = json.loads(about)
    if set(facts) != {"plan", "delta", "note"}:
        raise ValueError("other facts than those of an entry")
    return Entry(number, when, name, relation, charge, event, about, chained)
