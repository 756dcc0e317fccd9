"""Bad rows that are planted into real tables: seven kinds, in units of median 0 and MAD 1."""

from collections.abc import Callable

import numpy as np

from benchmarks.utility.robust_tables import _direction, _rows, column, far, line, tight
from stillspace._typing import FloatArray

CLEAN = "clean"


def clusters(
    X: FloatArray, share: float, rng: np.random.Generator, directions: FloatArray, spread: float
) -> FloatArray:
    """Clusters as far away as the typical row is, `spread` times as wide as they are far."""
    bad, D = _rows(X, share, rng), X.shape[1]
    length = float(np.median(np.linalg.norm(X, axis=1)))
    middle = directions[np.arange(len(bad)) % len(directions)]
    X = X.copy()
    X[bad] = length * (middle + spread * rng.standard_normal((len(bad), D)) / np.sqrt(D))
    return X


def opposite(X: FloatArray, share: float, rng: np.random.Generator) -> FloatArray:
    """Two tight clusters on opposite sides: together they have no mean."""
    u = _direction(X, rng)
    return clusters(X, share, rng, np.array([u, -u]), 0.05)


def three(X: FloatArray, share: float, rng: np.random.Generator) -> FloatArray:
    """Three tight clusters in random directions, a third of the planted rows each."""
    return clusters(X, share, rng, np.array([_direction(X, rng) for _ in range(3)]), 0.05)


def loose(X: FloatArray, share: float, rng: np.random.Generator) -> FloatArray:
    """One cluster that is half as wide as it is far."""
    return clusters(X, share, rng, _direction(X, rng)[None], 0.5)


Plant = Callable[[FloatArray, float, np.random.Generator], FloatArray]
KINDS: dict[str, tuple[Plant, float]] = {
    "tight 20 %": (tight, 0.20),
    "two opposite 20 %": (opposite, 0.20),
    "far 15 %": (far, 0.15),
    "column × 1000, 10 %": (column, 0.10),
    "line 10 %": (line, 0.10),
    "three clusters 21 %": (three, 0.21),
    "loose 20 %": (loose, 0.20),
}


def plant(X: FloatArray, kind: str, seed: int) -> FloatArray:
    """Return the rows with some of them replaced by bad ones; `CLEAN` returns them as they are."""
    if kind == CLEAN:
        return X
    how, share = KINDS[kind]
    return how(X, share, np.random.default_rng([seed, list(KINDS).index(kind)]))
