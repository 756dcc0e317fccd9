"""The file of a journal: the answers of a fit in the order in which they were published.

SQLite keeps it whole: an answer is there, durably, or it is not. A chain of hashes over the header
and the answers shows damage. A private journal holds public facts alone: the fingerprint of the
plan, the relation, the entries of the ledger that paid, and the answers with their events.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NoReturn, TypeVar

import numpy as np

from stillspace._typing import FloatArray
from stillspace.exceptions import JournalError
from stillspace.privacy import database
from stillspace.privacy.chain import link_hash
from stillspace.privacy.turns import one_operation, opened

APPLICATION = 0x53544C4A
"""The letters STLJ in the file's header."""
VERSION = 1
PART_BYTES = 2**28
"""An answer is stored in pieces of at most this size: SQLite has a limit of 1e9 bytes."""
SPARE_BYTES = 2**20
"""Room on the disk beyond twice an answer that must be there before the answer is claimed."""
WAIT = 60.0
"""Seconds to wait for another thread or process."""
SCRIPT = """
CREATE TABLE header (content TEXT NOT NULL);
CREATE TABLE rights (id TEXT NOT NULL, entry INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE answers (number INTEGER PRIMARY KEY, about TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE parts (
    number INTEGER NOT NULL, part INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (number, part)) WITHOUT ROWID;
"""

T = TypeVar("T")
About = dict[str, Any]


class JournalFile:
    """A journal that was made or opened, with its header checked."""

    __slots__ = ("_last", "n_answers", "path")

    def __init__(self, path: str, last: str, n_answers: int) -> None:
        self.path, self.n_answers = path, n_answers
        self._last = last
        """The last link of the chain."""

    @classmethod
    def create(cls, path: str, header: About) -> JournalFile | None:
        """Make a journal without answers; None if something of this name is there."""
        text = _header_text(header)
        first = "INSERT INTO header VALUES (?)", [text]
        try:
            made = database.create(path, SCRIPT, APPLICATION, VERSION, first, WAIT)
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise JournalError(f"No journal could be made at {path} ({reason}).") from error
        return cls(path, link_hash("", text), 0) if made else None

    @classmethod
    def open(cls, path: str, header: About) -> JournalFile:
        """Open a journal of the same fit; everything in it is checked."""
        _check_kind(path)
        found = cls(path, "", 0)

        def work(connection: sqlite3.Connection) -> tuple[str, int]:
            if not database.holds_exactly(connection, SCRIPT):
                _damaged(path, "its tables are not those that stillspace makes")
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                _damaged(path, "SQLite's own check fails")
            stored = [text for (text,) in connection.execute("SELECT content FROM header")]
            if stored != [_header_text(header)]:
                _foreign(path, stored, header)
            return _checked_chain(path, connection, stored[0])

        found._last, found.n_answers = found._transact(work)
        return found

    def rights(self) -> list[str]:
        """Return the names of the rights under which the answers were published, oldest first."""
        query = "SELECT id FROM rights ORDER BY rowid"
        return self._transact(lambda file: [str(name) for (name,) in file.execute(query)])

    def add_right(self, name: str, entry: int, hash: str) -> None:
        """Write down which entry of the ledger pays for the answers from now on."""
        row = [name, entry, hash]
        self._transact(
            lambda file: file.execute("INSERT INTO rights VALUES (?, ?, ?)", row), write=True
        )

    def records(self) -> list[About]:
        """Return what is known of each answer, without the answers."""
        query = "SELECT about FROM answers ORDER BY number"
        return self._transact(lambda file: [json.loads(text) for (text,) in file.execute(query)])

    def read(self, number: int) -> tuple[About, list[FloatArray]]:
        def work(connection: sqlite3.Connection) -> tuple[About, list[FloatArray]]:
            query = "SELECT about FROM answers WHERE number = ?"
            about = json.loads(connection.execute(query, [number]).fetchone()[0])
            return about, _arrays(b"".join(_pieces(connection, number)), about["shapes"])

        return self._transact(work)

    def check_room(self, values: Sequence[FloatArray]) -> None:
        """Refuse answers for which the disk has no room, before they are claimed."""
        needed = 2 * sum(8 * value.size for value in values) + SPARE_BYTES
        if shutil.disk_usage(os.path.dirname(self.path)).free < needed:
            raise JournalError(
                f"The disk of the journal {self.path} is full; make room and fit again, which "
                "goes on after the last answer."
            )

    def append(self, number: int, about: About, values: Sequence[FloatArray]) -> None:
        """Append answers, durably; what is given back later has the same bits."""
        text = json.dumps({**about, "shapes": [list(v.shape) for v in values]}, sort_keys=True)
        data = b"".join(np.ascontiguousarray(v, dtype="<f8").tobytes() for v in values)
        link = _link(self._last, number, text, [data])

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO answers VALUES (?, ?, ?)", [number, text, link])
            for part, low in enumerate(range(0, len(data), PART_BYTES)):
                piece = data[low : low + PART_BYTES]
                connection.execute("INSERT INTO parts VALUES (?, ?, ?)", [number, part, piece])

        self._transact(work, write=True)
        self._last, self.n_answers = link, number

    def remove(self) -> None:
        """Delete a journal that was made a moment ago and holds nothing."""
        os.unlink(self.path)

    def _transact(self, work: Callable[[sqlite3.Connection], T], *, write: bool = False) -> T:
        deadline = time.monotonic() + WAIT
        while True:
            try:
                with (
                    one_operation(self.path, WAIT),
                    opened(lambda: database.connect(self.path, "rw")) as connection,
                ):
                    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    found = work(connection)
                    connection.execute("COMMIT")
                    return found
            except sqlite3.IntegrityError as error:
                msg = f"Another process writes to the journal {self.path}; give each fit its own."
                raise JournalError(msg) from error
            except sqlite3.OperationalError as error:
                if database.code_of(error) not in database.BUSY:
                    _refuse(self.path, error)
                if time.monotonic() >= deadline:
                    raise JournalError(f"The journal {self.path} is locked; try again.") from error
                time.sleep(0.02)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                _damaged(self.path, str(error), error)
            except (ValueError, TypeError, KeyError) as error:
                _damaged(self.path, "an answer cannot be read", error)


