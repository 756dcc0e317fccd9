"""From a privacy budget to the smallest noise that keeps it (SPEC 4)."""

from __future__ import annotations

import math
from collections.abc import Callable

from stillspace._checks import check_epsilon
from stillspace.exceptions import NotAccountedError
from stillspace.privacy.accounting import (
    check_sampler,
    ideal_curve,
    loss_directions,
    privacy_curve,
    sampler_term,
    split_event,
)
from stillspace.privacy.events import ComposedEvent, Relation, check_relation
from stillspace.privacy.gaussian import mu_from_budget
from stillspace.privacy.masses import loss_scale
from stillspace.privacy.roots import smallest_root

MOST_ANSWERS = 64
_ANSWERS: dict[tuple[ComposedEvent, Relation, float, float], tuple[float, ComposedEvent]] = {}
"""Without a lock, which a fork or a signal handler could find taken. It holds events, no plans."""


def calibrate(
    make_event: Callable[[float], ComposedEvent],
    relation: Relation,
    epsilon: float,
    delta: float,
) -> float:
    """Return the smallest noise scale whose event satisfies (ε, δ).

    `make_event(z)` is the whole event at noise scale z > 0; its noise grows with z, and parts of
    it may not depend on z. The returned scale was checked: `get_delta(epsilon) <= delta`. It is
    the smallest such scale to about 1e-13 (all rows) or 1e-4 (sampled rows).

    Answers are kept, by the event at scale 1. Another family of events may have the same one. So
    an answer is used only if `make_event` gives, at the stored scale, exactly the event that was
    checked there. This is enough: the promise depends on nothing but that event, the relation, ε
    and δ. The scale is also the smallest one for both families: with less noise than the event at
    which the budget is just met, neither family keeps the budget.
    """
    check_relation(relation)
    check_epsilon(epsilon)
    if not 0 < delta < 1 or epsilon == math.inf:
        raise ValueError(
            f"epsilon is {epsilon!r} and delta {delta!r}; noise is calibrated for a finite "
            "epsilon and 0 < delta < 1."
        )
    probe = make_event(1.0)
    if probe.non_private_reasons:
        raise NotAccountedError(
            f"no amount of noise makes this private: {'; '.join(probe.non_private_reasons)}."
        )
    key = probe, relation, epsilon, delta
    answer = _ANSWERS.get(key)
    if answer is None or make_event(answer[0]) != answer[1]:
        answer = _smallest_scale(make_event, *key)
        if len(_ANSWERS) >= MOST_ANSWERS:
            _ANSWERS.clear()
        _ANSWERS[key] = answer
    return answer[0]


def _smallest_scale(
    make_event: Callable[[float], ComposedEvent],
    probe: ComposedEvent,
    relation: Relation,
    epsilon: float,
    delta: float,
) -> tuple[float, ComposedEvent]:
    """Return the smallest scale that satisfies (ε, δ), and the event that was checked there."""
    check_sampler(probe, epsilon, delta)
    left = delta - sampler_term(epsilon, probe.sampler_error)
    target = mu_from_budget(epsilon, left)
    sampled = bool(split_event(probe, relation)[1])

    def excess(log_z: float) -> float:
        """How far the event is above the budget, as log of a ratio of μ.

        Of a sampled event, μ is that of the Gaussian curve with the same δ at ε: nearly
        proportional to 1/z, so that few evaluations are needed.
        """
        event = make_event(math.exp(log_z))
        if not sampled:
            return _log_ratio(split_event(event, relation)[0], target)
        found = ideal_curve(event, relation).get_delta(epsilon)
        return _log_ratio(mu_from_budget(epsilon, found), target)

    start = _start(make_event, relation, target) if sampled else 0.0
    log_z = smallest_root(excess, start, -1.0, 5e-5 if sampled else 2e-14)
    # The promise itself, with everything in it, at the very number that is returned.
    step = 1e-14
    while log_z is not None and step < 1e-3:
        scale = math.exp(log_z)
        event = make_event(scale)
        curve = privacy_curve(event, relation)
        # Both readings of it: get_epsilon rounds up, and may not show more than was asked for.
        # (Sampled scales lie a tolerance above the root, where this is so anyway.)
        if curve.get_delta(epsilon) <= delta and (sampled or curve.get_epsilon(delta) <= epsilon):
            return scale, event
        log_z, step = log_z + step, 2 * step
    raise ValueError(
        f"no noise scale satisfies epsilon={epsilon:g}, delta={delta:g}: the parts of the event "
        "that do not depend on it use the whole budget already; give those parts a smaller share."
    )


def _log_ratio(mu: float, target: float) -> float:
    if mu == 0:
        return -math.inf
    return math.log(mu / target) if target > 0 and mu < math.inf else math.inf


def _start(
    make_event: Callable[[float], ComposedEvent], relation: Relation, target: float
) -> float:
    """Return log z where the steps' losses, added as if normal, have standard deviation `target`.

    Only where the search starts (a central limit theorem proves nothing here).
    """

    def scale(log_z: float) -> float:
        mu, sampled = split_event(make_event(math.exp(log_z)), relation)
        directions = loss_directions(mu, sampled, relation)
        return loss_scale(directions[0]) if directions else math.inf

    low, high = -1.0, 1.0
    while scale(low) < target and low > -30:
        low -= 2.0
    while scale(high) > target and high < 30:
        high += 2.0
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (middle, high) if scale(middle) > target else (low, middle)
    return high
