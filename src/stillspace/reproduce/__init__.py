"""The paper's experiments, each as printed, at an honest budget, and by the library's default."""

from stillspace.reproduce.convergence import Convergence
from stillspace.reproduce.d_vs_r import DVersusR
from stillspace.reproduce.eps_vs_delta import EpsilonVersusDelta
from stillspace.reproduce.europe import Popres
from stillspace.reproduce.experiment import SIZES, Experiment, Size
from stillspace.reproduce.inliers_vs_batch import InliersVersusBatch
from stillspace.reproduce.n_vs_d import NVersusD

__all__ = ["EXPERIMENTS", "SIZES", "Experiment", "Size"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment
    for experiment in (
        Convergence(),
        NVersusD(),
        EpsilonVersusDelta(),
        InliersVersusBatch(),
        DVersusR(),
        Popres(),
    )
}
