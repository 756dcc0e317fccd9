"""The file of a `Budget`: SQLite, one durable transaction a charge, entries in a hash chain.

*Rollback journal, not WAL.* A charge that was committed then stands in the one file `ledger.db`;
with a write-ahead log it may stand in `ledger.db-wal` only, and whoever copies or restores the
one file loses it. WAL also needs shared memory, which network disks do not have, and its gain,
readers beside a writer, is of no use here. `synchronous=EXTRA` is FULL plus a sync of the folder
after the journal is unlinked: without it a power cut may bring the journal, and with it the
state before the charge, back.

*No connection outlives an operation*, and none is open while the process forks: a fork would
copy SQLite's notion of its locks without the locks.

*Creation* happens in a file beside it that is then linked to its name, which fails if the name is
taken: what is there is a whole ledger or not a ledger, never half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from stillspace.exceptions import BudgetError
from stillspace.privacy.events import ComposedEvent
from stillspace.privacy.filters import Charge, Terms
from stillspace.privacy.guarantee import Guarantee

SCHEMA = 2
"""Raised whenever an older version could not read the file right."""
_APPLICATION = 0x53544C4C  # "STLL": tells our files from other programs'
_TABLES = """
CREATE TABLE terms (content TEXT NOT NULL);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, name TEXT NOT NULL, relation TEXT NOT NULL,
    amounts TEXT NOT NULL, sampler TEXT NOT NULL, event TEXT NOT NULL, about TEXT NOT NULL,
    hash TEXT NOT NULL);
"""
_COLUMNS = "number, time, name, relation, amounts, sampler, event, about, hash"
_FIXED = "CREATE TRIGGER {0}_{1} BEFORE {1} ON {0} BEGIN SELECT RAISE(ABORT, 'append-only'); END;"
_ATTEMPT = 0.1  # seconds that SQLite itself waits for a lock

T = TypeVar("T")

_at_a_time = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_at_a_time.acquire,
        after_in_parent=_at_a_time.release,
        after_in_child=_at_a_time.release,
    )


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


def _hash(previous: str, content: Any) -> str:
    text = json.dumps([previous, content], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def create(path: str, terms: Terms) -> bool:
    """Make a ledger at `path`; False, and nothing changed, if something is there already."""
    folder, target = os.path.dirname(path), Path(path)
    if target.exists() or target.is_symlink():
        return False
    temporary = os.path.join(folder, f".stillspace-{secrets.token_hex(8)}.tmp")
    try:
        with closing(_connect(temporary, "rwc")) as connection:
            connection.executescript(
                f"PRAGMA application_id={_APPLICATION}; PRAGMA user_version={SCHEMA};"
                f"BEGIN IMMEDIATE; {_TABLES}"
                + "".join(
                    _FIXED.format(table, verb)
                    for table in ("terms", "entries")
                    for verb in ("UPDATE", "DELETE")
                )
            )
            connection.execute("INSERT INTO terms VALUES (?)", [_terms_text(terms)])
            connection.execute("COMMIT")
        os.link(temporary, path)
    except FileExistsError:
        return False
    except (sqlite3.Error, OSError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        msg = f"No ledger could be made at {path}: {reason[:1].lower()}{reason[1:]}."
        raise BudgetError(msg) from error
    finally:
        for name in (temporary, f"{temporary}-journal"):
            with suppress(OSError):
                os.unlink(name)
        _sync_folder(folder)
    return True


def read(path: str, timeout: float) -> tuple[Terms, list[Entry]]:
    """Return the terms and all entries; the hash chain is checked."""
    return _transact(path, timeout, _read, write=False)


def append(
    path: str,
    timeout: float,
    decide: Callable[[Terms, list[Entry]], tuple[str, str, Charge, str, str]],
) -> Entry:
    """Append what `decide` makes of all that is there, durably, or nothing if it raises.

    Nobody else can append in between. `decide` may be called again if the file was locked.
    """

    def work(connection: sqlite3.Connection) -> Entry:
        terms, entries = _read(connection)
        name, relation, charge, event, about = decide(terms, entries)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = Entry(len(entries) + 1, now, name, relation, charge, event, about, "")
        previous = entries[-1].hash if entries else _start_hash(terms)
        chained = _hash(previous, entry.content())
        row = (*entry.content(), chained)
        connection.execute(f"INSERT INTO entries ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", row)
        return replace(entry, hash=chained)

    return _transact(path, timeout, work, write=True)


def _terms_text(terms: Terms) -> str:
    return json.dumps(terms.to_dict(), sort_keys=True)


def _start_hash(terms: Terms) -> str:
    return _hash("", terms.to_dict())


def _connect(path: str, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode={mode}", uri=True, timeout=_ATTEMPT, isolation_level=None
    )
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA fullfsync=ON")  # macOS: through the disk's own cache
        connection.execute("PRAGMA synchronous=EXTRA")
        journal = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
        if journal != "delete" or connection.execute("PRAGMA synchronous").fetchone()[0] != 3:
            raise sqlite3.OperationalError("its file cannot be written durably")
    except BaseException:
        connection.close()
        raise
    return connection


def _transact(
    path: str, timeout: float, work: Callable[[sqlite3.Connection], T], *, write: bool
) -> T:
    """Run `work` in one transaction; wait up to `timeout` seconds for other processes."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with _at_a_time:
                _check_kind(path)
                with closing(_connect(path, "rw")) as connection:
                    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    result = work(connection)  # what it raises rolls back, by closing
                    connection.execute("COMMIT")
                    return result
        except _Damaged as error:
            msg = f"The ledger {path} is damaged ({error}); restore it and count later fits again."
            raise BudgetError(msg) from error
        except sqlite3.Error as error:
            if not _busy(error):
                _refuse(path, error, write)
        except UnicodeDecodeError:  # SQLite quotes damaged bytes in what it says
            msg = f"The ledger {path} is damaged; restore it and count later fits again."
            raise BudgetError(msg) from None
        if time.monotonic() >= deadline:
            msg = f"The ledger {path} was locked by another process for {timeout:g} s; try again."
            raise BudgetError(msg)
        time.sleep(random.uniform(0.001, 0.02))


