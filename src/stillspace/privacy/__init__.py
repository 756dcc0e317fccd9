"""Accountants, calibration and guarantees (SPEC 4). Nothing here ever sees a row."""

from typing import TYPE_CHECKING, Any

from stillspace.privacy.accounting import PrivacyCurve, check_sampler, full_batch_mu, privacy_curve
from stillspace.privacy.calibration import calibrate
from stillspace.privacy.events import (
    RELATIONS,
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    Relation,
    SamplingName,
    SingleEvent,
)
from stillspace.privacy.gaussian import GaussianCurve, mu_from_budget
from stillspace.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from stillspace.privacy.budget import Budget
    from stillspace.privacy.export import to_dp_accounting

__all__ = [
    "RELATIONS",
    "Budget",
    "ComposedEvent",
    "GaussianCurve",
    "GaussianEvent",
    "Guarantee",
    "NonPrivateEvent",
    "PrivacyCurve",
    "Relation",
    "SamplingName",
    "SingleEvent",
    "calibrate",
    "check_sampler",
    "full_batch_mu",
    "mu_from_budget",
    "privacy_curve",
    "to_dp_accounting",
]


def __getattr__(name: str) -> Any:
    """Return what few fits need: a ledger loads a database, which takes a while."""
    if name == "Budget":
        from stillspace.privacy.budget import Budget  # noqa: PLC0415

        return Budget
    if name == "to_dp_accounting":
        from stillspace.privacy.export import to_dp_accounting  # noqa: PLC0415

        return to_dp_accounting
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
