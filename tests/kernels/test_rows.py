"""The compiled row kernels against their NumPy specification, and SPEC 4 (a): a row's bits."""

import numpy as np
import pytest

from stillspace import kernels
from stillspace.kernels import compiled
from stillspace.kernels.measuring import Measured
from stillspace.kernels.storage import NORM_WORK
from tests.conftest import random_basis, random_in_h, unit_rows
from tests.kernels import reference


def hard_rows(rng: np.random.Generator, D: int, n: int) -> np.ndarray:
    XT = rng.standard_normal((D, n))
    XT[:, 0] = 0.0
    XT[:, 1] *= 1e-310
    XT[:, 2] *= 1e300
    XT[0, 3] = np.nan
    XT[-1, 4] = -np.inf
    XT[:, 5] = 1.7e308
    return XT


@pytest.mark.parametrize("norm_bound", [0.0, 0.5, 1e200])
@pytest.mark.parametrize(("D", "n"), [(2, 7), (13, 513)])
def test_scaling_equals_the_reference_to_the_last_bit(rng, D, n, norm_bound):
    XT = hard_rows(rng, D, n)
    want = reference.unit_columns(XT, norm_bound)
    assert np.array_equal(compiled.unit_columns(XT, norm_bound), want)


@pytest.mark.parametrize(("D", "r", "n"), [(3, 1, 5), (20, 2, 512), (41, 7, 100), (600, 5, 20)])
def test_residuals_equal_the_reference_to_the_last_bit(rng, D, r, n):
    XT, V, P = unit_rows(rng, n, D), random_basis(rng, D, r), random_in_h(rng, D, r)
    for got, want in zip(
        compiled.residual_to_basis(XT, V), reference.residual_to_basis(XT, V), strict=True
    ):
        assert np.array_equal(got, want)
    assert np.array_equal(compiled.residual_to_matrix(XT, P), reference.residual_to_matrix(XT, P))
    assert np.array_equal(compiled.column_norms(XT), reference.column_norms(XT))


def test_residuals_are_residuals(rng):
    XT, V, P = unit_rows(rng, 50, 8), random_basis(rng, 8, 3), random_in_h(rng, 8, 3)
    R, Y = kernels.residual_to_basis(XT, V)
    np.testing.assert_allclose(Y, V.T @ XT, atol=1e-15)
    np.testing.assert_allclose(R, XT - V @ V.T @ XT, atol=1e-15)
    np.testing.assert_allclose(kernels.residual_to_matrix(XT, P), XT - P @ XT, atol=1e-15)
    np.testing.assert_allclose(kernels.column_norms(XT), np.linalg.norm(XT, axis=0), rtol=1e-15)


def test_a_tiny_residual_is_right(rng):
    """Where √(1 − ‖y‖²) is nothing but rounding."""
    V = np.eye(6)[:, :2]
    XT = np.zeros((6, 1))
    XT[0], XT[4] = 1.0, 1e-14
    R, _ = kernels.residual_to_basis(XT, V)
    assert kernels.column_norms(R)[0] == pytest.approx(1e-14, rel=1e-12)


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_row_gives_the_same_bits_wherever_it_stands(rng, offset):
    D, r, n = 11, 3, 300
    XT, V, P = unit_rows(rng, n, D), random_basis(rng, D, r), random_in_h(rng, D, r)
    R, Y = kernels.residual_to_basis(XT, V)
    RP = kernels.residual_to_matrix(XT, P)
    for size in (1, 2, 7, 64, 255):
        part = np.ascontiguousarray(XT[:, offset : offset + size])
        got_R, got_Y = kernels.residual_to_basis(part, V)
        assert np.array_equal(got_R, R[:, offset : offset + size])
        assert np.array_equal(got_Y, Y[:, offset : offset + size])
        assert np.array_equal(kernels.residual_to_matrix(part, P), RP[:, offset : offset + size])


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_scaling_to_the_sphere_is_safe(rng, scale):
    x = rng.standard_normal((9, 4))
    got = kernels.unit_columns(x * scale, 0.0)
    np.testing.assert_allclose(got, x / np.linalg.norm(x, axis=0), rtol=1e-14)


def test_zero_and_non_finite_rows_become_zero(rng):
    got = kernels.unit_columns(hard_rows(rng, 5, 6), 0.0)
    assert not got[:, [0, 3, 4]].any()
    np.testing.assert_allclose(np.linalg.norm(got[:, [1, 2, 5]], axis=0), 1.0, rtol=1e-14)


def test_clipping_keeps_short_rows_and_shortens_long_ones():
    XT = np.array([[3.0, 0.3], [4.0, 0.4]])
    got = kernels.unit_columns(XT, 2.0)
    np.testing.assert_allclose(got, [[0.6, 0.15], [0.8, 0.2]], rtol=1e-15)


@pytest.mark.parametrize("D", [1, 8, 9])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_memory_for_measuring_also_holds_what_bounding_rows_needs(D, r):
    """Compiled code does not look where an array ends."""
    work = Measured(kernels.Measure(np.zeros((D, r)), None), 8).targets[-1]
    assert work.size >= max(NORM_WORK, D + 64 * (r + 1))
