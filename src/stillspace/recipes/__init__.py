"""Named algorithms: short functions that compose a plan from public facts (SPEC 3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from stillspace._checks import checked_positive, described
from stillspace.exceptions import NotAccountedError
from stillspace.methods.newton import ChosenNewton, DampedNewton
from stillspace.methods.outlier_look import LOOK_RULE, OutlierLook
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.plans.fixed import Plan
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.tested import WIDTH, TestedPlan
from stillspace.recipes.classic import fms, irls, reaper_irls
from stillspace.recipes.facts import Facts, Options, Recipe, choice, listed
from stillspace.recipes.paper import as_printed, glad, mirror, pca, water_filling

__all__ = [
    "PRIVATE",
    "ROBUST",
    "Facts",
    "Recipe",
    "draft_plan",
    "fixed_plan",
    "known_recipe",
    "make_plan",
]


def draft_plan(algorithm: str, facts: Facts, **options: Any) -> AnyPlan:
    """Return the plan of a named algorithm, not calibrated yet.

    The known algorithms are the keys of `ROBUST` and `PRIVATE`. An option that is None means
    the recipe's own default.
    """
    recipe = known_recipe(algorithm, private=facts.private)
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in recipe.options:
            msg = (
                f"The algorithm {algorithm!r} has no option {described(key)}; "
                f"it has {listed(recipe.options)}."
            )
            raise ValueError(msg)
    if facts.choose_components and not recipe.chooses:
        table = PRIVATE if facts.private else ROBUST
        able = listed(name for name, known in table.items() if known.chooses)
        msg = f"{algorithm!r} needs a given number of components; able to choose it: {able}."
        raise ValueError(msg)
    built: Any = recipe.build(facts, given)
    named: AnyPlan = replace(built, name=algorithm)
    return named


def make_plan(algorithm: str, facts: Facts, **options: Any) -> AnyPlan:
    """Return the plan of a named algorithm, calibrated if the facts hold a budget."""
    plan = draft_plan(algorithm, facts, **options)
    if facts.epsilon is None or facts.delta is None:
        return plan
    if facts.calibration == "as-printed":
        return as_printed(plan, facts, facts.epsilon, facts.delta)
    return plan.calibrate(facts.epsilon, facts.delta)


def fixed_plan(algorithm: str, facts: Facts, **options: Any) -> Plan:
    """Return the plan of an algorithm whose releases are all known beforehand."""
    plan = make_plan(algorithm, facts, **options)
    if not isinstance(plan, Plan):
        msg = (
            f"The releases of {algorithm!r} depend on one another; name an algorithm of the paper."
        )
        raise TypeError(msg)
    return plan


def known_recipe(algorithm: Any, *, private: bool) -> Recipe:
    """Return the recipe of a name, of those with or without a promise."""
    table = PRIVATE if private else ROBUST
    if not isinstance(algorithm, str):
        msg = f"algorithm must be a name, one of {listed(table)}, got {described(algorithm)}."
        raise TypeError(msg)
    if algorithm in table:
        return table[algorithm]
    if algorithm in PRIVATE or algorithm in ROBUST:
        owner = "PrivateRobustPCA" if algorithm in PRIVATE else "RobustPCA"
        msg = f"{algorithm!r} is an algorithm of {owner}; known here: {listed(table)}."
    else:
        msg = f"Unknown algorithm {described(algorithm)}; known: {listed(table)}."
    raise ValueError(msg)


GROUPS = {"leave-out": True, "keep": False}
"""What is done with groups of outliers: whether they are left out."""


def newton(facts: Facts, options: Options) -> AdaptivePlan:
    """dp-newton: damped private Newton steps with a late cut (docs/newton.md)."""
    make = ChosenNewton if facts.choose_components else DampedNewton
    leave_out = choice("word for groups", options.get("groups", "leave-out"), GROUPS)
    units = facts.units if leave_out else None
    rule = LOOK_RULE if facts.axes_are_columns else replace(LOOK_RULE, one_column=inf)
    look = OutlierLook(
        facts.D, facts.r, facts.choose_components, rule, leave_out=leave_out, units=units
    )
    return AdaptivePlan(
        name="",
        method=make(facts.D, facts.r, look, affine=facts.affine),
        size=facts.n,
        relation=facts.relation,
        rows_per_person=facts.rows_per_person,
    )


def ptr(facts: Facts, options: Options) -> TestedPlan:
    """Propose-test-release over robust fits of blocks (SPEC 9.9): for nearly noiseless inliers."""
    if facts.rows_per_person != 1:
        msg = (
            f"Propose-test-release protects people with one row, not {facts.rows_per_person}; use "
            "algorithm='auto'."
        )
        raise NotAccountedError(msg)
    width = checked_positive("width", options.get("width", WIDTH))
    return TestedPlan("", facts.r, facts.n, facts.D, width, relation=facts.relation)


_LOOP = ("n_iter", "schedule", "start", "output")
_SHARED = (*_LOOP, "share")
_BATCH = ("batch_size", "sampling")
_CLASSIC = ("n_iter", "tol", "start", "floor")

ROBUST: dict[str, Recipe] = {
    "auto": Recipe(irls, (*_CLASSIC, "cut")),
    "irls": Recipe(irls, (*_CLASSIC, "cut")),
    "fms": Recipe(fms, _CLASSIC),
    "reaper-irls": Recipe(reaper_irls, _CLASSIC),
    "pca": Recipe(pca),
    "ggd": Recipe(glad, (*_LOOP, "geometry")),
    "nggd": Recipe(partial(glad, noisy=True), (*_LOOP, "geometry", "sigma")),
    "sggd": Recipe(partial(glad, sampled=True), (*_LOOP, *_BATCH, "geometry")),
    "nsggd": Recipe(
        partial(glad, sampled=True, noisy=True), (*_LOOP, *_BATCH, "geometry", "sigma")
    ),
    "gd-reap": Recipe(water_filling, _LOOP),
    "sgd-reap": Recipe(partial(water_filling, sampled=True), (*_LOOP, *_BATCH)),
    "md-reap": Recipe(mirror, (*_LOOP, "capped")),
    "smd-reap": Recipe(partial(mirror, sampled=True), (*_LOOP, *_BATCH, "capped")),
}

PRIVATE: dict[str, Recipe] = {
    "auto": Recipe(newton, ("groups",), chooses=True, uses_units=True),
    "dp-newton": Recipe(newton, ("groups",), chooses=True, uses_units=True),
    "dp-pca": Recipe(pca, ("start",), chooses=True),
    "ptr": Recipe(ptr, ("width",)),
    "dp-ggd": Recipe(glad, (*_SHARED, "geometry")),
    "dp-sggd": Recipe(partial(glad, sampled=True), (*_SHARED, *_BATCH, "geometry")),
    "dp-gd-reap": Recipe(water_filling, _SHARED),
    "dp-sgd-reap": Recipe(partial(water_filling, sampled=True), (*_SHARED, *_BATCH)),
    "dp-md-reap": Recipe(mirror, (*_SHARED, "capped")),
    "dp-smd-reap": Recipe(partial(mirror, sampled=True), (*_SHARED, *_BATCH, "capped")),
}
