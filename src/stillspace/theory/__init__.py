"""The theory behind the methods as code: what is proved, and for which rows (docs/theory.md)."""

from stillspace.theory.certificates import Certificate, certify
from stillspace.theory.iterations import (
    IterationBound,
    RestartSchedule,
    iteration_bound,
    largest_restarts,
    restarts,
)
from stillspace.theory.minibatch import (
    MinibatchStability,
    minibatch_bound,
    paper_minibatch_value,
    sampled_minibatches,
)
from stillspace.theory.reaper import (
    ReaperStability,
    reaper_alignment,
    reaper_permeance,
    reaper_stability,
)
from stillspace.theory.stability import Bounds, Stability, alignment, permeance, stability
from stillspace.theory.starts import StartCondition, pca_start

__all__ = [
    "Bounds",
    "Certificate",
    "IterationBound",
    "MinibatchStability",
    "ReaperStability",
    "RestartSchedule",
    "Stability",
    "StartCondition",
    "alignment",
    "certify",
    "iteration_bound",
    "largest_restarts",
    "minibatch_bound",
    "paper_minibatch_value",
    "pca_start",
    "permeance",
    "reaper_alignment",
    "reaper_permeance",
    "reaper_stability",
    "restarts",
    "sampled_minibatches",
    "stability",
]
