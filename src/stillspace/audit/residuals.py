"""The noise of real runs, measured: a check of the implementation that is no attack.

Whoever holds the rows can subtract the exact sums from what was released. What is left, in units of
σ, must be independent standard normals: of the right size to a fraction of a percent after one run,
in every step, and another set of them in every fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import chi2, kstest, norm, poisson

from stillspace._typing import FloatArray
from stillspace.audit.neighbours import table_size
from stillspace.parts.noise import secure_generator, seeded_generator
from stillspace.plans.protocol import AnyPlan
from stillspace.run import rows_for, run
from stillspace.run.observers import Observation

_LARGEST = 2**23
"""Residuals that are compared step with step; more of them are cut off."""
_MANY = 1000
"""Products from which on their sum is as good as normal in its far tail."""
_MOST_COMPARED = 2**20
"""Residuals of which every two are compared; more of them are cut off."""
_CLOSE = 2.0**-28
"""Two residuals closer than this may be one normal on two lattices, which are finer than 2⁻³⁰."""


@dataclass(frozen=True, slots=True)
class NoiseReport:
    """What the residuals of some fits look like. `problems` is empty if all is well."""

    residuals: int
    ratio: float
    """Measured over stated standard deviation."""
    interval: tuple[float, float]
    """Where it lies, with 95 % confidence."""
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no check raised an alarm."""
        return not self.problems

    def __str__(self) -> str:
        low, high = self.interval
        text = (
            f"The noise is {self.ratio:.4f} times what the plan states (95 % interval {low:.4f} to "
            f"{high:.4f}, {self.residuals} residuals)."
        )
        return " ".join([text, *self.problems]) if self.problems else f"{text} No fault was found."


def check_noise(
    plan: AnyPlan,
    X: Any = None,
    *,
    fits: int = 2,
    alarm: float = 1e-6,
    random_state: int | None = None,
) -> NoiseReport:
    """Run a plan and measure its noise from the residuals of every release.

    Parameters
    ----------
    plan : Plan
        Calibrated, such as `est.plan_`.
    X : array, default=None
        The rows; None means equal rows, whose sums are as large as sums get and show a wrong
        divisor, too.
    fits : int, default=2
        Runs, at least 2: the noise of two of them must be independent too.
    alarm : float, default=1e-6
        The probability of a false alarm, all checks together.
    random_state : int, default=None
        For tests. None draws the noise as a fit does.

    Examples
    --------
    >>> from stillspace.audit import check_noise
    >>> from stillspace.recipes import Facts, make_plan
    >>> plan = make_plan("dp-ggd", Facts(n=500, D=20, r=2, epsilon=1.0, delta=1e-6), n_iter=200)
    >>> check_noise(plan).ok
    True
    """
    if plan.event().non_private_reasons:
        raise ValueError(f"There is no noise to measure: {plan.event().non_private_reasons[0]}.")
    if fits < 2:
        raise ValueError(f"fits must be at least 2, to compare their noise, got {fits}.")
    if X is None:
        X = np.ones((table_size(plan), plan.n_columns))
    rows = rows_for(plan, np.asarray(X, dtype=np.float64))
    runs: list[list[FloatArray]] = []
    by_release: dict[Any, list[FloatArray]] = {}
    for i in range(fits):
        observations: list[Observation] = []
        seed = None if random_state is None else random_state + i
        rng = secure_generator() if seed is None else seeded_generator(seed)
        run(plan, rows, rng, witness=observations.append)
        runs.append([])
        for part in observations:
            found = _standardised(part)
            runs[-1] += found
            by_release.setdefault(part.release.query, []).extend(found)
    level = alarm / 6
    everything = np.concatenate([z for steps in runs for z in steps])
    squares, count = float(np.sum(everything**2)), len(everything)
    low, high = (np.sqrt(squares / chi2.isf(p, count)) for p in (0.025, 0.975))
    each = [np.concatenate(steps) for steps in by_release.values()]
    problems = [
        *dict.fromkeys(word for z in each for word in _size(z, level / len(each))),
        *dict.fromkeys(word for z in each for word in _law(z, level / len(each))),
        *_between_steps(runs, level),
        *_between_fits(runs, level),
        *_used_twice(everything, level),
    ]
    ratio = float(np.sqrt(squares / count))
    return NoiseReport(count, ratio, (float(low), float(high)), tuple(problems))


