"""Privacy claims under attack: audits, and checks of noise and sensitivity that are no attacks."""

from stillspace.audit.audits import audit
from stillspace.audit.neighbours import Neighbours, make_neighbours
from stillspace.audit.report import AuditReport, Bound, Claim
from stillspace.audit.residuals import NoiseReport, check_noise
from stillspace.audit.selection import check_selection
from stillspace.audit.sensitivity import Finding, Subject, search_sensitivity

__all__ = [
    "AuditReport",
    "Bound",
    "Claim",
    "Finding",
    "Neighbours",
    "NoiseReport",
    "Subject",
    "audit",
    "check_noise",
    "check_selection",
    "make_neighbours",
    "search_sensitivity",
]
