"""Plug-in certificates of robust fits."""

import numpy as np
import pytest

from stillspace import PrivatePCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.theory import certify, pca_start, stability


def test_with_the_true_labels_it_is_the_theory_of_the_rows():
    data = make_haystack(600, 10, 2, inlier_ratio=0.9, random_state=0)
    fit = RobustPCA(2, center=None).fit(data.X)
    found = certify(fit, data.X, gamma=0.8, inliers=data.inliers)
    want = stability(data.X[data.inliers], data.X[~data.inliers], 2, gamma=0.8)
    assert found.glad.lower == pytest.approx(want.lower, rel=1e-6)
    assert found.glad.verdict == "stable"
    start = pca_start(data.X[data.inliers], data.X[~data.inliers], 2, gamma=0.8)
    assert found.start.cosine == pytest.approx(start.cosine, rel=1e-6)
    assert found.inlier_share == pytest.approx(0.9)
    assert found.noise < 1e-12


def test_the_fits_own_split_and_the_words():
    data = make_haystack(800, 10, 2, inlier_ratio=0.85, inlier_noise=0.05, random_state=1)
    fit = RobustPCA(2).fit(data.X)
    found = certify(fit, data.X)
    assert abs(found.inlier_share - 0.85) < 0.1
    text = str(found)
    assert text.startswith("Certified, for the table")
    assert "Only estimated" in text
    assert found.reaper.r == 2


def test_private_fits_are_refused():
    data = make_haystack(300, 6, 2, random_state=0)
    fit = PrivatePCA(2, epsilon=5.0, center=None).fit(data.X)
    with pytest.raises(PermissionError, match="rows_may_be_seen"):
        certify(fit, data.X)
    assert np.isfinite(certify(fit, data.X, rows_may_be_seen=True).glad.lower)
    with pytest.raises(PermissionError, match="rows_may_be_seen"):
        certify(fit, data.X, inliers=data.inliers)
