"""Classic robust solvers, which reweight the rows: never private."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from stillspace._checks import checked_positive
from stillspace.parts.geometry import Geometry, LeastSquares, Orthonormalize, TopEigenvectors
from stillspace.parts.queries import (
    ROBUST_FLOOR,
    IrlsPower,
    Query,
    ReweightedMoment,
    SecondMoment,
)
from stillspace.parts.sampling import WithoutReplacement
from stillspace.parts.stops import Converged
from stillspace.plans.fixed import Plan
from stillspace.plans.starts import MomentStart, RunStart
from stillspace.recipes.facts import Facts, Options, checked_n_iter
from stillspace.recipes.paper import named_start

SAMPLE_ROWS, SAMPLE_ROWS_PER_COLUMN, SAMPLE_STEPS = 4096, 16, 10
"""The sampled start of IRLS: enough rows per column for PCA to be right to a few tenths."""

SAMPLE_PAYS = 8
"""IRLS starts on samples where there are this many times as many rows."""


def _classic(facts: Facts, options: Options, query: Query, geometry: Geometry) -> Plan:
    """Reweighting solvers: the geometry takes the released direction as the new point."""
    return Plan(
        name="",
        start=named_start(facts, options, "pca"),
        release=facts.release(query),
        geometry=geometry,
        n_components=facts.r,
        n_iter=checked_n_iter(options, 1000),
        stop=Converged(checked_positive("tol", options.get("tol", 1e-10))),
    )


def irls(facts: Facts, options: Options) -> Plan:
    """IRLS-power: one gradient pass a step, monotone, the robust default.

    With `cut` the distances count up to it and no further (a redescending loss).
    """
    query = IrlsPower(
        facts.D,
        facts.r,
        checked_positive("floor", options.get("floor", ROBUST_FLOOR)),
        checked_positive("cut", options["cut"]) if "cut" in options else inf,
    )
    plan = _classic(facts, options, query, Orthonormalize(facts.r))
    sample = SAMPLE_ROWS + SAMPLE_ROWS_PER_COLUMN * facts.D
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


def fms(facts: Facts, options: Options) -> Plan:
    """FMS (Lerman and Maunu 2018): top eigenvectors of the reweighted second moment."""
    query = ReweightedMoment(facts.D, checked_positive("floor", options.get("floor", ROBUST_FLOOR)))
    return _classic(facts, options, query, TopEigenvectors(facts.r))


def reaper_irls(facts: Facts, options: Options) -> Plan:
    """REAPER by reweighted least squares (Lerman et al. 2015)."""
    query = ReweightedMoment(facts.D, checked_positive("floor", options.get("floor", ROBUST_FLOOR)))
    return _classic(facts, options, query, LeastSquares(facts.r))
