"""RobustPCA where rows have far more columns than there are rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA

from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.estimators import _sampling
from stillspace.metrics import subspace_error
from stillspace.rows import RowTable
from stillspace.rows.sources.files import OpenFile
from stillspace.search import row_space
from stillspace.search.row_space import Cells

pytestmark = pytest.mark.filterwarnings("ignore:The starts disagree")


@pytest.fixture(scope="module")
def genotypes():
    """Calls 0, 1, 2 of 250 people of four populations, at 2000 places."""
    rng = np.random.default_rng(0)
    common = 0.1 + 0.8 * rng.beta(1, 2, 2000)
    shares = np.clip(common + 0.12 * rng.standard_normal((4, 2000)), 0.02, 0.98)
    return rng.binomial(2, shares[rng.integers(4, size=250)]).astype(np.int8)


@pytest.fixture(scope="module")
def clean(genotypes):
    return RobustPCA(3).fit(genotypes)


def test_clean_rows_keep_the_variance_of_pca(genotypes, clean):
    fit = clean
    pca = PCA(3, svd_solver="randomized", random_state=0).fit(genotypes.astype(float))
    ratio = fit.explained_variance_.sum() / pca.explained_variance_.sum()
    assert abs(ratio - 1.0) < 0.01
    assert (np.diff(fit.explained_variance_) <= 0).all()
    assert subspace_error(fit.components_, pca.components_) < 0.05
    assert fit.converged_
    assert {start.components.shape for start in fit.starts_} == {(3, 2000)}
    np.testing.assert_allclose(fit.components_ @ fit.components_.T, np.eye(3), atol=1e-12)


def test_a_cluster_in_a_wide_table_is_left_out(genotypes, clean):
    bad = genotypes.copy()
    bad[:50] = 2 * (np.arange(2000) % 2)
    fit = RobustPCA(3).fit(bad)
    assert fit.clumps_[0].share == pytest.approx(0.2, abs=0.01)
    assert subspace_error(fit.components_, clean.components_) < 0.3
    assert subspace_error(PCA(3).fit(bad.astype(float)).components_, clean.components_) > 1.0


def test_sparse_rows_give_the_fit_of_dense_ones(genotypes):
    some = np.where(np.random.default_rng(1).random(genotypes.shape) < 0.1, genotypes, 0)
    dense, thin = (
        RobustPCA(2, center=None).fit(form(some.astype(float)))
        for form in (np.asarray, sparse.csr_matrix)
    )
    assert subspace_error(dense.components_, thin.components_) < 1e-12


def test_affine_subspaces_without_noise_in_wide_rows():
    data = make_haystack(120, 400, 2, inlier_ratio=0.7, center_shift=5.0, random_state=0)
    fit = RobustPCA(2).fit(data.X)
    assert subspace_error(fit.components_, data.components) < 1e-16


def test_more_rows_than_a_square_matrix_may_have(genotypes, monkeypatch):
    """Then only a sample is searched in the space of its rows, and passes over all rows follow."""
    whole = RobustPCA(3).fit(genotypes)
    monkeypatch.setattr(_sampling, "LARGEST_SQUARE", 200)
    monkeypatch.setattr(_sampling, "CENTER_ROWS", 150)
    monkeypatch.setattr(_sampling, "CENTER_CELLS", 1)
    part = RobustPCA(3).fit(genotypes)
    assert part.n_iter_ > whole.n_iter_
    assert subspace_error(part.components_, whole.components_) < 0.1


def test_columns_of_a_wide_file_are_read_once(tmp_path, monkeypatch):
    """Products of rows take the file block of columns by block, and each cell once."""
    X = np.random.default_rng(0).standard_normal((300, 9000)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    table, size = RowTable.of(tmp_path / "X.npy"), []
    real = OpenFile.read_into

    def counted(file, offset, buffer):
        size.append(len(buffer))
        real(file, offset, buffer)

    monkeypatch.setattr(OpenFile, "read_into", counted)
    monkeypatch.setattr(row_space, "BLOCK_CELLS", 2**17)
    middle = X.mean(axis=0, dtype=np.float64)
    got, want = (Cells.of(x, middle, None, None).gram() for x in (table, X))
    assert np.array_equal(got, want)
    assert X.nbytes <= sum(size) <= 1.1 * X.nbytes


@pytest.mark.parametrize("shape", [(40_000, 40), (250, 2000)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_sample_of_a_file_is_that_of_memory_and_is_all_that_is_read(
    shape, order, tmp_path, monkeypatch
):
    """Of a tall file, and of a wide one with too many rows for products of all of them."""
    monkeypatch.setattr(_sampling, "LARGEST_SQUARE", 100)
    monkeypatch.setattr(_sampling, "CENTER_ROWS", 60)
    monkeypatch.setattr(_sampling, "CENTER_CELLS", 2**17)
    monkeypatch.setattr(_sampling, "MIDDLE_CELLS", 2**17)
    monkeypatch.setattr(row_space, "BLOCK_CELLS", 2**15)
    X = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    np.save(tmp_path / "X.npy", np.asarray(X, order=order))
    table, read = RowTable.of(tmp_path / "X.npy"), []
    into = OpenFile.read_into
    monkeypatch.setattr(
        OpenFile, "read_into", lambda s, at, b: read.append(len(b)) or into(s, at, b)
    )
    found, want = (
        _sampling.sampled(given, "pairs", None, None, np.random.default_rng(1))
        for given in (table, X)
    )
    assert np.array_equal(found.rows, want.rows)
    V = np.random.default_rng(2).standard_normal((found.rows.shape[1], 2))
    assert np.array_equal(found.vectors(V), want.vectors(V))
    if order == "C":  # of a file by columns all rows are read, one column at a time
        assert sum(read) < 5 * 4 * 2**17
    assert max(read) <= max(4 * 2**17, 4 * shape[0])


def test_a_bound_on_memory_limits_the_products_of_rows(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((3, 2)))
    most = [_sampling._largest_square(RowTable.of(tmp_path / "X.npy", m)) for m in (10**8, 10**10)]
    assert most == [1581, _sampling.LARGEST_SQUARE]
