"""Named algorithms: short functions that compose a plan from public facts (SPEC 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log, sqrt
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.geometry import (
    EntropicMirror,
    Geodesic,
    Geometry,
    LeastSquares,
    Orthonormalize,
    Polar,
    TopEigenvectors,
    WaterFilling,
)
from stillspace.parts.outputs import Average, Last, Output
from stillspace.parts.queries import (
    PRIVATE_FLOOR,
    ROBUST_FLOOR,
    Glad,
    IrlsPower,
    Query,
    Reaper,
    ReweightedMoment,
    SecondMoment,
)
from stillspace.parts.sampling import All, Poisson, Sampling, WithoutReplacement, WithReplacement
from stillspace.parts.schedules import Geometric, Halving, InverseSqrt, Schedule
from stillspace.parts.stops import Converged
from stillspace.plan import (
    GivenStart,
    MomentStart,
    PaperMatrixStart,
    Plan,
    RandomStart,
    RunStart,
    Start,
)
from stillspace.privacy import Relation, privacy_curve
from stillspace.release import Release

_T = TypeVar("_T")

Calibration: TypeAlias = Literal["honest", "as-printed"]

START_SHARE = 0.2
"""Part of μ² that a private PCA start gets."""

SAMPLE_ROWS, SAMPLE_ROWS_A_COLUMN, SAMPLE_STEPS = 4096, 16, 10
"""The sampled start of IRLS: enough rows a column for PCA to be right to a few tenths."""

SAMPLE_PAYS = 8
"""IRLS starts on samples where there are this many times as many rows."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Public facts that a plan may depend on, and nothing else.

    `epsilon` is None for plans without a promise.
    """

    n: int
    """The public number of rows."""
    D: int
    r: int
    epsilon: float | None = None
    delta: float | None = None
    relation: Relation = "replace-one"
    rows_per_person: int = 1
    calibration: Calibration = "honest"

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.delta is None):
            msg = f"A budget needs both numbers, got epsilon={self.epsilon}, delta={self.delta}."
            raise ValueError(msg)

    @property
    def private(self) -> bool:
        """Whether the plan is to be calibrated to a budget."""
        return self.epsilon is not None

    def release(self, query: Query, sampling: Sampling | None = None) -> Release:
        """Return a release of this problem, noisy if private."""
        return Release(
            query,
            self.n,
            None if self.private else 0.0,
            sampling or All(),
            self.relation,
            self.rows_per_person,
        )


Options: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function from public facts and options to a plan, with the names of its options."""

    build: Callable[[Facts, Options], Plan]
    options: tuple[str, ...] = ()


def make_plan(algorithm: str, facts: Facts, **options: Any) -> Plan:
    """Return the plan of a named algorithm, calibrated if the facts hold a budget.

    The known algorithms are the keys of `ROBUST` and `PRIVATE`. An option that is None means
    the recipe's own default.
    """
    recipe = _lookup(algorithm, PRIVATE if facts.private else ROBUST)
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in recipe.options:
            msg = (
                f"The algorithm {algorithm!r} has no option {key!r}; "
                f"it has {_listed(recipe.options)}."
            )
            raise ValueError(msg)
    plan = replace(recipe.build(facts, given), name=algorithm)
    if facts.epsilon is None or facts.delta is None:
        return plan
    if facts.calibration == "as-printed":
        return _as_printed(plan, facts, facts.epsilon, facts.delta)
    return plan.calibrate(facts.epsilon, facts.delta)


def _lookup(algorithm: Any, table: Mapping[str, Recipe]) -> Recipe:
    if not isinstance(algorithm, str):
        msg = f"algorithm must be a name, one of {_listed(table)}, got {algorithm!r}."
        raise TypeError(msg)
    if algorithm in table:
        return table[algorithm]
    if algorithm in PRIVATE or algorithm in ROBUST:
        owner = "PrivateRobustPCA" if algorithm in PRIVATE else "RobustPCA"
        msg = f"{algorithm!r} is an algorithm of {owner}; known here: {_listed(table)}."
    else:
        msg = f"Unknown algorithm {algorithm!r}; known: {_listed(table)}."
    raise ValueError(msg)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _choice(kind: str, value: Any, table: Mapping[str, _T]) -> _T:
    if not isinstance(value, str) or value not in table:
        msg = f"Unknown {kind} {value!r}; known: {_listed(table)}."
        raise ValueError(msg)
    return table[value]


