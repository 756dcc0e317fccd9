"""Private algorithms of one's own: checked, searched, and then known by a name (docs/extending.md).

A recipe composes a plan from public facts. The plan's parts that decide on privacy (the kinds of
plan, start, release, sampling and noise) must be the library's own. Queries may be the user's:
their bounds are the user's word, which a search tries to break before the recipe is accepted, and
which every guarantee repeats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from stillspace._checks import described
from stillspace._typing import FloatArray
from stillspace.audit.hard_rows import random_basis
from stillspace.audit.sensitivity import Finding, Subject, search_sensitivity, subjects
from stillspace.datasets import make_haystack
from stillspace.exceptions import NotAccountedError
from stillspace.parts.noise import IidGaussian, SymmetricGaussian, seeded_generator
from stillspace.parts.queries import Query
from stillspace.parts.sampling import All, Poisson, WithoutReplacement, WithReplacement
from stillspace.parts.stops import Never
from stillspace.plans.adaptive import AdaptivePlan, Allowance, Answer, Ask, Method, Outcome
from stillspace.plans.fixed import Plan
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Release
from stillspace.plans.starts import GivenStart, MomentStart, PaperMatrixStart, RandomStart, RunStart
from stillspace.privacy.events import RELATIONS
from stillspace.recipes import PRIVATE, ROBUST
from stillspace.recipes.facts import Facts, Options, Recipe
from stillspace.run import rows_for, run
from stillspace.run.observers import Observation

__all__ = ["register_recipe", "unregister_recipe"]

Build = Callable[[Facts, Options], AnyPlan]

SHAPES = ((7, 2), (12, 3))
"""Columns and components of the tables on which a recipe is tried and its queries searched."""

TRIAL_ROWS = 600
TRIAL_BUDGET = (4.0, 1e-6)
SEARCHED_STORAGES = ("float64", "float32")
SEARCHED_SIZES = (1, 2, 8, 64, 257, 512)
SEARCHED_POINTS = 3
MOST_POINTS = 64
"""Points of a trial run that are kept for the search, per query."""
MOST_VARIANTS = 3
"""Queries of one type, with other numbers in them, that are searched per shape."""

_PLANS = (Plan, AdaptivePlan)
_STARTS = (MomentStart, RunStart, RandomStart, PaperMatrixStart, GivenStart)
_SAMPLINGS = (All, Poisson, WithoutReplacement, WithReplacement)
_NOISES = (IidGaussian, SymmetricGaussian)
_OWN = frozenset(type(subject.query) for subject in subjects(*SHAPES[0]))
"""Queries of the library: their bounds are proved."""

_REGISTERED: set[str] = set()


def register_recipe(
    name: str, build: Build, *, options: Iterable[str] = (), chooses: bool = False
) -> list[Finding]:
    """Make a private algorithm known as `algorithm=name`, after a search for broken bounds.

    The recipe is built and run on small tables of drawn rows. A search then looks for rows that
    break the bounds of each query that was released. It can only refute: a recipe whose bounds are
    wrong may pass. So each guarantee of a fit says whose word the bounds are.

    Parameters
    ----------
    name : str
        Letters, digits and hyphens; no known algorithm may have it.
    build : callable
        `build(facts, options)` returns a `Plan` or an `AdaptivePlan`, not calibrated yet, from
        public facts (`stillspace.recipes.Facts`) and a mapping of options.
    options : names, default=()
        Names that `algorithm_options` (or `n_iter` and `batch_size`) may hold.
    chooses : bool, default=False
        Whether the plan can choose the number of components (n_components="auto").

    Returns
    -------
    list of Finding
        What the search found for each query: at most 1 means that no bound was broken.

    Examples
    --------
    >>> from stillspace import register_recipe
    >>> from stillspace.extending import unregister_recipe
    >>> from stillspace.recipes.paper import pca
    >>> found = register_recipe("my-pca", pca)
    >>> max(finding.worst for finding in found) <= 1.0
    True
    >>> unregister_recipe("my-pca")
    """
    _check_name(name)
    words = _checked_options(options)
    queries: dict[type, None] = {}
    found: list[Finding] = []
    for D, r in SHAPES:
        asked: dict[tuple[type, str], _Asked] = {}
        for relation in RELATIONS:
            for choose in (False, True) if chooses else (False,):
                facts = Facts(TRIAL_ROWS, D, r, *TRIAL_BUDGET, relation, choose_components=choose)
                _try(_vetted(name, build, None, facts, {}), asked)
        for each in asked.values():
            queries[type(each.query)] = None
            found += _searched(each, r)
    known = frozenset(queries) | _OWN
    stated = tuple(
        f"the bounds of query {kind.__name__} are the user's word; a search did not break them"
        for kind in queries
        if kind not in _OWN
    )
    PRIVATE[name] = Recipe(partial(_vetted, name, build, known), words, chooses, stated=stated)
    _REGISTERED.add(name)
    return found


def unregister_recipe(name: str) -> None:
    """Forget a recipe that `register_recipe` made known, for instance to register it anew."""
    if name not in _REGISTERED:
        msg = f"{described(name)} was not registered here; the library's own algorithms stay."
        raise ValueError(msg)
    _REGISTERED.remove(name)
    del PRIVATE[name]


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}", name):
        msg = f"name must be 1 to 40 letters, digits and hyphens, got {described(name)}."
        raise ValueError(msg)
    if name in PRIVATE or name in ROBUST:
        raise ValueError(f"There is an algorithm {name!r} already; choose another name.")


def _checked_options(options: Iterable[str]) -> tuple[str, ...]:
    words = () if isinstance(options, str) else tuple(options)
    if isinstance(options, str) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"options must be a sequence of names, got {described(options)}.")
    return words


# --- what a plan may be made of -------------------------------------------------------------------


def _vetted(
    name: str, build: Build, known: frozenset[type] | None, facts: Facts, options: Options
) -> AnyPlan:
    """Build a plan and check its parts; `known` are the queries that it may ask, None all."""
    if facts.calibration != "honest":
        raise ValueError(f"The paper has no algorithm {name!r}; use calibration='honest'.")
    plan = build(facts, options)
    if type(plan) not in _PLANS:
        kind = type(plan).__name__
        raise TypeError(f"The recipe {name!r} must build a Plan or an AdaptivePlan, not {kind}.")
    if type(plan) is AdaptivePlan:
        plan = replace(plan, method=VettedMethod(plan.method, known))
    elif type(plan) is Plan:
        _check_plan(plan, known)
    wanted = (facts.n, facts.D, facts.r, facts.relation, facts.rows_per_person)
    built = (plan.size, plan.n_columns, plan.n_components, plan.relation, plan.rows_per_person)
    if built != wanted:
        raise ValueError(
            f"The plan of {name!r} is made for (rows, columns, components, relation, rows per "
            f"person) {built}, and the fit has {wanted}; make releases by facts.release(query)."
        )
    return plan


def _check_plan(plan: Plan, known: frozenset[type] | None) -> None:
    """Check the parts of a loop, and of the loop that it starts from."""
    _check_part("start", plan.start, _STARTS)
    _check_part("stop rule", plan.stop, (Never,))
    if isinstance(plan.start, RunStart):
        _check_plan(plan.start.plan, known)
    for release in plan.releases():
        _check_part("release", release, (Release,))
        _check_part("sampling", release.sampling, _SAMPLINGS)
        _check_query(release.query, known)
        if not release.noisy:
            msg = f"The {release.query.name} is released without noise; use facts.release(query)."
            raise NotAccountedError(msg)


def _check_query(query: Query, known: frozenset[type] | None) -> None:
    _check_part("noise of the query", query.noise, _NOISES)
    if query.noise.shape != query.shape:
        raise NotAccountedError(f"The noise of the {query.name} has another shape than its sum.")
    if not getattr(query, "needs_bound", True):
        msg = f"The {query.name} takes rows of any length, and bounds are searched on unit rows."
        raise NotAccountedError(msg)
    if known is not None and type(query) not in known:
        raise NotAccountedError(
            f"The query {type(query).__name__} was never asked while its recipe was registered, so "
            "its bounds were not searched; register a recipe that asks it on small tables, too."
        )


def _check_part(what: str, part: Any, allowed: tuple[type, ...]) -> None:
    """Refuse parts other than the library's own, by exact type: a subclass may differ."""
    if type(part) not in allowed:
        names = ", ".join(kind.__name__ for kind in allowed)
        raise NotAccountedError(f"The {what} must be one of {names}, not {type(part).__name__}.")


