"""The paper's algorithms: gradient steps on GLAD and on REAPER, and the noise that it prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import log, sqrt
from typing import Any

import numpy as np

from stillspace._checks import checked_positive, described
from stillspace._typing import FloatArray
from stillspace.exceptions import NotAccountedError
from stillspace.parts.geometry import EntropicMirror, Geodesic, Geometry, Polar, WaterFilling
from stillspace.parts.queries import PRIVATE_FLOOR, ROBUST_FLOOR, Glad, Reaper, SecondMoment
from stillspace.parts.sampling import All
from stillspace.parts.schedules import Halving, InverseSqrt
from stillspace.plans.fixed import Plan
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.release import Release
from stillspace.plans.starts import (
    ExponentialStart,
    GivenStart,
    MomentStart,
    PaperMatrixStart,
    RandomStart,
    RunStart,
    Start,
    WishartStart,
)
from stillspace.privacy import privacy_curve
from stillspace.recipes.facts import (
    Facts,
    Options,
    checked_n_iter,
    checked_schedule,
    choice,
    named_output,
    named_sampling,
)

REAPER_STARTS = ("reaper", "gd-reap", "sgd-reap", "md-reap", "smd-reap")
"""Starts from a run of one of the paper's convex methods; "reaper" is "gd-reap"."""

_UNACCOUNTED = {
    "wishart": "The Wishart mechanism is not differentially private",
    "exponential": "The sampler of the exponential mechanism is not proved in floating point",
}

START_SHARE = 0.2
"""Part of μ² that a private PCA start gets."""


def named_start(facts: Facts, options: Options, default: str) -> Start:
    """Return the start that the user named, or gave as an array."""
    start: Any = options.get("start", default)
    share = checked_positive("share", options.get("share", START_SHARE))
    named = isinstance(start, str) and start in ("pca", *REAPER_STARTS)
    if "share" in options and not named:
        msg = "A start that reads no rows takes no share of the budget; leave share out."
        raise ValueError(msg)
    if not isinstance(start, str):
        return GivenStart.from_basis(_checked_basis(facts, start))
    makers: dict[str, Callable[[], Start]] = {
        "pca": lambda: MomentStart(facts.release(SecondMoment(facts.D)), share),
        "random": lambda: RandomStart(facts.D, facts.r),
        **{name: partial(_reaper_start, facts, name, share) for name in REAPER_STARTS},
        "paper-matrix": lambda: PaperMatrixStart(facts.D),
        "wishart": lambda: WishartStart(*_unaccounted(facts, start)),
        "exponential": lambda: ExponentialStart(*_unaccounted(facts, start)),
    }
    return choice("start", start, makers)()


def _reaper_start(facts: Facts, name: str, share: float) -> RunStart:
    """Return the start from a run of a REAPER method."""
    make = mirror if "md" in name else water_filling
    plan = make(facts, {}, sampled=name.startswith("s"))
    name = "dp-gd-reap" if name == "reaper" else f"dp-{name}"
    return RunStart(replace(plan, name=name), share)


def _unaccounted(facts: Facts, start: str) -> tuple[Release, float]:
    """Return what a mechanism without a guarantee needs: only where nothing is promised."""
    if facts.epsilon is None or facts.calibration != "as-printed":
        msg = (
            f"{_UNACCOUNTED[start]}; start={start!r} is for calibration='as-printed' only: use "
            "start='pca', Gaussian noise on the second moment."
        )
        raise NotAccountedError(msg)
    return replace(facts.release(SecondMoment(facts.D)), z=0.0), facts.epsilon


