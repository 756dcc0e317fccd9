"""The paper's experiments, each as printed, at an honest budget, and by the library's default."""

from reproduction.convergence import Convergence
from reproduction.d_vs_r import DVersusR
from reproduction.eps_vs_delta import EpsilonVersusDelta
from reproduction.europe import Popres
from reproduction.experiment import SIZES, Experiment, Size
from reproduction.inliers_vs_batch import InliersVersusBatch
from reproduction.n_vs_d import NVersusD

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
