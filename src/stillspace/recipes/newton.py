"""The library's own private algorithm."""

from __future__ import annotations

from stillspace.adaptive import AdaptivePlan
from stillspace.newton import ChosenNewton, DampedNewton
from stillspace.recipes.facts import Facts, Options


def newton(facts: Facts, options: Options) -> AdaptivePlan:  # noqa: ARG001
    """dp-newton: damped private Newton steps with a late cut (docs/newton.md)."""
    make = ChosenNewton if facts.choose_components else DampedNewton
    return AdaptivePlan(
        name="",
        method=make(facts.D, facts.r),
        size=facts.n,
        relation=facts.relation,
        rows_per_person=facts.rows_per_person,
    )
