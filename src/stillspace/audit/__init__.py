"""Privacy claims under attack: audits, and checks of noise and sensitivity that are no attacks."""

from stillspace.audit.audits import audit
from stillspace.audit.neighbours import Neighbours, make_neighbours
from stillspace.audit.report import AuditReport, Bound, Claim

__all__ = ["AuditReport", "Bound", "Claim", "Neighbours", "audit", "make_neighbours"]
