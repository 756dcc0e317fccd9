import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from stillspace.metrics import chordal_gap, principal_angles, subspace_error

EPS = np.finfo(np.float64).eps
HADAMARD = scipy.linalg.hadamard(8).astype(np.float64)


def exact_angles(A, B, digits=80):
    """Angles of the doubles as given, largest first, by arccos: 80 digits leave 40 right."""
    with mpmath.workdps(digits):
        Q_A, Q_B = (mpmath.qr(mpmath.matrix(M.T.tolist()), mode="skinny")[0] for M in (A, B))
        cosines = mpmath.svd_r(Q_A.T * Q_B, compute_uv=False)
        return sorted((mpmath.acos(min(c, mpmath.mpf(1))) for c in cosines), reverse=True)


def relative_error(value, exact):
    return float(abs(mpmath.mpf(float(value)) / exact - 1))


def haar(rng, D):
    return np.linalg.qr(rng.standard_normal((D, D)))[0]


# Angles known exactly: rows of ±1, rotated by dyadic tangents, every entry exact in a double.


@pytest.mark.parametrize("bits", [1, 10, 26, 27, 40, 48, 50, 51])
def test_tiny_angles_have_all_digits_right(bits):
    t = 2.0**-bits
    A = HADAMARD[:2]
    B = HADAMARD[:2] + np.array([[t], [t / 2]]) * HADAMARD[[4, 7]]
    with mpmath.workdps(50):
        large, small = mpmath.atan(mpmath.mpf(t)), mpmath.atan(mpmath.mpf(t) / 2)
        angles = principal_angles(A, B)
        assert relative_error(angles[0], large) <= 8 * EPS
        assert relative_error(angles[1], small) <= 16 * EPS
        assert relative_error(subspace_error(A, B), large**2 + small**2) <= 16 * EPS
        assert relative_error(chordal_gap(A, B), 1 - mpmath.cos(large)) <= 16 * EPS


@pytest.mark.parametrize("bits", [1, 20, 30, 50])
def test_angles_near_a_right_angle(bits):
    t = 2.0**-bits
    A = HADAMARD[:2]
    B = np.stack([t * HADAMARD[0] + HADAMARD[4], t / 2 * HADAMARD[1] + HADAMARD[7]])
    with mpmath.workdps(50):
        exact = [mpmath.pi / 2 - mpmath.atan(mpmath.mpf(t) / k) for k in (2, 1)]
        assert max(map(relative_error, principal_angles(A, B), exact)) <= 4 * EPS
        assert relative_error(chordal_gap(A, B), 1 - mpmath.cos(exact[0])) <= 4 * EPS


def test_tiny_and_right_angles_in_one_pair():
    A = HADAMARD[:3]
    B = np.stack([HADAMARD[0] + 2.0**-50 * HADAMARD[3], HADAMARD[1] + HADAMARD[4], HADAMARD[7]])
    expected = [np.pi / 2, np.pi / 4, 2.0**-50]
    np.testing.assert_allclose(principal_angles(A, B), expected, rtol=0, atol=8 * EPS)


def test_the_span_counts_and_not_the_basis():
    """An integer change of basis keeps the doubles exact, hence the tiny angles too."""
    A = np.array([[1.0, 1.0], [0.0, 1.0]]) @ HADAMARD[:2]
    B = HADAMARD[:2] + 2.0**-48 * np.array([[1.0], [0.5]]) * HADAMARD[[4, 7]]
    mixed = np.array([[1.0, 0.0], [-1.0, 1.0]]) @ B
    expected = [2.0**-48, 2.0**-49]
    np.testing.assert_allclose(principal_angles(A, mixed), expected, rtol=32 * EPS)


@pytest.mark.parametrize(("first", "second"), [(1e300, 1e-300), (5e-324, 1.0), (1e-310, 1e308)])
def test_rows_of_any_length(first, second):
    A = np.array([[first, 0.0, 0.0], [0.0, second, 0.0]])
    B = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1e-14]])
    np.testing.assert_allclose(principal_angles(A, B), [1e-14, 0.0], rtol=4 * EPS, atol=1e-31)


# Random bases against 80 digits: the promise of the docstring.


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    r=st.integers(1, 3),
    extra=st.integers(0, 4),
    distance=st.sampled_from([1e-16, 1e-14, 1e-11, 1e-8, 1e-4, 0.3, 3.0]),
    orthonormal=st.booleans(),
)
def test_error_is_relative_to_the_largest_angle(seed, r, extra, distance, orthonormal):
    rng = np.random.default_rng(seed)
    D = r + 1 + extra
    A = rng.standard_normal((r, D))
    B = rng.standard_normal((r, r)) @ A + distance * rng.standard_normal((r, D))
    if orthonormal:
        A, B = (np.linalg.qr(M.T)[0].T for M in (A, B))
    # Rows of like length, as in the docstring; scaling by 2^k is exact and not needed here.
    condition = max(np.linalg.cond(M / np.linalg.norm(M, axis=1, keepdims=True)) for M in (A, B))
    exact = exact_angles(A, B)
    angles = principal_angles(A, B)
    assert np.all(np.diff(angles) <= 0)
    error = max(abs(mpmath.mpf(float(a)) - e) for a, e in zip(angles, exact, strict=True))
    assert error <= 16 * condition * EPS * exact[0] + 1e-29