def _check_kind(path: str) -> None:
    """Refuse other files by their first bytes: SQLite itself may change a file that it opens."""
    try:
        application, version, _ = database.file_facts(path)
    except OSError as error:
        raise JournalError(f"The journal {path} cannot be read: {error.strerror}.") from error
    if application != APPLICATION:
        msg = f"{path} is not a journal of stillspace; it was left as it is. Give another name."
        raise JournalError(msg)
    if version != VERSION:
        raise JournalError(
            f"The journal {path} has format {version}; this version of stillspace reads {VERSION}."
        )


def _header_text(header: About) -> str:
    return json.dumps({**header, "stillspace": _version()}, sort_keys=True)


def _version() -> str:
    """Return the version of the package; importing it by name would point up the layers."""
    return str(sys.modules["stillspace"].__version__)


def _foreign(path: str, stored: list[str], header: About) -> NoReturn:
    try:
        found = json.loads(stored[0])
        wanted = json.loads(_header_text(header))
        name = next(key for key in wanted if found[key] != wanted[key])
    except (ValueError, TypeError, KeyError, IndexError, StopIteration):
        _damaged(path, "its header cannot be read")
    what = {
        "plan": "another plan: other parameters, another shape of the table, or other rows",
        "stillspace": f"stillspace {found['stillspace']}, and this is {_version()}",
    }
    raise JournalError(
        f"The journal {path} belongs to another fit ({what.get(name, f'another {name}')}); give "
        "another name, or fit as before. It was left as it is."
    )


def _checked_chain(path: str, connection: sqlite3.Connection, header: str) -> tuple[str, int]:
    """Return the last link and the number of answers, if each is what was written."""
    link, count = link_hash("", header), 0
    rows = connection.execute("SELECT number, about, hash FROM answers ORDER BY number").fetchall()
    for number, text, stored in rows:
        about = json.loads(text)
        link, count = _link(link, number, text, _pieces(connection, number)), count + 1
        cells = sum(prod(shape) for shape in about["shapes"])
        held = connection.execute(
            "SELECT SUM(LENGTH(value)) FROM parts WHERE number = ?", [number]
        ).fetchone()[0]
        if number != count or link != stored or (held or 0) != 8 * cells:
            _damaged(path, f"answer {count} is not what was written")
    return link, count


def _link(before: str, number: int, about: str, pieces: Any) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return link_hash(before, [number, about, digest.hexdigest()])


def _pieces(connection: sqlite3.Connection, number: int) -> Iterator[bytes]:
    query = "SELECT value FROM parts WHERE number = ? ORDER BY part"
    for (piece,) in connection.execute(query, [number]):
        yield piece


def _arrays(data: bytes, shapes: list[list[int]]) -> list[FloatArray]:
    flat, found, low = np.frombuffer(data, dtype="<f8"), [], 0
    for shape in shapes:
        high = low + prod(shape)
        found.append(flat[low:high].reshape(shape).astype(np.float64))
        low = high
    return found


def _refuse(path: str, error: sqlite3.Error) -> NoReturn:
    if database.code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        _damaged(path, str(error), error)
    msg = f"The journal {path} cannot be used ({error}); what it held is still there."
    raise JournalError(msg) from error


def _damaged(path: str, reason: str, error: Exception | None = None) -> NoReturn:
    raise JournalError(
        f"The journal {path} is damaged ({reason}); put a whole copy back, or begin a new fit with "
        "another journal, which is charged. It was left as it is."
    ) from error
