"""How fast errors fall: with the iterations and with n, fitted to every run, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10, sqrt

import numpy as np
from scipy.stats import t as student

from reproduction.cells import TOLERANCE
from stillspace._typing import FloatArray

FLOOR = 2.0**-52
"""φ², φ = 2⁻²⁶ the floor of private fits: below, the cost is smooth and the theorems do not speak
of it. A fit leaves such errors out."""

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Slope:
    """A slope with a 95 % interval."""

    value: float
    low: float
    high: float


def mean_slope(slopes: FloatArray) -> Slope:
    """Return the mean over independent runs, with Student's interval."""
    m = len(slopes)
    mean = float(np.mean(slopes))
    if m < 2:
        return Slope(mean, -np.inf, np.inf)
    half = float(student.ppf(0.5 + LEVEL / 2, m - 1) * np.std(slopes, ddof=1) / sqrt(m))
    return Slope(mean, mean - half, mean + half)


def line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return the slope of the least-squares line and the standard deviation of what is left."""
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(np.std(y - intercept - slope * x))


def regression(x: FloatArray, y: FloatArray) -> tuple[Slope, float]:
    """Return the slope of one line through all runs, with its interval, and what it leaves."""
    value, rest = line(x, y)
    freedom = len(x) - 2
    spread = float(np.std(x)) * sqrt(len(x))
    error = rest * sqrt(len(x) / freedom) / spread
    half = float(student.ppf(0.5 + LEVEL / 2, freedom)) * error
    return Slope(value, value - half, value + half), rest


@dataclass(frozen=True, slots=True)
class Decay:
    """Two laws fitted to the same errors: exponential `10^(a x)` and a power `x^p`.

    The law whose line leaves the smaller deviation (of log10 error) describes them better.
    """

    exponential: Slope
    power: Slope
    exponential_rest: float
    power_rest: float

    @property
    def is_exponential(self) -> bool:
        """Whether the exponential law fits better."""
        return self.exponential_rest < self.power_rest


def decay_in_iterations(at: Sequence[int], traces: Sequence[Sequence[float]]) -> Decay:
    """Fit both laws to each run's errors at iterations ≥ 1, and average over the runs.

    The checkpoints used lie evenly, so that no part of the run counts more than its length.
    """
    steps = np.asarray(at)
    even = np.isin(steps, np.rint(np.linspace(0, steps[-1], 81)))
    fits = []
    for trace in traces:
        errors = np.asarray(trace)
        keep = even & (steps >= 1) & (errors > FLOOR)
        if keep.sum() < 4:
            continue
        k, y = steps[keep].astype(np.float64), np.log10(errors[keep])
        fits.append((*line(k, y), *line(np.log10(k), y)))
    slopes = np.array(fits)
    return Decay(
        mean_slope(slopes[:, 0]),
        mean_slope(slopes[:, 2]),
        float(slopes[:, 1].mean()),
        float(slopes[:, 3].mean()),
    )


def decay_in_n(sizes: Sequence[int], errors: Sequence[Sequence[float]]) -> Decay | None:
    """Fit both laws to log10 error against n over all runs; None with fewer than three sizes.

    Sizes at which the method does not work yet (median above 1e-2) or is below the floor already
    are left out.
    """
    x, y = [], []
    for n, found in zip(sizes, errors, strict=True):
        if FLOOR < np.median(found) <= TOLERANCE:
            x += [float(n)] * len(found)
            y += [log10(max(error, FLOOR)) for error in found]
    if len(set(x)) < 3:
        return None
    n_all, logs = np.array(x), np.array(y)
    exponential, exponential_rest = regression(n_all, logs)
    power, power_rest = regression(np.log10(n_all), logs)
    return Decay(exponential, power, exponential_rest, power_rest)
