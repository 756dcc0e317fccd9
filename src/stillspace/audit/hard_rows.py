"""Points and rows that are hard to add up within bounds, and the ways to store rows."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from stillspace._frozen import FrozenArray
from stillspace._typing import AnyArray, FloatArray
from stillspace.parts.queries import PRIVATE_FLOOR, Query
from stillspace.rows import Affine, Fill, MemoryRows, Rows, Sphere, through_view

Stored: TypeAlias = AnyArray | Any
"""Rows as they are stored: an array, or a sparse matrix."""


def random_basis(rng: np.random.Generator, D: int, r: int) -> FloatArray:
    """Return an orthonormal basis, a third of the time not quite one."""
    V = np.linalg.qr(rng.standard_normal((D, r)))[0]
    kind = rng.integers(6)
    if kind == 0:
        V = V * (1.0 + 1e-3)
    elif kind == 1:
        V = V + 1e-7 * rng.standard_normal(V.shape)
    return np.ascontiguousarray(V)


def random_matrix(rng: np.random.Generator, D: int, r: int) -> FloatArray:
    """Return a symmetric matrix of trace r, sometimes a projector, sometimes with values past 1."""
    V = random_basis(rng, D, r)
    if rng.integers(2):
        P = V @ V.T
    else:
        U = np.linalg.qr(rng.standard_normal((D, D)))[0]
        values = rng.dirichlet(np.ones(D)) * r
        P = (U * values) @ U.T
    return np.asarray((P + P.T) / 2.0)


def random_directions(rng: np.random.Generator, D: int, r: int) -> FloatArray:
    """Return 2r directions over what makes their largest singular value 1; some nearly coincide."""
    C = rng.standard_normal((D, 2 * r))
    C[:, r:] = 10.0 ** rng.uniform(-8, 0) * C[:, r:] + C[:, :r]
    C /= np.linalg.norm(C, axis=0)
    return np.asarray(C / np.linalg.norm(C, 2))


def random_axes(rng: np.random.Generator, D: int, r: int) -> FloatArray:
    """Return units of columns, r axes, some nearly the same, and all directions across them."""
    C = rng.standard_normal((D, r))
    C[:, 1:] = C[:, :1] + 10.0 ** rng.uniform(-8, 0) * C[:, 1:]
    C /= np.linalg.norm(C, axis=0)
    units = 10.0 ** rng.uniform(-2, 0, (D, 1))
    return np.hstack([units, C, np.linalg.qr(C, mode="complete")[0]])


def random_centre(rng: np.random.Generator, D: int, r: int) -> FloatArray:  # noqa: ARG001
    """Return a point of any size."""
    return np.asarray(rng.standard_normal(D) * 10.0 ** rng.uniform(-8, 0))


def nowhere(rng: np.random.Generator, D: int, r: int) -> FloatArray:  # noqa: ARG001
    """Return no point."""
    return np.empty((0, 0))


def _plain(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:  # noqa: ARG001
    return rng.standard_normal((n, V.shape[0]))


def _on(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:  # noqa: ARG001
    """Rows of the subspace: their residual is all rounding."""
    return np.asarray(rng.standard_normal((n, V.shape[1])) @ V.T)


def _near(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:
    """Rows near it, at relative distances of 1e-20 to 1e-2."""
    away = rng.standard_normal((n, V.shape[0])) * 10.0 ** rng.uniform(-20, -2, (n, 1))
    return _on(rng, n, V, query) + away


def _at_limits(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:
    """Rows whose residual is the floor, or the cut where there is one, give or take some bits."""
    limits = [getattr(query, "floor", PRIVATE_FLOOR), *np.ravel(getattr(query, "edges", ()))]
    if isfinite(getattr(query, "cut", np.inf)):
        limits.append(query.cut)  # type: ignore[attr-defined]
    inside = _on(rng, n, V, query)
    inside /= np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-300)
    away = rng.standard_normal((n, V.shape[0]))
    away -= (away @ np.linalg.pinv(V).T) @ V.T
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    limit = np.array(limits)[rng.integers(len(limits), size=(n, 1))]
    bits = 1.0 + rng.integers(-4, 5, (n, 1)) * 2.0**-52
    s = np.minimum(limit * bits, 1.0)
    return np.asarray(np.sqrt(1.0 - s * s) * inside + s * away)


def _opposite(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:
    """Canaries: pairs whose GLAD terms are opposite."""
    rows = _near(rng, n, V, query)
    inside = (rows @ np.linalg.pinv(V).T) @ V.T
    rows[1::2] = (2.0 * inside - rows)[: len(rows[1::2])]
    return rows


def _orthogonal(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:  # noqa: ARG001
    """Axes and rows orthogonal to the subspace."""
    away = rng.standard_normal((n, V.shape[0]))
    away -= (away @ np.linalg.pinv(V).T) @ V.T
    away[::2] = np.eye(V.shape[0])[np.arange(len(away[::2])) % V.shape[0]]
    return away


def _of_any_size(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:
    """Norms from the least denormal to beyond the largest number, and both in one row."""
    rows = _near(rng, n, V, query)
    with np.errstate(all="ignore"):
        rows *= 10.0 ** rng.uniform(-330, 305, (n, 1))
        rows[1::3] *= 10.0 ** rng.uniform(-300, 3, (len(rows[1::3]), V.shape[0]))
    rows[::7, 0] = 5e-324
    return rows


def _no_numbers(rng: np.random.Generator, n: int, V: FloatArray, query: Query) -> FloatArray:
    """Rows with NaN and infinities among them, and zero rows."""
    rows = _near(rng, n, V, query)
    for value in (np.nan, np.inf, -np.inf):
        hit = rng.integers(n, size=1 + n // 5)
        rows[hit, rng.integers(V.shape[0], size=len(hit))] = value
    rows[::5] = 0.0
    return rows


KINDS: dict[str, Callable[[np.random.Generator, int, FloatArray, Query], FloatArray]] = {
    "plain": _plain,
    "on the subspace": _on,
    "near it": _near,
    "at the floor or cut": _at_limits,
    "opposite pairs": _opposite,
    "orthogonal": _orthogonal,
    "of any size": _of_any_size,
    "no numbers": _no_numbers,
}


def _integers(rows: FloatArray, kind: type, low: int, high: int) -> AnyArray:
    with np.errstate(all="ignore"):
        largest = np.nanmax(np.abs(rows), axis=1, keepdims=True)
        cells = np.nan_to_num(rows / np.where(largest > 0, largest, 1.0) * high, posinf=high)
    return np.asarray(np.clip(np.rint(cells), low, high).astype(kind))


def _as_float32(rows: FloatArray) -> AnyArray:
    with np.errstate(all="ignore"):
        return rows.astype(np.float32)


STORAGES: dict[str, Callable[[FloatArray], Stored]] = {
    "float64": np.ascontiguousarray,
    "float64, by columns": np.asfortranarray,
    "float32": _as_float32,
    "int8": lambda rows: _integers(rows, np.int8, -128, 127),
    "uint8": lambda rows: _integers(rows, np.uint8, 0, 255),
    "sparse": lambda rows: sparse.csr_array(np.where(np.abs(rows) < 1e-3, 0.0, rows)),
}


def with_filled_cells(table: Stored, point: FloatArray, r: int) -> Rows:
    """Return rows of which about a quarter of the cells were missing: the bits of a cell say so.

    They are filled from the point, or from the first axes where there is none.
    """
    dense: Any = table.toarray() if isinstance(table, sparse.csr_array) else table
    X = np.array(dense, dtype=np.float64)
    V = point if point.size else np.eye(X.shape[1])[:, :r]
    view = (Affine.of(holes=True), Fill(FrozenArray.of(V), weighed=True), Sphere())
    with np.errstate(all="ignore"):
        X[np.frexp(X)[0] % 2.0**-6 < 2.0**-8] = np.nan
        return through_view(MemoryRows.of(X), view)
