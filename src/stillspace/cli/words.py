"""A plan in words, for people who have not read the paper."""

from __future__ import annotations

from stillspace.parts.sampling import All, Poisson
from stillspace.parts.stops import Never
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.plans.fixed import (
    GivenStart,
    MomentStart,
    PaperMatrixStart,
    Plan,
    RandomStart,
    RunStart,
    Start,
    WishartStart,
)
from stillspace.plans.release import Release
from stillspace.ptr import PtrPlan
from stillspace.recipes.facts import AnyPlan


def plan_in_words(plan: AnyPlan) -> str:
    """Return one or two sentences that say what ran."""
    if isinstance(plan, AdaptivePlan):
        return (
            f"{plan.name}: {plan.method.name}, at most {plan.method.n_passes} passes over all "
            "rows; each release chooses the next within a total that was fixed beforehand."
        )
    if isinstance(plan, PtrPlan):
        return (
            f"{plan.name}: robust fits without noise of {plan.n_blocks} disjoint blocks of rows "
            "vote; the winner is released by a private test, or nothing."
        )
    if plan.release is None or plan.n_iter == 0:
        return f"{plan.name}: {_start(plan.start, alone=True)}."
    start = _start(plan.start, searched=plan.name == "auto")
    return (
        f"{plan.name}: {start}, then {_steps(plan)} with the "
        f"{plan.release.query.name} of {_rows(plan.release)}{_noise(plan.release)}."
    )


def _steps(plan: Plan) -> str:
    bound = "" if isinstance(plan.stop, Never) else "up to "
    return f"{bound}{plan.n_iter} step{'s' if plan.n_iter > 1 else ''}"


_OTHER_STARTS: dict[type, str] = {
    GivenStart: "a given start",
    RandomStart: "a random start",
    PaperMatrixStart: "the paper's random matrix",
    WishartStart: "the Wishart mechanism of the paper, which is not private",
}


def _start(start: Start, *, alone: bool = False, searched: bool = False) -> str:
    if isinstance(start, MomentStart):
        if not start.release.noisy:
            return "the second moment's top eigenvectors" if alone else "a start from PCA"
        noise = _noise(start.release)
        if alone:
            return f"the top eigenvectors of the second moment of all rows{noise}"
        return f"a start from private PCA with {start.share:.0%} of the budget{noise}"
    if isinstance(start, RunStart):
        return (
            f"a start from {start.plan.name or 'another plan'} with {start.share:.0%} of the budget"
        )
    if isinstance(start, GivenStart) and searched:
        return "the best of several starts"
    return _OTHER_STARTS[type(start)]


def _rows(release: Release) -> str:
    sampling = release.sampling
    if isinstance(sampling, All):
        return "all rows"
    about = "about " if isinstance(sampling, Poisson) else ""
    return f"{about}{release.divisor:.4g} rows each, drawn by {sampling.name} sampling"


def _noise(release: Release) -> str:
    """Return the noise on the released mean, in the unit of the scaled rows."""
    if not release.noisy:
        return ""
    return f" (noise {release.sigma(0) / release.divisor:.2g} on the mean)"
