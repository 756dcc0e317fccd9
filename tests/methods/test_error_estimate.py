"""What a fit says of its own error: to what, how large, and when it is not known."""

from math import isnan, pi, sqrt

import numpy as np
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.exceptions import SeededNoiseWarning
from stillspace.methods.newton.routes import error_in_words, noise_alone, with_reason
from stillspace.methods.newton.spread import elliptical_parts
from stillspace.methods.spectrum import Spectrum
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import top_eigenvectors

pytestmark = [
    pytest.mark.filterwarnings("ignore::stillspace.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::stillspace.exceptions.PrivacyWarning"),
]


def symmetric_noise(rng, D, sd):
    noise = rng.standard_normal((D, D)) * sd / sqrt(2)
    return (noise + noise.T) / sqrt(2)


def uneven_table(n, rng):
    """Noisy rows along 2 of 8 directions; across them one direction holds much of the rest."""
    variances = np.array([1.0, 0.8, 0.3, 0.05, 0.03, 0.02, 0.02, 0.02])
    return rng.standard_normal((n, 8)) * np.sqrt(variances)


def test_parts_of_an_elliptical_law_are_expectations():
    """Against 400 000 draws: more than six standard errors."""
    variances = np.array([1.0, 0.3, 0.1, 0.02])
    z = np.random.default_rng(0).standard_normal((400_000, 4)) * np.sqrt(variances)
    d = np.linalg.norm(z, axis=1)
    near, far = elliptical_parts(variances)
    np.testing.assert_allclose(near, (z**2).T @ d**-3.0 / np.sum(1 / d), atol=0.01)
    np.testing.assert_allclose(far, (z**2).T @ (1 / d) / d.sum(), atol=0.01)


@pytest.mark.parametrize("sd", [1e-3, 1e-2])
def test_error_of_noisy_eigenvectors(rng, sd):
    """Within a third of the mean of 200 draws, whose own error is below a tenth. Seeded."""
    values = np.array([0.4, 0.3, 0.1, 0.08, 0.06, 0.03, 0.02, 0.01])
    truth = np.eye(8)[:2]
    moments = [np.diag(values) + symmetric_noise(rng, 8, sd) for _ in range(200)]
    errors = [subspace_error(top_eigenvectors(m, 2).T, truth) for m in moments]
    said = [Spectrum.of(m, sd, 2).pca_error(sd) for m in moments]
    assert 0.75 < np.median(said) / np.mean(errors) < 1.33


def test_error_of_equal_eigenvalues_is_that_of_a_random_angle():
    """λ_2 = λ_3: two directions mix freely, and π²/12 is the mean square of their angle."""
    found = Spectrum.of(np.diag([0.5, 0.2, 0.2, 1e-3, 1e-3]), 1e-9, 2).pca_error(1e-9)
    assert 0.5 < found / (pi**2 / 12) < 1.01


def test_nothing_is_above_the_largest_angle(rng):
    moment = symmetric_noise(rng, 30, 1.0)
    assert Spectrum.of(moment, 1.0, 3).pca_error(1.0) <= 3 * pi**2 / 4


def test_estimate_where_directions_across_are_uneven():
    """Within 2 × of the median of six fits to the same fit at ε = 50. Seeded.

    The steps' own covariance, which treats all directions alike, is 3 × too small here.
    """
    X = uneven_table(20_000, np.random.default_rng(0))
    reference = PrivateRobustPCA(2, epsilon=50.0, center=None, scale=None, random_state=9).fit(X)
    fits = [
        PrivateRobustPCA(2, epsilon=2.0, center=None, scale=None, random_state=k).fit(X)
        for k in range(6)
    ]
    errors = [subspace_error(fit.components_, reference.components_) for fit in fits]
    known = [fit.error_estimate_ for fit in fits if not isnan(fit.error_estimate_)]
    assert len(known) == 6
    assert all(0.5 < said / np.median(errors) < 2.0 for said in known)
    assert "same steps reach on the same rows without noise" in fits[0].error_meaning_


def test_private_pca_estimates_its_error():
    """Within 2 × of the median of eight fits; seeded."""
    X = uneven_table(3000, np.random.default_rng(1))
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    truth = top_eigenvectors(rows.T @ rows, 2).T
    with pytest.warns(SeededNoiseWarning):
        fits = [
            PrivatePCA(2, epsilon=1.0, center=None, scale=None, random_state=k).fit(X)
            for k in range(8)
        ]
    errors = [subspace_error(fit.components_, truth) for fit in fits]
    assert 0.5 < np.median([fit.error_estimate_ for fit in fits]) / np.median(errors) < 2.0
    assert "leading eigenvectors" in fits[0].error_meaning_


def test_reasons_are_told():
    """NaN comes with a reason, and with the part that is known."""
    route = with_reason("private PCA: a noisy table", noise_alone(0.0123))
    words = error_in_words(route, np.nan)
    assert words.startswith("The error is not known: noise alone makes d² ≈ 0.012")
    assert "makes no estimate" in error_in_words("", np.nan)
    X = uneven_table(300, np.random.default_rng(2))
    fit = PrivateRobustPCA(2, algorithm="dp-ggd", center=None, scale=None, random_state=0).fit(X)
    assert isnan(fit.error_estimate_)
    assert fit.error_meaning_ == "The error is not known: this algorithm makes no estimate."


def test_a_released_centre_is_named():
    X = uneven_table(4000, np.random.default_rng(3)) + 5.0
    fit = PrivatePCA(2, epsilon=2.0, center="private", scale="private").fit(X)
    assert "count as they were released. What their own noise adds" in fit.error_meaning_


@pytest.mark.parametrize("units", [{}, {"center": np.full(8, 5.0), "scale": None}])
def test_missing_cells_leave_no_estimate(units):
    """Of 10 % of the cells: .9⁸ = 43 % of the rows are complete. Units are given, or found.

    Half a percent of the rows is a standard deviation of the noise on their share.
    """
    rng = np.random.default_rng(4)
    X = rng.standard_normal((8000, 2)) @ rng.standard_normal((2, 8)) + 5.0
    X += 0.1 * rng.standard_normal(X.shape)
    whole = PrivateRobustPCA(2, epsilon=4.0, random_state=0, **units).fit(X)
    assert not isnan(whole.error_estimate_)
    assert "missing" not in whole.error_meaning_
    X[rng.random(X.shape) < 0.1] = np.nan
    fit = PrivateRobustPCA(2, epsilon=4.0, random_state=0, **units).fit(X)
    assert isnan(fit.error_estimate_)
    share = int(fit.error_meaning_.partition("% of the rows have missing cells")[0][-2:])
    assert abs(share - 57) <= 3
