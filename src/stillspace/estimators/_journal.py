"""Fits that keep a journal: made or opened, paid for, and replayed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from warnings import warn

from stillspace.estimators._validation import checked_type
from stillspace.exceptions import JournalError, NotAccountedError, ResumedWarning
from stillspace.plans.fixed import Plan, fingerprint
from stillspace.plans.staged import StagedPlan
from stillspace.privacy import Budget
from stillspace.privacy.chain import Entry
from stillspace.run.journal import Journal, remaining
from stillspace.run.journal_file import About, JournalFile

SHARED = (
    "some answers of this fit are also those of another run of its journal; the ledger accounts "
    "for both runs",
)


@dataclass(frozen=True, slots=True)
class Paid:
    """What a private fit may publish: the entry that pays, the journal, what must be said of it."""

    entry: Entry
    journal: Journal | None = None
    stated: tuple[str, ...] = ()


def check_payment(budget: Any, path: str | None, algorithm: str) -> None:
    """Refuse a budget that is none, and a journal of a private fit that could not be resumed."""
    checked_type("budget", budget, Budget)
    if path is None:
        return
    if budget is None:
        msg = (
            "A private fit with a journal needs a budget: its ledger counts what was published, so "
            "that a fit that is resumed twice is charged twice. Pass budget."
        )
        raise NotAccountedError(msg)
    if algorithm == "ptr":
        msg = (
            "algorithm='ptr' releases one answer, at its end, so there is nothing to resume; leave "
            "journal out."
        )
        raise NotAccountedError(msg)


def paid(path: str | None, budget: Budget, plan: StagedPlan, charge: Mapping[str, Any]) -> Paid:
    """Charge a fit, or what remains of one; what is charged stays, whatever becomes of the fit."""
    if path is None:
        return Paid(budget.charge(plan.event(), plan.relation, **charge))
    header: About = {"kind": "private", "plan": fingerprint(plan), "relation": plan.relation}
    file = JournalFile.create(path, header)
    if file is None:
        return _resumed(JournalFile.open(path, header), budget, plan, charge)
    try:
        return _charged(file, budget, plan, charge)
    except BaseException:
        file.remove()
        raise


def _charged(
    file: JournalFile, budget: Budget, plan: StagedPlan, charge: Mapping[str, Any]
) -> Paid:
    """Charge all that a fit may still release, as a right of its own."""
    right, answers = secrets.token_hex(16), file.n_answers
    stated = SHARED if answers else ()
    if answers:
        charge = {**charge, "note": f"resumed after {answers} answers, which another run has, too"}
    event = remaining(plan, file.records())
    entry = budget.charge(event, plan.relation, **charge, journal=right, answers=answers)
    file.add_right(right, entry.number, entry.hash)
    return Paid(entry, _journal(file, budget, right), stated)


def _resumed(
    file: JournalFile, budget: Budget, plan: StagedPlan, charge: Mapping[str, Any]
) -> Paid:
    """Go on under the right that was paid for, or charge again if it was used elsewhere."""
    names = file.rights()
    if not names:
        if file.n_answers:
            msg = f"The journal {file.path} does not say who paid for it; start a new fit."
            raise JournalError(msg)
        return _charged(file, budget, plan, charge)  # a run that ended before its charge
    right = budget.rights.find(names[-1])
    if right is None:
        msg = (
            f"The ledger {budget.path} did not pay for the journal {file.path}; pass the budget "
            "that the fit was charged to."
        )
        raise JournalError(msg)
    if budget.rights.resume(right.id, file.n_answers):
        _say_resumed(file)
        entry = budget.entries()[right.entry - 1]
        stated = SHARED if len(names) > 1 else ()
        return Paid(entry, _journal(file, budget, right.id), stated)
    found = _charged(file, budget, plan, charge)
    _say_resumed(file)
    return found


def _journal(file: JournalFile, budget: Budget, right: str) -> Journal:
    return Journal(file, lambda number: budget.rights.claim(right, number))


def robust_journal(path: str | None, plan: Plan) -> Journal | None:
    """Return the journal of a robust fit, which promises nothing and pays for nothing."""
    if path is None:
        return None
    header: About = {"kind": "robust", "plan": fingerprint(plan), "relation": ""}
    file = JournalFile.create(path, header)
    if file is None:
        file = JournalFile.open(path, header)
        _say_resumed(file)
    return Journal(file)


def _say_resumed(file: JournalFile) -> None:
    if file.n_answers:
        msg = (
            f"{file.n_answers} answers come from the journal {file.path}; the rows are read only "
            "for the remaining answers."
        )
        warn(msg, ResumedWarning, stacklevel=6)
