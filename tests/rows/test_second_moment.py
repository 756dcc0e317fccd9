"""The compiled second moment, norms of eight rows at a time, and groups of jobs."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from stillspace.kernels.storage import NORM_WORK, inverse_norms
from stillspace.kernels.tiles import SQUARE_ROWS
from stillspace.parts.queries import Glad, SecondMoment
from stillspace.rows import MemoryRows, sums
from stillspace.rows.sums import LONGEST_BLOCK, MOST_BLOCKS, STANDARD, Layout

NOWHERE = np.empty((0, 0))


def exact_moment(X):
    """Σ xxᵀ in fractions."""
    rows = [[Fraction(float(x)) for x in row] for row in X]
    D = X.shape[1]
    return [[sum(row[i] * row[j] for row in rows) for j in range(D)] for i in range(D)]


@pytest.mark.parametrize(("n", "D"), [(1, 1), (9, 3), (130, 8), (300, 17)])
def test_the_second_moment_is_that_of_exact_arithmetic(rng, n, D):
    rows = MemoryRows.prepare(rng.standard_normal((n, D)))
    found = rows.add(SecondMoment(D), NOWHERE, None)
    want = exact_moment(rows.sphered())
    unit = 2.0**-53
    for i in range(D):
        for j in range(D):
            assert abs(Fraction(float(found[i, j])) - want[i][j]) <= (STANDARD.chain + 2) * n * unit
    assert np.array_equal(found, found.T)


@pytest.mark.parametrize("D", [5, 24, 70])
def test_dense_sparse_and_selected_rows_have_the_same_moment(rng, D):
    X = np.where(rng.random((900, D)) < 0.3, rng.standard_normal((900, D)), 0.0)
    chosen = np.sort(rng.choice(900, 200, replace=False))
    want = MemoryRows.prepare(X).sphered(chosen)
    for kind in (X, np.asfortranarray(X), sparse.csr_array(X)):
        found = MemoryRows.prepare(kind).add(SecondMoment(D), NOWHERE, chosen)
        np.testing.assert_allclose(found, want.T @ want, atol=1e-12)


def test_a_subclass_adds_its_own_terms(rng):
    class Doubled(SecondMoment):
        def add_block(self, XT, point, out):
            out += 2.0 * XT @ XT.T

    rows = MemoryRows.prepare(rng.standard_normal((50, 6)))
    once = rows.add(SecondMoment(6), NOWHERE, None)
    np.testing.assert_allclose(rows.add(Doubled(6), NOWHERE, None), 2.0 * once, atol=1e-13)


def test_chains_of_the_second_moment_are_no_longer_than_what_is_charged():
    for D in (1, 2, 20, 64, 65, 256, 2000, 10**5):
        layout = Layout.of(D, D * D)
        per_block = -(-layout.block // SQUARE_ROWS)
        assert layout.block <= LONGEST_BLOCK
        assert layout.job // layout.block <= MOST_BLOCKS
        chain = 1 + SQUARE_ROWS + layout.job // layout.block * per_block
        assert chain <= STANDARD.chain


@pytest.mark.parametrize("selected", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
def test_groups_of_jobs_change_no_bit(rng, monkeypatch, kind, selected):
    n, D, r = 9000, 300, 2
    X = np.where(rng.random((n, D)) < 0.1, rng.standard_normal((n, D)), 0.0)
    rows = MemoryRows.prepare(
        sparse.csr_array(X) if kind == "sparse" else X,
        pairs=rng.permutation(n).reshape(-1, 2) if kind == "pairs" else None,
    )
    V = np.linalg.qr(rng.standard_normal((D, r)))[0]
    chosen = np.sort(rng.choice(rows.n_rows, rows.n_rows // 8, replace=False))
    found = {}
    for jobs in (1, 2, 1000):
        monkeypatch.setattr(sums, "GROUP_JOBS", jobs)
        monkeypatch.setattr(sums, "MOST_GROUPS", 1)
        for query, point in ((Glad(D, r), V), (SecondMoment(D), NOWHERE)):
            total = rows.add(query, point, chosen if selected else None)
            assert np.array_equal(found.setdefault(query.name, total), total)


def test_eight_norms_at_once_are_those_of_rows_alone(rng):
    X = rng.standard_normal((61, 16))
    X[3] = 0.0
    X[12, 5], X[13, 2] = np.inf, np.nan
    X[20] *= 1e200
    X[29] *= 1e-200
    X[30] *= 1e-160  # its squares are subnormal
    X[37] *= 1e150
    for bound in (0.0, 3.0):
        together, alone, work = np.empty(61), np.empty(61), np.empty(NORM_WORK)
        inverse_norms(X.reshape(-1), 16, 61, bound, together, work)
        for i, row in enumerate(X):
            inverse_norms(row.copy(), 16, 1, bound, alone[i : i + 1], work)
        assert together.tobytes() == alone.tobytes()
        finite = np.isfinite(X).all(axis=1) & (np.abs(X).max(axis=1) > 0.0)
        want = 1.0 / np.maximum([np.hypot.reduce(x) for x in X[finite]], bound)
        np.testing.assert_allclose(together[finite], want, rtol=1e-14)
        assert not together[[12, 13]].any()