def test_an_ill_conditioned_basis_keeps_the_promise():
    rng = np.random.default_rng(5)
    base = rng.standard_normal((2, 6))
    A = np.stack([base[0], base[0] + 1e-6 * base[1]])
    B = A + 1e-14 * rng.standard_normal((2, 6))
    exact = exact_angles(A, B)
    error = max(map(abs, np.array(principal_angles(A, B)) - np.array(exact)))
    assert error <= 16 * np.linalg.cond(A) * EPS * exact[0]


@pytest.mark.parametrize("seed", range(5))
def test_moderate_angles_agree_with_arccos(seed):
    rng = np.random.default_rng(seed)
    A, B = haar(rng, 30)[:7], haar(rng, 30)[:7]
    cosines = np.linalg.svd(A @ B.T, compute_uv=False)
    expected = np.arccos(cosines)[::-1]
    assert expected[-1] > 0.05  # where arccos itself is good to 1e-13
    np.testing.assert_allclose(principal_angles(A, B), expected, rtol=1e-12)
    np.testing.assert_allclose(subspace_error(A, B), np.sum(expected**2), rtol=1e-12)
    np.testing.assert_allclose(chordal_gap(A, B), 1 - cosines[-1], rtol=1e-12)


def test_equal_subspaces_and_orthogonal_subspaces():
    Q = haar(np.random.default_rng(1), 9)
    assert principal_angles(Q[:4], Q[:4])[0] <= 1e-30
    assert subspace_error(Q[:4], Q[:4]) <= 1e-60
    assert principal_angles(Q, Q[::-1])[0] <= 1e-15  # r = D: the whole space
    np.testing.assert_allclose(principal_angles(Q[:4], Q[5:]), np.pi / 2, rtol=4 * EPS)
    np.testing.assert_allclose(chordal_gap(Q[:4], Q[5:]), 1.0, rtol=4 * EPS)


def test_symmetric_and_invariant_under_rotation():
    rng = np.random.default_rng(2)
    A, B = haar(rng, 12)[:3], haar(rng, 12)[:3]
    U = haar(rng, 12)
    np.testing.assert_allclose(principal_angles(B, A), principal_angles(A, B), rtol=1e-13)
    np.testing.assert_allclose(principal_angles(A @ U, B @ U), principal_angles(A, B), rtol=1e-12)


def test_inputs_are_not_changed_and_integers_and_lists_pass():
    A = np.array([[3.0, 4.0, 0.0]])
    B = np.array([[3.0, 0.0, 0.0]])
    copies = A.copy(), B.copy()
    angle = principal_angles(A, B)
    np.testing.assert_array_equal(A, copies[0])
    np.testing.assert_array_equal(B, copies[1])
    np.testing.assert_allclose(angle, [np.arctan2(4, 3)], rtol=4 * EPS)
    np.testing.assert_array_equal(principal_angles([[3, 4, 0]], A.astype(np.float32)), [0.0])
    assert type(subspace_error(A, B)) is float
    assert type(chordal_gap(A, B)) is float


GOOD = np.eye(2, 4)


@pytest.mark.parametrize("function", [principal_angles, subspace_error, chordal_gap])
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.ones(4), ValueError, r"has 1 dimension\(s\), not 2: .*reshape\(1, -1\)"),
        (np.eye(4, 2), ValueError, r"shape \(4, 2\), more rows than columns: .*pass [AB]\.T\.$"),
        (np.empty((0, 4)), ValueError, "at least one basis vector"),
        (GOOD * np.nan, ValueError, "NaN or infinity"),
        (np.where(GOOD == 1, np.inf, 0), ValueError, "NaN or infinity"),
        (np.eye(2, 5), ValueError, "[45] columns and B has [45]: .*ambient dimension"),
        (np.eye(3, 4), ValueError, "[23] rows and B has [23]: .*as many basis vectors"),
        (np.ones((2, 4)), ValueError, "2 rows but rank 1: .*linearly independent"),
        (np.zeros((2, 4)), ValueError, "2 rows but rank 0"),
        (GOOD * 1j, TypeError, "is complex"),
        (np.full((2, 4), "x"), TypeError, "does not convert to float64"),
    ],
)
def test_bad_bases_are_refused_in_one_sentence(function, bad, error, message):
    for pair, name in (((bad, GOOD), "A"), ((GOOD, bad), "B")):
        with pytest.raises(error, match=message) as caught:
            function(*pair)
        text = str(caught.value)
        assert text.startswith((f"{name} ", "A has "))
        assert text.endswith(".")
        assert "\n" not in text
