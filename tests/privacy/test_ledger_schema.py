"""A ledger whose file holds foreign tables, triggers, views or indexes is refused."""

import pytest

from stillspace import Budget
from stillspace.exceptions import BudgetError
from stillspace.privacy import schema
from tests.privacy.conftest import change, charge


def trigger(when, body="SELECT 1", name="t"):
    return f"CREATE TRIGGER {name} {when} BEGIN {body}; END"


def other_entries(definition):
    """The table of entries with another definition, and with the same triggers."""
    fixed = (
        f"CREATE TRIGGER entries_{verb} BEFORE {verb} ON entries "
        "BEGIN SELECT RAISE(ABORT, 'append-only'); END"
        for verb in ("UPDATE", "DELETE")
    )
    return ("DROP TABLE entries", definition, *fixed)


ENTRIES = schema._TABLES.split(";")[1].strip()
WRITABLE = "PRAGMA writable_schema=ON"
FOREIGN = {
    "ignored insertions": (trigger("BEFORE INSERT ON entries", "SELECT RAISE(IGNORE)"),),
    "aborted insertions": (trigger("BEFORE INSERT ON entries", "SELECT RAISE(ABORT, 'no')"),),
    "failed insertions": (trigger("BEFORE INSERT ON entries", "SELECT RAISE(FAIL, 'no')"),),
    "rolled back": (trigger("BEFORE INSERT ON entries", "SELECT RAISE(ROLLBACK, 'no')"),),
    "ignored above one": (
        trigger("BEFORE INSERT ON entries WHEN NEW.number > 1", "SELECT RAISE(IGNORE)"),
    ),
    "deleted afterwards": (
        "DROP TRIGGER entries_DELETE",
        trigger("AFTER INSERT ON entries", "DELETE FROM entries WHERE number = NEW.number"),
    ),
    "all deleted afterwards": (
        "DROP TRIGGER entries_DELETE",
        trigger("AFTER INSERT ON entries", "DELETE FROM entries"),
    ),
    "smaller afterwards": (
        "DROP TRIGGER entries_UPDATE",
        trigger("AFTER INSERT ON entries", "UPDATE entries SET amounts = '[\"1\"]'"),
    ),
    "an entry more": (trigger("AFTER INSERT ON entries", "INSERT INTO terms VALUES ('x')"),),
    "after insert, harmless": (trigger("AFTER INSERT ON entries"),),
    "before insert, harmless": (trigger("BEFORE INSERT ON entries"),),
    "insert into terms": (trigger("BEFORE INSERT ON terms"),),
    "update of one column": (trigger("BEFORE UPDATE OF amounts ON entries"),),
    "after update": (trigger("AFTER UPDATE ON entries"),),
    "after delete": (trigger("AFTER DELETE ON entries"),),
    "ignored update": (
        "DROP TRIGGER entries_UPDATE",
        trigger("BEFORE UPDATE ON entries", "SELECT RAISE(IGNORE)", "entries_UPDATE"),
    ),
    "harmless delete": (
        "DROP TRIGGER entries_DELETE",
        trigger("BEFORE DELETE ON entries", "SELECT 1", "entries_DELETE"),
    ),
    "no update trigger": ("DROP TRIGGER entries_UPDATE",),
    "no delete trigger": ("DROP TRIGGER entries_DELETE",),
    "no update trigger of terms": ("DROP TRIGGER terms_UPDATE",),
    "no delete trigger of terms": ("DROP TRIGGER terms_DELETE",),
    "no triggers": tuple(
        f"DROP TRIGGER {t}_{v}" for t in ("terms", "entries") for v in ("UPDATE", "DELETE")
    ),
    "trigger in other letters": (
        "DROP TRIGGER entries_DELETE",
        trigger("BEFORE DELETE ON entries", "SELECT RAISE(ABORT, 'Append-only')", "entries_DELETE"),
    ),
    "trigger with a condition": (
        "DROP TRIGGER entries_DELETE",
        trigger(
            "BEFORE DELETE ON entries WHEN 0", "SELECT RAISE(ABORT, 'append-only')",
            "entries_DELETE",
        ),
    ),
    "table": ("CREATE TABLE other (x)",),
    "table with a quoted name": ('CREATE TABLE "entries " (x)',),
    "table without rowid": ("CREATE TABLE other (x PRIMARY KEY) WITHOUT ROWID",),
    "strict table": ("CREATE TABLE other (x TEXT) STRICT",),
    "counted table": ("CREATE TABLE other (x INTEGER PRIMARY KEY AUTOINCREMENT)",),
    "counted table, dropped": (
        "CREATE TABLE other (x INTEGER PRIMARY KEY AUTOINCREMENT)",
        "DROP TABLE other",
    ),
    "child table": ("CREATE TABLE other (x REFERENCES entries(number) ON DELETE CASCADE)",),
    "copy of the entries": ("CREATE TABLE copied AS SELECT * FROM entries",),
    "statistics": ("CREATE INDEX i ON entries(name)", "ANALYZE", "DROP INDEX i"),
    "virtual table": ("CREATE VIRTUAL TABLE other USING fts5(x)",),
    "virtual tree": ("CREATE VIRTUAL TABLE other USING rtree(a, b, c)",),
    "view": ("CREATE VIEW v AS SELECT * FROM entries",),
    "view with a trigger": (
        "CREATE VIEW v AS SELECT * FROM entries",
        trigger("INSTEAD OF INSERT ON v"),
    ),
    "view in place of the entries": (
        "ALTER TABLE entries RENAME TO hidden",
        "CREATE VIEW entries AS SELECT * FROM hidden WHERE number < 1",
        trigger("INSTEAD OF INSERT ON entries", "INSERT INTO hidden SELECT NEW.number"),
    ),
    "view in place of the terms": (
        "ALTER TABLE terms RENAME TO hidden",
        "CREATE VIEW terms AS SELECT * FROM hidden",
    ),
    "index": ("CREATE INDEX i ON entries(hash)",),
    "unique index": ("CREATE UNIQUE INDEX i ON entries(hash)",),
    "partial index": ("CREATE INDEX i ON entries(number) WHERE number > 3",),
    "index of an expression": ("CREATE INDEX i ON entries(length(hash))",),
    "index of the terms": ("CREATE INDEX i ON terms(content)",),
    "column more": ("ALTER TABLE entries ADD COLUMN extra TEXT",),
    "column more in the terms": ("ALTER TABLE terms ADD COLUMN extra TEXT",),
    "column renamed": ("ALTER TABLE entries RENAME COLUMN about TO other",),
    "conflicts ignored": other_entries(
        ENTRIES.replace("PRIMARY KEY", "PRIMARY KEY ON CONFLICT IGNORE")
    ),
    "conflicts replaced": other_entries(
        ENTRIES.replace("PRIMARY KEY", "PRIMARY KEY ON CONFLICT REPLACE")
    ),
    "check": other_entries(ENTRIES.replace("hash TEXT", "hash TEXT CHECK (number < 3)")),
    "default": other_entries(ENTRIES.replace("amounts TEXT", "amounts TEXT DEFAULT '[]'")),
    "numbers as integers": other_entries(ENTRIES.replace("sampler TEXT", "sampler INTEGER")),
    "other letters are the same": other_entries(
        ENTRIES.replace("name TEXT", "name TEXT COLLATE NOCASE")
    ),
    "no rowid": other_entries(f"{ENTRIES} WITHOUT ROWID"),
    "generated column": other_entries(
        ENTRIES.replace("time TEXT NOT NULL", "time TEXT NOT NULL, g TEXT AS (hash || 'x')")
    ),
    "another space": other_entries(ENTRIES.replace("number INTEGER", "number  INTEGER")),
    "a comment": other_entries(ENTRIES.replace("hash TEXT", "/* x */ hash TEXT")),
    "schema written by hand": (
        WRITABLE,
        "UPDATE sqlite_master SET sql = sql || ' ' WHERE name = 'entries_DELETE'",
    ),
    "object without a text": (
        WRITABLE,
        "INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 2, NULL)",
    ),
    "object of an unknown type": (
        WRITABLE,
        "INSERT INTO sqlite_master VALUES ('thing', 'x', 'x', 0, NULL)",
    ),
    "trigger written by hand": (
        WRITABLE,
        "INSERT INTO sqlite_master VALUES ('trigger', 'entries_UPDATE', 'entries', 0, 'CREATE "
        "TRIGGER entries_UPDATE BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END')",
    ),
    "name written by hand": (
        WRITABLE,
        "UPDATE sqlite_master SET name = 'sqlite_x' WHERE name = 'entries_DELETE'",
    ),
}  # fmt: skip


def test_there_are_fifty_kinds():
    assert len(FOREIGN) >= 50


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_objects_in_the_file_are_refused(kind, path, budget):
    change(path, *FOREIGN[kind])
    content = path.read_bytes()
    for operation in (
        lambda: charge(budget),
        budget.spent,
        budget.verify,
        budget.entries,
        lambda: Budget(path),
    ):
        with pytest.raises(BudgetError, match=r"damaged|cannot be used"):
            operation()
    assert path.read_bytes() == content


def test_an_entry_that_does_not_arrive_is_noticed(path, budget, monkeypatch):
    """The second line of defence: the new entry is read again before the commit."""
    charge(budget)
    monkeypatch.setattr(schema, "is_exact", lambda _: True)
    change(path, *FOREIGN["ignored insertions"])
    with pytest.raises(BudgetError, match="a new entry is not there after it was written"):
        charge(budget)
    change(path, "DROP TRIGGER t", *FOREIGN["smaller afterwards"])
    with pytest.raises(BudgetError, match="a new entry is not there after it was written"):
        charge(budget)
