"""Plain NumPy versions of the iterations that the theorems speak of, independent of the library."""

import numpy as np


def mean_gradient(X, V):
    """The mean of Qx(Vᵀx)ᵀ/‖Qx‖ over the rows."""
    Y = X @ V
    R = X - Y @ V.T
    distance = np.linalg.norm(R, axis=1)
    distance = np.where(distance > 1e-15, distance, np.inf)
    return (R / distance[:, None]).T @ Y / len(X)


def polar(A):
    U, _, Wt = np.linalg.svd(A, full_matrices=False)
    return U @ Wt


def tilted(rng, components, gap, *, all_angles=True):
    """A basis with d_r² = gap to L*: all principal angles equal, or only one of them not zero."""
    V = components.T
    D, r = V.shape
    k = min(r, D - r) if all_angles else 1
    outside = np.linalg.qr(np.column_stack([V, rng.standard_normal((D, D - r))]))[0][:, r:]
    angles = np.zeros(r)
    angles[:k] = np.arccos(1.0 - gap)
    turned = V @ np.linalg.qr(rng.standard_normal((r, r)))[0]
    moved = turned * np.cos(angles)
    moved[:, :k] += outside[:, :k] * np.sin(angles[:k])
    return moved


def sines(V, components):
    """The sines of the principal angles."""
    return np.linalg.svd(V - components.T @ (components @ V), compute_uv=False)


def gap(V, components):
    s = min(sines(V, components)[0], 1.0)
    return s * s / (1.0 + np.sqrt(1.0 - s * s))


def descend(rng, X, V, steps, *, sigma=0.0, batch_size=None, tangential=False, watch=None):
    """The paper's NGGD, SGGD or NSGGD: V ← polar(V + η(G + B))."""
    for eta in steps:
        rows = X if batch_size is None else X[rng.integers(0, len(X), batch_size)]
        noise = sigma * rng.standard_normal(V.shape)
        if tangential:
            noise -= V @ (V.T @ noise)
        V = polar(V + eta * (mean_gradient(rows, V) + noise))
        if watch is not None:
            watch(V)
    return V
