"""The theory behind the methods as code: what is proved, and for which rows (docs/theory.md)."""

from stillspace.methods.certificate import PrivateCertificate, Statement
from stillspace.theory.boundary import RecoveryPrediction, boundary_rows, predict_recovery
from stillspace.theory.certificates import Certificate, certify, exact_certificate
from stillspace.theory.iterations import (
    IterationBound,
    RestartSchedule,
    iteration_bound,
    largest_restarts,
    restarts,
)
from stillspace.theory.linear import (
    LinearConvergence,
    linear_convergence,
    most_halvings,
    noise_floor,
)
from stillspace.theory.local import LocalStability, local_stability
from stillspace.theory.lower import LowerBound, lower_bound
from stillspace.theory.minibatch import (
    MinibatchStability,
    minibatch_bound,
    paper_minibatch_value,
    sampled_minibatches,
)
from stillspace.theory.rates import ReaperRate, reaper_rate
from stillspace.theory.reaper import (
    ReaperStability,
    reaper_alignment,
    reaper_permeance,
    reaper_stability,
)
from stillspace.theory.stability import Bounds, Stability, alignment, permeance, stability
from stillspace.theory.starts import StartCondition, pca_start, private_pca_start

__all__ = [
    "Bounds",
    "Certificate",
    "IterationBound",
    "LinearConvergence",
    "LocalStability",
    "LowerBound",
    "MinibatchStability",
    "PrivateCertificate",
    "ReaperRate",
    "ReaperStability",
    "RecoveryPrediction",
    "RestartSchedule",
    "Stability",
    "StartCondition",
    "Statement",
    "alignment",
    "boundary_rows",
    "certify",
    "exact_certificate",
    "iteration_bound",
    "largest_restarts",
    "linear_convergence",
    "local_stability",
    "lower_bound",
    "minibatch_bound",
    "most_halvings",
    "noise_floor",
    "paper_minibatch_value",
    "pca_start",
    "permeance",
    "predict_recovery",
    "private_pca_start",
    "reaper_alignment",
    "reaper_permeance",
    "reaper_rate",
    "reaper_stability",
    "restarts",
    "sampled_minibatches",
    "stability",
]
