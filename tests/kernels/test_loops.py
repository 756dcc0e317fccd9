"""The pieces of the compiled loops: bits of terms, the lattice, the polar factor, the fills."""

import numpy as np
import pytest

from stillspace.kernels import lane_terms, loops, reference, small
from stillspace.parts.geometry import entropic_fill, polar, water_fill
from stillspace.parts.noise import IidGaussian
from tests.conftest import random_basis, random_in_h, unit_rows

FLOOR = 2.0**-26


def lane_sum(block, V, floor=FLOOR):
    """The sum of GLAD's terms of a block (D, b), by the compiled routine."""
    D, b = block.shape
    r = V.shape[1]
    padded = np.zeros((loops.padded(r, 2), loops.padded(D, 4)))
    padded[:r, :D] = V.T
    X = np.zeros((padded.shape[1], b))
    X[:D] = block
    work = tuple(np.empty(size * b) for size in (padded.shape[0], padded.shape[1], 1, 1))
    sums = np.zeros(padded.size * 8)
    lane_terms.add_glad(X.ravel(), 0, b, padded, floor, work, sums)
    return sums.reshape(*padded.shape, 8)[:r, :D].sum(axis=2).T


def reference_terms(XT, V, floor=FLOOR):
    R, Y = reference.residual_to_basis(XT, V, parts=1)
    distance = reference.column_norms(R, parts=1)
    weight = 1.0 / np.maximum(distance, floor)
    weight = weight / np.maximum(weight * (distance * reference.column_norms(Y, parts=1)), 1.0)
    return R[:, None, :] * (Y * weight)[None, :, :]


@pytest.mark.parametrize(("D", "r"), [(20, 2), (7, 3), (5, 1), (13, 4)])
@pytest.mark.parametrize("near", [1.0, 1e-8, 1e-16, 0.0])
def test_a_glad_term_has_the_bits_of_the_reference_at_any_place(rng, D, r, near):
    """Alone among zero rows, a row's term is the sum; near the subspace it is all rounding."""
    V = random_basis(rng, D, r)
    rows = V @ rng.standard_normal((r, 6)) + near * rng.standard_normal((D, 6))
    rows /= np.linalg.norm(rows, axis=0)
    want = reference_terms(rows, V)
    for i, (place, width) in enumerate([(0, 24), (7, 24), (23, 24), (8, 48), (50, 96), (95, 96)]):
        block = np.zeros((D, width))
        block[:, place] = rows[:, i]
        assert np.array_equal(lane_sum(block, V), want[:, :, i])


def test_neighbours_do_not_change_a_term(rng):
    """Two blocks that differ in one row differ by that row's term, up to the summation."""
    V = random_basis(rng, 20, 2)
    block = V @ rng.standard_normal((2, 96))  # on the subspace: residuals at rounding level
    block /= np.linalg.norm(block, axis=0)
    other = block.copy()
    other[:, 40] = 0.0
    term = reference_terms(block, V)[:, :, 40]
    difference = lane_sum(block, V) - lane_sum(other, V)
    np.testing.assert_allclose(difference, term, atol=96 * 96 * 2.0**-53)


def test_terms_of_zero_and_clipped_rows(rng):
    V = 1.5 * random_basis(rng, 6, 2)  # not orthonormal: the clip acts
    XT = unit_rows(rng, 24, 6)
    XT[:, 3] = 0.0
    want = reference_terms(XT, V)
    assert np.all(np.linalg.norm(want, axis=(0, 1)) <= 1.0 + 1e-14)
    np.testing.assert_allclose(lane_sum(XT, V), want.sum(axis=2), atol=1e-13)


@pytest.mark.parametrize("near", [1.0, 1e-16])
def test_a_reaper_residual_has_the_bits_of_the_reference(rng, near):
    D, b = 11, 48
    P = random_in_h(rng, D, 3)
    XT = np.linalg.eigh(P)[1][:, -3:] @ rng.standard_normal((3, b))
    XT += near * rng.standard_normal((D, b))
    XT /= np.linalg.norm(XT, axis=0)
    R, S, N = np.empty(D * b), np.empty(b), np.empty(b)
    lane_terms.scaled_residuals(XT.ravel(), 0, b, P, FLOOR, (R, S, N))
    want = reference.residual_to_matrix(XT, P, parts=1)
    distance = reference.column_norms(want, parts=1)
    weight = 1.0 / np.maximum(distance, FLOOR)
    weight = weight / np.maximum(weight * (distance * reference.column_norms(XT, parts=1)), 1.0)
    assert np.array_equal(R.reshape(D, b), want * weight)


@pytest.mark.parametrize("count", [0, 1, 8, 23, 24, 25, 96])
def test_gathered_rows_are_the_chosen_ones_and_zeros(rng, count):
    X = rng.standard_normal((30, 8))
    data = loops.as_stretches(X, 8).ravel()
    chosen = rng.integers(30, size=count + 5)
    block = np.full(8 * 96, np.nan)
    b = lane_terms.gather(data, 8, chosen, 5, 5 + count, block)
    assert b == loops.padded(count, 24)
    want = np.zeros((8, b))
    want[:, :count] = X[chosen[5:]].T
    assert np.array_equal(block[: 8 * b].reshape(8, b), want)


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
    rows = np.zeros((r, loops.padded(D, 4)))
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
