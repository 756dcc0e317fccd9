"""Whole private fits as staged plans: name and public facts in, one calibrated plan out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.certificate import CertificateMethod
from stillspace.methods.median import PrivateMedian
from stillspace.methods.outlier_look import UnitsAgain
from stillspace.methods.pair_lengths import PairLengths
from stillspace.methods.pictures import length_counts, map_bins
from stillspace.methods.stages import (
    CenterStage,
    LeaveOutStage,
    LengthStage,
    NarrowStage,
    ScoreMapStage,
    ScreeStage,
    StandardiseStage,
    SubspaceStage,
    SummaryStage,
)
from stillspace.methods.standardiser import Standardiser, kappa_of
from stillspace.parts.geometry import Polar
from stillspace.parts.queries import DistanceCounts, ScoreCounts, ScoreSquares, SecondMoment
from stillspace.plans.adaptive import AdaptivePlan, Method
from stillspace.plans.fixed import Plan, Reading
from stillspace.plans.staged import Stage, StagedPlan
from stillspace.plans.starts import MomentStart
from stillspace.privacy import mu_from_budget
from stillspace.recipes import draft_plan, known_recipe
from stillspace.recipes.facts import Facts
from stillspace.recipes.paper import as_printed
from stillspace.rows.maps import Affine, Clip, Sphere, View, affine_of, paired
from stillspace.rows.sketch import Sketch


@dataclass(frozen=True, slots=True)
class Standardised:
    """Which of the two a fit is to find privately."""

    center: bool
    scale: bool
    bounds: FrozenArray | None = None
    """Public ranges of the columns, (columns, 2); NaN where nothing is known."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of μ² of the stages beside the one that finds the subspace, which gets the rest."""

    center: float = 0.1
    """The geometric median."""
    pair_lengths: float = 0.05
    """The cut between short and long pairs, with its check."""
    narrow: float = 0.35
    """The second moment whose leading eigenvectors wide rows are narrowed to (docs/wide.md)."""
    summary: float = 0.05
    """Each summary but the certificate."""
    map_length: float = 0.01
    """Of the summary "scores": the counts of lengths that say how far the map reaches."""
    certificate: float = 0.2
    """The certificate: one of its sums has D(D + 1)/2 entries."""


SHARES = Shares()

EDGES: tuple[float, ...] = tuple(float(edge) for edge in np.geomspace(1e-4, 0.98, 80))
"""Public bins of the orthogonal distance of a row on the unit sphere: 12 % wide."""


def _variances(facts: Facts, view: View) -> tuple[Stage, ...]:  # noqa: ARG001
    reading = Reading("variances", facts.release(ScoreSquares(facts.D, facts.r)))
    return (SummaryStage(reading, SHARES.summary, facts.r),)


def _distances(facts: Facts, view: View) -> tuple[Stage, ...]:  # noqa: ARG001
    reading = Reading("distances", facts.release(DistanceCounts(facts.D, facts.r, EDGES)))
    return (SummaryStage(reading, SHARES.summary, facts.r),)


