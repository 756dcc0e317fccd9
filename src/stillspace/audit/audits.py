"""`audit`: flip coins, run the mechanism, guess the coins, bound ε."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]

from stillspace._checks import checked_choice, checked_whole, checked_words
from stillspace._typing import AnyArray, FloatArray
from stillspace.audit.attacks import (
    ADVERSARIES,
    Adversary,
    Coins,
    FunctionAttack,
    PlanAttack,
    Target,
)
from stillspace.audit.bounds import Counts, accuracy, clopper_pearson, one_run, trade_off
from stillspace.audit.neighbours import Neighbours, candidates
from stillspace.audit.report import AuditReport, Bound, BoundName, Claim, best_threshold, count
from stillspace.parts.noise import secure_generator, seeded_generator
from stillspace.plans.fixed import fingerprint
from stillspace.plans.protocol import AnyPlan
from stillspace.privacy import Guarantee

BOUNDS: tuple[BoundName, ...] = ("trade-off", "clopper-pearson", "accuracy", "one-run")

_PILOT, _PILOT_RUNS = 4, 60
"""Runs per candidate: enough to measure information, or to see a score's mean."""
_TASK, _STEPS = 200, 40
"""The most runs of one task, and the least number of tasks."""


def audit(
    mechanism: AnyPlan | Callable[[AnyArray], Any] | Any,
    *,
    claim: Guarantee | tuple[float, float] | None = None,
    delta: float | None = None,
    adversary: Adversary = "white-box",
    bounds: Sequence[BoundName] | BoundName | None = None,
    runs: int = 2000,
    canaries: int = 1,
    confidence: float = 0.95,
    neighbours: Neighbours | tuple[AnyArray, AnyArray] | None = None,
    score: Callable[[Any], float] | None = None,
    n_jobs: int = 1,
    random_state: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Attack a mechanism's privacy claim; return lower bounds on its true ε.

    Each run flips a coin, runs the mechanism on one of two neighbouring data sets and guesses the
    coin from what the adversary sees. Plans run on the library's own path: the same release, noise
    and ledger as in `fit`.

    Parameters
    ----------
    mechanism : Plan or callable
        A calibrated plan (`est.plan_`, or one of `stillspace.recipes.make_plan`), or a function
        from a table to a result. A function needs `claim` and `neighbours`.
    claim : Guarantee or (epsilon, delta), default=None
        What to test; None means what the plan's own event gives at `delta`. The bound "trade-off"
        needs a Guarantee: a single pair says nothing about the rest of the curve.
    delta : float, default=None
        The δ of the claim, for a plan without `claim`.
    adversary : {"white-box", "last-iterate", "components"}
        For plans. White-box sees every noisy release and the iterates, knows all other rows, and
        scores by the log-likelihood ratio; "last-iterate" sees the last basis, "components" the
        subspace that a fit would publish.
    bounds : name or sequence of names, default=None
        "trade-off" (model-based: the plan's own curves), "clopper-pearson" (both error rates),
        "accuracy" (the share of right guesses), "one-run" (several coins per run). Name them before
        you look: k of them share 1 − confidence. None means "one-run" for several canaries,
        otherwise "trade-off" if the claim is a curve and "clopper-pearson" if it is one pair.
    runs : int, default=2000
    canaries : int, default=1
        Coins per run. More than one only for "one-run".
    confidence : float, default=0.95
        All bounds together are right with this probability.
    neighbours : Neighbours or (X0, X1), default=None
        The data sets; for plans None means that a pilot looks for bad ones among canaries
        cosφ·a ± sinφ·b, zero rows, inliers, copies, and spectra with two equal eigenvalues.
    score : callable, default=None
        For functions: from a result to a number, larger for X1. None takes numbers as they are,
        and for arrays the best linear score on the first quarter of the runs.
    n_jobs : int, default=1
        Processes.
    random_state : int, default=None
        For tests: seeds coins and noise. None draws the noise as a fit does.
    progress : callable, default=None
        Called with the number of runs that are done, and that of all runs.

    Returns
    -------
    AuditReport
        `str(report)` is the verdict in words, `stillspace.plots.draw_trade_off(report)` a picture.

    Notes
    -----
    Thresholds are fixed beforehand where the score is a likelihood ratio (at 0) and for "one-run"
    (at 0); all others are chosen on the first quarter of the runs, which is then not counted.

    Examples
    --------
    >>> from stillspace.audit import audit
    >>> from stillspace.recipes import Facts, make_plan
    >>> facts = Facts(n=500, D=2, r=1, epsilon=2.0, delta=1e-5)
    >>> plan = make_plan("dp-ggd", facts, n_iter=5, start=[[1.0, 0.0]])
    >>> report = audit(plan, delta=1e-5, runs=300, random_state=0)
    >>> report.refuted
    False
    """
    checked_whole("runs", runs, 8)
    checked_whole("canaries", canaries, 1)
    if not 0.5 <= confidence < 1.0:
        raise ValueError(f"confidence must lie in [0.5, 1), got {confidence!r}.")
    if isinstance(mechanism, AnyPlan):
        if score is not None:
            raise ValueError("score= is for functions; a plan's adversaries bring their own.")
        claimed = _plan_claim(mechanism, claim, delta)
        target = _plan_target(mechanism, claimed, adversary, canaries, neighbours, random_state)
    else:
        target = _function_target(mechanism, claim, neighbours, score)
    names = _checked_bounds(bounds, target, canaries)
    results, coins = _results(target.attack, runs, canaries, n_jobs, random_state, progress)
    return _report(target, names, results, coins, runs, confidence)


# --- what is attacked ------------------------------------------------------------------------


def _plan_claim(
    plan: AnyPlan, claim: Guarantee | tuple[float, float] | None, delta: float | None
) -> Claim:
    if claim is not None and delta is not None:
        raise ValueError("Give claim or delta, not both: a claim has its own delta.")
    if claim is not None:
        return _stated(claim)
    reasons = plan.event().non_private_reasons
    if reasons:
        msg = f"The plan promises nothing ({reasons[0]}); say what to test: claim=(epsilon, delta)."
        raise ValueError(msg)
    if delta is None:
        msg = "A plan's claim is a curve: give the delta at which to test it, or a claim."
        raise ValueError(msg)
    return _stated(Guarantee.from_event(plan.event(), plan.relation, delta))


def _stated(claim: Any) -> Claim:
    if isinstance(claim, Guarantee):
        if claim.delta is None:
            raise ValueError("The guarantee states no delta; give claim=(epsilon, delta).")
        return Claim(claim.epsilon, claim.delta, claim)
    if not isinstance(claim, tuple) or len(claim) != 2:
        msg = f"claim must be a Guarantee or (epsilon, delta), got {type(claim).__name__}."
        raise TypeError(msg)
    return Claim(float(claim[0]), float(claim[1]))


def _plan_target(
    plan: AnyPlan,
    claim: Claim,
    adversary: Adversary,
    canaries: int,
    neighbours: Any,
    random_state: int | None,
) -> Target:
    checked_choice("adversary", adversary, ADVERSARIES)
    white = adversary == "white-box"
    if white and plan.event().non_private_reasons:
        reason = plan.event().non_private_reasons[0]
        raise ValueError(f"Nothing is left to guess for a white-box adversary: {reason}.")
    if neighbours is None:
        neighbours = _worst(plan, adversary, canaries, random_state)
    elif not isinstance(neighbours, Neighbours):
        msg = "For a plan, neighbours must be a Neighbours object: rest, ones and others."
        raise TypeError(msg)
    if len(neighbours.ones) != canaries:
        msg = f"There are {len(neighbours.ones)} canaries in the data sets, canaries={canaries}."
        raise ValueError(msg)
    attack = PlanAttack(plan, neighbours, adversary)
    shape = f"n = {plan.size}, D = {plan.n_columns}, r = {plan.n_components}"
    name, tables = f"plan {plan.name!r}, {shape}", neighbours.name
    return Target(attack, claim, name, adversary, tables, white, fingerprint(plan))


def _worst(
    plan: AnyPlan, adversary: Adversary, canaries: int, random_state: int | None
) -> Neighbours:
    """Return the data sets that look worst in a pilot, whose runs are not counted."""
    found: list[tuple[float, Neighbours]] = []
    for i, tried in enumerate(candidates(plan, adversary, canaries)):
        attack = PlanAttack(plan, tried, adversary)
        rng = _generator(random_state, -1 - i)
        if adversary == "white-box":
            value = float(np.mean([attack.information(rng) for _ in range(_PILOT)]))
        else:
            pilot = [[attack(np.array([c]), rng)[0] for _ in range(_PILOT_RUNS)] for c in (0, 1)]
            spread = np.std(pilot[0]) + np.std(pilot[1])
            value = float((np.mean(pilot[1]) - np.mean(pilot[0])) / max(spread, 1e-300))
        found.append((value, tried))
    return max(found, key=lambda pair: pair[0])[1]


def _function_target(
    function: Any,
    claim: Guarantee | tuple[float, float] | None,
    neighbours: Any,
    score: Callable[[Any], float] | None,
) -> Target:
    if not callable(function):
        raise TypeError(
            "audit takes a Plan (est.plan_ after a fit) or a function from a table to a result, "
            f"got {type(function).__name__}."
        )
    if claim is None:
        msg = "A function brings no claim of its own: give claim=(epsilon, delta) or a Guarantee."
        raise ValueError(msg)
    if not isinstance(neighbours, tuple) or len(neighbours) != 2:
        msg = "For a function, neighbours must be the two tables to tell apart: (X0, X1)."
        raise TypeError(msg)
    tables = (np.asarray(neighbours[0]), np.asarray(neighbours[1]))
    name = getattr(function, "__name__", type(function).__name__)
    attack = FunctionAttack(function, tables, score)
    how = "the given score" if score is not None else "the best linear score on a split"
    return Target(attack, _stated(claim), f"function {name!r}", how, "given", likelihood=False)


# --- the arguments ---------------------------------------------------------------------------


def _checked_bounds(
    bounds: Sequence[BoundName] | BoundName | None, target: Target, canaries: int
) -> tuple[BoundName, ...]:
    curve = target.claim.guarantee is not None
    if bounds is None:
        usual: BoundName = "trade-off" if curve else "clopper-pearson"
        return ("one-run",) if canaries > 1 else (usual,)
    names = cast("tuple[BoundName, ...]", checked_words("bounds", bounds, BOUNDS))
    if not names:
        raise ValueError(f"bounds must name at least one of {', '.join(BOUNDS)}.")
    if canaries > 1 and names != ("one-run",):
        raise ValueError(
            "Several coins in one run are not independent guesses: with canaries > 1 only the "
            "bound 'one-run' is valid."
        )
    if "one-run" in names and not target.likelihood:
        msg = "The bound 'one-run' is for a plan's white-box adversary; use 'clopper-pearson'."
        raise ValueError(msg)
    if "trade-off" in names and not curve:
        msg = "The bound 'trade-off' needs a Guarantee as claim: one (epsilon, delta) is no curve."
        raise ValueError(msg)
    return names


# --- coins, runs and guesses -------------------------------------------------------------------


def _generator(random_state: int | None, run_number: int) -> np.random.Generator:
    """Return a fresh generator as a fit makes it, or a seeded one for tests."""
    if random_state is None:
        return secure_generator()
    return seeded_generator((random_state << 40) + run_number + (1 << 32))


def _results(
    attack: PlanAttack | FunctionAttack,
    runs: int,
    canaries: int,
    n_jobs: int,
    random_state: int | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[FloatArray, Coins]:
    coins = np.random.default_rng(random_state).random((runs, canaries)) < 0.5
    step = min(_TASK, max(1, runs // _STEPS))
    tasks = (
        delayed(_task)(attack, coins[start : start + step], random_state, start)
        for start in range(0, runs, step)
    )
    found: list[FloatArray] = []
    for part in Parallel(n_jobs=n_jobs, return_as="generator")(tasks):
        found.append(part)
        if progress is not None:
            progress(min(len(found) * step, runs), runs)
    return np.concatenate(found), coins.ravel()


def _task(
    attack: PlanAttack | FunctionAttack, coins: Coins, random_state: int | None, first: int
) -> FloatArray:
    return np.array(
        [attack(flipped, _generator(random_state, first + i)) for i, flipped in enumerate(coins)]
    )


def _report(
    target: Target,
    names: tuple[BoundName, ...],
    results: FloatArray,
    coins: Coins,
    runs: int,
    confidence: float,
) -> AuditReport:
    """Return what the results of the runs prove; the bounds share 1 − confidence."""
    split = 0 if len(coins) > runs else runs // 4
    scores = _as_scores(results, coins, split)
    level = (1.0 - confidence) / len(names)
    return AuditReport(
        mechanism=target.mechanism,
        adversary=target.adversary,
        neighbours=target.neighbours,
        claim=target.claim,
        confidence=confidence,
        runs=runs,
        bounds=tuple(_bound(name, scores, coins, target, level, split) for name in names),
        scores=scores,
        coins=coins,
        counted_from=0 if target.likelihood else split,
        plan=target.plan,
    )


def _as_scores(results: FloatArray, coins: Coins, split: int) -> FloatArray:
    """Return one number per coin: as it is, or by the best linear score on the first runs."""
    if results.size == len(coins):
        return results.ravel()
    training, answers = results[:split], coins[:split]
    with np.errstate(all="ignore"):
        centre = training.mean(axis=0)
        means = [training[answers == side].mean(axis=0) for side in (False, True)]
        covariance = np.atleast_2d(np.cov(training, rowvar=False))
        ridge = 1e-6 * np.trace(covariance) / len(covariance) + 1e-300
        direction = np.linalg.solve(covariance + ridge * np.eye(len(centre)), means[1] - means[0])
    return np.asarray((results - centre) @ direction)


def _bound(
    name: BoundName, scores: FloatArray, coins: Coins, target: Target, level: float, split: int
) -> Bound:
    delta, guarantee = target.claim.delta, target.claim.guarantee

    def value(counts: Counts) -> float:
        if name == "clopper-pearson":
            return clopper_pearson(counts, delta, level)
        return counts.correct / max(counts.runs, 1)

    threshold = 0.0
    if name == "clopper-pearson" or (name != "one-run" and not target.likelihood):
        threshold = best_threshold(scores[:split], coins[:split], value)
        scores, coins = scores[split:], coins[split:]
    counts = count(scores, coins, threshold)
    right, runs = counts.correct, counts.runs
    if name == "one-run":
        epsilon = one_run(right, runs, runs, delta, level)
    elif name == "accuracy":
        epsilon = accuracy(right, runs, delta, level)
    elif name == "clopper-pearson":
        epsilon = clopper_pearson(counts, delta, level)
    else:
        assert guarantee is not None
        relation = guarantee.neighboring_relation
        epsilon = trade_off(right, runs, guarantee.event, relation, delta, level)[0]
    return Bound(name, epsilon, level, name == "trade-off", threshold, runs, right)
