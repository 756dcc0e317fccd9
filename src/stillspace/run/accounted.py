"""Rows that a plan accounts for: checks that read no row."""

from __future__ import annotations

from typing import TypeVar

from stillspace.exceptions import NotAccountedError
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.staged import StagedPlan
from stillspace.rows import STANDARD, Rows

_R = TypeVar("_R", bound=Rows)


def accounted(rows: _R) -> _R:
    """Return rows whose sums have no larger floating-point error than releases account for."""
    if not STANDARD.covers(rows.summation):
        msg = (
            f"These rows are added up by longer chains ({rows.summation}) than a plan accounts for "
            f"({STANDARD}); shorten their jobs."
        )
        raise NotAccountedError(msg)
    return rows


def check_rows(plan: AnyPlan, rows: Rows) -> None:
    """Refuse rows that a plan could not run on, before a budget is charged and a row is read."""
    accounted(rows)
    if not isinstance(plan, StagedPlan):
        return
    if rows.bounded:
        msg = "A staged plan maps the rows itself: give them as they are, by MemoryRows.of(X)."
        raise ValueError(msg)
    if rows.n_columns != plan.n_columns:
        msg = f"This plan is made for {plan.n_columns} columns; there are {rows.n_columns}."
        raise ValueError(msg)
