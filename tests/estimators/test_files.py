"""Fits of files: the bits of fits in memory, checks before the charge, charges that stay."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.diagnostics import diagnose
from stillspace.exceptions import DataFileError, SeededNoiseWarning
from stillspace.rows import FileRows, RowTable
from stillspace.rows.sources import open_source

N, D = 3000, 8

PRIVATE = [
    PrivateRobustPCA(2, epsilon=2.0, random_state=3),
    PrivateRobustPCA(2, epsilon=2.0, algorithm="dp-sggd", n_iter=20, random_state=3),
    PrivateRobustPCA(2, epsilon=2.0, center="pairs", random_state=3),
    PrivateRobustPCA(2, neighboring_relation="add-or-remove-one", public_size=2500, random_state=3),
    PrivatePCA(2, epsilon=2.0, norm_bound=3.0, random_state=3),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X = make_haystack(N, D, 2, inlier_noise=0.05, random_state=0).X.astype(np.float32) + 0.25
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(D)])


@pytest.fixture(scope="module")
def path(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("fits") / "X.parquet"
    table.to_parquet(path, row_group_size=512)
    np.save(path.with_suffix(".npy"), table.to_numpy())
    return path


def fitted(estimator, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return estimator.fit(X)


@pytest.mark.parametrize("estimator", PRIVATE)
def test_private_fits_of_a_file_have_the_bits_of_fits_in_memory(path, table, estimator):
    want = fitted(estimator, table).components_
    others = (open_source(path), RowTable.of(path)) if estimator is PRIVATE[-1] else ()
    for X in (*others, str(path.with_suffix(".npy")), path):
        got = fitted(estimator, X)
        assert np.array_equal(got.components_, want)
    assert tuple(got.feature_names_in_) == tuple(table.columns)


@pytest.mark.parametrize(
    "estimator",
    [RobustPCA(2), RobustPCA("auto", center="median"), RobustPCA(2, algorithm="pca")],
)
def test_robust_fits_of_a_file_have_the_bits_of_fits_in_memory(path, table, estimator):
    # In C order: the order of additions outside of releases follows the strides of an array.
    table, path = np.ascontiguousarray(table), path.with_suffix(".npy")
    want = estimator.fit(table)
    facts = (want.components_, want.center_, want.explained_variance_, want.noise_variance_)
    scores, score = want.transform(table), want.score(table)
    got = estimator.fit(path)
    assert got is want
    for new, old in zip(
        (got.components_, got.center_, got.explained_variance_, got.noise_variance_),
        facts,
        strict=True,
    ):
        assert np.array_equal(new, old)
    assert np.array_equal(got.transform(path), scores)
    assert got.score(path) == score


def test_diagnostics_of_a_file(path, table):
    fit = RobustPCA(2).fit(table)
    got, want = diagnose(fit, path), diagnose(fit, table)
    assert np.array_equal(got.orthogonal_distance, want.orthogonal_distance)
    assert np.array_equal(got.score_distance, want.score_distance)
    assert got.score_cutoff == want.score_cutoff


def test_missing_cells_of_a_file(tmp_path, table, monkeypatch):
    table = table[:400]
    holes = table.mask(np.random.default_rng(2).random(table.shape) < 0.03)
    path = tmp_path / "holes.parquet"
    holes.to_parquet(path)
    fit = RobustPCA(2).fit(holes)
    assert np.array_equal(RobustPCA(2).fit(path).components_, fit.components_)
    got, want = diagnose(fit, path), diagnose(fit, holes)
    assert np.array_equal(got.orthogonal_distance, want.orthogonal_distance)
    monkeypatch.setattr("stillspace.estimators._files.COPIES", 2**30)
    with pytest.warns(UserWarning, match="are set to the centre"):
        coded = RobustPCA(2).fit(path)
    as_code = holes.fillna(-9.0)
    want = RobustPCA(2, missing_code=-9.0).fit(as_code)
    assert np.array_equal(coded.components_, want.components_)
    private = PRIVATE[0]
    want = fitted(private, holes).components_
    assert np.array_equal(fitted(private, path).components_, want)


def test_a_wrong_file_is_refused_before_the_charge_and_a_changed_one_keeps_it(tmp_path, table):
    path = tmp_path / "X.npy"
    np.save(path, table.to_numpy())
    budget = Budget(tmp_path / "ledger", epsilon=2.0, delta=1e-5)
    fit = PrivateRobustPCA(2, epsilon=1.0, delta=1e-6, budget=budget)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(DataFileError, match="is truncated"):
        fit.fit(path)
    assert len(budget.entries()) == 0
    path.write_bytes(whole)
    table = RowTable.of(path)
    os.truncate(path, 2000)
    with pytest.raises(DataFileError, match="changed while it was in use"):
        fit.fit(table)
    assert len(budget.entries()) == 1
    assert not hasattr(fit, "components_")


def test_too_little_memory_is_refused_before_the_charge(tmp_path):
    cells = np.lib.format.open_memmap(
        tmp_path / "X.npy", mode="w+", dtype=np.int8, shape=(2_000_000, 2)
    )
    cells.flush()
    budget = Budget(tmp_path / "ledger", epsilon=2.0, delta=1e-7)
    fit = PrivateRobustPCA(1, epsilon=1.0, budget=budget, memory="20MB")
    with pytest.raises(ValueError, match=r"memory=20 MB is too little: 2000000 rows .*0\.128GB"):
        fit.fit(tmp_path / "X.npy")
    assert len(budget.entries()) == 0


def test_names_and_numbers_of_columns_are_compared(path, table):
    fit = RobustPCA(2).fit(path)
    with pytest.raises(ValueError, match="differ from those of the fit"):
        fit.transform(open_source(path, columns=[f"c{j}" for j in reversed(range(D))]))
    with pytest.raises(ValueError, match=r"X has 2 features, but RobustPCA is expecting 8"):
        fit.transform(open_source(path, columns=["c0", "c1"]))
    with pytest.warns(UserWarning, match="The fit has column names, but X has none"):
        fit.transform(path.with_suffix(".npy"))


def test_rows_of_a_file_may_be_given_as_rows(path):
    fit = fitted(PRIVATE[0], FileRows.open(path))
    assert not any("user's word" in line for line in fit.privacy_.assumptions)


def test_a_memory_map_whose_file_is_cut_ends_in_an_error(tmp_path, table):
    np.save(tmp_path / "X.npy", table.to_numpy())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    os.truncate(tmp_path / "X.npy", 200)
    with pytest.raises(DataFileError, match="truncated"):
        RobustPCA(2).fit(mapped)


def test_the_sketch_of_a_wide_file(tmp_path):
    X = np.random.default_rng(1).standard_normal((300, 900)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    fit = fitted(PrivateRobustPCA(2, epsilon=4.0, random_state=0), X)
    want, scores = fit.components_, fit.transform(X)
    assert fit.sketch_ is not None
    fit = fitted(fit, tmp_path / "X.npy")
    assert np.array_equal(fit.components_, want)
    assert np.allclose(fit.transform(tmp_path / "X.npy"), scores, atol=1e-12)
    assert not sparse.issparse(scores)


@pytest.mark.parametrize("where", ["X.csv", "parts/a.csv"])
def test_a_secret_number_of_rows_needs_a_header_in_text_files(tmp_path, where):
    """Without one, a file without rows is refused and a file with one row is not: a difference."""
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    given = path if path.parent == tmp_path else path.parent
    fit = PrivatePCA(1, neighboring_relation="add-or-remove-one", public_size=100, center=None)
    said = []
    for text in ("", "1,2,3\n", "1,2,3\n4,5,6\n"):
        path.write_text(text)
        with pytest.raises(DataFileError, match="needs a header line") as refused:
            fit.fit(given)
        said.append(str(refused.value))
    assert len(set(said)) == 1
    for text in ("a,b,c\n", "a,b,c\n1,2,3\n"):
        path.write_text(text)
        assert fit.fit(given).components_.shape == (1, 3)
