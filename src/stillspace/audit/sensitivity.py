"""A search for rows and data sets that move a sum by more than the accountant was told (SPEC 4).

Bounds are proved on paper; sums are computed in floating point, by several kernels, from several
ways to store rows. The search tries (a) rows whose term is longer than its bound, or two whose
terms are further apart than theirs, and (b) data sets of n and n + 1 rows, or of n rows with one
replaced, whose computed sums differ by more than the event of a release says: around the limits of
blocks and matrix products, with residuals at rounding level, at the floor and at a cut, with
denormal, huge and tiny rows, with cells that are no numbers, and at points that are not quite what
they should be.

A query joins the search by an entry in `subjects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from stillspace._checks import checked_choice
from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.audit import hard_rows
from stillspace.audit.hard_rows import KINDS, STORAGES, Stored, nowhere, random_basis
from stillspace.parts import queries
from stillspace.parts.geometry import Polar, WaterFilling
from stillspace.parts.queries import Curvature, CurvatureMatrix, Glad, Joint, Query, Reaper
from stillspace.plans.fixed import Plan
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import Release
from stillspace.plans.starts import GivenStart
from stillspace.privacy import Relation
from stillspace.rows import MemoryRows
from stillspace.run import executors

AddsUp: TypeAlias = Callable[[Stored, FloatArray], FloatArray]
"""From stored rows and a point to a computed sum."""

SIZES = (1, 2, 7, 8, 9, 64, 65, 255, 256, 257, 511, 512, 513, 1024)
"""n, where n → n + 1 crosses the limits of blocks, lanes and jobs; the search tries n + 1 too."""

_CAP, _CUT = 0.1, 0.5
"""Of the queries that have them."""

_EDGES = np.array([[-0.3, 0.0, 0.3], [-1e-3, 0.0, 0.5]])
"""Of the counts of cells, for two columns."""

_ROWS = 48  # of each kind, whose terms are compared with each other


@dataclass(frozen=True, slots=True)
class Subject:
    """A query under search, with points at which it is asked.

    `add` replaces the library's own ways to compute its sum, for a formula of one's own; it takes
    scaled rows (n, D).
    """

    query: Query
    points: Callable[[np.random.Generator, int, int], FloatArray]
    r: int
    add: AddsUp | None = None

    @property
    def name(self) -> str:
        cut = isfinite(getattr(self.query, "cut", np.inf)) and type(self.query) is Glad
        return self.query.name + (" with a cut" if cut else "")


@dataclass(frozen=True, slots=True)
class Finding:
    """The worst that was found for a query, a kernel and a storage type, over what is allowed.

    All are at most 1 if the accountant was told the truth. No row is kept.
    """

    query: str
    kernel: str
    storage: str
    term: float
    difference: float
    added: float
    replaced: float
    tried: int

    @property
    def worst(self) -> float:
        """The largest of the four."""
        return max(self.term, self.difference, self.added, self.replaced)

    @property
    def ok(self) -> bool:
        """Whether nothing passed its bound."""
        return self.worst <= 1.0


def subjects(D: int, r: int) -> list[Subject]:
    """Return every query with a bound: the one list of what is searched."""
    return [
        Subject(queries.Glad(D, r), random_basis, r),
        Subject(queries.Glad(D, r, cut=_CUT), random_basis, r),
        Subject(queries.Curvature(D, r, _CAP, _CUT), random_basis, r),
        Subject(queries.CurvatureMatrix(D, r, _CAP, _CUT), random_basis, r),
        Subject(queries.Reaper(D, r), hard_rows.random_matrix, r),
        Subject(queries.SecondMoment(D), nowhere, r),
        Subject(queries.ScoreMoment(D, r), random_basis, r),
        Subject(queries.GladCost(D, r), random_basis, r),
        Subject(queries.ScoreSquares(D, r), random_basis, r),
        Subject(queries.DistanceCounts(D, r, (queries.PRIVATE_FLOOR, _CAP, _CUT)), random_basis, r),
        Subject(queries.NearMoment(D, r, _CUT), random_basis, r),
        Subject(queries.NearCost(D, r, _CUT), random_basis, r),
        Subject(queries.FarMoment(D, r, _CUT), random_basis, r),
        Subject(queries.ScoreCounts(D, min(r, 2), 8), random_basis, min(r, 2)),
        Subject(queries.ScoreCounts(D, min(r, 2), 8, groups=3), random_basis, min(r, 2)),
        Subject(queries.FourthMoment(D, r), random_basis, r),
        Subject(queries.AngleCounts(D, 2 * r, 36), hard_rows.random_directions, r),
        Subject(queries.CapScatter(D, (0.02,) * r, r, D - r), hard_rows.random_axes, r),
        Subject(queries.GeometricMedian(D), hard_rows.random_centre, r),
        Subject(queries.MedianCost(D), hard_rows.random_centre, r),
        Subject(queries.ColumnCounts.of(D, _EDGES, columns=(1, D - 1)), nowhere, r),
        Subject(queries.IncompleteRows(D, missing=0.0), nowhere, r),
    ]


# --- ways to add rows up --------------------------------------------------------------------------


def _ways(subject: Subject) -> dict[str, AddsUp]:
    """Return every way in which the library may add up this query."""
    if subject.add is not None:
        return {"given": subject.add}
    query = subject.query

    # A query that takes rows of any length is asked of rows as they are.
    of = MemoryRows.prepare if getattr(query, "needs_bound", True) else MemoryRows.of

    def summed(asked: Any, table: Stored, point: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return of(table).add(asked, point, None)

    ways: dict[str, AddsUp] = {"blocks": partial(summed, _by_blocks(query))}
    if type(query) in (Glad, Curvature, CurvatureMatrix, queries.SecondMoment):
        filled = hard_rows.with_filled_cells
        ways["filled rows"] = lambda X, at: filled(X, at, subject.r).add(query, at, None)
    point = subject.points(np.random.default_rng(0), query.D, subject.r)
    shorter = any(hasattr(query, name) for name in ("measure", "add_cells"))
    if shorter or query.terms(point, np.zeros(query.shape)) is not None:
        ways["passes"] = partial(summed, query)
    parts = _pass_of_three(query)
    if parts:
        joint, place = Joint(parts), parts.index(query)
        ways["joint passes"] = lambda *given: joint.split(summed(joint, *given))[place]
    if type(query) in (Glad, Reaper) and not isfinite(getattr(query, "cut", np.inf)):
        ways["loop"] = lambda table, point: _by_loop(query, subject.r, table, point)
    return ways


def _pass_of_three(query: Query) -> tuple[Query, ...]:
    """Return the queries that are read in one pass with this one, if it is one of those."""
    if type(query) not in (Glad, Curvature, CurvatureMatrix):
        return ()
    given: Any = query
    facts = (given.D, given.r, getattr(query, "cap", _CAP), given.cut, given.floor)
    gradient = Glad(given.D, given.r, given.floor, given.cut)
    return (gradient, Curvature(*facts), CurvatureMatrix(*facts))


def _by_blocks(query: Query) -> Any:
    """Return a query without its compiled run of blocks."""
    return SimpleNamespace(
        shape=query.shape,
        norm_bound=query.norm_bound,
        needs_bound=getattr(query, "needs_bound", True),
        add_block=query.add_block,
        terms=lambda point, out: None,  # noqa: ARG005
    )


def _by_loop(query: Query, r: int, table: Stored, point: FloatArray) -> FloatArray:
    """Return the sum that a compiled loop computes in its first step from `point`."""
    rows = MemoryRows.prepare(table)
    geometry = Polar(r) if isinstance(query, Glad) else WaterFilling(r)
    start = GivenStart(FrozenArray(b"", (0, 0)))  # not used: the loop gets its state from us
    release = Release(query, rows.n_rows, 0.0)
    loop = executors.compiled_loop(Plan("", start, release, geometry, r, 1), rows, point)
    assert loop is not None
    trace = np.zeros((1, 2, *query.shape))
    with np.errstate(all="ignore"):
        loop.advance(release.draws(0, 1, rows.n_rows, np.random.default_rng(0), Ledger()), 0, trace)
    return np.asarray(trace[0, 1] * release.divisor)


# --- the search ----------------------------------------------------------------------------------


def search_sensitivity(
    subject: Subject | None = None,
    *,
    storages: Iterable[str] | None = None,
    kernels: Iterable[str] | None = None,
    sizes: Sequence[int] = SIZES,
    points: int = 3,
    random_state: int | None = 0,
) -> list[Finding]:
    """Search for rows and neighbouring data sets that break the stated bounds.

    Parameters
    ----------
    subject : Subject, default=None
        None means all queries of the library, in two shapes.
    storages : names, default=None
        Of `float64`, `float64, by columns`, `float32`, `int8`, `uint8`, `sparse`; None means all.
    kernels : names, default=None
        Of the ways in which sums are computed (`blocks`, `passes`, …); None means all.
    sizes : numbers, default=SIZES
        Data sets of n rows are compared with n + 1 and with n, one replaced.
    points : int, default=3
        Random points at which each query is asked.
    random_state : int, default=0

    Returns
    -------
    list of Finding
        One for each query, kernel and storage type: the worst over what is allowed.

    Examples
    --------
    >>> from stillspace.audit import search_sensitivity
    >>> found = search_sensitivity(storages=["float32"], sizes=[8], points=1)
    >>> all(finding.ok for finding in found)
    True
    """
    every = [subject] if subject is not None else [*subjects(7, 2), *subjects(20, 3)]
    wanted = STORAGES if storages is None else storages
    names = [checked_choice("storages", name, STORAGES) for name in wanted]
    found = []
    for tried in every:
        ways = _ways(tried)
        chosen = ways if kernels is None else {name: ways[name] for name in kernels}
        for kernel, add in chosen.items():
            for storage in names if tried.add is None else ["scaled rows"]:
                rng = np.random.default_rng(random_state)
                found.append(_searched(tried, kernel, add, storage, rng, sizes, points))
    return found


def _searched(
    subject: Subject,
    kernel: str,
    add: AddsUp,
    storage: str,
    rng: np.random.Generator,
    sizes: Sequence[int],
    points: int,
) -> Finding:
    query, r = subject.query, subject.r
    store = STORAGES.get(storage, _scaled)
    worst = np.zeros(4)
    tried = 0
    for _ in range(points):
        point = subject.points(rng, query.D, r)
        V = _subspace(point, rng, query.D, r)
        for kind, make in KINDS.items():
            rows = make(rng, _ROWS, V, query)
            worst[:2] = np.fmax(worst[:2], _rows_apart(query, add, store(rows), point))
            tried += _ROWS
            for n in sizes if kind != "plain" else sizes[:3]:
                rows = make(rng, n + 2, V, query)
                worst[2:] = np.fmax(worst[2:], _sets_apart(query, add, store, rows, point, rng))
                tried += 2
    term, difference, added, replaced = map(float, worst)
    return Finding(query.name, kernel, storage, term, difference, added, replaced, tried)


def _scaled(rows: FloatArray) -> FloatArray:
    return MemoryRows.prepare(np.ascontiguousarray(rows)).sphered()


def _subspace(point: FloatArray, rng: np.random.Generator, D: int, r: int) -> FloatArray:
    """Return the subspace that the point stands for: what rows may lie on."""
    if point.shape == (D, r):
        return point
    if point.shape == (D, D):
        return np.asarray(np.linalg.eigh(point)[1][:, -r:])
    if point.shape == (D, 2 * r):
        return np.linalg.svd(point)[0][:, :r]
    if point.ndim == 2 and point.shape[1] > 2 * r:  # far from an axis, but inside its cap
        V = (point[:, -r:] + 0.05 * point[:, 1 : r + 1]) / point[:, :1]
        return np.linalg.qr(V)[0]
    return np.linalg.qr(rng.standard_normal((D, r)))[0]


def _rows_apart(query: Query, add: AddsUp, table: Stored, point: FloatArray) -> FloatArray:
    """Return the longest term and the largest difference of two, over what is allowed."""
    terms = np.array([add(table[i : i + 1], point).ravel() for i in range(table.shape[0])])
    terms = terms * _units(query)
    terms = np.where(np.isfinite(terms), terms, np.inf)
    error = query.term_error
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(terms, axis=1)
        apart = max(float(np.max(np.linalg.norm(terms - t, axis=1))) for t in terms)
    return np.array(
        [norms.max() / (query.norm_bound + error), apart / (query.difference_bound + 2 * error)]
    )


def _sets_apart(
    query: Query,
    add: AddsUp,
    store: Callable[[FloatArray], Stored],
    rows: FloatArray,
    point: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return how far sums of neighbouring data sets are apart, over what the event says."""
    n = len(rows) - 2
    table = store(rows)
    here = add(table[:n], point)
    more = add(table[: n + 1], point)
    order = np.arange(n)
    order[0] = 1 if n == 1 or rng.integers(2) else n + 1  # the next one may be its opposite
    other = add(table[order], point)
    limits = []
    relations: tuple[Relation, ...] = ("add-or-remove-one", "replace-one")
    for relation in relations:
        release = Release(query, n + 1, 1.0, relation=relation)
        # So little noise that its lattice adds next to nothing to what is allowed.
        event = replace(release, z=1e-3).event(0)
        limits.append(event.sensitivity(relation))  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        units = _units(query)
        gaps = np.array([np.linalg.norm(np.ravel(x - here) * units) for x in (more, other)])
    return np.where(np.isfinite(gaps), gaps / limits, np.inf)


def _units(query: Query) -> FloatArray:
    """Return what each entry of a sum counts for: noise that is not the same on all hides less.

    Symmetric noise, for example, shows the upper triangle alone, and shows it twice.
    """
    return np.asarray(np.sqrt(query.noise.precision)).ravel()
