"""The columns of every table: one method with the noise, the sampling and the steps of a column.

| column | noise | rows per step of a stochastic method | steps |
|---|---|---|---|
| as-printed | the paper's formula | drawn with replacement | the paper's |
| without-misprint | the same without (B/n)² (stochastic only) | with replacement | the paper's |
| honest | by the accountant, start charged | with replacement | the paper's |
| poisson | by the accountant (stochastic only) | each with probability B/n | the paper's |
| tuned | by the accountant | each with probability B/n | `fitting_steps` |
| ours | the library's default for the budget | | |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log, sqrt
from typing import Any, Literal, TypeAlias, get_args

from reproduction.seeds import seed_from
from stillspace.datasets import Haystack, make_haystack
from stillspace.parts.schedules import Halving, InverseSqrt, Schedule
from stillspace.plans.fixed import Plan
from stillspace.plans.starts import MomentStart, RandomStart
from stillspace.privacy import ComposedEvent, GaussianEvent, Guarantee, Relation
from stillspace.recipes import Facts, fixed_plan

Column: TypeAlias = Literal["as-printed", "without-misprint", "honest", "poisson", "tuned", "ours"]
COLUMNS: tuple[Column, ...] = get_args(Column)
PRINTED: tuple[Column, ...] = ("as-printed", "without-misprint")
WORDS: dict[str, str] = {
    "as-printed": "as printed",
    "without-misprint": "without the misprint",
    "honest": "honest",
    "poisson": "honest, Poisson",
    "tuned": "honest, fairly tuned",
    "ours": "ours",
}

STOCHASTIC = ("dp-SGGD", "dp-SGD-REAP", "dp-SMD-REAP")
FULL_BATCH = ("dp-GGD", "dp-GD-REAP", "dp-MD-REAP")
SIX = ("dp-GGD", "dp-SGGD", "dp-GD-REAP", "dp-SGD-REAP", "dp-MD-REAP", "dp-SMD-REAP")
NONCONVEX = ("dp-GGD", "dp-SGGD")
REAPER_START = {
    "dp-GGD from dp-GD-REAP": "gd-reap",
    "dp-GGD from dp-MD-REAP": "md-reap",
    "dp-SGGD from dp-SGD-REAP": "sgd-reap",
    "dp-SGGD from dp-SMD-REAP": "smd-reap",
}
"""dp-(S)GGD that start from a REAPER method of their kind, as the paper suggests for small D."""
HALVED = "dp-GD-REAP with halved steps"
"""dp-GD-REAP with the kind of steps that dp-GGD has; in the column "tuned" only."""

HALVING = 50
"""Iterations between two halvings of the step (the paper's, for GGD)."""
NOMINAL_SHARE = 0.5
"""The share of inliers that the step rule assumes, whatever the data have: the paper's usual."""


def columns_of(method: str) -> tuple[Column, ...]:
    """Return the columns in which a method of the paper differs: its noise, sampling or steps."""
    if method == HALVED:
        return ("tuned",)
    sampled: tuple[Column, ...] = ("as-printed", "without-misprint", "honest", "poisson", "tuned")
    return sampled if base_of(method) in STOCHASTIC else ("as-printed", "honest", "tuned")


def base_of(method: str) -> str:
    """Return the name of the paper's method, without its start or its steps."""
    return method.split(" ", maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Setting:
    """Data and budget of a run: the haystack model of SPEC 7 and (ε, δ)."""

    n: int
    D: int
    r: int = 2
    inlier_ratio: float = 0.5
    epsilon: float = 0.8
    delta: float = 0.0
    """0 stands for the paper's 1/√n."""
    n_iter: int = 0
    """0 stands for n."""
    batch_size: int = 0
    """0 stands for the paper's `max(n √(ε/(4T)), 1)`."""
    c: float = 1.0
    """The constant of dp-GGD's printed variance. The paper leaves it open; 1 is our choice."""
    c2: float = 1.0
    """The constant of the stochastic methods' printed variance; open as well."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", self.delta or self.n**-0.5)
        object.__setattr__(self, "n_iter", self.n_iter or self.n)

    def data(self, seed: int, repetition: int) -> Haystack:
        """Return the data set of a repetition: the same for all methods, columns and budgets."""
        shape = (self.n, self.D, self.r)
        facts = ("haystack", seed, *shape, self.inlier_ratio, repetition)
        return make_haystack(*shape, inlier_ratio=self.inlier_ratio, random_state=seed_from(*facts))


@lru_cache(maxsize=256)
def paper_plan(method: str, setting: Setting, column: Column) -> Plan:
    """Return a method of the paper under a column, with the paper's T and batch size.

    The mirror step rescales the trace, as the paper has it.
    """
    s = setting
    facts = Facts(
        n=s.n,
        D=s.D,
        r=s.r,
        epsilon=s.epsilon,
        delta=s.delta,
        calibration="as-printed" if column in PRINTED else "honest",
    )
    options: dict[str, Any] = {"n_iter": s.n_iter, "start": REAPER_START.get(method)}
    name = base_of(method)
    if name in STOCHASTIC:
        poisson = column in ("poisson", "tuned")
        options["sampling"] = "poisson" if poisson else "with-replacement"
        options["batch_size"] = s.batch_size or None
    if "MD" in name:
        options["capped"] = False
    plan = fixed_plan(name.lower(), facts, **options)
    if column in PRINTED:
        return _with_constants(plan, name, setting, column)
    if column == "tuned" and method in REAPER_START:  # another start, and nothing else
        return replace(plan, schedule=paper_plan(name, setting, column).schedule)
    if column == "tuned":
        return replace(plan, schedule=fitting_steps(plan, method, s.D))
    return plan


def _with_constants(plan: Plan, name: str, setting: Setting, column: Column) -> Plan:
    """Return the plan with the open constants of the formula, and without (B/n)² if asked for."""
    release = plan.release
    assert release is not None
    assert isinstance(release.z, float)
    factor = {"dp-GGD": sqrt(setting.c)}.get(name, 1.0)
    if name in STOCHASTIC:
        factor = sqrt(setting.c2)
        if column == "without-misprint":
            factor *= setting.n / release.divisor
    return replace(plan, release=replace(release, z=release.z * factor))


def fitting_steps(plan: Plan, method: str, D: int) -> Schedule:
    """Return steps that fit the noise, from public facts, by one rule for all methods.

    The first step size is `R/(G √m)`. R bounds how far the start is from the answer, G is the root
    mean square length of a noisy gradient (the gradient itself counts as 1, its bound), and m is
    the number of iterations that the first step size lasts: 50 for steps that are halved every 50
    iterations, 1 for steps `η₁/√k`. This is the textbook's choice for subgradient methods, in
    the norms of the method's own geometry. The shape of each method's steps stays the paper's.
    """
    release = plan.release
    assert release is not None
    r = plan.n_components
    sigma = release.sigma(0) / release.divisor
    if method in NONCONVEX:
        radius = start_radius(plan, D, r)
        length = sqrt(1.0 + sigma**2 * r * (D - r))
        return Halving(radius / (length * sqrt(HALVING)), HALVING)
    if "MD" in method:  # entropy of trace r: R² = 2 log(D/r), and gradients in spectral norm
        return InverseSqrt(sqrt(2.0 * log(D / r)) / (1.0 + sigma * sqrt(2.0 * D)))
    radius, length = sqrt(2.0 * r), sqrt(1.0 + sigma**2 * D * (D + 1) / 2.0)
    if method == HALVED:
        return Halving(radius / (length * sqrt(HALVING)), HALVING)
    return InverseSqrt(radius / length)


def start_radius(plan: Plan, D: int, r: int) -> float:
    """Return the usual error √(Σ sin² θ_j) of a start by private PCA, for half inliers.

    To first order it is ‖QWV‖_F over the gap share/r of the second moment. The r(D − r) entries of
    QWV have the variance σ²/2 of the noise, and (1 − share)/(nD²) of isotropic outliers.
    """
    start = plan.start
    assert isinstance(start, MomentStart)
    sigma = start.release.sigma(0) / start.release.divisor
    outliers = (1.0 - NOMINAL_SHARE) / (start.release.size * D**2)
    variance = sigma**2 / 2.0 + outliers
    error = sqrt(r * (D - r) * variance) / (NOMINAL_SHARE / r)
    return min(error, sqrt(min(r, D - r)))


@dataclass(frozen=True, slots=True)
class TrueEpsilon:
    """What the noise of a plan really gives at δ."""

    loop: float
    """ε of the iterations alone."""
    total: float
    """ε of start and iterations together."""
    kind: str
    """"exact", "tight" (up to the accountant's grid) or "upper bound"."""


LARGE = 100.0
"""Above this ε the accountant's grid is coarse, so that what it gives is only an upper bound."""


@lru_cache(maxsize=256)
def true_epsilon(plan: Plan, delta: float) -> TrueEpsilon:
    """Return the ε that the plan's noise really gives at δ, under the plan's relation."""
    total = _epsilon(plan.event(), plan.relation, delta)
    alone = replace(plan, start=RandomStart(1, plan.n_components))  # a start that costs nothing
    loop = _epsilon(alone.event(), plan.relation, delta)
    return TrueEpsilon(loop, total, _kind(plan.event(), total))


def _epsilon(event: ComposedEvent, relation: Relation, delta: float) -> float:
    judged = Guarantee.from_event(event, relation, delta, not_private_because=("for judging only",))
    return judged.epsilon


def _kind(event: ComposedEvent, epsilon: float) -> str:
    parts = [single for single, _ in event if isinstance(single, GaussianEvent)]
    samplings = {single.sampling for single in parts}
    if samplings <= {"all"}:
        return "exact"
    if "with-replacement" in samplings or epsilon > LARGE:
        return "upper bound"
    return "tight"
