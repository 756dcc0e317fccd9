"""The library's own private algorithms."""

from __future__ import annotations

from stillspace._checks import checked_positive
from stillspace.exceptions import NotAccountedError
from stillspace.methods.newton import ChosenNewton, DampedNewton
from stillspace.methods.outlier_look import OutlierLook
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.plans.tested import WIDTH, TestedPlan
from stillspace.recipes.facts import Facts, Options
from stillspace.recipes.options import choice

GROUPS = {"leave-out": True, "keep": False}
"""What is done with groups of outliers: whether they are left out."""


def newton(facts: Facts, options: Options) -> AdaptivePlan:
    """dp-newton: damped private Newton steps with a late cut (docs/newton.md)."""
    make = ChosenNewton if facts.choose_components else DampedNewton
    look = None
    if not choice("word for groups", options.get("groups", "leave-out"), GROUPS):
        look = OutlierLook(facts.D, facts.r, facts.choose_components, leave_out=False)
    return AdaptivePlan(
        name="",
        method=make(facts.D, facts.r, look),
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
