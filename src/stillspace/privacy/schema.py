"""The tables of a ledger's file, and the check that the file holds these and nothing else.

A database can hold programs: a trigger that ignores every insertion, for example, would make the
budget infinite. So the schema must be, word for word, the one that stillspace writes.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import lru_cache

VERSION = 2
"""Raised whenever an older version could not read the file right."""
APPLICATION = 0x53544C4C
"""The letters STLL in the file's header: tells our files from those of other programs."""
COLUMNS = "number, time, name, relation, amounts, sampler, event, about, hash"
_TABLES = """
CREATE TABLE terms (content TEXT NOT NULL);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, name TEXT NOT NULL, relation TEXT NOT NULL,
    amounts TEXT NOT NULL, sampler TEXT NOT NULL, event TEXT NOT NULL, about TEXT NOT NULL,
    hash TEXT NOT NULL);
"""
_FIXED = "CREATE TRIGGER {0}_{1} BEFORE {1} ON {0} BEGIN SELECT RAISE(ABORT, 'append-only'); END;"
SCRIPT = _TABLES + "".join(
    _FIXED.format(table, verb) for table in ("terms", "entries") for verb in ("UPDATE", "DELETE")
)
_STORED = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def is_exact(connection: sqlite3.Connection) -> bool:
    """Whether the file holds the tables and triggers of a ledger, unchanged, and nothing else."""
    return sorted(connection.execute(_STORED).fetchall(), key=repr) == _expected()


@lru_cache(maxsize=1)
def _expected() -> list[tuple[str, ...]]:
    """Return what SQLite stores of our own script."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCRIPT)
        return sorted(connection.execute(_STORED).fetchall(), key=repr)
