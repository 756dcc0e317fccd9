"""Privacy filters: what a fit costs and what a ledger allows, in whole numbers of a unit.

People choose the next fit after they saw the last one, so the total must be a *filter*: limits
are fixed beforehand, each charge is known before its fit runs, and the sum of charges stays
within the limit whatever happens. Two are proved (docs/budget.md) and nothing else is used:

- `gaussian`: Σμ² <= μ(ε, δ)², full-batch Gaussian releases only. The total is as private as one
  Gaussian release with that μ (Smith and Thakurta 2022).
- `renyi`: at each of J orders a_j fixed beforehand, Σ D_{a_j} against the divergence that gives
  (ε, δ/J) (Feldman and Zrnic 2021). A charge is admitted while *some* order has room: split the
  runs by the first order that still has room at their end; each part is (ε, δ/J).

A charge is a sum of exact fractions, rounded up to the unit; a limit is rounded down. Sums of
integers know no order and no rounding: a thousand tiny charges cannot slip under, and every
charge that is not 0 is at least one unit.

The normals come from a sampler with a total-variation error τ a coordinate. Step by step a real
run can be coupled with an ideal one; they part with probability at most S, if no run draws more
than S/τ coordinates in the ledger's whole life. That costs (1 + e^ε) S of δ (SPEC 4), a share of
δ that is set aside beforehand; the ledger counts Σ coordinates·τ against S.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from stillspace._checks import (
    checked_choice,
    checked_delta,
    checked_epsilon,
    checked_positive,
    checked_whole,
)
from stillspace.exceptions import NotAccountedError
from stillspace.privacy.accounting import SAMPLER_SHARE
from stillspace.privacy.events import ComposedEvent, GaussianEvent, Relation, check_relation
from stillspace.privacy.gaussian import GaussianCurve, mu_from_budget
from stillspace.privacy.renyi import (
    LARGEST_ORDER,
    check_order,
    divergence_limit,
    step_divergence,
    usual_order,
)

Kind: TypeAlias = Literal["gaussian", "renyi"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SMALLEST_DELTA = 1e-300
"""Of a ledger: what is set aside for the sampler's error is part of it."""
UNIT = Fraction(1, 1 << 100)
"""Of μ² and of a Rényi divergence."""
SAMPLER_UNIT = Fraction(1, 1 << 256)
"""Of the sampler's total-variation error."""
_SAMPLER_ERROR = 2.0**-88
"""What is set aside if δ allows: 2⁴⁰ coordinates of our sampler's 2⁻¹²⁸."""
_SMALLEST_SHARE = 2.0**-50


@dataclass(frozen=True, slots=True)
class Charge:
    """What one fit takes, in units: one amount an order (gaussian: one), and sampler error."""

    amounts: tuple[int, ...]
    sampler: int