# --- parts by name -------------------------------------------------------------------------


def _n_iter(options: Options, default: int) -> int:
    n_iter = options.get("n_iter", default)
    if not isinstance(n_iter, int | np.integer) or isinstance(n_iter, bool) or n_iter < 1:
        msg = f"The number of iterations must be a whole number of at least 1, got {n_iter!r}."
        raise ValueError(msg)
    return int(n_iter)


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not 0.0 < value < inf:
        msg = f"{name} must be a number in (0, ∞), got {value!r}."
        raise ValueError(msg)
    return float(value)


def _sampling(facts: Facts, options: Options, n_iter: int) -> Sampling:
    """Return a sampling by name; the paper's batch is `max(n √(ε/(4T)), 1)` (SPEC 3).

    By default Poisson where its smaller noise counts, else the paper's own, with replacement.
    """
    n = facts.n
    paper = n * sqrt(facts.epsilon / (4 * n_iter)) if facts.epsilon else 64
    batch_size = options.get("batch_size", min(n, max(1, round(paper))))
    if not isinstance(batch_size, int | np.integer) or not 1 <= batch_size <= n:
        msg = (
            f"batch_size must be a whole number in 1…{n} (the number of rows), got {batch_size!r}."
        )
        raise ValueError(msg)
    makers: dict[str, Callable[[], Sampling]] = {
        "poisson": lambda: Poisson(batch_size / n),
        "without-replacement": lambda: WithoutReplacement(int(batch_size), n),
        "with-replacement": lambda: WithReplacement(int(batch_size), n),
    }
    honest = facts.private and facts.calibration == "honest"
    name = options.get("sampling", "poisson" if honest else "with-replacement")
    return _choice("sampling", name, makers)()


def _start(facts: Facts, options: Options, default: str) -> Start:
    start = options.get("start", default)
    share = _positive("share", options.get("share", START_SHARE))
    if "share" in options and start not in ("pca", "reaper"):
        msg = "A start that reads no rows takes no share of the budget; leave share out."
        raise ValueError(msg)
    if not isinstance(start, str):
        return GivenStart.from_basis(_checked_basis(facts, start))
    makers: dict[str, Callable[[], Start]] = {
        "pca": lambda: MomentStart(facts.release(SecondMoment(facts.D)), share),
        "random": lambda: RandomStart(facts.D, facts.r),
        "reaper": lambda: RunStart(_reaper(facts, {}, WaterFilling(facts.r)), share),
        "paper-matrix": lambda: PaperMatrixStart(facts.D),
    }
    return _choice("start", start, makers)()


def _checked_basis(facts: Facts, start: FloatArray) -> FloatArray:
    """Return a given start as a basis (D, r); it comes as rows, as `components_` does."""
    components = np.asarray(start, dtype=np.float64)
    if components.shape != (facts.r, facts.D):
        msg = (
            f"A given start must have the shape ({facts.r}, {facts.D}) of components_, "
            f"got {components.shape}."
        )
        raise ValueError(msg)
    return components.T


def _schedule(options: Options, default: Schedule) -> Schedule:
    schedule = options.get("schedule", default)
    if not hasattr(schedule, "step"):
        msg = (
            "schedule must be one of stillspace.parts.schedules, such as Halving(1.0, every=50), "
            f"got {schedule!r}."
        )
        raise TypeError(msg)
    made: Schedule = schedule
    return made


def _output(options: Options, default: str) -> Output:
    table: dict[str, Output] = {"last": Last(), "average": Average()}
    return _choice("output", options.get("output", default), table)


# --- families ------------------------------------------------------------------------------


def _glad(facts: Facts, options: Options, *, sampled: bool = False, noisy: bool = False) -> Plan:
    """Gradient steps on the Grassmannian: (N)(S)GGD, dp-(S)GGD."""
    n_iter = _n_iter(options, 400)
    floor = PRIVATE_FLOOR if facts.private else ROBUST_FLOOR
    sampling = _sampling(facts, options, n_iter) if sampled else All()
    release = facts.release(Glad(facts.D, facts.r, floor), sampling)
    if noisy:  # on the mean gradient, as the paper has it
        sigma = _positive("sigma", options.get("sigma", 0.01))
        z = sigma * release.divisor / release.sensitivity()
        release = replace(release, z=z)
    geometries: dict[str, Geometry] = {"polar": Polar(facts.r), "geodesic": Geodesic(facts.r)}
    return Plan(
        name="",
        start=_start(facts, options, "pca"),
        release=release,
        geometry=_choice("geometry", options.get("geometry", "polar"), geometries),
        n_components=facts.r,
        n_iter=n_iter,
        schedule=_schedule(options, Halving()),
        output=_output(options, "last"),
    )


