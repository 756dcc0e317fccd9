"""From an event to its privacy curve (SPEC 4).

Which accountant applies follows from the event alone: all rows, the exact Gaussian curve; sampled
rows, privacy loss distributions. What none of them covers is refused by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from stillspace._checks import check_delta, check_epsilon
from stillspace.exceptions import NotAccountedError
from stillspace.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    Relation,
    TestedEvent,
    check_relation,
)
from stillspace.privacy.gaussian import GaussianCurve
from stillspace.privacy.pld import LossCurve
from stillspace.privacy.profiles import StepProfile, step_profiles

SAMPLER_SHARE = 1e-3
"""The largest part of δ that an inexact normal sampler may use (SPEC 4, "Noise")."""
_LEAST_NOISE = 1e-6
"""A sampled step with less noise than this (ε of some 5e11) counts as not private."""


class PrivacyCurve(Protocol):
    """All pairs (ε, δ) that an event satisfies."""

    @property
    def name(self) -> str:
        """Which accountant this is, for people."""

    def get_delta(self, epsilon: float) -> float:
        """Return a δ that holds at `epsilon`."""

    def get_epsilon(self, delta: float) -> float:
        """Return an ε that holds at `delta`."""


@dataclass(frozen=True, slots=True)
class NoGuarantee:
    """The curve of an event that promises nothing: δ = 1 at every ε."""

    @property
    def name(self) -> str:
        return "none (not private)"

    def get_delta(self, epsilon: float) -> float:
        check_epsilon(epsilon)
        return 1.0

    def get_epsilon(self, delta: float) -> float:
        """Return infinity (0 at δ = 1, where nothing is claimed)."""
        check_delta(delta)
        return 0.0 if delta == 1 else math.inf


@dataclass(frozen=True, slots=True)
class TestedCurve:
    """What (ε₀, δ₀) alone implies: δ₀ from ε₀ on, and 1 − (1 − δ₀) e^(ε−ε₀) below.

    Below ε₀: P(S) − e^ε P'(S) ≤ P(S) − e^(ε−ε₀) (P(S) − δ₀), which grows with P(S) ≤ 1.
    """

    __test__ = False  # pytest: not a test class
    epsilon: float
    delta: float

    @property
    def name(self) -> str:
        return "propose-test-release"

    def get_delta(self, epsilon: float) -> float:
        check_epsilon(epsilon)
        if epsilon >= self.epsilon:
            return self.delta
        return min(1.0, (1.0 - (1.0 - self.delta) * math.exp(epsilon - self.epsilon)) + 1e-15)

    def get_epsilon(self, delta: float) -> float:
        check_delta(delta)
        if delta < self.delta:
            return math.inf
        if delta == 1:
            return 0.0
        lower = self.epsilon + math.log1p(-(delta - 1e-15)) - math.log1p(-self.delta)
        return min(self.epsilon, max(0.0, lower * (1 + 1e-12) + 1e-14))


@dataclass(frozen=True, slots=True)
class SampledNoiseCurve:
    """The curve of `ideal` when the normals come from a sampler with total-variation error.

    If each output law is within τ of the ideal one, M̃(S) ≤ M(S) + τ ≤ e^ε M'(S) + δ + τ
    ≤ e^ε (M̃'(S) + τ) + δ + τ, hence δ̃(ε) = δ(ε) + (1 + e^ε) τ (SPEC 4, "Noise").
    """

    ideal: PrivacyCurve
    sampler_error: float

    @property
    def name(self) -> str:
        return self.ideal.name

    def get_delta(self, epsilon: float) -> float:
        """Return δ(ε) + (1 + e^ε) τ, at most 1."""
        return min(1.0, self.ideal.get_delta(epsilon) + sampler_term(epsilon, self.sampler_error))

    def get_epsilon(self, delta: float) -> float:
        """Return the smallest ε with get_delta(ε) <= delta, or infinity if there is none.

        ε ↦ ideal⁻¹(δ − (1 + e^ε) τ) is increasing, so the iteration climbs to its smallest
        fixed point. It is stopped a hair above, where the sum is checked.
        """
        check_delta(delta)
        epsilon = self.ideal.get_epsilon(delta)
        for _ in range(50):
            if epsilon == math.inf or self.get_delta(epsilon) <= delta:
                return epsilon
            left = delta - sampler_term(epsilon, self.sampler_error)
            if left <= 0:
                return math.inf
            epsilon = max(self.ideal.get_epsilon(left), epsilon) * (1 + 1e-12)
        return math.inf


def sampler_term(epsilon: float, sampler_error: float) -> float:
    """(1 + e^ε) τ, rounded up."""
    if sampler_error == 0:
        return 0.0
    if epsilon > 700:
        return math.inf
    return (1 + math.exp(epsilon)) * sampler_error * (1 + 1e-15)


def privacy_curve(
    event: ComposedEvent, relation: Relation, *, ideal_sampler: bool = False
) -> PrivacyCurve:
    """Return the curve of `event` under `relation`.

    `ideal_sampler=True` leaves out the sampler's error: what the noise *would* give, for results
    that promise nothing anyway.
    """
    check_relation(relation)
    curve = ideal_curve(event, relation)
    error = event.sampler_error
    return curve if ideal_sampler or error == 0 else SampledNoiseCurve(curve, error)


@lru_cache(maxsize=64)
def ideal_curve(event: ComposedEvent, relation: Relation) -> PrivacyCurve:
    """Return the curve of `event` as if its normals came from an exact sampler."""
    if event.non_private_reasons:
        return NoGuarantee()
    tested = [single for single, _ in event if isinstance(single, TestedEvent)]
    if tested:
        return _tested_curve(event, tested[0], relation)
    mu, sampled = split_event(event, relation)
    if mu == math.inf:
        return NoGuarantee()
    if not sampled:
        return GaussianCurve(mu)
    directions = loss_directions(mu, sampled, relation)
    return LossCurve(directions) if directions else NoGuarantee()


def _tested_curve(event: ComposedEvent, tested: TestedEvent, relation: Relation) -> PrivacyCurve:
    if event != ComposedEvent.of([tested]):
        raise NotAccountedError(
            "propose-test-release has no accountant together with other releases; use it alone."
        )
    if relation != "replace-one":
        raise NotAccountedError("propose-test-release is proved for replace-one only.")
    return TestedCurve(tested.epsilon, tested.delta)


def split_event(
    event: ComposedEvent, relation: Relation
) -> tuple[float, tuple[tuple[GaussianEvent, int], ...]]:
    """Return μ of all full-batch parts together, and the sampled parts, equal ones joined."""
    total = 0.0
    sampled: dict[GaussianEvent, int] = {}
    for single, count in event:
        assert isinstance(single, GaussianEvent)
        if count == 0:
            continue
        if single.sampling == "all":
            total += count * _squared_mu(single, relation)
            continue
        check_accounted(single, relation)
        reads_rows = single.sampling != "poisson" or single.rate > 0
        if reads_rows and single.sensitivity(relation) > 0:
            sampled[single] = sampled.get(single, 0) + count
    # Each square, product and sum may have been rounded down: go up by more than that.
    mu = math.sqrt(total) * (1 + 1e-15 * (4 + len(event.parts)))
    return mu, tuple(sampled.items())


def full_batch_mu(event: ComposedEvent, relation: Relation) -> float:
    """Return the μ of an event whose parts all read all rows, rounded up."""
    if event.non_private_reasons:
        raise NotAccountedError(f"this has no μ: {'; '.join(event.non_private_reasons)}.")
    mu, sampled = split_event(event, relation)
    if sampled:
        raise NotAccountedError("only releases of all rows have a μ; sampled steps have a curve.")
    return mu


def _squared_mu(event: GaussianEvent, relation: Relation) -> float:
    """(sensitivity/σ)²: infinite without noise, 0 where nobody can change the sum."""
    sensitivity = event.sensitivity(relation)
    if sensitivity == 0:
        return 0.0
    ratio = sensitivity / event.sigma if event.sigma > 0 else math.inf
    return ratio * ratio


def check_accounted(event: GaussianEvent, relation: Relation) -> None:
    """Refuse, by name, sampled events that no accountant covers."""
    if event.sampling == "all":
        return
    if event.rows_per_person > 1:
        raise NotAccountedError(
            f"rows_per_person={event.rows_per_person} with {event.sampling} sampling has no "
            "accountant; use an algorithm that reads all rows (dp-ggd, dp-gd-reap, dp-md-reap), or "
            "give each person one row."
        )
    if event.sampling != "poisson" and relation == "add-or-remove-one":
        raise NotAccountedError(
            f"{event.sampling} sampling of a fixed size has no accountant under "
            "add-or-remove-one; use Poisson sampling, all rows, or "
            "neighboring_relation='replace-one'."
        )


def loss_directions(
    mu: float, sampled: tuple[tuple[GaussianEvent, int], ...], relation: Relation
) -> tuple[tuple[tuple[StepProfile, int], ...], ...]:
    """Return the steps of each direction: ("remove", "add") or one symmetric direction.

    The same direction is taken in every step: a row that is absent is absent from all of them.
    An empty tuple: some sampled step has (next to) no noise, and an ε beyond any use.
    """
    directions: list[list[tuple[StepProfile, int]]] = []
    for event, count in sampled:
        if event.noise_multiplier(relation) < _LEAST_NOISE:
            return ()
        for i, profile in enumerate(step_profiles(event, relation)):
            if len(directions) <= i:
                directions.append([])
            directions[i].append((profile, count))
    if mu > 0:
        gaussian = StepProfile.gaussian(mu)
        for direction in directions:
            direction.append((gaussian, 1))
    return tuple(tuple(direction) for direction in directions)


def check_sampler(event: ComposedEvent, epsilon: float, delta: float) -> None:
    """Refuse a sampler whose error would use more than a thousandth of δ (SPEC 4, "Noise")."""
    term = sampler_term(epsilon, event.sampler_error)
    if term > SAMPLER_SHARE * delta:
        raise NotAccountedError(
            f"the error of the normal sampler adds {term:.3g} to delta at epsilon={epsilon:g}, "
            f"more than the {SAMPLER_SHARE * delta:.3g} allowed; use fewer columns or iterations, "
            "a smaller epsilon or a larger delta."
        )
