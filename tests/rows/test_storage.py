"""Storage types: each is read in place, block by block, and gives what float64 gives."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.metrics import subspace_error
from stillspace.parts.queries import (
    Curvature,
    CurvatureMatrix,
    Glad,
    IrlsPower,
    Joint,
    ScoreMoment,
    SecondMoment,
)
from stillspace.rows import MemoryRows
from tests.conftest import random_basis
from tests.kernels import reference

ESTIMATORS = [RobustPCA, PrivateRobustPCA, PrivatePCA]
D, R = 23, 3


def genotypes(rng, n, D=D, rank=R):
    """Calls 0, 1, 2 with some structure."""
    scores = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, D))
    scores += 0.3 * rng.standard_normal((n, D))
    return (1 + np.sign(scores) * (np.abs(scores) > 0.7)).astype(np.int8)


def stored(X):
    """The same whole numbers in every storage type and layout."""
    wide = np.zeros((len(X), 2 * X.shape[1]))
    wide[:, ::2] = X
    return {
        "float64": X.astype(np.float64),
        "float32": X.astype(np.float32),
        "int8": X.astype(np.int8),
        "uint8": X.astype(np.uint8),
        "fortran": np.asfortranarray(X.astype(np.float64)),
        "strided": wide[:, ::2],
        "csr": sparse.csr_array(X.astype(np.float64)),
        "csr float32": sparse.csr_matrix(X.astype(np.float32)),
    }


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("missing", [None, 2, 0])
def test_every_storage_type_gives_the_same_bits(rng, scaled, missing):
    X = genotypes(rng, 301)
    center, scale = (rng.random(D), 0.5 + rng.random(D)) if scaled else (None, None)
    V = random_basis(rng, D, R)
    results = {
        name: MemoryRows.prepare(A, center=center, scale=scale, missing=missing)
        for name, A in stored(X).items()
    }
    want = results["float64"].sphered()
    sums = [results["float64"].add(q, V, None) for q in (Glad(D, R), SecondMoment(D))]
    for name, rows in results.items():
        assert np.array_equal(rows.sphered(), want)
        for query, total in zip((Glad(D, R), SecondMoment(D)), sums, strict=True):
            found = rows.add(query, V, None)
            if "csr" in name:  # the same terms in another order
                np.testing.assert_allclose(found, total, rtol=1e-12, atol=1e-12)
            else:
                assert np.array_equal(found, total)


@pytest.mark.parametrize("missing", [None, 1])
@pytest.mark.parametrize("columns", [D, 512, 1099])
def test_scaled_rows_equal_the_reference_to_the_last_bit(rng, columns, missing):
    X = np.rint(3 * rng.standard_normal((77, columns)))
    center, scale = rng.random(columns), 0.5 + rng.random(columns)
    rows = MemoryRows.prepare(X, center=center, scale=scale, missing=missing)
    code = np.nan if missing is None else missing
    want = reference.scaled_rows(X, center, 1.0 / scale, rows._factors, code)
    assert np.array_equal(rows.sphered(), want.T)
    np.testing.assert_allclose(np.linalg.norm(want, axis=0), 1.0, rtol=1e-14)
    plain = (X - center) / scale
    plain[code == X] = 0.0
    plain /= np.linalg.norm(plain, axis=1)[:, None]
    np.testing.assert_allclose(rows.sphered(), plain, atol=1e-15)


def test_a_missing_cell_sits_at_the_centre(rng):
    X, center = genotypes(rng, 40).astype(float), rng.random(D)
    filled, coded = X.copy(), X.copy()
    filled[:, 4], coded[:, 4] = center[4], 9
    want = MemoryRows.prepare(filled, center=center).sphered()
    assert np.array_equal(MemoryRows.prepare(coded, center=center, missing=9).sphered(), want)


def test_selected_rows_are_the_same_rows(rng):
    X = genotypes(rng, 200)
    chosen = rng.integers(0, 200, 57)
    for A in stored(X).values():
        rows, picked = MemoryRows.prepare(A), MemoryRows.prepare(X[chosen])
        V = random_basis(rng, D, R)
        got, want = rows.add(Glad(D, R), V, chosen), picked.add(Glad(D, R), V, None)
        assert np.array_equal(got, want)
        assert not rows.add(Glad(D, R), V, chosen[:0]).any()


@pytest.mark.parametrize("factor", [1e-300, 1e-200, 1.0, 1e200, 1e307])
def test_long_and_short_rows(rng, factor):
    X = rng.random((30, 4))
    got = MemoryRows.prepare(X * factor).sphered()
    np.testing.assert_allclose(got, X / np.linalg.norm(X, axis=1)[:, None], rtol=1e-13)


def test_the_ends_of_the_range_stay_in_the_ball_and_bad_rows_are_zero():
    X = np.ones((8, 5))
    X[0], X[1, 2], X[2, 0], X[3], X[4] = 0.0, np.nan, np.inf, 1.7e308, 5e-324
    X[5] = 1e-310
    got = MemoryRows.prepare(X).sphered()
    assert not got[:3].any()
    norms = np.linalg.norm(got, axis=1)
    assert (norms <= 1 + 1e-15).all()
    np.testing.assert_allclose(norms[[3, 6, 7]], 1.0, rtol=1e-11)
    columns = MemoryRows.prepare(np.asfortranarray(X)).sphered()
    assert np.array_equal(columns, got)
    clipped = MemoryRows.prepare(X, norm_bound=10.0).sphered()
    np.testing.assert_allclose(clipped[6], 0.1, rtol=1e-15)
    assert not clipped[:3].any()


def test_overflow_in_centring_makes_a_zero_row():
    X, center = np.full((3, 4), 1e308), np.full(4, -1e308)
    X[1:] = 1.0
    got = MemoryRows.prepare(X, center=center).sphered()
    assert not got[0].any()
    assert got[1].any()


def test_duplicates_in_sparse_rows_are_added():
    parts = ([1.0, 2.0, 5.0], [0, 0, 2], [0, 2, 3])
    X = sparse.csr_array(parts, shape=(2, 3))
    got = MemoryRows.prepare(X).sphered()
    np.testing.assert_allclose(got, [[1, 0, 0], [0, 0, 1]])
    assert len(X.data) == 3  # the caller's matrix is as it was


@pytest.mark.parametrize("kind", ["float32", "int8", "csr"])
@pytest.mark.parametrize("query", [Glad(500, 3), IrlsPower(500, 3)], ids=lambda q: q.name)
def test_memory_beyond_x_is_a_few_blocks_and_a_number_a_row(rng, kind, query):
    n, wide = 20_000, 500
    X = (rng.random((n, wide)) < 0.05).astype(np.int8)
    A = {"float32": X.astype(np.float32), "int8": X, "csr": sparse.csr_array(X)}[kind]
    V = random_basis(rng, wide, 3)
    MemoryRows.prepare(A[:100]).add(query, V, None)  # compiled
    tracemalloc.start()
    try:
        rows = MemoryRows.prepare(A, center=np.full(wide, 0.05))
        rows.add(query, V, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * n + 6e6  # a float64 copy would be 80 MB


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("kind", ["float32", "int8", "uint8", "csr", "csr float32"])
def test_estimators_take_every_storage_type(rng, make, kind):
    """Whole numbers are exact in every type, so components and scores are those of float64."""
    X = genotypes(rng, 400)
    X[rng.random(X.shape) < 0.02] = 9
    options = {"center": np.full(D, 1.0), "scale": np.full(D, 0.7), "missing_code": 9}
    if make is not RobustPCA:
        options["random_state"] = 3
    A = stored(X)
    with pytest.warns() if make is not RobustPCA else _nothing():
        want = make(R, **options).fit(A["float64"])
        got = make(R, **options).fit(A[kind])
    assert np.array_equal(got.components_, want.components_)
    scores = want.transform(A["float64"])
    centred = (X - 1.0) / 0.7
    centred[X == 9] = 0.0
    np.testing.assert_allclose(scores, centred @ want.components_.T, atol=1e-12)
    np.testing.assert_allclose(got.transform(A[kind]), scores, atol=1e-6 if "32" in kind else 1e-12)
    if make is RobustPCA:
        assert got.score(A[kind]) == pytest.approx(want.score(A["float64"]), rel=1e-6)


def test_float32_data_reach_what_they_can(rng):
    """Components from float32 cells, float64 arithmetic: d below 1e-6 of those from float64."""
    L = random_basis(rng, D, R)
    X = rng.standard_normal((900, R)) @ L.T
    X[::2] = rng.standard_normal((450, D))
    exact, single = (RobustPCA(R).fit(X.astype(t)).components_ for t in (np.float64, np.float32))
    assert subspace_error(exact, L.T) < 1e-24
    assert subspace_error(single, exact) < 1e-12


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("code", ["9", np.nan, [9]])
def test_bad_missing_codes(make, code):
    with pytest.raises(ValueError, match="missing_code"):
        make(2, missing_code=code).fit(np.ones((9, 4), dtype=np.int8))


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.uint8])
@pytest.mark.parametrize("columns", [3, 4, 21, 515, 1030])
def test_a_zero_row_changes_no_neighbour(rng, dtype, columns):
    """Groups with a zero row are converted in another way: with the same bits."""
    X = rng.integers(0, 100, (37, columns)).astype(dtype)
    center = rng.random(columns)
    for options in ({}, {"center": center, "missing": 7}):
        want = MemoryRows.prepare(X, **options).sphered()
        A = X.astype(np.float64)
        A[[0, 9, 20]] = np.nan
        got = MemoryRows.prepare(A, **options).sphered()
        keep = np.setdiff1d(np.arange(37), [0, 9, 20])
        assert np.array_equal(got[keep], want[keep])
        assert not got[[0, 9, 20]].any()


@pytest.mark.parametrize("r", [1, 2, 5, 9])
@pytest.mark.parametrize("scale", [None, 3.0])
def test_sparse_terms_have_the_bits_of_dense_ones(rng, r, scale):
    """Cells that are not stored add exact zeros; near, zero and non-finite rows among them."""
    columns = 21
    V = random_basis(rng, columns, r)
    X = rng.standard_normal((37, columns)) * (rng.random((37, columns)) < 0.3)
    X[3], X[10, 4] = 0.0, np.nan
    X[5:9] = (V @ rng.standard_normal((r, 4))).T  # on the subspace: their residuals are computed
    stretch = None if scale is None else np.linspace(1.0, scale, columns)
    dense, thin = (MemoryRows.prepare(A, scale=stretch) for A in (X, sparse.csr_array(X)))
    newton = (Glad(columns, r), Curvature(columns, r, 0.3), CurvatureMatrix(columns, r, 0.3))
    for query in (Glad(columns, r), IrlsPower(columns, r), ScoreMoment(columns, r), Joint(newton)):
        for i in (0, 3, 6, 8, 10, 30):
            chosen = np.array([i])
            assert np.array_equal(dense.add(query, V, chosen), thin.add(query, V, chosen))
        want = dense.add(query, V, None)
        np.testing.assert_allclose(thin.add(query, V, None), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("center", [None, 0.3])
def test_sparse_sums_are_made_by_jobs_and_blocks_of_their_own(rng, center):
    """Any number of threads, chosen rows, several blocks and jobs; rows that changed places."""
    from threadpoolctl import threadpool_limits

    n, columns, r = 9001, 300, 3
    X = sparse.random(n, columns, 0.02, format="csr", random_state=1, dtype=np.float32)
    V = random_basis(rng, columns, r)
    middle = None if center is None else np.full(columns, center)
    rows = MemoryRows.prepare(X, center=middle)
    want = rows.add(Glad(columns, r), V, None)
    with threadpool_limits(2):
        assert np.array_equal(rows.add(Glad(columns, r), V, None), want)
    assert np.array_equal(rows.add(Glad(columns, r), V, np.arange(n)), want)
    dense = MemoryRows.prepare(X.toarray(), center=middle).add(Glad(columns, r), V, None)
    np.testing.assert_allclose(want, dense, rtol=0, atol=1e-10)
    swapped = np.arange(n)
    swapped[[3, 700]] = swapped[[700, 3]]  # inside one job: the terms are the same
    again = MemoryRows.prepare(X[swapped], center=middle).add(Glad(columns, r), V, None)
    np.testing.assert_allclose(again, want, rtol=0, atol=1e-11)


def test_a_column_that_stands_twice_makes_no_row_longer_than_its_bound(rng):
    """SciPy's flag may be stale: the sum must not hold a row longer than the one measured."""
    X = sparse.csr_matrix(np.eye(6)[[0, 1, 2]] + np.eye(6)[[1, 2, 3]])
    assert X.has_canonical_format  # remembered from now on
    X.indices[2:4] = 1
    rows, V = MemoryRows.prepare(X), np.eye(6)[:, :2]
    found = [rows.add(Glad(6, 2), V, np.array([i])) for i in range(3)]
    assert rows.lengths()[1] == 0.0
    assert not found[1].any()
    assert all(np.linalg.norm(term) <= 1 + 1e-12 for term in found)
