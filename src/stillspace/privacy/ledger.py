"""The file of a `Budget`: SQLite, one durable transaction per charge, entries in a hash chain.

*Rollback journal, not WAL.* A charge that was committed then stands in the one file `ledger.db`;
with a write-ahead log it may stand in `ledger.db-wal` only, and whoever copies or restores the
one file loses it. WAL also needs shared memory, which network disks do not have, and its gain,
readers beside a writer, is of no use here. `synchronous=EXTRA` is FULL plus a sync of the folder
after the journal is unlinked: without it a power cut may bring the journal, and with it the
state before the charge, back.

*No connection outlives an operation*, and a process has one at a time (`turns`).

*Creation* happens in a file beside it that is then linked to its name, which fails if the name is
taken: what is there is a whole ledger or not a ledger, never half of one.

*The cost of a charge.* A handle remembers the last entry that it saw and the sum of all charges up
to it. If nobody else wrote to the file since (`_stamp`), a charge checks the schema, the terms and
the last entry, and costs the same whatever the number of entries. Otherwise, and when a
ledger is opened, verified or listed, the whole file and the whole chain are checked.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NoReturn, TypeVar

from stillspace.exceptions import BudgetError
from stillspace.privacy import database, schema
from stillspace.privacy.chain import (
    DamagedError,
    Entry,
    checked_chain,
    link_hash,
    rows_from,
    start_hash,
)
from stillspace.privacy.filters import Charge, LedgerTerms, Tally
from stillspace.privacy.turns import one_operation, opened

T = TypeVar("T")


def create(path: str, terms: LedgerTerms, timeout: float) -> bool:
    """Make a ledger at `path`; False, and nothing changed, if something is there already."""
    first = "INSERT INTO terms VALUES (?)", [json.dumps(terms.to_dict(), sort_keys=True)]
    facts = schema.SCRIPT, schema.APPLICATION, schema.VERSION
    try:
        return database.create(path, *facts, first, timeout)
    except (sqlite3.Error, OSError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        msg = f"No ledger could be made at {path}: {reason[:1].lower()}{reason[1:]}."
        raise BudgetError(msg) from error


@dataclass(frozen=True, slots=True)
class Link:
    """A place in a ledger's chain: the number of entries up to it, and the hash of the last."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class Known:
    """What was checked: the chain up to its last link, the sum of its charges, the file's stamp."""

    link: Link
    tally: Tally
    stamp: tuple[int, ...]

    def plus(self, entry: Entry, stamp: tuple[int, ...]) -> Known:
        return Known(Link(entry.number, entry.hash), self.tally.plus(entry.charge), stamp)


Proposal = tuple[str, str, Charge, str, str]
"""The algorithm, the relation, the charge, the event and other facts of an entry to be made."""


