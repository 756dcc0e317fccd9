"""Statements of the paper, each judged by a stated rule in every column, by output and iterate.

A mark always carries its counts, so that a reader can judge by another rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reproduction.columns import COLUMNS
from reproduction.tables import ITERATE, OUTPUT, Row, Table, pick

VIEWS = {OUTPUT: "output", ITERATE: "iterate"}
"""What a method returns, and the last point that it visits (the paper's "error")."""
DRAWN = ("as-printed", "without-misprint", "honest", "tuned")
"""The columns that figures show; "poisson" lies between "honest" and "tuned" and is in tables."""
MOST = 0.75
"""A statement about cells holds if it is true in at least this share of them."""
BORROWED = {"without-misprint": "as-printed", "poisson": "honest"}
"""Where a column has no rows of a method, because nothing differs, those of this column stand."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Whether a statement holds, and the counts behind it; None where nothing can be said."""

    holds: bool | None
    count: str

    def __str__(self) -> str:
        word = {True: "holds", False: "fails", None: "open"}[self.holds]
        return f"{word} ({self.count})" if self.count else word


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of the paper, the rule that judges it, and its mark for each column and view."""

    claim: str
    rule: str
    marks: dict[str, dict[str, Mark]] = field(default_factory=dict)
    ours: str = ""

    def text(self, column: str) -> str:
        """Return the marks of a column; one text where output and iterate agree."""
        marks = self.marks.get(column)
        if not marks:
            return "not run"
        texts = [str(mark) for mark in marks.values()]
        if len(set(texts)) == 1 and len(texts) == len(VIEWS):
            return texts[0]
        return "; ".join(f"{VIEWS[view]}: {mark}" for view, mark in marks.items())


Judge = Callable[[Table, str], Mark]


def columns_in(table: Table) -> list[str]:
    """Return the columns of the paper's methods that a table has, in their order."""
    found = {row["column"] for row in table}
    return [column for column in COLUMNS if column in found and column != "ours"]


def rows_of(table: Table, column: str) -> Table:
    """Return the rows of a column, with those of its borrowed column for methods without any."""
    rows = pick(table, column=column)
    have = {row["method"] for row in rows}
    lent = pick(table, column=BORROWED.get(column, ""))
    return [*rows, *(row for row in lent if row["method"] not in have)]


def judged(claim: str, rule: str, table: Table, judge: Judge, ours: str = "") -> Statement:
    """Return a statement with its marks in all columns that the table has, by both views."""
    marks: dict[str, dict[str, Mark]] = {}
    for column in columns_in(table):
        rows = rows_of(table, column)
        marks[column] = {view: judge(rows, view) for view in VIEWS}
    return Statement(claim, rule, marks, ours)


def by_share(true: int, cells: int, share: float = MOST) -> Mark:
    """Return a mark by the share of cells in which something is true."""
    return (
        Mark(None, "no cell") if cells == 0 else Mark(true >= share * cells, f"{true} of {cells}")
    )


def error(row: Row, view: str) -> float:
    """Return the median log10 error of a row by output or iterate."""
    return float(row[f"median_log10_error{view}"])
