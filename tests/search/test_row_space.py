"""Wide rows in coordinates of the space that they span."""

import numpy as np
import pytest
from scipy import sparse

from stillspace.search import row_space
from stillspace.search.row_space import Cells, RowSpace, mad, shortening


def table(rng, n=30, D=200):
    X = rng.integers(0, 3, (n, D)).astype(np.int8)
    X[5] = X[3]  # one dimension fewer
    return X


@pytest.fixture(params=[2**22, 1000], ids=["small", "large"], autouse=True)
def block_cells(request, monkeypatch):
    """Both ways to find the space."""
    monkeypatch.setattr(row_space, "BLOCK_CELLS", request.param)


def space_of(X, **more):
    options = {"middle": None, "scale": None, "missing": None, **more}
    return RowSpace.of(Cells.of(X, **options), 1e6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_products_and_directions_are_those_of_the_cells(rng, form):
    X = table(rng) * (rng.random((30, 200)) < 0.1)
    space = space_of(form(X.astype(float)), middle=np.full(200, 0.25), scale=np.linspace(1, 2, 200))
    Z = (X - 0.25) / np.linspace(1, 2, 200)
    C = space.coordinates
    np.testing.assert_allclose(C @ C.T, Z @ Z.T, atol=1e-10)
    Q = space.lifted(np.eye(C.shape[1]))
    np.testing.assert_allclose(Q @ Q.T, np.eye(len(Q)), atol=1e-8)
    np.testing.assert_allclose(C @ Q, Z, atol=1e-8)


def test_equal_rows_add_no_dimension(rng):
    X = table(rng)
    assert space_of(X, middle=np.zeros(200)).coordinates.shape == (30, 29)
    same = space_of(np.ones((40, 90)))  # about their medians nothing is left
    assert same.coordinates.shape == (40, 1)
    assert not same.coordinates.any()


def test_middle_scale_and_missing_cells(rng):
    X = table(rng).astype(float)
    holes = rng.random(X.shape) < 0.1
    cells = Cells.of(np.where(holes, -9.0, X), None, "mad", -9.0)
    middle = np.nanmedian(np.where(holes, np.nan, X), axis=0)
    np.testing.assert_array_equal(cells.middle, middle)
    about = np.where(holes, 0.0, X - middle)
    np.testing.assert_array_equal(cells.unit, mad(about))
    np.testing.assert_allclose(cells.rows(), about / cells.unit)


def test_rows_that_are_far_too_long_are_shortened(rng):
    X = rng.standard_normal((30, 50))
    X[4] *= 1e9
    space = space_of(X)
    lengths = np.linalg.norm(space.coordinates, axis=1)
    assert lengths[4] == pytest.approx(1e6 * np.median(lengths), rel=1e-6)
    np.testing.assert_array_equal(shortening(np.array([0.0, 1.0, 2.0, 50.0]), 10.0), [1, 1, 1, 0.3])
