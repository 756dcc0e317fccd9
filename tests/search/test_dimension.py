"""The number of components by the profile of distances."""

import numpy as np
import pytest

from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import DisagreementWarning
from stillspace.search import profile

CASES = [
    (20, 2, 0.55, 0.05, {}),
    (20, 3, 0.8, 0.1, {}),
    (30, 5, 0.7, 0.1, {}),
    (6, 4, 0.8, 0.05, {}),
    (15, 2, 0.6, 0.0, {}),
    (20, 3, 0.85, 0.1, {"outliers": "cluster"}),
    (20, 3, 0.8, 0.05, {"inlier_scales": (2.0, 1.0, 0.5)}),
]


@pytest.mark.parametrize(("D", "r", "share", "noise", "more"), CASES)
@pytest.mark.parametrize("center", [None, "pairs"])
def test_the_right_number_is_found(D, r, share, noise, more, center):
    data = make_haystack(900, D, r, inlier_ratio=share, inlier_noise=noise, random_state=1, **more)
    fit = RobustPCA("auto", center=center).fit(data.X)
    assert fit.n_components_ == r
    assert fit.components_.shape == (r, D)
    assert fit.profile_.clear
    assert fit.profile_.distances[0] == 1.0
    assert (np.diff(fit.profile_.distances) < 0.02).all()


def test_the_profile_by_its_definition(rng):
    data = make_haystack(500, 8, 2, inlier_ratio=0.7, inlier_noise=0.05, random_state=0)
    found = profile(data.X, "redescending", rng, quantile=0.45, most=5)
    assert found.ranks.tolist() == [0, 1, 2, 3, 4, 5]
    V = RobustPCA(2, center=None).fit(data.X).components_
    d = np.linalg.norm(data.X - data.X @ V.T @ V, axis=1)
    assert found.distances[2] == pytest.approx(np.quantile(d, 0.45), rel=0.02)
    falls = found.drops[:-1] - found.drops[1:]
    assert found.n_components == np.argmax(falls) + 1 == 2


@pytest.mark.filterwarnings("ignore:Nothing stands out")
def test_noise_alone_is_said_to_be_unclear(rng):
    X = rng.standard_normal((400, 8))
    with pytest.warns(DisagreementWarning, match="how many components"):
        fit = RobustPCA("auto").fit(X)
    assert not fit.profile_.clear


def test_without_auto_there_is_no_profile(rng):
    fit = RobustPCA(2).fit(make_haystack(100, 5, 2, random_state=0).X)
    assert fit.profile_ is None
    assert fit.n_components_ == 2