class _Damaged(Exception):
    """What the file holds is not what stillspace wrote."""


def _check_kind(path: str) -> None:
    """Refuse other programs' files and files of a later version, by the first bytes alone.

    SQLite itself may change a file that it opens. (Closing a second descriptor drops the locks of
    this process; no connection of ours is open here.)
    """
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        msg = f"There is no ledger at {path}; give epsilon and delta to create one."
        raise BudgetError(msg) from None
    except OSError as error:
        raise BudgetError(f"The ledger {path} cannot be opened: {error.strerror}.") from error
    application, schema = (int.from_bytes(header[i : i + 4], "big") for i in (68, 60))
    if header[:16] != b"SQLite format 3\0" or application != _APPLICATION:
        raise BudgetError(f"{path} is not a stillspace ledger; it was left as it is.")
    if schema != SCHEMA:
        msg = f"The ledger {path} has format {schema}; this version of stillspace reads {SCHEMA}."
        raise BudgetError(msg)


def _read(connection: sqlite3.Connection) -> tuple[Terms, list[Entry]]:
    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise _Damaged("SQLite's own check fails")
    rows = connection.execute("SELECT content FROM terms").fetchall()
    stored = connection.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY number").fetchall()
    try:
        ((text,),) = rows
        terms = Terms.from_dict(json.loads(text))
        entries = [_entry(row, terms) for row in stored]
    except (ValueError, TypeError, KeyError) as error:
        raise _Damaged("a line cannot be read") from error
    previous = _start_hash(terms)
    for i, entry in enumerate(entries):
        previous = _hash(previous, entry.content())
        if entry.hash != previous or entry.number != i + 1:
            raise _Damaged(f"entry {i + 1} is not what was written")
    return terms, entries


def _entry(row: tuple[Any, ...], terms: Terms) -> Entry:
    number, when, name, relation, amounts, sampler, event, about, chained = row
    charge = Charge(tuple(int(amount) for amount in json.loads(amounts)), int(sampler))
    if len(charge.amounts) != len(terms.limits) or min(*charge.amounts, charge.sampler) < 0:
        raise ValueError("a charge of another kind of ledger, or a negative one")
    told = json.loads(about)
    if set(told) != {"plan", "delta", "note"}:
        raise ValueError("other facts than those of an entry")
    return Entry(number, when, name, relation, charge, event, about, chained)


def _busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _refuse(path: str, error: sqlite3.Error, write: bool) -> NoReturn:
    """Raise one sentence for what SQLite said."""
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, 0):
        reason = f"The ledger {path} is damaged ({error}); restore it and count later fits again."
    elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        verb = "written" if write else "opened"
        reason = f"The ledger {path} or its folder cannot be {verb} ({error}); nothing was charged."
    else:
        reason = f"The ledger {path} cannot be used ({error}); no row was read."
    raise BudgetError(reason) from error


def _sync_folder(folder: str) -> None:
    """Make a new name durable; where folders cannot be opened (Windows) the system does it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
