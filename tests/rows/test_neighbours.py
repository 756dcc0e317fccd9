"""No row sees its neighbours: the bits of a term are the same with any other rows beside it.

All other rows lie beyond the cut, so that they add exact zeros, near or far, short or empty as they
may be. What is left of the sum is one term, which may also be asked for by itself.
"""

import numpy as np
import pytest
from scipy import sparse

from stillspace.estimators._sparse import sparse_rows
from stillspace.parts.queries import Curvature, CurvatureMatrix, Glad, Joint
from stillspace.rows import Clip, MemoryRows, Sphere
from tests.conftest import random_basis

CUT, CAP = 0.3, 0.2
STORED = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": sparse.csr_matrix}


def table(rng, V, n, squared):
    """Rows far from V or zero, and one row at this squared distance; its number."""
    D, r = V.shape
    X = rng.standard_normal((n, D))
    X -= (X @ V) @ V.T
    X += 0.1 * rng.standard_normal((n, r)) @ V.T
    X[rng.random(n) < 0.2] = 0.0
    X[rng.random((n, D)) < 0.1] = 0.0  # a sparse row need not store every cell
    at = int(rng.integers(n))
    across, along = rng.standard_normal(D), V @ rng.standard_normal(r)
    across -= V @ (V.T @ across)
    X[at] = np.sqrt(squared) * across / np.linalg.norm(across)
    X[at] += np.sqrt(1.0 - squared) * along / np.linalg.norm(along)
    return X, at


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("bound", [Sphere(), Clip(3.0)], ids=["sphere", "clip"])
def test_a_term_has_the_bits_of_its_row_alone(rng, stored, bound):
    for D, r, n in ((5, 1, 17), (13, 3, 70), (40, 4, 600)):
        V = random_basis(rng, D, r)
        glad = Glad(D, r, cut=CUT)
        newton = Joint((glad, Curvature(D, r, CAP, CUT), CurvatureMatrix(D, r, CAP, CUT)))
        for squared in (1e-12, 1e-6, 2.0**-16, 1e-3, 0.05):
            X, at = table(rng, V, n, squared)
            rows = MemoryRows.of(STORED[stored](X)).through(bound)
            others = (rows.distances(V) < CUT) & (np.arange(n) != at)
            rows = rows.only(~others)
            for query in (glad, newton):
                alone = rows.add(query, V, np.array([at]))
                assert np.linalg.norm(alone) > 0.0
                assert np.array_equal(rows.add(query, V, None), alone)


def test_near_sparse_rows_do_not_mix(rng):
    """Eight near rows in a group have one memory for their residuals, and each leaves its own."""
    D, r, n = 24, 2, 16
    V = np.zeros((D, r))
    V[:12, 0] = V[12:, 1] = 1.0 / np.sqrt(12.0)
    X = np.zeros((n, D))
    for i in range(n):  # rows of different columns, all near the subspace
        X[i] = V[:, i % r] * (1.0 + 1e-6 * rng.standard_normal(D))
    X[:, ::3] *= 1.0 + 1e-6
    for query in (Glad(D, r), Glad(D, r, cut=CUT)):
        rows = MemoryRows.of(sparse.csr_matrix(X)).through(Sphere())
        dense = MemoryRows.of(X).through(Sphere())
        for i in range(n):
            one = np.array([i])
            assert np.array_equal(rows.add(query, V, one), dense.add(query, V, one))
        np.testing.assert_allclose(
            rows.add(query, V, None), dense.add(query, V, None), rtol=0.0, atol=1e-10
        )


@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_an_unsorted_row_changes_no_cell_of_another_row(kind):
    """Cells that stand several times are added in their own order, however other rows are stored.

    The values cancel, so that another order of the additions gives another cell.
    """
    m, k, D = 20, 26, 8
    draw = np.random.default_rng(3)
    for _ in range(40):
        columns = np.sort(draw.integers(0, 6, k))
        values = draw.choice([2.0**60, -(2.0**60), 1.0, 3.0], k)
        in_order = [float(sum(values[columns == d].tolist())) for d in range(D)]
        for last in ([3, 5], [5, 3]):
            indices = np.concatenate([np.tile(columns, m), last])
            data = np.concatenate([np.tile(values, m), [1.0, 1.0]])
            limits = np.concatenate([np.arange(m + 1) * k, [m * k + 2]])
            X = sparse.csr_array((data, indices, limits), shape=(m + 1, D))
            if kind == "coo":
                places = np.repeat(np.arange(m + 1), np.diff(limits)), indices
                X = sparse.coo_array((data, places), shape=X.shape)
            found = MemoryRows.of(sparse_rows(X)).sphered()
            assert found[:m].tolist() == [in_order] * m
            assert found[m].tolist() == [0, 0, 0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("columns", [1, 7, 8, 20, 33])
@pytest.mark.parametrize("bound", [Sphere(), Clip(2.0)], ids=str)
def test_strange_neighbours_change_no_bit_of_a_length(rng, columns, bound):
    """Lengths are measured eight rows at a time, unless one of the eight is strange."""
    X = rng.standard_normal((400, columns)) * np.exp(3.0 * rng.standard_normal((400, 1)))
    Y = X.copy()
    Y[3::8], Y[5::32], Y[6::64] = 1e200, 0.0, np.nan
    usual = (Y == X).all(axis=1)
    before, after = (MemoryRows.of(A).through(bound).sphered() for A in (X, Y))
    assert np.array_equal(before[usual], after[usual])
    for i in range(0, 40, 3):
        alone = MemoryRows.of(X[i : i + 1]).through(bound).sphered()
        assert np.array_equal(alone[0], before[i])