class LedgerFile:
    """A ledger's file, and what this handle of it has seen.

    `link` is a place in the chain that was seen before, in another process maybe: the file must
    still hold it.
    """

    __slots__ = ("_known", "link", "path", "terms", "timeout")

    def __init__(
        self, path: str, timeout: float, terms: LedgerTerms | None = None, link: Link | None = None
    ) -> None:
        self.path, self.timeout, self.terms, self.link = path, timeout, terms, link
        self._known: Known | None = None

    def read(self) -> list[Entry]:
        """Return all entries; the whole file and the whole chain are checked."""

        def work(connection: sqlite3.Connection, stamp: tuple[int, ...]) -> list[Entry]:
            known, entries = self._checked(connection, stamp)
            connection.execute("COMMIT")
            self._keep(known)
            return entries

        return self._transact(work, write=False)

    def tally(self) -> Tally:

        def work(connection: sqlite3.Connection, stamp: tuple[int, ...]) -> Tally:
            known = self._current(connection, stamp)
            connection.execute("COMMIT")
            self._keep(known)
            return known.tally

        return self._transact(work, write=False)

    def append(
        self,
        decide: Callable[[Tally], Proposal],
        also: Callable[[sqlite3.Connection, Entry], object] | None = None,
    ) -> Entry:
        """Append what `decide` makes of the sum of all charges, durably, or nothing if it raises.

        Nobody else can append in between. `decide` may be called again if the file was locked.
        `also` writes what belongs to the entry, in the same transaction.
        """

        def work(connection: sqlite3.Connection, stamp: tuple[int, ...]) -> Entry:
            known = self._current(connection, stamp)
            name, relation, charge, event, about = decide(known.tally)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            entry = Entry(known.link.number + 1, now, name, relation, charge, event, about, "")
            entry = replace(entry, hash=link_hash(known.link.hash, entry.content()))
            row = (*entry.content(), entry.hash)
            places = ",".join("?" * len(row))
            connection.execute(f"INSERT INTO entries ({schema.COLUMNS}) VALUES ({places})", row)
            if rows_from(connection, entry.number) != [row]:
                raise DamagedError("a new entry is not there after it was written")
            if also is not None:
                also(connection, entry)
            connection.execute("COMMIT")
            self._keep(known.plus(entry, _stamp(self.path, _counter(stamp) + 1)))
            return entry

        return self._transact(work, write=True)

    def beside(self, work: Callable[[sqlite3.Connection], T], *, write: bool) -> T:
        """Run `work` on the checked file in one durable transaction; no entry changes."""

        def checked(connection: sqlite3.Connection, stamp: tuple[int, ...]) -> T:
            known = self._current(connection, stamp)
            found = work(connection)
            connection.execute("COMMIT")
            self._keep(replace(known, stamp=_stamp(self.path, _counter(stamp) + write)))
            return found

        return self._transact(checked, write=write)

    def _keep(self, known: Known) -> None:
        self._known, self.link = known, known.link

    def _current(self, connection: sqlite3.Connection, stamp: tuple[int, ...]) -> Known:
        """Return what the file holds: what is known, if nobody else wrote; else check it all."""
        known = self._known
        if known is None or known.stamp != stamp:
            return self._checked(connection, stamp)[0]
        terms = _checked_terms(connection)
        self._check_same(terms)
        number, expected = known.link.number, known.link.hash
        tail = [row[-1] for row in rows_from(connection, number)]
        if tail != ([expected] if number else []):
            return self._checked(connection, stamp)[0]
        return known

    def _checked(
        self, connection: sqlite3.Connection, stamp: tuple[int, ...]
    ) -> tuple[Known, list[Entry]]:
        """Check everything: SQLite's own structure, schema, terms, the chain, what was seen."""
        terms = _checked_terms(connection)
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise DamagedError("SQLite's own check fails")
        entries = checked_chain(connection, terms)
        self._check_same(terms)
        links = [start_hash(terms), *(entry.hash for entry in entries)]
        known = self.link
        if known is not None and (known.number >= len(links) or links[known.number] != known.hash):
            raise BudgetError(
                f"The ledger {self.path} has lost entries: this handle saw {known.number} of them, "
                "and the file does not hold them any more. Put the newest copy of the file back."
            )
        tally = Tally.of(terms, [entry.charge for entry in entries])
        return Known(Link(len(entries), links[-1]), tally, stamp), entries

    def _check_same(self, terms: LedgerTerms) -> None:
        if self.terms is None:
            self.terms = terms
        elif self.terms != terms:
            msg = f"{self.path} is another ledger than the one that was opened; open it again."
            raise BudgetError(msg)

    def _transact(
        self, work: Callable[[sqlite3.Connection, tuple[int, ...]], T], *, write: bool
    ) -> T:
        """Run `work` in one transaction; wait up to the timeout for others."""
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                with one_operation(self.path, deadline - time.monotonic()):
                    stamp = _checked_stamp(self.path)
                    with opened(lambda: database.connect(self.path, "rw")) as connection:
                        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                        return work(connection, stamp)  # what it raises rolls back, by closing
            except DamagedError as error:
                _damaged(self.path, str(error), error)
            except sqlite3.Error as error:
                _refuse_unless_busy(self.path, error, write)
            except UnicodeDecodeError as error:  # SQLite quotes damaged bytes in what it says
                _damaged(self.path, "it has bytes that are no text", error)
            if time.monotonic() >= deadline:
                raise BudgetError(
                    f"The ledger {self.path} was locked by another process for {self.timeout:g} s; "
                    "try again."
                )
            time.sleep(random.uniform(0.001, 0.02))


def _damaged(path: str, reason: str, error: Exception) -> NoReturn:
    msg = f"The ledger {path} is damaged ({reason}); restore it and count later fits again."
    raise BudgetError(msg) from error


def _checked_stamp(path: str) -> tuple[int, ...]:
    """Refuse other programs' files and files of a later version; return the file's stamp."""
    try:
        application, version, counter = database.file_facts(path)
        stamp = _stamp(path, counter)
    except FileNotFoundError:
        msg = f"There is no ledger at {path}; give epsilon and delta to create one."
        raise BudgetError(msg) from None
    except OSError as error:
        raise BudgetError(f"The ledger {path} cannot be opened: {error.strerror}.") from error
    if application != schema.APPLICATION:
        raise BudgetError(f"{path} is not a stillspace ledger; it was left as it is.")
    if version not in schema.VERSIONS:
        known = " and ".join(map(str, schema.VERSIONS))
        msg = f"The ledger {path} has format {version}; this version of stillspace reads {known}."
        raise BudgetError(msg)
    return stamp


def _stamp(path: str, counter: int) -> tuple[int, ...]:
    """Return what changes whenever someone writes: file, size, times, and SQLite's own counter.

    SQLite adds one to the counter in each transaction that writes. It is read before our
    transaction begins, and a commit of ours adds one. So if another process wrote in between, the
    stamp that is kept is one too old, and the next operation checks the whole file.
    """
    found = os.stat(path)
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_size, *times, counter % 2**32


def _counter(stamp: tuple[int, ...]) -> int:
    return stamp[-1]


def _checked_terms(connection: sqlite3.Connection) -> LedgerTerms:
    """Return the terms; nothing else in the file is looked at if its schema is not ours."""
    if not schema.is_exact(connection):
        raise DamagedError("its tables and triggers are not those that stillspace makes")
    rows = connection.execute("SELECT content FROM terms").fetchall()
    try:
        ((text,),) = rows
        return LedgerTerms.from_dict(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError("its terms cannot be read") from error


def _refuse_unless_busy(path: str, error: sqlite3.Error, write: bool) -> None:
    """Raise one sentence for what SQLite said, if waiting does not help."""
    code = database.code_of(error)
    if code in database.BUSY:
        return
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, 0):
        _damaged(path, str(error), error)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        verb = "written" if write else "opened"
        reason = f"The ledger {path} or its folder cannot be {verb} ({error}); nothing was charged."
    else:
        reason = f"The ledger {path} cannot be used ({error}); nothing was charged."
    raise BudgetError(reason) from error
