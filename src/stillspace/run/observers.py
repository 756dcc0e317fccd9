"""Who observes a run, and what they get. None of them draws or changes anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.parts.sampling import Selections
from stillspace.plans.release import Draw, Release
from stillspace.rows.maps import View
from stillspace.rows.protocols import Rows

if TYPE_CHECKING:
    from stillspace.run.journal import Journal


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What a witness gets of successive iterations of a release.

    `points` and `released` are stacked. `selections` are secret: only an audit has them.
    """

    release: Release
    first: int
    points: FloatArray
    released: FloatArray
    selections: Selections | None
    rows: Rows
    """The rows that were read, behind all row maps."""
    view: View = ()
    """What was done to a row of a staged plan before this release; empty for other plans."""
    pairs: IntArray | None = None
    """The secret pairing, where rows are paired."""
    whole: bool = False
    """Whether `view` is all that was done to a row, whatever the stage does to its rows."""

    @classmethod
    def of(
        cls,
        release: Release,
        k: int,
        point: FloatArray,
        released: FloatArray,
        draw: Draw,
        rows: Rows,
        view: View = (),
    ) -> Observation:
        """Return the observation of iteration k alone."""
        chosen = draw.selection
        selections = None if chosen is None else Selections(np.array([0, len(chosen)]), chosen)
        return cls(release, k, point[None], np.asarray(released)[None], selections, rows, view)


Witness: TypeAlias = Callable[[Observation], None]
"""Called with every observation as it is made. Only an audit, and a fit that promises no privacy,
may have one."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A look at the points of a run, after the numbers of iterations in `at` (0 is the start).

    `see(done, memory, point)` gets what the output rule has by then and the point itself, each a
    basis (D, r) or a matrix (D, D) that it must not change. Points are post-processing of
    releases, so looking costs no privacy beyond what the run promises.
    """

    at: frozenset[int]
    see: Callable[[int, FloatArray, FloatArray], None]


@dataclass(frozen=True, slots=True)
class Observers:
    """Who observes a run: a watch its points, a witness (an audit) its releases.

    And the journal that keeps its answers, if there is one.
    """

    watch: Watch | None = None
    witness: Witness | None = None
    journal: Journal | None = None


NO_OBSERVERS = Observers()
