"""Lattice noise as a part: generators, spacing, the law over a block, the release.

Statistical checks run on fixed seeds, with a false-alarm rate of at most 1e-7 each over seeds.
"""

import pickle
import struct
import warnings
from fractions import Fraction
from math import isqrt, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillspace.kernels.lattice import TOTAL_VARIATION, draw_lattice
from stillspace.parts.noise import (
    SAMPLER_ERROR,
    GaussianNoise,
    IidGaussian,
    SymmetricGaussian,
    lattice_scale,
    lattice_spacing,
    secure_generator,
    seeded_generator,
)

PARTS = [
    IidGaussian(()),
    IidGaussian((7,)),
    IidGaussian((5, 2)),
    SymmetricGaussian(1),
    SymmetricGaussian(6),
    SymmetricGaussian(6, off_diagonal_variance=1.0),
]
every_part = pytest.mark.parametrize("noise", PARTS, ids=repr)
sigmas = st.floats(2.0**-900, 2.0**900) | st.floats(1e-3, 1e3)
variances = st.floats(0.5, 1.0)


# --- generators --------------------------------------------------------------------------------


def chacha20_block(key, counter):
    """One block of ChaCha with 20 rounds, written from its definition (Bernstein 2008)."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    start += list(struct.unpack("<8I", key.to_bytes(32, "little")))
    start += list(struct.unpack("<4I", counter.to_bytes(16, "little")))
    x = list(start)

    def rotate(value, by):
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    def quarter(a, b, c, d):
        for p, q, r, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) & 0xFFFFFFFF
            x[r] = rotate(x[r] ^ x[p], by)

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & 0xFFFFFFFF for a, b in zip(x, start, strict=True)]


def test_generators_are_chacha20(monkeypatch):
    """The words are the key stream of the cipher under the key that `secrets` gave."""
    key = int.from_bytes(bytes(range(3, 35)), "little")
    asked = []
    monkeypatch.setattr("secrets.randbits", lambda bits: asked.append(bits) or key)
    words = secure_generator().integers(0, 2**64, size=64, dtype=np.uint64)
    assert asked == [256]
    stream = [word for counter in range(8) for word in chacha20_block(key, counter)]
    pairs = zip(stream[::2], stream[1::2], strict=True)
    assert words.tolist() == [low | high << 32 for low, high in pairs]


def test_secure_generators_never_repeat():
    words = np.concatenate(
        [secure_generator().integers(0, 2**64, size=100, dtype=np.uint64) for _ in range(50)]
    )
    assert np.unique(words).size == words.size  # a collision has probability 1e-12


def test_seeded_generators_repeat_and_differ():
    def first(seed):
        return seeded_generator(seed).integers(0, 2**64, dtype=np.uint64)

    seeds = [0, 1, 2, 10, 12, 2**32, 2**64, 2**64 + 1, 2**256, 10**100]
    assert [first(s) for s in seeds] == [first(s) for s in seeds]
    assert len({int(first(s)) for s in seeds}) == len(seeds)
    assert first(np.int64(12)) == first(12)
    with pytest.raises(ValueError, match="non-negative"):
        seeded_generator(-1)


def test_sampler_error_is_small_enough_for_any_fit():
    assert SAMPLER_ERROR == TOTAL_VARIATION
    assert (1 + np.exp(10.0)) * 1e12 * SAMPLER_ERROR < 1e-12 / 1000


# --- spacing, scale, slack ---------------------------------------------------------------------


@settings(deadline=None)
@given(sigmas)
def test_spacing_and_scale(sigma):
    spacing = lattice_spacing(sigma)
    exact = Fraction(sigma)
    assert np.frexp(spacing)[0] == 0.5
    assert Fraction(spacing) <= exact / 2**30 < 2 * Fraction(spacing)
    scale = lattice_scale(sigma, spacing)
    assert scale % 2**7 == 0
    assert 2**30 <= scale <= 2**31
    assert exact <= scale * Fraction(spacing) < exact * (1 + Fraction(1, 2**23))


@settings(deadline=None)
@given(sigmas, variances)
def test_symmetric_spacing_and_scale_are_exact(sigma, variance):
    noise = SymmetricGaussian(3, off_diagonal_variance=variance)
    spacing = Fraction(noise.spacing(sigma))
    smallest = Fraction(variance) * Fraction(sigma) ** 2  # a variance
    assert (spacing * 2**30) ** 2 <= smallest < (spacing * 2**31) ** 2
    scales = []
    rng = seeded_generator(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "stillspace.parts.noise.draw_lattice",
            lambda scale, count, rng: scales.append((scale, count)) or np.zeros(count, np.int64),
        )
        noise.draw(sigma, rng)
    assert [count for _, count in scales] == [3, 3]
    for (scale, _), share in zip(scales, (Fraction(variance), Fraction(1)), strict=True):
        asked = share * Fraction(sigma) ** 2
        assert asked <= (scale * spacing) ** 2 < asked * (1 + Fraction(1, 2**23)) ** 2
        assert scale % 2**7 == 0


@pytest.mark.parametrize("sigma", [2.0**-5, np.nextafter(1, 0), np.nextafter(1, 2), sqrt(2)])
def test_spacing_near_powers_of_two(sigma):
    for noise in (IidGaussian((2,)), SymmetricGaussian(2), SymmetricGaussian(2, 1.0)):
        spacing = Fraction(noise.spacing(float(sigma)))
        smallest = Fraction(noise.smallest_variance) * Fraction(float(sigma)) ** 2
        assert (spacing * 2**30) ** 2 <= smallest < (spacing * 2**31) ** 2


def test_spacing_where_the_product_in_floats_is_rounded_up():
    variance, sigma = 0.5204867619680973, 1.386101890693508
    assert sigma * sqrt(variance) == 1.0
    assert Fraction(variance) * Fraction(sigma) ** 2 < 1
    assert SymmetricGaussian(2, variance).spacing(sigma) == 2.0**-31
    assert SymmetricGaussian(2, 1.0).spacing(1.0) == 2.0**-30


@every_part
@given(sigma=sigmas)
@settings(max_examples=30, deadline=None)
def test_slack_bounds_the_growth_by_rounding(noise, sigma):
    slack, spacing = noise.slack(sigma), noise.spacing(sigma)
    assert Fraction(slack) ** 2 >= Fraction(spacing) ** 2 * noise.rounding_coordinates
    assert slack == pytest.approx(spacing * sqrt(noise.rounding_coordinates), rel=1e-15)


def test_coordinates():
    assert (IidGaussian((5, 2)).coordinates, IidGaussian((5, 2)).rounding_coordinates) == (10, 10)
    assert (IidGaussian(()).coordinates, IidGaussian(()).rounding_coordinates) == (1, 1)
    symmetric = SymmetricGaussian(6)
    assert (symmetric.coordinates, symmetric.rounding_coordinates) == (21, 36)


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf"), 2.0**-901])
def test_sigma_is_checked(sigma):
    with pytest.raises(ValueError, match="sigma"):
        IidGaussian((2,)).draw(sigma, seeded_generator(0))


@pytest.mark.parametrize("variance", [0.49, 0.0, 1.5, float("nan")])
def test_too_little_off_diagonal_noise_is_refused(variance):
    with pytest.raises(ValueError, match="off_diagonal_variance"):
        SymmetricGaussian(3, off_diagonal_variance=variance)


# --- draws -------------------------------------------------------------------------------------


@every_part
def test_parts_are_values_and_draws_have_their_shape(noise):
    assert isinstance(noise, GaussianNoise)
    assert pickle.loads(pickle.dumps(noise)) == noise
    assert len({noise, pickle.loads(pickle.dumps(noise))}) == 1
    drawn = noise.draw(0.3, seeded_generator(1))
    assert drawn.shape == noise.shape
    assert drawn.dtype == np.int64
    if isinstance(noise, SymmetricGaussian):
        assert (drawn == drawn.T).all()


@every_part
def test_draws_differ_between_calls_and_generators(noise):
    rng = seeded_generator(1)
    one, two = noise.draw(1.0, rng), noise.draw(1.0, rng)
    three, again = noise.draw(1.0, seeded_generator(2)), noise.draw(1.0, seeded_generator(1))
    secure = [noise.draw(1.0, secure_generator()) for _ in range(2)]
    assert (one == again).all()
    for a, b in ((one, two), (one, three), tuple(secure)):
        assert (a != b).all()  # equal entries have probability < 1e-9 each


def test_draws_use_the_sampler_at_the_rounded_scale():
    noise = IidGaussian((4, 3))
    scale = lattice_scale(0.37, lattice_spacing(0.37))
    plain = draw_lattice(scale, 12, seeded_generator(3)).reshape(4, 3)
    assert (noise.draw(0.37, seeded_generator(3)) == plain).all()


def score_of_variance(values, sigma):
    """Standard score of the mean square of centred normals: beyond 5.4 with probability 7e-8."""
    return (np.mean(np.square(values)) / sigma**2 - 1) / sqrt(2 / values.size)


@pytest.mark.parametrize("sigma", [0.37, 1.0, 1.9999, 3e-7])
def test_variance_of_independent_entries(sigma):
    noise = IidGaussian((1000, 200))
    values = noise.draw(sigma, seeded_generator(4)) * noise.spacing(sigma)
    assert abs(score_of_variance(values, sigma)) < 5.4  # half the sigma: score -237
    assert score_of_variance(values / 2, sigma) < -200
    assert abs(values.mean()) < 5.4 * sigma / sqrt(values.size)


@pytest.mark.parametrize("variance", [0.5, 1.0])
@pytest.mark.parametrize("sigma", [1.0, 1.3])
def test_variance_of_symmetric_entries(sigma, variance):
    noise = SymmetricGaussian(30, off_diagonal_variance=variance)
    rng = seeded_generator(5)
    draws = np.array([noise.draw(sigma, rng) for _ in range(200)]) * noise.spacing(sigma)
    diagonal = draws[:, np.arange(30), np.arange(30)]
    above = draws[:, *np.triu_indices(30, 1)]
    assert abs(score_of_variance(diagonal, sigma)) < 5.4
    assert abs(score_of_variance(above, sigma * sqrt(variance))) < 5.4
    assert abs(score_of_variance(above, sigma * sqrt(1.5 - variance))) > 50


def test_symmetric_noise_is_isotropic():
    """<A, N> has variance sigma² |A|² for every symmetric A."""
    noise, rng = SymmetricGaussian(8), seeded_generator(6)
    draws = np.array([noise.draw(1.0, rng) for _ in range(4000)]) * noise.spacing(1.0)
    for A in np.random.default_rng(0).normal(size=(5, 8, 8)):
        S = (A + A.T) / np.linalg.norm(A + A.T)
        assert abs(score_of_variance(np.einsum("tij,ij->t", draws, S), 1.0)) < 5.4


def test_entries_are_uncorrelated():
    noise, rng = SymmetricGaussian(4), seeded_generator(7)
    rows, columns = np.triu_indices(4)
    draws = np.array([noise.draw(1.0, rng)[rows, columns] for _ in range(20_000)])
    correlation = np.corrcoef(draws / 2**30, rowvar=False)[np.triu_indices(10, 1)]
    assert np.abs(correlation).max() < 6 / sqrt(20_000)


# --- release -----------------------------------------------------------------------------------


def nearest_even(x):
    return round(x)  # of a Fraction: half to even, exactly as rint


@every_part
@given(data=st.data(), sigma=st.floats(1e-6, 1e6))
@settings(max_examples=25, deadline=None)
def test_release_is_exact_rational_arithmetic(noise, data, sigma):
    size = int(np.prod(noise.shape))
    gamma = noise.spacing(sigma)
    fractions, halves = st.floats(-1.0, 1.0), st.integers(-9, 9).map(lambda i: i + 0.5)
    multiples = fractions.map(lambda x: x * 2.0**61) | fractions.map(lambda x: x * 2.0**33)
    entries = (multiples | halves | fractions).map(lambda x: x * gamma)
    total = np.array(data.draw(st.lists(entries, min_size=size, max_size=size)))
    total = total.reshape(noise.shape)
    indices = noise.draw(sigma, seeded_generator(data.draw(st.integers(0, 2**64))))
    released = noise.release(total, indices, sigma)
    assert released.shape == noise.shape
    spacing = Fraction(gamma)
    for at in np.ndindex(noise.shape):
        from_ = tuple(sorted(at)) if isinstance(noise, SymmetricGaussian) else at
        exact = (nearest_even(Fraction(float(total[from_])) / spacing) + int(indices[at])) * spacing
        assert released[at] == float(exact)


@every_part
def test_release_on_the_lattice_of_small_values_has_no_rounding(noise):
    """Below 2^53 spacings the result is a lattice point: no low bit tells of the sum."""
    rng = np.random.default_rng(3)
    total = rng.normal(size=noise.shape) * 50
    released = noise.release(total, noise.draw(0.9, seeded_generator(0)), 0.9)
    index = released / noise.spacing(0.9)
    assert (index == np.rint(index)).all()


def test_release_of_tiny_totals():
    noise = IidGaussian((4,))
    total = np.array([5e-324, -5e-324, 2.0**-1000, 0.0])
    for sigma in (2.0**-900, 1.0, 2.0**900):
        assert (
            noise.release(total, np.arange(4), sigma) == np.arange(4) * noise.spacing(sigma)
        ).all()


@every_part
def test_release_is_a_total_function(noise):
    """No warning, no error, whatever the sum; a clipped sum keeps room for the noise."""
    sigma = 0.7
    limit = noise.spacing(sigma) * 2.0**62
    indices = noise.draw(sigma, seeded_generator(0))
    for value, seen in ((np.inf, limit), (-np.inf, -limit), (1e300, limit), (np.nan, 0.0)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            released = noise.release(np.full(noise.shape, value), indices, sigma)
        exact = [(int(seen / noise.spacing(sigma)) + int(i)) for i in indices.ravel()]
        assert released.ravel().tolist() == [float(e) * noise.spacing(sigma) for e in exact]


def test_release_does_not_touch_its_arguments():
    noise = SymmetricGaussian(3)
    total, indices = np.full((3, 3), 1.3), noise.draw(1.0, seeded_generator(0))
    kept = indices.copy()
    noise.release(total, indices, 1.0)
    assert (total == 1.3).all()
    assert (indices == kept).all()


@every_part
def test_rounding_moves_two_sums_apart_by_at_most_the_slack(noise):
    rng = np.random.default_rng(4)
    none = np.zeros(noise.shape, dtype=np.int64)
    spacing = noise.spacing(1.0)
    for _ in range(50):
        one, two = (rng.normal(size=noise.shape) * 3 * spacing for _ in range(2))
        if isinstance(noise, SymmetricGaussian):
            one, two = one + one.T, two + two.T
        apart = np.linalg.norm(noise.release(one, none, 1.0) - noise.release(two, none, 1.0))
        assert apart <= np.linalg.norm(one - two) + noise.slack(1.0)


@every_part
def test_range_is_checked_on_a_public_bound(noise):
    limit = noise.spacing(0.5) * 2.0**62
    noise.check_range(np.nextafter(limit, 0), 0.5)
    noise.check_range(1e6, 0.5)
    for bound in (limit, np.inf, np.nan, -1.0):
        with pytest.raises(ValueError, match="bounded by"):
            noise.check_range(bound, 0.5)


def test_perfect_squares_need_no_more_than_one_ulp():
    noise = SymmetricGaussian(9)
    assert isqrt(noise.rounding_coordinates) == 9
    assert noise.slack(2.0) <= np.nextafter(9.0, 10.0) * noise.spacing(2.0)
