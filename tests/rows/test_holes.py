"""Missing cells: NaN sits at the centre in every storage, and one row never touches another."""

import numpy as np
import pytest
from scipy import sparse

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.rows import Affine, MemoryRows, Sketch, Sphere, through_view


def holed(rng, n=70, D=11, share=0.2):
    X = rng.standard_normal((n, D)) * 3.0 + 1.0
    holes = rng.random(X.shape) < share
    holes[5] = True  # a row without any cell
    return np.where(holes, np.nan, X), holes


def stored(X, kind):
    if kind == "csr":
        return sparse.csr_matrix(X)
    if kind == "columns":
        return np.asfortranarray(X)
    return X.astype(np.float32) if kind == "f32" else X


@pytest.mark.parametrize("kind", ["f64", "f32", "columns", "csr"])
@pytest.mark.parametrize("given", [False, True])
def test_a_missing_cell_sits_at_the_centre(rng, kind, given):
    X, holes = holed(rng)
    D = X.shape[1]
    center = rng.standard_normal(D) if given else None
    scale = np.exp(rng.standard_normal(D)) if given else None
    affine = Affine.of(center, scale, 7.0 if given else None, holes=True)
    A = stored(X, kind)
    cells = np.float32(X).astype(np.float64) if kind == "f32" else X
    want = (cells - (0.0 if center is None else center)) / (1.0 if scale is None else scale)
    want[holes] = 0.0
    got = MemoryRows.of(A).through(affine).sphered()
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.concatenate(list(affine.blocks(A))), want, rtol=1e-6, atol=1e-6)
    sphered = MemoryRows.of(A).through(affine).through(Sphere()).sphered()
    assert not sphered[5].any()
    lengths = np.linalg.norm(sphered, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 5), 1.0, rtol=1e-12)


@pytest.mark.parametrize("kind", ["f64", "f32", "columns", "csr"])
def test_without_holes_the_row_is_a_zero_row_as_before(rng, kind):
    X, holes = holed(rng)
    rows = MemoryRows.of(stored(X, kind)).through(Affine()).through(Sphere()).sphered()
    assert np.array_equal(rows.any(axis=1), ~holes.any(axis=1))


def test_an_infinite_cell_still_makes_a_zero_row(rng):
    X, _ = holed(rng)
    X[7, 2], X[9, 3] = np.inf, -np.inf
    rows = MemoryRows.of(X).through(Affine.of(holes=True)).through(Sphere()).sphered()
    assert not rows[7].any()
    assert not rows[9].any()


def test_differences_with_a_missing_cell_sit_at_zero(rng):
    X, holes = holed(rng)
    pairs = rng.permutation(70).reshape(-1, 2)
    got = MemoryRows.of(X).through(Affine.of(holes=True)).paired(pairs).sphered()
    want = X[pairs[:, 0]] - X[pairs[:, 1]]
    want[holes[pairs[:, 0]] | holes[pairs[:, 1]]] = 0.0
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_holes_of_one_row_change_no_bit_of_another(rng):
    X, _ = holed(rng)
    Y = X.copy()
    Y[3] = np.nan
    views = [
        (Affine.of(holes=True), Sphere()),
        (Affine.of(np.ones(11), holes=True), Sketch(11, 5, nonzeros=2), Sphere()),
    ]
    for view in views:
        one, two = (through_view(MemoryRows.of(A), view).sphered() for A in (X, Y))
        changed = np.flatnonzero((one != two).any(axis=1))
        assert changed.tolist() in ([3], [])
        assert not two[3].any()


def test_three_percent_of_missing_cells_do_not_erase_the_rows():
    """The table that lost 95 % of its rows: error near that of complete rows, both far below."""
    data = make_haystack(5000, 100, 2, inlier_ratio=1.0, inlier_noise=0.05, random_state=0)
    X = data.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    fit = PrivateRobustPCA(2, epsilon=2.0, center=None, scale=None).fit(X)
    lost = PrivateRobustPCA(2, epsilon=2.0, center=None, scale=None, nonfinite="zero").fit(X)
    error = subspace_error(fit.components_, data.components)
    assert error < 0.005
    assert error < 0.2 * subspace_error(lost.components_, data.components)
    assert np.isfinite(fit.transform(X)).all()
    assert fit.privacy_.private


def test_what_nonfinite_may_be():
    X = np.ones((10, 3))
    with pytest.raises(ValueError, match="'center', 'zero', 'raise'"):
        PrivatePCA(1, nonfinite="drop", center=None).fit(X)