def _reaper(facts: Facts, options: Options, geometry: Geometry, *, sampled: bool = False) -> Plan:
    """First-order steps on the convex relaxation: (dp-)(S)GD-REAP and (dp-)(S)MD-REAP."""
    n_iter = _n_iter(options, 200)
    floor = PRIVATE_FLOOR if facts.private else ROBUST_FLOOR
    off_diagonal = 1.0 if facts.calibration == "as-printed" else 0.5
    sampling = _sampling(facts, options, n_iter) if sampled else All()
    return Plan(
        name="",
        start=_start(facts, options, "paper-matrix"),
        release=facts.release(Reaper(facts.D, facts.r, floor, off_diagonal), sampling),
        geometry=geometry,
        n_components=facts.r,
        n_iter=n_iter,
        schedule=_schedule(options, InverseSqrt()),
        output=_output(options, "average"),
    )


def _water_filling(facts: Facts, options: Options, *, sampled: bool = False) -> Plan:
    return _reaper(facts, options, WaterFilling(facts.r), sampled=sampled)


def _mirror(facts: Facts, options: Options, *, sampled: bool = False) -> Plan:
    capped = options.get("capped", True)
    if not isinstance(capped, bool):
        msg = f"capped must be True or False, got {capped!r}."
        raise ValueError(msg)
    geometry = EntropicMirror(facts.r, capped)
    return _reaper(facts, options, geometry, sampled=sampled)


def _classic(facts: Facts, options: Options, query: Query, geometry: Geometry) -> Plan:
    """Reweighting solvers: the geometry takes the released direction as the new point."""
    return Plan(
        name="",
        start=_start(facts, options, "pca"),
        release=facts.release(query),
        geometry=geometry,
        n_components=facts.r,
        n_iter=_n_iter(options, 1000),
        stop=Converged(_positive("tol", options.get("tol", 1e-10))),
    )


def _irls(facts: Facts, options: Options) -> Plan:
    """IRLS-power: one gradient pass a step, monotone, the robust default."""
    query = IrlsPower(facts.D, facts.r, _positive("floor", options.get("floor", ROBUST_FLOOR)))
    plan = _classic(facts, options, query, Orthonormalize(facts.r))
    sample = SAMPLE_ROWS + SAMPLE_ROWS_A_COLUMN * facts.D
    if "start" in options or facts.n < SAMPLE_PAYS * sample:
        return plan
    return replace(plan, start=RunStart(_sampled_irls(facts, query, sample)))


def _sampled_irls(facts: Facts, query: IrlsPower, sample: int) -> Plan:
    """PCA and the first IRLS steps on random samples of the rows, a new one each step.

    They end within the sampling error of the optimum for a few hundredths of the cost of PCA on
    all rows; the passes over all rows then start there.
    """
    sampling = WithoutReplacement(sample, facts.n)
    return Plan(
        name="irls on samples",
        start=MomentStart(facts.release(SecondMoment(facts.D), sampling)),
        release=facts.release(query, sampling),
        geometry=Orthonormalize(facts.r),
        n_components=facts.r,
        n_iter=SAMPLE_STEPS,
    )


def _fms(facts: Facts, options: Options) -> Plan:
    """FMS (Lerman and Maunu 2018): top eigenvectors of the reweighted second moment."""
    query = ReweightedMoment(facts.D, _positive("floor", options.get("floor", ROBUST_FLOOR)))
    return _classic(facts, options, query, TopEigenvectors(facts.r))


def _reaper_irls(facts: Facts, options: Options) -> Plan:
    """REAPER by reweighted least squares (Lerman et al. 2015)."""
    query = ReweightedMoment(facts.D, _positive("floor", options.get("floor", ROBUST_FLOOR)))
    return _classic(facts, options, query, LeastSquares(facts.r))