def _checked_basis(facts: Facts, start: FloatArray) -> FloatArray:
    """Return a given start as a basis (D, r); it comes as rows, as `components_` does."""
    try:
        components = np.asarray(start, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        msg = f"A given start must be an array of numbers of shape ({facts.r}, {facts.D})."
        raise ValueError(msg) from None
    if components.shape != (facts.r, facts.D):
        msg = (
            f"A given start must have the shape ({facts.r}, {facts.D}) of components_, "
            f"got {components.shape}."
        )
        raise ValueError(msg)
    return components.T


def glad(facts: Facts, options: Options, *, sampled: bool = False, noisy: bool = False) -> Plan:
    """Gradient steps on the Grassmannian: (N)(S)GGD, dp-(S)GGD."""
    n_iter = checked_n_iter(options, 400)
    floor = PRIVATE_FLOOR if facts.private else ROBUST_FLOOR
    sampling = named_sampling(facts, options, n_iter) if sampled else All()
    release = facts.release(Glad(facts.D, facts.r, floor), sampling)
    if noisy:  # on the mean gradient, as the paper has it
        sigma = checked_positive("sigma", options.get("sigma", 0.01))
        z = sigma * release.divisor / release.unit
        release = replace(release, z=z)
    geometries: dict[str, Geometry] = {"polar": Polar(facts.r), "geodesic": Geodesic(facts.r)}
    return Plan(
        name="",
        start=named_start(facts, options, "pca"),
        release=release,
        geometry=choice("geometry", options.get("geometry", "polar"), geometries),
        n_components=facts.r,
        n_iter=n_iter,
        schedule=checked_schedule(options, Halving()),
        output=named_output(options, "last"),
    )


def reaper(facts: Facts, options: Options, geometry: Geometry, *, sampled: bool = False) -> Plan:
    """First-order steps on the convex relaxation: (dp-)(S)GD-REAP and (dp-)(S)MD-REAP."""
    n_iter = checked_n_iter(options, 200)
    floor = PRIVATE_FLOOR if facts.private else ROBUST_FLOOR
    off_diagonal = 1.0 if facts.calibration == "as-printed" else 0.5
    sampling = named_sampling(facts, options, n_iter) if sampled else All()
    return Plan(
        name="",
        start=named_start(facts, options, "paper-matrix"),
        release=facts.release(Reaper(facts.D, facts.r, floor, off_diagonal), sampling),
        geometry=geometry,
        n_components=facts.r,
        n_iter=n_iter,
        schedule=checked_schedule(options, InverseSqrt()),
        output=named_output(options, "average"),
    )


def water_filling(facts: Facts, options: Options, *, sampled: bool = False) -> Plan:
    """(dp-)(S)GD-REAP."""
    return reaper(facts, options, WaterFilling(facts.r), sampled=sampled)


def mirror(facts: Facts, options: Options, *, sampled: bool = False) -> Plan:
    """(dp-)(S)MD-REAP."""
    capped = options.get("capped", True)
    if not isinstance(capped, bool):
        msg = f"capped must be True or False, got {described(capped)}."
        raise ValueError(msg)
    geometry = EntropicMirror(facts.r, capped)
    return reaper(facts, options, geometry, sampled=sampled)


def pca(facts: Facts, options: Options) -> Plan:
    """(dp-)PCA: the start alone, with the whole budget.

    As printed it is one of the two mechanisms that the paper cites: "wishart" in its text and
    "exponential" in its figure of the map.
    """
    known = tuple(_UNACCOUNTED) if facts.calibration == "as-printed" else ("pca",)
    name = options.get("start", known[0])
    if isinstance(name, str) and name in _UNACCOUNTED:
        start = named_start(facts, options, name)  # refuses it where something is promised
    else:
        choice("mechanism of dp-pca", name, dict.fromkeys(known))
        start = named_start(facts, {"share": 1.0}, "pca")
    return Plan(name="", start=start, release=None, geometry=Polar(facts.r), n_components=facts.r)


def as_printed(plan: AnyPlan, facts: Facts, epsilon: float, delta: float) -> Plan:
    """Return the plan with the noise that the paper prints (SPEC 4), whatever it promises.

    The start, which the paper does not charge, gets the whole budget for itself.
    """
    if not isinstance(plan, Plan):
        msg = f"The paper has no algorithm {plan.name!r}; name one of its own, such as 'dp-sggd'."
        raise ValueError(msg)
    release, T = plan.release, plan.n_iter
    if release is None:
        return plan
    if isinstance(release.sampling, All):
        reaper = isinstance(release.query, Reaper)
        variance = 32 * T * log(T / delta) ** 2 if reaper else T * log(1 / delta) ** 2
    else:
        variance = (release.divisor / facts.n) ** 2 * T * log(1 / delta)
    sigma = sqrt(variance) / (epsilon * facts.n)
    z = sigma * release.divisor / release.unit
    start = plan.start
    if isinstance(start, MomentStart | RunStart):
        alone = replace(plan, release=None, n_iter=0)
        start = alone.calibrate(epsilon, delta).start
    printed = replace(plan, start=start, release=replace(release, z=z))
    privacy_curve(printed.event(), facts.relation)  # refuse now what could not be judged later
    return printed