@dataclass(frozen=True, slots=True)
class LedgerTerms:
    """What a ledger promises, fixed at creation: one kind, one relation, whole-number limits."""

    ledger: str
    """A random name: a ledger that replaces another is not that other one."""
    epsilon: float
    delta: float
    kind: Kind
    orders: tuple[float, ...]
    neighboring_relation: Relation
    rows_per_person: int
    limits: tuple[int, ...]
    sampler_limit: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; limits as text, since JSON readers lose long integers."""
        stored = asdict(self)
        return {
            **stored,
            "limits": list(map(str, self.limits)),
            "sampler_limit": str(self.sampler_limit),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> LedgerTerms:
        """Read what `to_dict` wrote; anything unexpected raises."""
        terms = cls(
            **{
                **stored,
                "orders": tuple(map(float, stored["orders"])),
                "limits": tuple(map(int, stored["limits"])),
                "sampler_limit": int(stored["sampler_limit"]),
            }
        )
        check_relation(terms.neighboring_relation)
        if terms.kind not in KINDS or len(terms.limits) != max(len(terms.orders), 1):
            raise ValueError("terms that no version writes")
        return terms


def fixed_terms(
    epsilon: Any,
    delta: Any,
    *,
    kind: Kind = "gaussian",
    orders: tuple[float, ...] | None = None,
    neighboring_relation: Relation = "replace-one",
    rows_per_person: Any = 1,
) -> LedgerTerms:
    """Return the terms of a new ledger, its limits computed and rounded down."""
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta, smallest=SMALLEST_DELTA)
    check_relation(neighboring_relation)
    checked_choice("kind", kind, KINDS)
    rows_per_person = checked_whole("rows_per_person", rows_per_person)
    share = min(
        max(_SMALLEST_SHARE, (1 + math.exp(epsilon)) * _SAMPLER_ERROR / delta), SAMPLER_SHARE
    )
    sampler = share * delta / (1 + math.exp(epsilon)) * (1 - 1e-15)
    if kind == "gaussian":
        if orders is not None:
            raise ValueError("orders are for kind='renyi'; a gaussian ledger has none.")
        orders = ()
        limits = [Fraction(_mu_limit(epsilon, delta, share * delta)) ** 2]
    else:
        ideal = delta * (1 - share) * (1 - 1e-15)
        usual = (usual_order(epsilon, ideal),)
        orders = usual if orders is None else checked_orders(orders)
        each = ideal / len(orders) * (1 - 1e-15)
        limits = [Fraction(divergence_limit(epsilon, each, a)) for a in orders]
        _check_limits(orders, limits, epsilon, delta)
    return LedgerTerms(
        ledger=secrets.token_hex(8),
        epsilon=epsilon,
        delta=delta,
        kind=kind,
        orders=orders,
        neighboring_relation=neighboring_relation,
        rows_per_person=rows_per_person,
        limits=tuple(math.floor(limit / UNIT) for limit in limits),
        sampler_limit=math.floor(Fraction(sampler) / SAMPLER_UNIT),
    )


def _mu_limit(epsilon: float, delta: float, aside: float) -> float:
    """Return μ with δ(ε; μ) + aside <= δ, a few units below μ(ε, δ) where `aside` is tiny.

    So a single fit that asks for the whole (ε, δ) is admitted: its noise has a μ that is rounded
    down by more (for ε up to about 12; beyond, more is set aside).
    """
    mu = mu_from_budget(epsilon, delta - aside)
    whole = mu_from_budget(epsilon, delta)
    for _ in range(8):
        if Fraction(GaussianCurve(whole).get_delta(epsilon)) + Fraction(aside) <= Fraction(delta):
            return max(mu, whole)
        whole = math.nextafter(whole, 0.0)
    return mu


def checked_orders(orders: Iterable[float]) -> tuple[float, ...]:
    """Return the different Rényi orders, in order."""
    found = tuple(sorted({checked_positive("A Rényi order", a) for a in orders}))
    if not found:
        raise ValueError("orders is empty; give one Rényi order or more, or leave it out.")
    for a in found:
        check_order(a)
    return found


def _check_limits(
    orders: tuple[float, ...], limits: list[Fraction], epsilon: float, delta: float
) -> None:
    """Refuse an order that could never admit a fit, yet would cost the others a part of δ."""
    for order, limit in zip(orders, limits, strict=True):
        if limit <= 0:
            raise ValueError(
                f"the order {order:g} cannot give epsilon={epsilon:g} at delta={delta:g} "
                f"with {len(orders)} order(s); leave it out or use a larger one (up to "
                f"{LARGEST_ORDER:g})."
            )


def charge_of(event: Any, relation: Relation, terms: LedgerTerms) -> Charge:
    """Return what a fit with this event costs under the ledger's own relation, rounded up.

    An add-or-remove-one fit is accounted for again, from its σ and its bounds, under replace-one.
    What has no proof here is refused by name.
    """
    if not isinstance(event, ComposedEvent):
        raise TypeError(
            f"a ledger charges events (what is done with the rows), got {type(event).__name__}; a "
            "mechanism known only by its epsilon and delta has no filter together with others."
        )
    check_relation(relation)
    if relation == "replace-one" and terms.neighboring_relation == "add-or-remove-one":
        raise NotAccountedError(
            "this ledger is for add-or-remove-one, and a replace-one fit treats the number of "
            "rows as public; fit with neighboring_relation='add-or-remove-one'."
        )
    if event.non_private_reasons:
        raise NotAccountedError(
            f"a ledger takes private fits only: {'; '.join(event.non_private_reasons)}."
        )
    if any(not isinstance(single, GaussianEvent) for single, _ in event):
        raise NotAccountedError(
            "a mechanism known only by its epsilon and delta, such as propose-test-release, has no "
            "filter together with others; fit it without a ledger, or use algorithm='auto'."
        )
    totals = [Fraction(0)] * len(terms.limits)
    sampler = Fraction(0)
    for single, count in event:
        assert isinstance(single, GaussianEvent)
        if count == 0:
            continue
        for j, loss in enumerate(_losses(single, terms)):
            totals[j] += count * loss
        sampler += count * single.inexact_draws * Fraction(single.sampler_error)
    amounts = tuple(math.ceil(total / UNIT) for total in totals)
    return Charge(amounts, math.ceil(sampler / SAMPLER_UNIT))


def _losses(event: GaussianEvent, terms: LedgerTerms) -> list[Fraction]:
    """Return μ² (gaussian) or the Rényi divergence at each order of one release."""
    if event.rows_per_person < terms.rows_per_person:
        raise NotAccountedError(
            f"this ledger protects people with up to {terms.rows_per_person} rows, the fit "
            f"{event.rows_per_person}; fit with rows_per_person={terms.rows_per_person}."
        )
    relation = terms.neighboring_relation
    if event.sampling == "all":
        square = event.squared_mu(relation)
        if terms.kind == "gaussian":
            return [square]
        return [Fraction(a) * square / 2 for a in terms.orders]
    if terms.kind == "gaussian":
        raise NotAccountedError(
            "this ledger is of kind gaussian and takes fits that read all rows in every step; "
            f"{event.sampling} sampling needs a ledger of kind renyi."
        )
    if event.sigma == 0:
        raise NotAccountedError("a ledger takes private fits only: a release has no noise.")
    return [Fraction(step_divergence(event, relation, a)) for a in terms.orders]


@dataclass(frozen=True, slots=True)
class Tally:
    """The sum of all charges of a ledger, against its terms."""

    terms: LedgerTerms
    amounts: tuple[int, ...]
    sampler: int

    @classmethod
    def of(cls, terms: LedgerTerms, charges: list[Charge]) -> Tally:
        columns = zip(*(charge.amounts for charge in charges), strict=True)
        amounts = tuple(map(sum, columns)) if charges else (0,) * len(terms.limits)
        return cls(terms, amounts, sum(charge.sampler for charge in charges))

    def plus(self, charge: Charge) -> Tally:
        amounts = tuple(a + b for a, b in zip(self.amounts, charge.amounts, strict=True))
        return Tally(self.terms, amounts, self.sampler + charge.sampler)

    @property
    def kept(self) -> bool:
        """Whether some order is within its limit, and the sampler's error within its own."""
        return self.share <= 1 and self.sampler <= self.terms.sampler_limit

    @property
    def best(self) -> tuple[int, int]:
        """The order (its place) that has the most left, and its limit."""
        limits = [max(limit, 1) for limit in self.terms.limits]
        j = min(range(len(limits)), key=lambda i: Fraction(self.amounts[i], limits[i]))
        return j, limits[j]

    @property
    def share(self) -> Fraction:
        """The part of the budget that is spent, at the order that has the most left."""
        j, limit = self.best
        return Fraction(self.amounts[j], limit)

    @property
    def squared_mu_left(self) -> Fraction:
        """The largest μ² of one more full-batch fit (under the ledger's relation)."""
        halves = [Fraction(2) / Fraction(a) for a in self.terms.orders] or [Fraction(1)]
        left = zip(self.amounts, self.terms.limits, halves, strict=True)
        return max(Fraction(0), *((limit - amount) * half for amount, limit, half in left)) * UNIT

    def largest_epsilon(self, delta: float) -> float:
        """Return an ε that one more full-batch fit can have at `delta`, rounded down."""
        mu = math.sqrt(self.squared_mu_left) * (1 - 1e-13)
        return max(GaussianCurve(mu).get_epsilon(delta) * (1 - 1e-12), 0.0) if mu > 0 else 0.0
