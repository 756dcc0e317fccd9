"""Audits at full length: how near they come to true claims, how fast they refute false ones."""

import os
import time
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import binom

from evidence._table import markdown
from stillspace.audit import AuditReport, audit, make_neighbours
from stillspace.plans.fixed import Plan
from stillspace.privacy import ComposedEvent, GaussianEvent, Guarantee, mu_from_budget
from stillspace.recipes import Facts, make_plan

DELTA, EPSILON = 1e-5, 0.8
LONG_RUNS, SHORT_RUNS = 120_000, 20_000
AUDITS = 1000
JOBS = os.cpu_count() or 1


def table() -> str:
    rows = [_row(*case) for case in _cases()]
    return markdown(
        "Audits",
        "Lower bounds on ε at 95 % confidence, by the white-box adversary, one coin per run unless "
        f"said. Correct plans claim ε = {EPSILON} at δ = {DELTA:g}, T = 30, n = 4000, D = 2, r = 1."
        " "
        "The trade-off fit is model-based (curves of the claim's own family); the others are not. "
        f"Times are those of {JOBS} processes on a shared machine.",
        [
            "audited",
            "bound",
            "claimed ε",
            "ε at least",
            "of the claim",
            "runs",
            "seconds",
            "refuted",
        ],
        rows,
    )


def _cases() -> list[tuple[str, Plan, dict]]:
    facts = Facts(4000, 2, 1, EPSILON, DELTA)
    start = {"n_iter": 30, "start": np.array([[1.0, 0.0]])}
    full = make_plan("dp-ggd", facts, **start)
    sampled = make_plan("dp-sggd", facts, **start)
    cheap = make_plan("dp-ggd", replace(facts, relation="add-or-remove-one"), **start)
    factor = cheap.release.sigma(0) / full.release.sigma(0)
    sold = replace(full, release=replace(full.release, z=full.release.z * factor))
    claim = Guarantee.from_event(full.event(), "replace-one", DELTA)
    paper = Facts(2000, 20, 2, EPSILON, 2000**-0.5, calibration="as-printed")
    printed = make_plan("dp-sggd", paper, n_iter=2000, batch_size=20, start=np.eye(20)[:2])
    pair = (EPSILON, 2000**-0.5)
    one = {"neighbours": make_neighbours(printed, 0.25)}
    many = {"neighbours": make_neighbours(printed, 0.25, count=36), "canaries": 36}
    return [
        ("dp-ggd, correct", full, {"delta": DELTA, "runs": LONG_RUNS}),
        ("dp-sggd (Poisson), correct", sampled, {"delta": DELTA, "runs": LONG_RUNS}),
        ("dp-ggd, add/remove noise sold as replace-one", sold,
         {"claim": claim, "runs": SHORT_RUNS}),
        ("dp-sggd, the paper's noise, δ = 1/√n", printed,
         {"claim": pair, "bounds": "accuracy", "runs": 10, **one}),
        ("dp-sggd, the paper's noise, δ = 1/√n", printed,
         {"claim": pair, "bounds": "clopper-pearson", "runs": 300, **one}),
        ("dp-sggd, the paper's noise, δ = 1e-5, 36 coins per run", printed,
         {"claim": (EPSILON, DELTA), "runs": 10, **many}),
    ]  # fmt: skip


def _row(name: str, plan: Plan, options: dict) -> tuple[object, ...]:
    begin = time.perf_counter()
    report: AuditReport = audit(plan, n_jobs=JOBS, **options)
    seconds = time.perf_counter() - begin
    bound = report.bounds[0]
    return (
        name,
        bound.name,
        f"{report.claim.epsilon:.3f}",
        f"{report.epsilon:.3f}",
        f"{report.tightness:.2f}",
        report.runs,
        f"{seconds:.0f}",
        "yes" if report.refuted else "no",
    )


def coverage() -> str:
    """How often an audit of a mechanism that just keeps its claim says that it does not."""
    mu = mu_from_budget(EPSILON, DELTA)
    toy = Guarantee.from_event(
        ComposedEvent.of([GaussianEvent(1.0 / mu, 1.0, 1.0)]), "replace-one", DELTA
    )
    plan = make_plan(
        "dp-ggd", Facts(400, 2, 1, EPSILON, DELTA), n_iter=3, start=np.array([[1.0, 0.0]])
    )
    chunk = AUDITS // 20
    above = sum(Parallel(JOBS)(delayed(_gaussian)(toy, mu, chunk) for _ in range(20)))
    by_plan = sum(Parallel(JOBS)(delayed(_plans)(plan, chunk) for _ in range(20)))
    limit = int(binom.ppf(0.999, AUDITS, 0.05))
    return markdown(
        "Coverage",
        f"{AUDITS} audits of 300 runs each, trade-off fit at 95 %, of mechanisms whose true ε is "
        f"the claimed {EPSILON}. A right bound lies above it in at most 5 % ({AUDITS // 20}), up "
        f"to chance (above {limit} once in a thousand tables).",
        ["mechanism", "above the claim", "share"],
        [
            ("one Gaussian release of a number", above, f"{above / AUDITS:.3f}"),
            ("dp-ggd, 3 iterations", by_plan, f"{by_plan / AUDITS:.3f}"),
        ],
    )


def _gaussian(claim: Guarantee, mu: float, audits: int) -> int:
    rng = np.random.default_rng()
    tables = (np.zeros((1, 1)), np.ones((1, 1)))

    def mechanism(X: np.ndarray) -> float:
        return float(X[0, 0]) + rng.normal() / mu

    return sum(
        audit(mechanism, claim=claim, neighbours=tables, runs=400).refuted for _ in range(audits)
    )


def _plans(plan: Plan, audits: int) -> int:
    pair = make_neighbours(plan, 0.08)
    return sum(audit(plan, delta=DELTA, neighbours=pair, runs=300).refuted for _ in range(audits))
