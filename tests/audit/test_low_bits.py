"""The low-bit attack (Mironov 2012; FACTS of floating point): plain noise falls, ours stands.

A float64 sum plus a float64 normal: where they nearly cancel, no rounding takes place and the low
bits of the result are those of the sum. A candidate for the sum that would need a noise with more
bits than a float64 has is ruled out.
"""

import numpy as np
import pytest
from scipy.stats import binom

from stillspace.audit import make_neighbours
from stillspace.parts.noise import IidGaussian, secure_generator
from stillspace.parts.queries import Glad
from stillspace.recipes import Facts, make_plan
from stillspace.rows import MemoryRows

D, R, SIGMA = 20, 2, 54.0


@pytest.fixture(scope="module")
def sums():
    """Two sums of GLAD terms over neighbouring data sets, D × r entries each."""
    plan = make_plan("dp-ggd", Facts(2000, D, R, 0.8, 1e-5), n_iter=30)
    rng = np.random.default_rng(0)
    rest = rng.standard_normal((1999, D)) + 1.0  # not centred: sums as large as the noise
    V = np.linalg.qr(rng.standard_normal((D, R)))[0]
    pair = make_neighbours(plan, 0.3)
    tables = (np.concatenate([rest, x]) for x in (pair.ones, pair.others))
    return [MemoryRows.prepare(table).add(Glad(D, R), V, None) for table in tables]


def around(values):
    """Return values and their two nearest neighbours on either side."""
    found = [values]
    for direction in (-np.inf, np.inf):
        step = values
        for _ in range(2):
            step = np.nextafter(step, direction)
            found.append(step)
    return found


def impossible(shown, candidate):
    """Count entries at which no float64 noise σz turns the candidate into what is shown."""
    possible = np.zeros(shown.shape, dtype=bool)
    for noise in around(shown - candidate):
        drawn = np.any([SIGMA * z == noise for z in around(noise / SIGMA)], axis=0)
        possible |= drawn & (candidate + noise == shown)
    return int(np.sum(~possible))


def guesses(sums, release, trials):
    """How often the attack is right; where it has no reason, it flips a coin."""
    rng, right = np.random.default_rng(1), 0
    for _ in range(trials):
        coin = rng.integers(2)
        shown = release(sums[coin])
        ruled_out = [impossible(shown, candidate) for candidate in sums]
        if ruled_out[0] == ruled_out[1]:
            right += rng.integers(2) == coin
        else:
            right += int(ruled_out[0] > ruled_out[1]) == coin
    return right


def test_plain_floating_point_noise_tells_the_data_set(sums):
    rng = np.random.default_rng(2)
    right = guesses(sums, lambda total: total + rng.normal(0.0, SIGMA, total.shape), 300)
    assert right >= 290


def test_lattice_noise_does_not(sums):
    """A guess is right half of the time: within the range of one alarm in 1e6."""
    noise, rng, trials = IidGaussian((D, R)), secure_generator(), 300

    def release(total):
        return noise.release(total, noise.draw(SIGMA, rng), SIGMA)

    right = guesses(sums, release, trials)
    assert binom.ppf(5e-7, trials, 0.5) <= right <= binom.isf(5e-7, trials, 0.5)


def test_the_low_bits_of_what_is_shown_do_not_depend_on_the_rows(sums):
    """In units of the lattice, the last 16 bits are uniform whatever the sum.

    Chi-square over 256 cells for each of the two bytes; an alarm once in 1e6.
    """
    noise, rng = IidGaussian((D, R)), secure_generator()
    spacing = noise.spacing(SIGMA)
    for total in sums:
        shown = [noise.release(total, noise.draw(SIGMA, rng), SIGMA) for _ in range(400)]
        index = np.rint(np.ravel(shown) / spacing).astype(np.int64)
        for byte in (index & 255, (index >> 8) & 255):
            counts = np.bincount(byte, minlength=256)
            expected = len(index) / 256
            statistic = np.sum((counts - expected) ** 2 / expected)
            assert abs(statistic - 255) < 5 * np.sqrt(2 * 255) + 30