def _standardised(observation: Observation) -> list[FloatArray]:
    """Return the residuals of each iteration in units of their standard deviation.

    They are flat, and in the order in which the noise was drawn.
    """
    release = observation.release
    noise = release.query.noise
    precision = noise.in_drawn_order(noise.precision)
    found = []
    for i, point in enumerate(observation.points):
        chosen = None if observation.selections is None else observation.selections[i]
        with np.errstate(all="ignore"):
            exact = observation.rows.add(release.query, point, chosen)
        sigma = release.sigma(observation.first + i)
        residual = (observation.released[i] * release.divisor - exact) / sigma
        found.append(np.asarray(noise.in_drawn_order(residual) * np.sqrt(precision)))
    return found


def _size(values: FloatArray, level: float) -> list[str]:
    squares, count = float(np.sum(values**2)), len(values)
    if squares < chi2.ppf(level, count):
        return ["There is less noise than stated."]
    if squares > chi2.isf(level, count):
        return ["There is more noise than stated, or the sums are not what they should be."]
    return []


def _law(values: FloatArray, level: float) -> list[str]:
    """Kolmogorov and Smirnov, after the size is taken out, which has its own check."""
    if kstest(values / max(_rms(values), 1e-300), "norm").pvalue < level:
        return ["The residuals are not normal."]
    return []


def _between_steps(runs: list[list[FloatArray]], level: float) -> list[str]:
    """Correlate the steps of a fit: each with each, and all steps of one shape at each distance.

    Steps of different shapes, such as two queries of one pass, are compared as far as the shorter
    one goes, in the order in which their noise was drawn.
    """
    pairs: list[float] = []
    lags: list[float] = []
    others: list[float] = []
    for steps in runs:
        groups = [_stacked(steps, size) for size in sorted({len(step) for step in steps})]
        for Z in groups:
            products = Z @ Z.T
            # z·z'/‖z‖ is standard normal for an independent z', whatever z is.
            norms = np.maximum(np.sqrt(np.diag(products)), 1e-300)
            pairs += list(np.abs(products / norms[:, None])[np.triu_indices(len(Z), 1)])
            for lag in range(1, len(Z)):
                count = (len(Z) - lag) * Z.shape[1]
                if count >= _MANY:
                    lags.append(abs(float(np.trace(products, offset=lag))) / np.sqrt(count))
        for short, long in combinations(groups, 2):
            common = short.shape[1]
            norms = np.maximum(np.linalg.norm(short, axis=1), 1e-300)
            others += list(np.abs(short @ long[:, :common].T / norms[:, None]).ravel())
    for scores in (pairs, lags, others):
        if scores and max(scores) > norm.isf(level / (6 * len(scores))):
            return ["The noise of one step tells that of another."]
    return []


def _stacked(steps: list[FloatArray], size: int) -> FloatArray:
    """Return the steps of one size, as many as are compared, scaled to variance 1."""
    Z = np.array([step for step in steps if len(step) == size][: max(_LARGEST // size, 2)])
    return np.asarray(Z / max(_rms(np.ravel(Z)), 1e-300))


def _used_twice(values: FloatArray, level: float) -> list[str]:
    """Count residuals of equal size, in whatever places of whatever fits.

    The absolute values of N independent normals have about N² t/√π pairs closer than t, nearly
    by the law of Poisson. A margin of a quarter covers the steps of the lattices.
    """
    sizes = np.sort(np.abs(values[:_MOST_COMPARED]))
    close = np.searchsorted(sizes, sizes + _CLOSE, side="left") - np.arange(len(sizes)) - 1
    expected = 1.25 * len(sizes) ** 2 * _CLOSE / np.sqrt(np.pi)
    if poisson.sf(float(close.sum()) - 1.0, expected) < level:
        return ["The same noise appears in two places."]
    return []


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _between_fits(runs: list[list[FloatArray]], level: float) -> list[str]:
    flat = [np.concatenate(steps) for steps in runs]
    common = min(map(len, flat))  # an adaptive plan may take more steps in one fit than in another
    flat = [z[:common] for z in flat]
    pairs = [(a, b) for i, a in enumerate(flat) for b in flat[:i]]
    scores = [abs(float(a @ b)) / np.sqrt(float(a @ a) * np.mean(b**2)) for a, b in pairs]
    if max(scores) > norm.isf(level / (2 * len(pairs))):
        return ["The noise of one fit tells that of another."]
    return []
