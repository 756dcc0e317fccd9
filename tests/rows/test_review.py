"""Cases that a hostile reading of the row code found."""

import numpy as np
import pytest
from scipy import sparse

from stillspace import PrivateRobustPCA
from stillspace.kernels.choice import draw_binomial
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import Glad
from stillspace.recipes import Facts, make_plan
from stillspace.rows import STANDARD, MemoryRows
from stillspace.rows.sums import Layout
from stillspace.run import run
from stillspace.run.executors import compiled_loop


def test_the_longest_chain_of_additions_is_charged_for():
    """Rows that would all be rounded the same way in one running sum over a whole job."""
    D = 9
    job = Layout.of(D, 2 * D).job
    n = 2 * job
    V = np.eye(D)[:, :2]
    XT = np.zeros((D, n))
    XT[2], XT[0] = 0.5, 0.75
    running = 0.75 * ((np.arange(n) % job)[::8] + 8)
    size = np.floor(np.log2(running))
    XT[0, ::8] += np.where(size >= 11, 2.0 ** (size - 53) + 2.0 ** (size - 60), 0.0)
    got = MemoryRows(XT).add(Glad(D, 2), V, None)[2, 0]
    exact = np.longdouble(0.75) * n + np.sum((XT[0] - 0.75).astype(np.longdouble))
    mu = STANDARD.chain * 2.0**-53
    assert abs(float(np.longdouble(got) - exact)) <= n * mu / (1 - mu)


def test_a_secret_number_of_rows_does_not_choose_the_executor():
    D, limit = 16, 2**16
    facts = Facts(60_000, D, 2, 1.0, 1e-6, "add-or-remove-one")
    plan = make_plan("dp-ggd", facts, n_iter=1, start=np.eye(D)[:2])
    X = np.random.default_rng(0).standard_normal((limit + 1, D))
    X[-2:] = 0.0  # zero rows change no sum
    found = [
        run(plan, MemoryRows.prepare(X[:n]), seeded_generator(3)).V
        for n in (limit - 1, limit, limit + 1)
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[1], found[2])
    state = plan.geometry.enter(np.eye(D)[:, :2])
    kinds = {
        type(compiled_loop(plan, MemoryRows.prepare(X[:n]), state)) for n in (5, limit, limit + 1)
    }
    assert len(kinds) == 1


@pytest.mark.parametrize("column", [3_000_000, 4, -1])
def test_a_sparse_row_with_columns_outside_the_table_counts_as_a_zero_row(column):
    X = np.random.default_rng(1).standard_normal((50, 4))
    broken = sparse.csr_matrix(X)
    broken.indices[7] = column  # the fourth cell of row 1
    want = X.copy()
    want[1] = 0.0
    got, zeroed = (MemoryRows.prepare(A).sphered() for A in (broken, want))
    assert np.array_equal(got, zeroed)
    with pytest.raises(ValueError, match="must lie inside of the shape"):
        PrivateRobustPCA(2, center=None).fit(broken)


@pytest.mark.parametrize(("n", "rate"), [(10, 1e-300), (1, 1e-80), (10**6, 1e-90), (0, 1e-5)])
def test_tiny_rates_draw_nothing(n, rate):
    assert not draw_binomial(n, rate, 100, seeded_generator(0)).any()


def test_a_missing_code_is_compared_as_the_cells_hold_it():
    X = np.random.default_rng(2).standard_normal((40, 5)).astype(np.float32)
    X[3, 2] = 0.1  # not a float32
    want = X.astype(np.float64)
    want[3, 2] = 0.0
    got = MemoryRows.prepare(X, missing=0.1).sphered()
    np.testing.assert_allclose(got, MemoryRows.prepare(want).sphered(), rtol=1e-12, atol=1e-15)