@dataclass(frozen=True, slots=True)
class VettedMethod:
    """A method of the user's whose queries are checked as it asks for them."""

    method: Method
    known: frozenset[type] | None = field(repr=False)

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def D(self) -> int:
        return self.method.D

    @property
    def n_components(self) -> int:
        return self.method.n_components

    @property
    def coordinates(self) -> int:
        return self.method.coordinates

    @property
    def n_passes(self) -> int:
        return self.method.n_passes

    def begin(self, allowance: Allowance) -> Any:
        return self.method.begin(allowance)

    def ask(self, state: Any) -> Ask | None:
        """Return what to release next, or raise for a query that was not searched."""
        ask = self.method.ask(state)
        for query, _ in () if ask is None else ask.shares:
            _check_query(query, self.known)
        return ask

    def take(self, state: Any, answers: tuple[Answer, ...]) -> Any:
        return self.method.take(state, answers)

    def outcome(self, state: Any) -> Outcome:
        return self.method.outcome(state)


# --- trial runs and the search --------------------------------------------------------------------


@dataclass(slots=True)
class _Asked:
    """A query of a trial run, and the points at which it was asked."""

    query: Query
    points: list[FloatArray] = field(default_factory=list)

    def point(self, rng: np.random.Generator, D: int, r: int) -> FloatArray:
        """Return a point like those of the run; of bases, every second one is drawn anew."""
        point = self.points[rng.integers(len(self.points))]
        return random_basis(rng, D, r) if point.shape == (D, r) and rng.integers(2) else point


