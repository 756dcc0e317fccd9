"""IRLS that starts on samples of the rows: same optimum as from PCA on all rows, on hard data."""

import numpy as np
import pytest

from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.parts.stops import Converged
from stillspace.plans.starts import MomentStart, RunStart
from stillspace.recipes import Facts, make_plan
from stillspace.recipes.classic import SAMPLE_PAYS, SAMPLE_ROWS, SAMPLE_ROWS_PER_COLUMN

N, D = 45_000, 30
HARD = {
    "isotropic outliers": {"n_components": 4, "inlier_noise": 0.05},
    "noiseless": {"n_components": 4},
    "low-rank outliers": {
        "n_components": 3,
        "inlier_ratio": 0.6,
        "inlier_noise": 0.05,
        "outliers": "low-rank",
        "outlier_rank": 5,
    },
    "a cluster": {
        "n_components": 3,
        "inlier_ratio": 0.8,
        "inlier_noise": 0.05,
        "outliers": "cluster",
        "cluster_spread": 0.1,
    },
    "condition 25": {
        "n_components": 4,
        "inlier_noise": 0.02,
        "inlier_scales": tuple(np.geomspace(1.0, 1 / 25, 4)),
    },
}


def test_when_there_are_many_rows():
    limit = SAMPLE_PAYS * (SAMPLE_ROWS + SAMPLE_ROWS_PER_COLUMN * D)
    assert isinstance(make_plan("irls", Facts(limit - 1, D, 2)).start, MomentStart)
    plan = make_plan("irls", Facts(limit, D, 2))
    assert isinstance(plan.start, RunStart)
    assert isinstance(plan.stop, Converged)
    assert isinstance(make_plan("irls", Facts(limit, D, 2), start="pca").start, MomentStart)


@pytest.mark.parametrize("case", HARD)
def test_the_same_optimum_on_hard_data(case):
    data = make_haystack(N, D, **HARD[case], random_state=1)
    r = HARD[case]["n_components"]
    sampled = RobustPCA(r, algorithm="irls", random_state=0).fit(data.X)
    full = RobustPCA(r, algorithm="irls", algorithm_options={"start": "pca"}).fit(data.X)
    assert isinstance(sampled.plan_.start, RunStart)
    assert sampled.converged_
    assert subspace_error(sampled.components_, full.components_) < 1e-10
    assert sampled.costs_[-1] == pytest.approx(full.costs_[-1], rel=1e-11)
    assert (np.diff(sampled.costs_) <= 1e-14).all()
    assert sampled.n_iter_ <= full.n_iter_ + 3


def test_axes_are_those_of_all_rows():
    """The scores of the sphered rows are uncorrelated, but for the weights of the last pass.

    Axes of the sample that the fit starts on would be off by more than a hundredth.
    """
    scales = np.array([1.0, 0.9, 0.8])
    data = make_haystack(N, D, 3, inlier_scales=scales, inlier_noise=0.05, random_state=2)
    first, second = (
        RobustPCA(3, algorithm="irls", random_state=seed).fit(data.X) for seed in (0, 1)
    )
    np.testing.assert_allclose(first.components_, second.components_, atol=1e-5)
    scores = data.X / np.linalg.norm(data.X, axis=1)[:, None] @ first.components_.T
    moment = scores.T @ scores / N
    assert np.abs(moment - np.diag(np.diag(moment))).max() < 1e-3
    assert (np.diff(np.diag(moment)) < 0).all()
