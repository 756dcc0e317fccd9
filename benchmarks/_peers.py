"""Peers that are not one call of a library: written with care, as their users would."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FLOOR = 1e-10


def pca_start(X: Array, r: int) -> Array:
    """Return the top r eigenvectors of XᵀX, (D, r)."""
    return np.ascontiguousarray(np.linalg.eigh(X.T @ X)[1][:, -r:])


def glad(X: Array) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """Return the GLAD cost, mean ‖x − VVᵀx‖ over unit rows, and its Euclidean gradient.

    ‖x − VVᵀx‖² = 1 − ‖Vᵀx‖² saves the peer the (n, D) residuals: two products with X a
    gradient, one a cost.
    """

    def distances(V: Array) -> tuple[Array, Array]:
        Y = X @ V
        squares = 1.0 - np.einsum("ij,ij->i", Y, Y)
        return Y, np.sqrt(np.maximum(squares, FLOOR**2))

    def cost(V: Array) -> float:
        return float(distances(V)[1].mean())

    def gradient(V: Array) -> Array:
        Y, distance = distances(V)
        return -(X.T @ (Y / distance[:, None])) / len(X)

    return cost, gradient


def pymanopt_fit(X: Array, r: int, optimizer: str, *, pca: bool) -> Array:
    """Minimise GLAD on the Grassmannian with pymanopt's own stopping rules; components (r, D).

    From pymanopt's own start (uniformly random) or, if `pca`, from that of PCA, whose time counts.
    """
    import pymanopt  # noqa: PLC0415 (an extra)
    from pymanopt import manifolds, optimizers  # noqa: PLC0415

    manifold = manifolds.Grassmann(X.shape[1], r)
    cost, gradient = map(pymanopt.function.numpy(manifold), glad(X))
    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    solver = getattr(optimizers, optimizer)(verbosity=0)
    start = pca_start(X, r) if pca else None
    return np.asarray(solver.run(problem, initial_point=start).point.T)


def numpy_fms(X: Array, r: int, tol: float = 1e-10, max_iter: int = 1000) -> Array:
    """FMS as a researcher writes it: reweight the second moment until V stands still."""
    V = pca_start(X, r)
    for _ in range(max_iter):
        residual = X - (X @ V) @ V.T
        weights = 1.0 / np.maximum(np.linalg.norm(residual, axis=1), FLOOR)
        new = np.ascontiguousarray(np.linalg.eigh((X * weights[:, None]).T @ X)[1][:, -r:])
        moved = np.linalg.norm(new - V @ (V.T @ new))
        V = new
        if moved < tol:
            break
    return V.T


def sklearn_pca(X: Array, r: int, solver: str) -> Array:
    from sklearn.decomposition import PCA  # noqa: PLC0415

    return np.asarray(PCA(r, svd_solver=solver, random_state=0).fit(X).components_)


def sklearn_incremental(X: Array, r: int) -> Array:
    from sklearn.decomposition import IncrementalPCA  # noqa: PLC0415

    return np.asarray(IncrementalPCA(r).fit(X).components_)


def min_cov_det(X: Array, r: int) -> Array:
    """Return the top eigenvectors of scikit-learn's minimum covariance determinant."""
    from sklearn.covariance import MinCovDet  # noqa: PLC0415

    covariance = MinCovDet(assume_centered=True, random_state=0).fit(X).covariance_
    return np.linalg.eigh(covariance)[1][:, -r:].T


class Kept:
    """A contestant that remembers its last answer, so that it need not run again to be judged."""

    def __init__(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        self._call = partial(function, *args, **options)
        self.answer: Any = None

    def __call__(self) -> None:
        self.answer = self._call()
