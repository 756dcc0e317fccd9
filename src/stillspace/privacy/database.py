"""SQLite files that lose nothing: ledgers and journals are made and opened in the same way.

A file is made beside its name and then linked to it, which fails if the name is taken: what is
there is whole, or is something else and is left alone. A commit is durable when it returns.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

from stillspace.privacy.turns import one_operation, opened

_ATTEMPT = 0.1
"""Seconds that SQLite itself waits for a lock."""
_STORED = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_MAGIC = b"SQLite format 3\0"
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Errors of a file that others use at the moment."""


def create(
    path: str,
    script: str,
    application: int,
    version: int,
    first: tuple[str, list[str]],
    timeout: float,
) -> bool:
    """Make a file at `path`; False, and nothing changed, if something is there already.

    `application` and `version` go into SQLite's own header, and `first` is a statement with its
    values. Raises sqlite3.Error or OSError.
    """
    folder, target = os.path.dirname(path), Path(path)
    if target.exists() or target.is_symlink():
        return False
    temporary = os.path.join(folder, f".stillspace-{secrets.token_hex(8)}.tmp")
    try:
        with one_operation(path, timeout), opened(lambda: connect(temporary, "rwc")) as connection:
            connection.executescript(
                f"PRAGMA application_id={application};PRAGMA user_version={version};"
                f"BEGIN IMMEDIATE; {script}"
            )
            connection.execute(*first)
            connection.execute("COMMIT")
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        for name in (temporary, f"{temporary}-journal"):
            with suppress(OSError):
                os.unlink(name)
        _sync_folder(folder)
    return True


def connect(path: str, mode: str) -> sqlite3.Connection:
    """Open a file whose commits are durable; raise sqlite3.Error if that cannot be had."""
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


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's own number of an error; 0 if it has none."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def file_facts(path: str) -> tuple[int, int, int]:
    """Return application, version and counter of transactions from a file's header alone.

    SQLite itself may change a file that it opens; other programs' files are told apart by their
    first bytes. (Closing a second descriptor drops the locks of this process; no connection of
    ours is open here.) The application is −1 if the file is none of SQLite's.
    """
    with open(path, "rb") as file:
        header = file.read(100)
    version, application, counter = (int.from_bytes(header[i : i + 4], "big") for i in (60, 68, 24))
    return (application if header[:16] == _MAGIC else -1), version, counter


def holds_exactly(connection: sqlite3.Connection, script: str) -> bool:
    """Whether a file holds the tables and triggers of a script, unchanged, and nothing else.

    A database can hold programs: a trigger that ignores every insertion, for example.
    """
    return sorted(connection.execute(_STORED).fetchall(), key=repr) == _expected(script)


@lru_cache(maxsize=8)
def _expected(script: str) -> list[tuple[str, ...]]:
    """Return what SQLite stores of our own script."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return sorted(connection.execute(_STORED).fetchall(), key=repr)


def _sync_folder(folder: str) -> None:
    """Make a new name durable; where folders cannot be opened (Windows) the system does it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
