"""Rights to publish: what a ledger knows of fits that keep a journal.

A charge pays for the answers of one fit. If the fit keeps a journal, the ledger counts how many of
its answers were published. An answer is *claimed* here before it is written to the journal, and
each number can be claimed once. So a resumed fit is covered by the first charge exactly if
nobody published more than its journal holds; whatever happened to the journal does not matter.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from stillspace.exceptions import BudgetError
from stillspace.privacy import schema
from stillspace.privacy.ledger import LedgerFile

_SELECT = "SELECT id, entry, answers, resumed FROM journals"


@dataclass(frozen=True, slots=True)
class Right:
    """What was paid for, and what was published of it: public facts."""

    id: str
    """A random word without a meaning; the journal holds it, too."""
    entry: int
    """The number of the ledger's entry that paid."""
    answers: int
    """How many answers were published, with those that an earlier right had paid for."""
    resumed: int
    """How often a fit went on under this right."""


def grant(connection: sqlite3.Connection, id: str, entry: int, answers: int) -> None:
    """Write down a right, inside the transaction of the charge that pays for it."""
    schema.add_journals(connection)
    connection.execute("INSERT INTO journals VALUES (?, ?, ?, 0)", [id, entry, answers])


class Rights:
    """The rights of one ledger."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: LedgerFile) -> None:
        self._ledger = ledger

    def all(self) -> tuple[Right, ...]:
        """Return all rights, in the order of the entries that paid for them."""

        def work(connection: sqlite3.Connection) -> tuple[Right, ...]:
            if schema.version_of(connection) == schema.VERSION:
                return ()
            return tuple(Right(*row) for row in connection.execute(f"{_SELECT} ORDER BY entry"))

        return self._ledger.beside(work, write=False)

    def find(self, id: str) -> Right | None:
        """Return a right, or None if this ledger granted none of this name."""
        return next((right for right in self.all() if right.id == id), None)

    def claim(self, id: str, number: int) -> None:
        """Claim an answer, durably, before it leaves the process; raise if it is not the next."""

        def work(connection: sqlite3.Connection) -> None:
            done = connection.execute(
                "UPDATE journals SET answers = ? WHERE id = ? AND answers = ?",
                [number, id, number - 1],
            )
            if done.rowcount != 1:
                raise BudgetError(
                    f"Answer {number} of this fit was published by another run of the same "
                    "journal, so this run ends without publishing it; to go on, fit again: that "
                    "is charged for the releases that remain."
                )

        self._ledger.beside(work, write=True)

    def resume(self, id: str, answers: int) -> bool:
        """Write down that a fit goes on after so many answers; False if more were published.

        Then the releases that remain must be charged again, and nothing is written down.
        """

        def work(connection: sqlite3.Connection) -> bool:
            (published,) = connection.execute(
                "SELECT answers FROM journals WHERE id = ?", [id]
            ).fetchone()
            if published < answers:
                raise BudgetError(
                    f"The ledger {self._ledger.path} knows of {published} answers of this fit, and "
                    f"its journal holds {answers}: the ledger is an older copy. Put the newest "
                    "copy back."
                )
            if published > answers:
                return False
            connection.execute("UPDATE journals SET resumed = resumed + 1 WHERE id = ?", [id])
            return True

        return self._ledger.beside(work, write=True)
