"""Accountants, calibration and guarantees (SPEC 4). Nothing here ever sees a row."""

from stillspace.privacy.accounting import PrivacyCurve, check_sampler, full_batch_mu, privacy_curve
from stillspace.privacy.budget import Budget
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
from stillspace.privacy.export import to_dp_accounting
from stillspace.privacy.gaussian import GaussianCurve, mu_from_budget
from stillspace.privacy.guarantee import Guarantee

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