def _pca(facts: Facts, options: Options) -> Plan:
    """(dp-)PCA: the start alone, with the whole budget."""
    start = _start(facts, {**options, "share": 1.0}, "pca")
    return Plan(name="", start=start, release=None, geometry=Polar(facts.r), n_components=facts.r)


def _first_auto(facts: Facts, options: Options) -> Plan:
    """Private PCA start with share .2, then 30 gradient steps from 1 to .01."""
    n_iter = _n_iter(options, 30)
    defaults = {"n_iter": n_iter, "schedule": Geometric(1.0, 0.01, n_iter), "share": START_SHARE}
    return _glad(facts, defaults)


_LOOP = ("n_iter", "schedule", "start", "output")
_SHARED = (*_LOOP, "share")
_BATCH = ("batch_size", "sampling")
_CLASSIC = ("n_iter", "tol", "start", "floor")

ROBUST: dict[str, Recipe] = {
    "auto": Recipe(_irls, _CLASSIC),
    "irls": Recipe(_irls, _CLASSIC),
    "fms": Recipe(_fms, _CLASSIC),
    "reaper-irls": Recipe(_reaper_irls, _CLASSIC),
    "pca": Recipe(_pca),
    "ggd": Recipe(_glad, (*_LOOP, "geometry")),
    "nggd": Recipe(partial(_glad, noisy=True), (*_LOOP, "geometry", "sigma")),
    "sggd": Recipe(partial(_glad, sampled=True), (*_LOOP, *_BATCH, "geometry")),
    "nsggd": Recipe(
        partial(_glad, sampled=True, noisy=True), (*_LOOP, *_BATCH, "geometry", "sigma")
    ),
    "gd-reap": Recipe(_water_filling, _LOOP),
    "sgd-reap": Recipe(partial(_water_filling, sampled=True), (*_LOOP, *_BATCH)),
    "md-reap": Recipe(_mirror, (*_LOOP, "capped")),
    "smd-reap": Recipe(partial(_mirror, sampled=True), (*_LOOP, *_BATCH, "capped")),
}

PRIVATE: dict[str, Recipe] = {
    "auto": Recipe(_first_auto, ("n_iter",)),
    "dp-pca": Recipe(_pca),
    "dp-ggd": Recipe(_glad, (*_SHARED, "geometry")),
    "dp-sggd": Recipe(partial(_glad, sampled=True), (*_SHARED, *_BATCH, "geometry")),
    "dp-gd-reap": Recipe(_water_filling, _SHARED),
    "dp-sgd-reap": Recipe(partial(_water_filling, sampled=True), (*_SHARED, *_BATCH)),
    "dp-md-reap": Recipe(_mirror, (*_SHARED, "capped")),
    "dp-smd-reap": Recipe(partial(_mirror, sampled=True), (*_SHARED, *_BATCH, "capped")),
}


# --- the paper's own noise -----------------------------------------------------------------


def _as_printed(plan: Plan, facts: Facts, epsilon: float, delta: float) -> Plan:
    """Return the plan with the noise that the paper prints (SPEC 4), whatever it promises.

    The start, which the paper does not charge, gets the whole budget for itself.
    """
    release, T = plan.release, plan.n_iter
    if plan.name == "auto":
        msg = "The paper has no algorithm 'auto'; name one of its own, such as 'dp-sggd'."
        raise ValueError(msg)
    if release is None:
        msg = (
            "The paper prints no noise for dp-pca that is private (it cites the Wishart "
            'mechanism); use calibration="honest".'
        )
        raise ValueError(msg)
    if isinstance(release.sampling, All):
        reaper = isinstance(release.query, Reaper)
        variance = 32 * T * log(T / delta) ** 2 if reaper else T * log(1 / delta) ** 2
    else:
        variance = (release.divisor / facts.n) ** 2 * T * log(1 / delta)
    sigma = sqrt(variance) / (epsilon * facts.n)
    z = sigma * release.divisor / release.sensitivity()
    start = plan.start
    if isinstance(start, MomentStart | RunStart):
        alone = replace(plan, release=None, n_iter=0)
        start = alone.calibrate(epsilon, delta).start
    printed = replace(plan, start=start, release=replace(release, z=z))
    privacy_curve(printed.event(), facts.relation)  # refuse now what could not be judged later
    return printed
