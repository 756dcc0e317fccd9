"""The fitted laws against data with a known law."""

import numpy as np
import pytest
from reproduction.cells import checkpoints
from reproduction.rates import FLOOR, decay_in_iterations, decay_in_n, line, regression
from reproduction.tables import read_csv, write_csv


def test_an_exponential_law_is_found(rng):
    at = checkpoints(2000)
    k = np.array(at)
    runs = [10 ** (-0.006 * k + 0.1 * rng.standard_normal(k.size)) for _ in range(20)]
    decay = decay_in_iterations(at, runs)
    assert decay.is_exponential
    width = decay.exponential.high - decay.exponential.low
    assert width < 1e-4
    assert abs(decay.exponential.value + 0.006) < 1.5 * width  # 6 standard errors


def test_a_power_law_is_found(rng):
    at = checkpoints(2000)
    k = np.maximum(np.array(at), 1)
    runs = [k**-1.5 * 10 ** (0.05 * rng.standard_normal(k.size)) for _ in range(20)]
    decay = decay_in_iterations(at, runs)
    assert not decay.is_exponential
    assert abs(decay.power.value + 1.5) < 1.5 * (decay.power.high - decay.power.low)


def test_the_floor_is_left_out():
    at = checkpoints(2000)
    k = np.array(at)
    errors = np.maximum(10 ** (-0.02 * k), FLOOR / 10)
    decay = decay_in_iterations(at, [errors, errors])
    assert decay.exponential.value == pytest.approx(-0.02)


def test_laws_in_n(rng):
    sizes = [250, 500, 750, 1000]
    falls = [10 ** (-0.01 * n + 0.2 * rng.standard_normal(40)) for n in sizes]
    found = decay_in_n(sizes, falls)
    assert found.is_exponential
    width = found.exponential.high - found.exponential.low
    assert abs(found.exponential.value + 0.01) < 1.5 * width  # 6 standard errors
    slow = [1.0 / n * 10 ** (0.1 * rng.standard_normal(40)) for n in sizes]
    assert decay_in_n(sizes, slow).power.value == pytest.approx(-1, abs=0.2)
    assert decay_in_n([250, 500], falls[:2]) is None
    early = decay_in_n([50, *sizes], [np.full(40, 1.5), *falls])  # does not work there yet
    assert early == found


def test_the_interval_of_a_slope_is_that_of_scipy(rng):
    from scipy.stats import linregress, t

    x, y = np.arange(30.0), rng.standard_normal(30)
    slope, rest = regression(x, y)
    other = linregress(x, y)
    half = t.ppf(0.975, 28) * other.stderr
    assert slope.value == pytest.approx(other.slope)
    assert slope.low == pytest.approx(other.slope - half)
    assert slope.high == pytest.approx(other.slope + half)
    assert (slope.value, rest) == line(x, y)


def test_tables_survive_their_file(tmp_path):
    table = [{"n": 3, "name": "dp-GGD", "error": 1.25e-7, "none": None, "more": float("inf")}]
    write_csv(table, tmp_path / "t.csv")
    assert read_csv(tmp_path / "t.csv") == table
