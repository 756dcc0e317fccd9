"""The pieces of the compiled loops: residuals, the lattice, the polar factor, the fills."""

import numpy as np
import pytest
from numba import njit

from stillspace.kernels import loops, small
from stillspace.parts.geometry import entropic_fill, polar, water_fill
from stillspace.parts.noise import IidGaussian
from stillspace.parts.queries import PRIVATE_NEAR
from tests.conftest import random_basis, random_in_h
from tests.kernels import reference

FLOOR = 2.0**-26


def flat(rows: np.ndarray) -> np.ndarray:
    """Rows (b, D') as the kernels take them: filled up with zeros to a multiple of 8 columns."""
    return loops.as_table(rows)[: len(rows)].ravel()


@pytest.mark.parametrize("D", [3, 8, 11, 40])
@pytest.mark.parametrize("near", [1.0, 1e-16])
def test_a_reaper_residual_has_the_same_bits_at_any_place(rng, D, near):
    """Alone among zero rows and among other rows; near the subspace it is all rounding."""
    P = random_in_h(rng, D, 2)
    X = rng.standard_normal((48, 2)) @ np.linalg.eigh(P)[1][:, -2:].T
    X += near * rng.standard_normal(X.shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    want = X.copy()
    for j in range(D):
        want -= P[j] * X[:, j, None]
    distance = reference.column_norms(want.T)
    weight = reference.clip_weights(distance, reference.column_norms(X.T), FLOOR)
    width = loops.filled(D)
    R, work = np.empty(48 * width), np.empty(136)
    loops.scaled_residuals(flat(X), 48, width, flat(P), D, FLOOR, R, work)
    found = R.reshape(48, width).copy()
    assert np.array_equal(found[:, :D], want * weight[:, None])
    assert not found[:, D:].any()
    for place, row in ((0, 5), (7, 41)):
        alone = np.zeros((8, D))
        alone[place] = X[row]
        loops.scaled_residuals(flat(alone), 8, width, flat(P), D, FLOOR, R, work)
        assert np.array_equal(R.reshape(48, width)[place], found[row])
        assert np.count_nonzero(R[: 8 * width].reshape(8, width).any(axis=1)) == 1


@pytest.mark.parametrize(("count", "b"), [(0, 0), (1, 8), (8, 8), (23, 24), (96, 96)])
def test_gathered_rows_are_the_chosen_ones_and_zeros(rng, count, b):
    X, width = rng.standard_normal((130, 11)), 16
    table, block = loops.as_table(X), np.full(96 * 16, np.nan)
    chosen = rng.integers(130, size=count + 5)
    for numbers, rows in ((chosen, chosen[5:]), (chosen[:0], np.arange(5, 5 + count))):
        assert gather(table, numbers, 5, 5 + count, width, block) == b
        want = np.zeros((b, width))
        want[:count, :11] = X[rows]
        assert np.array_equal(block[: b * width].reshape(b, width), want)


@pytest.mark.parametrize(("count", "b"), [(0, 0), (1, 8), (8, 8), (23, 24), (96, 96)])
def test_places_are_those_of_the_chosen_rows_and_of_the_zero_row(rng, count, b):
    table = loops.as_table(rng.standard_normal((130, 11)))
    width, places = table.shape[1], np.full(96, -1)
    chosen = rng.integers(130, size=count + 5)
    for numbers, rows in ((chosen, chosen[5:]), (chosen[:0], np.arange(5, 5 + count))):
        assert place(numbers, 5, 5 + count, width, 130, places) == b
        want = np.concatenate([rows, np.full(b - count, 130)])
        assert np.array_equal(places[:b], want * width)
    assert not table[130:].any()


@njit
def place(numbers, start, stop, width, zero_row, places):
    return loops._place(numbers, start, stop, width, zero_row, places)


def test_a_loop_leaves_the_rows_of_its_table_as_they_are(rng):
    """Also rows near the subspace, whose residuals take part in the sum."""
    D, r, n = 20, 2, 230
    V = random_basis(rng, D, r)
    X = (V @ rng.standard_normal((r, n))).T
    X[::3] += rng.standard_normal((n, D))[::3]
    table = loops.as_table(X / np.linalg.norm(X, axis=1, keepdims=True))
    before, point = table.copy(), np.zeros((r, table.shape[1]))
    point[:, :D] = V.T
    nothing, none = np.empty(0), np.empty(0, dtype=np.int64)
    rest = (np.empty((0, D, r), dtype=np.int64), nothing, np.full(3, 0.1), 0)
    facts = (D, r, FLOOR, PRIVATE_NEAR, float(n))
    trace = np.empty((0, 0, 0, 0))
    assert loops.glad_polar(table, none, none, *rest, facts, point, np.empty((0, 0)), trace) == 3
    assert np.array_equal(table[: n + 1], before[: n + 1])
    assert table[n + 1 :].any()


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("near", [1.0, 0.6])
def test_a_loop_adds_the_residual_of_every_near_row_to_its_own_scores(rng, near, sampled):
    """In each group of eight rows of a block, and with a row that is chosen more than once."""
    D, r, n = 20, 2, 230
    V = random_basis(rng, D, r)
    X = (V @ rng.standard_normal((r, n))).T
    X += rng.standard_normal((n, D)) * np.where(rng.random(n) < near, 1e-3, 1.0)[:, None]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    none, numbers = np.empty(0, dtype=np.int64), np.arange(n)
    offsets, chosen = none, none
    if sampled:
        numbers = np.append(rng.integers(n, size=200), [3, 3, 3])
        offsets, chosen = np.array([0, len(numbers)]), numbers
    table = loops.as_table(X)
    memory = np.full((len(table) + 9, table.shape[1]), 7.0)
    memory[: len(table)] = table
    table = memory[: len(table)]
    point, trace = np.zeros((r, table.shape[1])), np.empty((1, 2, D, r))
    point[:, :D] = V.T
    rest = (np.empty((0, D, r), dtype=np.int64), np.empty(0), np.full(1, 0.1), 0)
    facts = (D, r, FLOOR, PRIVATE_NEAR, 1.0)
    loops.glad_polar(table, offsets, chosen, *rest, facts, point, np.empty((0, 0)), trace)
    Y = X[numbers] @ V
    R = X[numbers] - Y @ V.T
    expected = (R / np.linalg.norm(R, axis=1, keepdims=True)).T @ Y
    np.testing.assert_allclose(trace[0, 1], expected, atol=1e-9)
    assert (memory[len(table) :] == 7.0).all()  # nothing is written beyond the table


@njit
def gather(table, numbers, start, stop, width, block):
    return loops._gather(table, numbers, start, stop, width, block)


def test_rounding_to_the_lattice_is_that_of_the_noise(rng):
    noise, sigma = IidGaussian((12,)), 0.7
    spacing = noise.spacing(sigma)
    hard = [np.nan, np.inf, -np.inf, 0.5 * spacing, 1.5 * spacing, -2.5 * spacing, 1e300, -1e300]
    values = np.array([*hard, 0.0, -0.0, 5e-324, 1234.567])
    indices = rng.integers(-(2**36), 2**36, size=12)
    want = noise.release(values, indices, sigma)
    got = [loops._on_lattice(v, i, spacing) for v, i in zip(values, indices, strict=True)]
    assert np.array_equal(got, want)


def polar_factor(A):
    D, r = A.shape
    rows = np.zeros((r, loops.filled(D)))
    rows[:, :D] = A.T
    out = np.zeros_like(rows)
    small.polar_rows(rows, r, D, np.empty((r, r)), out)
    assert np.all(out[:, D:] == 0.0)
    return out[:, :D].T


@pytest.mark.parametrize("r", [1, 2, 3, 8])
@pytest.mark.parametrize("condition", [1.0, 3.0, 200.0, 1e8, 1e14])
def test_polar_factor(rng, r, condition):
    """Orthonormal to 1e-14 whatever the conditioning; the SVD's own error grows with it."""
    D = 21
    s = np.geomspace(1.0, 1.0 / condition, r)
    A = (random_basis(rng, D, r) * s) @ random_basis(rng, r, r).T
    got = polar_factor(A)
    np.testing.assert_allclose(got.T @ got, np.eye(r), atol=1e-14)
    if condition < 1e10:
        np.testing.assert_allclose(got, polar(A), atol=1e-14 * max(condition, 1.0) * 10)


@pytest.mark.parametrize("r", [2, 3])
def test_polar_factor_without_full_rank_is_orthonormal(rng, r):
    for A in (np.zeros((6, r)), np.outer(np.arange(6.0), np.ones(r))):
        got = polar_factor(A)
        np.testing.assert_allclose(got.T @ got, np.eye(r), atol=1e-14)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize(("D", "r"), [(5, 1), (20, 2), (30, 7), (6, 5)])
def test_fills(rng, scale, D, r):
    values = np.sort(scale * rng.standard_normal(D))
    values[1] = values[2]
    np.testing.assert_allclose(small.water_fill(values, r), water_fill(values, r), atol=1e-13)
    shift, zeros = small.entropic_shift(values, r, True)
    got = np.minimum(values + shift, 0.0)
    got[D - zeros :] = 0.0
    np.testing.assert_allclose(got, entropic_fill(values, r), atol=1e-12)
    assert np.exp(got).sum() == pytest.approx(r)
    shift, zeros = small.entropic_shift(values, r, False)
    assert (np.exp(values + shift).sum(), zeros) == (pytest.approx(r), 0)


def test_fills_of_points_that_are_there_already():
    for values in (np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.5, 0.5])):
        np.testing.assert_allclose(small.water_fill(values, 2), values, atol=1e-15)
    far = np.array([-2000.0, -1000.0, 0.0, 50.0])
    shift, zeros = small.entropic_shift(far, 2, True)
    assert np.minimum(far + shift, 0.0)[2] == entropic_fill(far, 2)[2]
    assert zeros in (1, 2)
