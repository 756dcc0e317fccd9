"""Where the answers of a run are kept, and where those of an interrupted run come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stillspace._typing import FloatArray
from stillspace.plans.release import Ledger, Release


class Answers(Protocol):
    """Keeps the answers of a run in order, and gives back those of an earlier run of its plan.

    A run asks `replayed` first. If that gives None, the run records, draws and reads as ever, and
    hands the answer to `keep` before anything is computed from it.
    """

    def begin_stage(self) -> None:
        """Be told that the next stage of a fit begins."""

    def replayed(
        self, releases: Sequence[Release], k: int, ledger: Ledger
    ) -> list[FloatArray] | None:
        """Return the kept answers of iteration k and record its events; None if there are none."""

    def keep(self, releases: Sequence[Release], k: int, values: Sequence[FloatArray]) -> None:
        """Store fresh answers, durably."""

    def start(self, make: Callable[[], FloatArray]) -> FloatArray:
        """Return a random start, which reads no row: the kept one, or a fresh one that is kept."""