def _scores(facts: Facts, view: View) -> tuple[Stage, ...]:
    """Return the stages of a map of the scores: how long rows are, then the map."""
    if paired(view):
        msg = (
            "The summary 'scores' is a map of rows, and center='pairs' sees differences of rows "
            "alone; use center='private', a public centre, or leave 'scores' out."
        )
        raise ValueError(msg)
    clip = next((m.norm for m in view if isinstance(m, Clip)), None)
    share = SHARES.summary if clip is not None else SHARES.summary - SHARES.map_length
    m = min(2, facts.r)
    sd = _sd_of_counts(facts, share)
    groups = facts.n_labels + 1  # one for all labels that are not listed, or for all rows
    counts = ScoreCounts(facts.D, m, map_bins(facts.n // groups, sd), groups)
    last = ScoreMapStage(Reading("scores", facts.release(counts)), share, m, clip)
    if clip is not None:
        return (last,)
    lengths = Reading("lengths", facts.release(length_counts()))
    return (LengthStage(lengths, SHARES.map_length), last)


def _scree(facts: Facts, view: View) -> tuple[Stage, ...]:  # noqa: ARG001
    return (ScreeStage(Reading("scree", facts.release(SecondMoment(facts.D))), SHARES.summary),)


def _certificate(facts: Facts, view: View) -> tuple[Stage, ...]:
    if not isinstance(view[-1], Sphere):
        msg = "A certificate is about rows on the unit sphere; leave norm_bound out."
        raise ValueError(msg)
    method = CertificateMethod(facts.D, facts.r)
    plan = AdaptivePlan("certificate", method, facts.n, facts.relation, facts.rows_per_person)
    return (SummaryStage(plan, SHARES.certificate, facts.r),)


def _sd_of_counts(facts: Facts, share: float) -> float:
    """Return the standard deviation of the noise on a count of rows that gets this share."""
    assert facts.epsilon is not None
    assert facts.delta is not None
    mu = mu_from_budget(facts.epsilon, facts.delta) * sqrt(share)
    return facts.rows_per_person * (sqrt(2.0) if facts.relation == "replace-one" else 1.0) / mu


SUMMARIES: Mapping[str, Callable[[Facts, View], tuple[Stage, ...]]] = {
    "variances": _variances,
    "distances": _distances,
    "scores": _scores,
    "scree": _scree,
    "certificate": _certificate,
}


def plan_fit(
    algorithm: str,
    facts: Facts,
    options: Mapping[str, Any],
    view: View,
    columns: int,
    *,
    standardised: Standardised | None = None,
    radius: float | None = None,
    cut_pairs: bool = False,
    narrowed: int | None = None,
    summaries: tuple[str, ...] = (),
) -> StagedPlan:
    """Return the plan of a private fit, calibrated to the budget of `facts`.

    `view` is what is done to a row of so many columns, as far as it is known beforehand. With
    `radius` the centre is a private geometric median within it. With `narrowed` the subspace is
    looked for on that many columns, chosen by a stage of their own. With `standardised` the centre
    or the scale of every column, or both, come from private histograms of its cells.
    """
    first = _first_stages(facts, radius, cut_pairs and paired(view), narrowed)
    if standardised is not None:
        first = (_standardising(facts, columns, standardised, view), *first)
    last = tuple(stage for name in summaries for stage in SUMMARIES[name](facts, view))
    if narrowed is None:
        units = None if standardised is None else _units_again(columns, standardised, view)
        mixed = any(isinstance(row_map, Sketch) for row_map in view)
        subspace_facts = replace(
            facts, affine=_fillable(view), units=units, axes_are_columns=not mixed
        )
    else:
        subspace_facts = replace(facts, D=narrowed, axes_are_columns=False)
    draft = draft_plan(algorithm, subspace_facts, **options)
    chooses = facts.choose_components and isinstance(draft, Plan)
    found = standardised is not None or (radius is not None and subspace_facts.affine is not None)
    uses = narrowed is None and known_recipe(algorithm, private=True).uses_units
    main = SubspaceStage(draft, None, chooses, needs_units=found and uses)
    plan = StagedPlan(algorithm, view, (*first, main, *last), columns)
    assert facts.epsilon is not None
    assert facts.delta is not None
    if facts.calibration == "honest":
        return plan.calibrate(facts.epsilon, facts.delta)
    if first or last:
        msg = (
            "The paper has neither a private centre nor summaries; "
            "leave them out or use calibration='honest'."
        )
        raise ValueError(msg)
    printed = as_printed(draft, facts, facts.epsilon, facts.delta)
    return replace(plan, stages=(main.with_plan(printed),))


def _standardising(facts: Facts, columns: int, wanted: Standardised, view: View) -> Stage:
    """Return the stage that finds centre and scale of every column."""
    assert facts.epsilon is not None
    assert facts.delta is not None
    kappa = kappa_of(mu_from_budget(facts.epsilon, facts.delta), facts.n, columns)
    method = _standardiser(columns, wanted, view)
    rule = method.rule
    if kappa < rule.least_kappa:
        msg = (
            f"A private centre or scale needs kappa = mu * n / sqrt(columns) of at least "
            f"{rule.least_kappa:g}, and this table has {kappa:.3g}: give center and scale as "
            "public numbers, use a larger epsilon, or fewer columns."
        )
        raise ValueError(msg)
    plan = AdaptivePlan("standardiser", method, facts.n, facts.relation, facts.rows_per_person)
    return StandardiseStage(plan, rule.share_of(kappa), wanted.center, wanted.scale)


def _fillable(view: View) -> Affine | None:
    """Return centre, scale and missing cells of the rows, if a method may fill missing cells.

    Where zero is the code of a missing cell, rows may be sparse and stay as they are.
    """
    if len(view) != 2:
        return None
    affine, bound = view
    if not isinstance(affine, Affine) or not isinstance(bound, Sphere) or affine.missing == 0.0:
        return None
    return affine if affine.missing is not None or affine.holes else None


def _standardiser(columns: int, wanted: Standardised, view: View) -> Standardiser:
    return Standardiser(columns, affine_of(view).missing, wanted.bounds)


def _units_again(columns: int, wanted: Standardised, view: View) -> UnitsAgain:
    """Return how a method finds centre and scale again if it leaves rows out."""
    standardiser = _standardiser(columns, wanted, view)
    return UnitsAgain(standardiser, wanted.center, wanted.scale, affine_of(view).holes)


def _first_stages(
    facts: Facts, radius: float | None, cut_pairs: bool, narrowed: int | None
) -> tuple[Stage, ...]:
    """Return the stages before the subspace's."""

    def adaptive(name: str, method: Method) -> AdaptivePlan:
        return AdaptivePlan(name, method, facts.n, facts.relation, facts.rows_per_person)

    stages: list[Stage] = []
    if radius is not None:
        plan = adaptive("median", PrivateMedian(facts.D))
        stages.append(CenterStage(plan, SHARES.center, radius))
    if cut_pairs:
        method = PairLengths(facts.D, facts.r, facts.choose_components)
        stages.append(LeaveOutStage(adaptive("lengths", method), SHARES.pair_lengths))
    if narrowed is not None:
        start = MomentStart(facts.release(SecondMoment(facts.D)))
        pca = Plan("narrowing", start, None, Polar(narrowed), narrowed)
        stages.append(NarrowStage(pca, SHARES.narrow))
    return tuple(stages)


def distance_quantiles(counts: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles of the orthogonal distance from noisy counts (or shares) of `EDGES`' bins.

    Post-processing: negative counts become 0; inside a bin the distance is interpolated.
    """
    cleaned = np.maximum(counts, 0.0)
    total = cleaned.sum()
    if total <= 0.0:
        return np.full(len(levels), np.nan)
    cumulative = np.concatenate([[0.0], np.cumsum(cleaned) / total])
    return np.asarray(np.interp(levels, cumulative, [0.0, *EDGES, 1.0]))
