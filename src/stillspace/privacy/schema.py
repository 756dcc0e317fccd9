"""The tables of a ledger's file, and the check that the file holds these and nothing else.

A database can hold programs: a trigger that ignores every insertion, for example, would make the
budget infinite. So the schema must be, word for word, the one that stillspace writes.
"""

from __future__ import annotations

import sqlite3

from stillspace.privacy.database import holds_exactly

VERSION = 2
"""Raised whenever an older version could not read the file right."""
WITH_JOURNALS = 3
"""A ledger gets this version, and one table more, with the first fit that keeps a journal."""
VERSIONS = (VERSION, WITH_JOURNALS)
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
JOURNALS = (
    """CREATE TABLE journals (
    id TEXT PRIMARY KEY, entry INTEGER NOT NULL, answers INTEGER NOT NULL,
    resumed INTEGER NOT NULL);""",
    """CREATE TRIGGER journals_UPDATE BEFORE UPDATE ON journals
    WHEN NEW.id IS NOT OLD.id OR NEW.entry IS NOT OLD.entry OR NEW.answers < OLD.answers
    OR NEW.resumed < OLD.resumed BEGIN SELECT RAISE(ABORT, 'numbers only grow'); END;""",
    _FIXED.format("journals", "DELETE"),
)
"""What a fit with a journal has published: one row per right that was paid for (`rights`)."""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of an open ledger."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_exact(connection: sqlite3.Connection) -> bool:
    """Whether the file holds the tables and triggers of a ledger, unchanged, and nothing else."""
    journals = () if version_of(connection) == VERSION else JOURNALS
    return holds_exactly(connection, SCRIPT + "".join(journals))


def add_journals(connection: sqlite3.Connection) -> None:
    """Add the table of journals inside a transaction, if the ledger does not have it yet."""
    if version_of(connection) == VERSION:
        for statement in JOURNALS:  # executescript would commit
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={WITH_JOURNALS}")
