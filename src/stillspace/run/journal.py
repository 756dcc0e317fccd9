"""A journal of answers: what a run keeps, what a later run replays, and what then remains to pay.

Why a resumed private fit is covered by what was charged is proved in docs/privacy.md, "Journals".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import nextafter, sqrt
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.exceptions import JournalError
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.plans.ledger import CeilingLedger, Ledger
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Release
from stillspace.plans.staged import StagedPlan
from stillspace.privacy.events import NOTHING, ComposedEvent, SingleEvent
from stillspace.run.journal_file import About, JournalFile


def _free(_: int) -> None:
    """Claim nothing: a fit that promises no privacy."""


class Journal:
    """The answers of one run, in order: those of the file first, then fresh ones.

    A run asks `replayed` first. If that gives None, the run records, draws and reads as ever, and
    hands the answer to `keep` before anything is computed from it.
    `claim(number)` is called before an answer leaves the process; it raises if the answer may not
    be published.
    """

    def __init__(self, file: JournalFile, claim: Callable[[int], None] = _free) -> None:
        self._file, self._claim = file, claim
        self._number, self._stage = 0, -1
        """The answer that was given or kept last, and the stage of the fit."""

    def begin_stage(self) -> None:
        self._stage += 1

    def replayed(
        self, releases: Sequence[Release], k: int, ledger: Ledger
    ) -> list[FloatArray] | None:
        """Return the kept answers of iteration k and record its events; None if there are none."""
        values = self._next(self._about(releases, k))
        if values is not None:
            for release in releases:
                ledger.record(release.event(k), read=release.sampling)
        return values

    def keep(self, releases: Sequence[Release], k: int, values: Sequence[FloatArray]) -> None:
        """Claim fresh answers, then store them, durably; only then may they be used."""
        self._store(self._about(releases, k), values)

    def start(self, make: Callable[[], FloatArray]) -> FloatArray:
        """Return a random start. It reads no row and is as public as a given one."""
        about: About = {"stage": self._stage, "start": True}
        kept = self._next(about)
        if kept is not None:
            return kept[0]
        made = make()
        self._store(about, (made,))
        return made

    def _next(self, about: About) -> list[FloatArray] | None:
        if self._number == self._file.n_answers:
            return None
        stored, values = self._file.read(self._number + 1)
        shapes = stored.pop("shapes")
        if stored != about:
            raise JournalError(
                f"Answer {self._number + 1} of the journal {self._file.path} belongs to another "
                "question than the one that this fit asks now; resume with the same versions of "
                "all libraries, or begin a new fit with another journal. It was left as it is."
            )
        assert len(values) == len(shapes)
        self._number += 1
        return values

    def _store(self, about: About, values: Sequence[FloatArray]) -> None:
        self._file.check_room(values)
        self._claim(self._number + 1)
        self._file.append(self._number + 1, about, values)
        self._number += 1

    def _about(self, releases: Sequence[Release], k: int) -> About:
        """Return what identifies a question, as public facts; its noise is part of its event."""
        asked: list[Any] = [
            {
                "query": release.query.name,
                "shape": list(release.query.shape),
                "event": release.event(k).to_dict(),
            }
            for release in releases
        ]
        return {"stage": self._stage, "iteration": k, "releases": asked}


def remaining(plan: StagedPlan, records: Iterable[About]) -> ComposedEvent:
    """Return the event of all that a fit may still release after the recorded answers.

    Stages before that of the last answer are done. A stage that is under way has its own releases
    less those that were made, or what they left of its ceiling.
    """
    made: dict[int, list[SingleEvent]] = {}
    for about in records:
        events = made.setdefault(about["stage"], [])
        for release in about.get("releases", ()):
            stored = {"parts": [{**release["event"], "count": 1}]}
            events += [event for event, _ in ComposedEvent.from_dict(stored)]
    now = max(made, default=0)
    left = NOTHING
    for stage in range(now, len(plan.stages)):
        left += _left_of(plan.stages[stage].plan, made.get(stage, []))
    return left


def _left_of(plan: AnyPlan, made: list[SingleEvent]) -> ComposedEvent:
    """Return what a plan may still release after some of its releases."""
    if isinstance(plan, AdaptivePlan):
        return _under_ceiling(plan, made)
    planned = [event for event, count in plan.event() for _ in range(count)]
    if planned[: len(made)] != made:
        raise JournalError("The answers of the journal are not those of the plan; begin a new fit.")
    return ComposedEvent.of(planned[len(made) :])


def _under_ceiling(plan: AdaptivePlan, made: list[SingleEvent]) -> ComposedEvent:
    """Return a ceiling for what a method may still release: Σμ² of its own ceiling less theirs.

    The ceiling is lower by a larger σ, which is rounded towards more privacy loss.
    """
    ledger = CeilingLedger(ceiling=plan.ceiling(), relation=plan.relation)
    for event in made:
        ledger.record(event)
    rest = ledger.limit - ledger.spent
    if not rest:
        return NOTHING
    ceiling, sigma = ledger.ceiling, ledger.ceiling.sigma
    size = Fraction(ceiling.sensitivity(plan.relation)) ** 2
    sigma = float(np.float64(sqrt(size / rest)))
    while size < rest * Fraction(sigma) ** 2:
        sigma = nextafter(sigma, 0.0)
    return ComposedEvent.of([replace(ceiling, sigma=sigma)])