def _try(plan: AnyPlan, asked: dict[tuple[type, str], _Asked]) -> None:
    """Calibrate a plan and run it on drawn rows; keep what it asks, and some of the points."""
    calibrated = plan.calibrate(*TRIAL_BUDGET)
    reasons = calibrated.event().non_private_reasons
    if reasons:
        raise NotAccountedError(f"No guarantee covers this recipe: {reasons[0]}.")

    def keep(observation: Observation) -> None:
        query = observation.release.query
        name = (type(query), repr(query))
        if name not in asked:
            if sum(kind is type(query) for kind, _ in asked) >= MOST_VARIANTS:
                return
            asked[name] = _Asked(query)
        room = max(MOST_POINTS - len(asked[name].points), 0)
        asked[name].points += [point.copy() for point in observation.points[:room]]

    shape = TRIAL_ROWS, plan.n_columns, plan.n_components
    X = make_haystack(*shape, inlier_noise=0.1, random_state=0).X
    run(calibrated, rows_for(calibrated, X), seeded_generator(0), witness=keep)


def _searched(asked: _Asked, r: int) -> list[Finding]:
    """Search one query; raise if a bound is broken."""
    query = asked.query
    for name in ("norm_bound", "difference_bound"):
        bound = getattr(query, name)
        if not (isfinite(bound) and bound > 0.0):
            msg = f"{name} of {type(query).__name__} must be positive and finite, got {bound!r}."
            raise NotAccountedError(msg)
    found = search_sensitivity(
        Subject(query, asked.point, r),
        storages=SEARCHED_STORAGES,
        kernels=("blocks",) if type(query) in _OWN else None,
        sizes=SEARCHED_SIZES,
        points=SEARCHED_POINTS,
    )
    worst = max(found, key=lambda finding: finding.worst)
    if not worst.ok:
        raise NotAccountedError(
            f"The search broke the bounds of {type(query).__name__}: the longest term is "
            f"{worst.term:.3g} times norm_bound, and two terms differ by up to "
            f"{worst.difference:.3g} times difference_bound (sums of neighbouring tables by up to "
            f"{max(worst.added, worst.replaced):.3g} times the accounted sensitivity); prove "
            "larger bounds."
        )
    return found
