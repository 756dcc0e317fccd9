"""H of each step, computed from the profile's tails, against direct quadrature."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from stillspace.privacy.events import GaussianEvent
from stillspace.privacy.masses import discretise
from stillspace.privacy.profiles import StepProfile, step_profiles

from .reference import close_above, fixed_size, hockey_stick

ADD, REPLACE = "add-or-remove-one", "replace-one"
POISSON = [(0.01, 1.0), (0.3, 0.5), (0.9, 2.0), (1.0, 1.3), (1e-4, 0.3)]


def poisson(kind, q, z):
    event = GaussianEvent(z, 1.0, 2.0, sampling="poisson", rate=q)
    if kind == "replace":
        return step_profiles(event, REPLACE)[0]
    return step_profiles(event, ADD)[0 if kind == "remove" else 1]


def from_tails(profile, alpha):
    t = profile.thresholds(np.array([math.log(alpha)]))[:, 0]
    tails = ndtr(-t)
    return float(profile.p_weights @ tails - alpha * profile.q_weights @ tails) + profile.infinity


def from_masses(masses, alpha):
    return float(
        np.sum(masses.masses * np.maximum(1 - alpha * np.exp(-masses.losses), 0)) + masses.infinity
    )


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
@pytest.mark.parametrize(("q", "z"), POISSON)
@pytest.mark.parametrize("alpha", [0.2, 0.995, 1.0, 1.003, 1.2, 3.0])
def test_poisson_profiles_are_the_hockey_stick(kind, q, z, alpha):
    exact = hockey_stick(kind, alpha, q, z)
    assert from_tails(poisson(kind, q, z), alpha) == pytest.approx(exact, rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(
    ("n", "batch", "mu"), [(100, 3, 1.0), (50, 40, 0.4), (10, 1, 3.0), (7, 7, 1)]
)
@pytest.mark.parametrize("alpha", [1.0, 1.01, 1.5, 6.0])
def test_fixed_size_profiles_are_the_bound(n, batch, mu, alpha, replacement):
    name = "with-replacement" if replacement else "without-replacement"
    event = GaussianEvent(2 / mu, 1.0, 2.0, sampling=name, batch_size=batch, population=n)
    (profile,) = step_profiles(event, REPLACE)
    exact = float(fixed_size(alpha, n, batch, mu, replacement))
    assert from_tails(profile, alpha) == pytest.approx(exact, rel=1e-9, abs=1e-13)


def test_the_unit_of_a_fixed_size_step_is_the_difference_bound():
    def mu(difference):
        event = GaussianEvent(
            1.0, 1.0, difference, sampling="without-replacement", batch_size=2, population=9
        )
        return step_profiles(event, REPLACE)[0].mus

    assert mu(2.0) == (2.0,)
    assert mu(math.sqrt(2)) == (math.sqrt(2),)


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
@pytest.mark.parametrize(("q", "z"), POISSON)
def test_connected_dots_lie_just_above(kind, q, z):
    profile = poisson(kind, q, z)
    masses = discretise(profile, 1e-3 * min(1, 10 * q), -20.0, 30.0)
    for alpha in (0.1, 0.9, 0.9995, 1.0, 1.0004, 1.7, 5.0):
        exact = from_tails(profile, alpha)
        assert from_masses(masses, alpha) >= exact * (1 - 1e-13)
        assert from_masses(masses, alpha) <= exact * (1 + 1e-2) + 1e-9


@pytest.mark.parametrize("replacement", [False, True])
def test_connected_dots_of_a_mirrored_profile_on_both_sides_of_one(replacement):
    n, batch, mu = 40, 4, 0.8
    name = "with-replacement" if replacement else "without-replacement"
    event = GaussianEvent(2 / mu, 1.0, 2.0, sampling=name, batch_size=batch, population=n)
    (profile,) = step_profiles(event, REPLACE)
    masses = discretise(profile, 1e-3, -25.0, 25.0)
    for alpha in (0.02, 0.5, 0.97, 0.9999, 1.0, 1.0003, 1.05, 4.0):
        exact = float(fixed_size(alpha, n, batch, mu, replacement))
        assert close_above(from_masses(masses, alpha), exact, 5e-3), alpha
    assert masses.masses.sum() + masses.infinity >= 1


def test_a_coarse_or_short_grid_is_still_above():
    profile = poisson("remove", 0.2, 0.7)
    for h, high in ((0.5, 30.0), (0.1, 0.3), (2.0, 3.0)):
        masses = discretise(profile, h, -0.05, high)
        for alpha in (0.5, 1.0, 1.1, 2.0, 10.0):
            assert from_masses(masses, alpha) >= from_tails(profile, alpha) * (1 - 1e-13)


def test_truncation_moves_mass_to_infinity():
    event = GaussianEvent(1.0, 1.0, 2.0, sampling="with-replacement", batch_size=50, population=60)
    (profile,) = step_profiles(event, REPLACE)
    short = profile.truncated(1e-3)
    assert len(short.mus) < len(profile.mus)
    assert short.infinity + sum(short.weights) == pytest.approx(profile.rate, rel=1e-12)
    for alpha in (1.0, 3.0, 1e3):
        assert from_tails(short, alpha) >= from_tails(profile, alpha)


def test_huge_losses_do_not_overflow():
    for profile in (poisson("remove", 0.01, 0.005), poisson("replace", 0.01, 0.005)):
        t = profile.thresholds(np.array([-5e4, -1.0, 0.0, 1.0, 2e4, 1e5]))
        assert not np.isnan(t).any()
        assert (t[:, 1:] >= t[:, :-1]).all()


def test_full_batch_profile_is_gaussian():
    assert from_tails(StepProfile.gaussian(0.7), math.exp(0.5)) == pytest.approx(
        hockey_stick("remove", math.exp(0.5), 1.0, 1 / 0.7), rel=1e-8
    )


def _hockey_stick(alpha, q, v, w, nodes=160):
    """∫ (P − αQ)⁺ for mixtures of unit normals in the plane, on a fine grid."""
    axis = np.linspace(-9.0, 9.0, 60 * nodes // 40)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    cell = (axis[1] - axis[0]) ** 2

    def density(centre):
        return np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / 2) / (2 * np.pi)

    P, Q = ((1 - q) * density((0, 0)) + q * density(centre) for centre in (v, w))
    return float(np.maximum(P - alpha * Q, 0.0).sum() * cell)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 1.05, 2.0, 6.0])
@pytest.mark.parametrize("q", [0.05, 0.4, 0.9])
def test_opposite_terms_are_the_worst_pair_of_a_poisson_step(alpha, q):
    """The theorem of docs/privacy.md: H falls with v·w and grows with both norms, at every α."""
    mu = 1.3
    worst = _hockey_stick(alpha, q, (mu, 0.0), (-mu, 0.0))
    by_angle = [
        _hockey_stick(alpha, q, (mu, 0.0), (mu * np.cos(t), mu * np.sin(t)))
        for t in np.linspace(0.2, np.pi, 5)
    ]
    assert by_angle == sorted(by_angle)
    assert by_angle[-1] == pytest.approx(worst, rel=1e-9)
    for a, b in ((1.0, 0.5), (0.4, 1.0), (0.7, 0.7), (1.0, 0.0)):
        assert _hockey_stick(alpha, q, (a * mu, 0.0), (-b * mu, 0.0)) <= worst * (1 + 1e-9)
    profile = StepProfile("antipodal", q, (mu,), (q,))
    if alpha >= 1:
        assert profile.get_delta(np.log(alpha)) == pytest.approx(worst, rel=2e-3, abs=1e-6)
