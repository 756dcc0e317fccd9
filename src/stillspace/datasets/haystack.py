"""The haystack model: inliers on a random subspace among outliers (SPEC 7)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from stillspace._checks import checked_choice, checked_number, checked_whole
from stillspace._typing import FloatArray

OutlierKind: TypeAlias = Literal["isotropic", "low-rank", "cluster"]
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None


class Haystack(NamedTuple):
    """A data set and the truth about it."""

    X: FloatArray
    """(n_samples, n_features), rows in random order."""
    components: FloatArray
    """(n_components, n_features), orthonormal rows that span the inliers' subspace."""
    inliers: npt.NDArray[np.bool_]
    """(n_samples,), True where the row is an inlier."""
    center: FloatArray
    """(n_features,), the shift that was added to every row; zero unless asked for."""


def make_haystack(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    inlier_ratio: float = 0.5,
    inlier_noise: float = 0.0,
    outliers: OutlierKind = "isotropic",
    outlier_rank: int | None = None,
    cluster_spread: float | None = None,
    center_shift: float = 0.0,
    spherical: bool = True,
    inlier_scales: Sequence[float] | FloatArray | None = None,
    random_state: RandomState = None,
) -> Haystack:
    """Draw a haystack data set: `n`, `D`, `r` = `n_samples`, `n_features`, `n_components`.

    Parameters
    ----------
    n_samples, n_features, n_components : int
        `n ≥ 1`, `1 ≤ r < D`.
    inlier_ratio : float in [0, 1]
        Exactly `round(inlier_ratio · n)` rows are inliers: `N(0, I_r/r)` in a uniformly random
        r-dimensional subspace.
    inlier_noise : float ≥ 0
        `s` adds `N(0, s² I_D/D)` to each inlier, before scaling.
    outliers : {"isotropic", "low-rank", "cluster"}
        `N(0, I_D/D)`; or `N(0, I_k/k)` in a uniformly random subspace of dimension
        `k = outlier_rank`; or `u + N(0, s² I_D/D)` with one uniformly random unit vector `u`
        and `s = cluster_spread`.
    outlier_rank : int in [1, D], optional
        Only for "low-rank". Default `min(5r, D)`: in equal shares, no direction then holds more
        outliers than inliers, and the inliers' subspace stays the answer.
    cluster_spread : float ≥ 0, optional
        Only for "cluster". Default 0.1.
    center_shift : float ≥ 0
        Length of a common vector, in a uniformly random direction, that is added to every row
        *after* scaling. Scaling afterwards would bend the inliers' affine subspace into a cone
        of dimension r + 1, and there would be no centre left to find; this way
        `X − center` is the unshifted data set.
    spherical : bool
        Scale each row to unit length (SPEC 1).
    inlier_scales : r positive numbers, optional
        Standard deviations of the inliers along the rows of `components`, in units of `1/√r`.
        Default: all 1.
    random_state : None, int, RandomState or Generator
        None takes fresh entropy. A RandomState or Generator is advanced, so that a second call
        gives other data. For one seed and one shape, `inlier_noise` and `center_shift` change
        only the noise and the shift; everything else stays as drawn.

    Returns
    -------
    Haystack
        A named tuple `(X, components, inliers, center)`.
    """
    n = checked_whole("n_samples", n_samples, 1)
    D = checked_whole("n_features", n_features, 2)
    r = checked_whole("n_components", n_components, 1, D - 1, why="below n_features")
    n_inliers = round(checked_number("inlier_ratio", inlier_ratio, 0.0, 1.0, inside=False) * n)
    noise = checked_number("inlier_noise", inlier_noise, 0.0, inside=False)
    shift = checked_number("center_shift", center_shift, 0.0, inside=False)
    scales = _check_scales(inlier_scales, r)
    rank, spread = _check_outliers(outliers, outlier_rank, cluster_spread, D, r)
    rng = _generator(random_state)

    # The order of the draws keeps the promise about seeds above: the noise comes last.
    components = _random_subspace(rng, r, D)
    coordinates = rng.standard_normal((n_inliers, r)) * (scales / sqrt(r))
    order = rng.permutation(n)
    center = shift * _random_subspace(rng, 1, D)[0]
    X_out = _draw_outliers(rng, outliers, n - n_inliers, D, rank=rank, spread=spread)
    X_in = coordinates @ components
    if noise > 0.0:
        X_in += rng.standard_normal((n_inliers, D)) * (noise / sqrt(D))

    X = np.concatenate([X_in, X_out])[order]
    if spherical:
        X = _to_sphere(X)
    return Haystack(X + center, components, order < n_inliers, center)


def _draw_outliers(
    rng: np.random.Generator, kind: OutlierKind, m: int, D: int, *, rank: int, spread: float
) -> FloatArray:
    if kind == "low-rank":
        return rng.standard_normal((m, rank)) @ _random_subspace(rng, rank, D) / sqrt(rank)
    if kind == "cluster":
        direction = _random_subspace(rng, 1, D)
        return direction + rng.standard_normal((m, D)) * (spread / sqrt(D))
    return rng.standard_normal((m, D)) / sqrt(D)


def _random_subspace(rng: np.random.Generator, k: int, D: int) -> FloatArray:
    """Return k orthonormal rows, uniform (Haar): QR of a Gaussian matrix with diag(R) > 0."""
    Q, R = np.linalg.qr(rng.standard_normal((D, k)))
    return np.ascontiguousarray((Q * np.copysign(1.0, np.diag(R))).T)


def _to_sphere(X: FloatArray) -> FloatArray:
    """Scale rows to unit length, a zero row stays zero; by the maximum first, against overflow."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0.0, largest, 1.0)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0.0, norms, 1.0)


def _generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int.from_bytes(random_state.bytes(32), "little"))
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if whole and random_state >= 0:  # of any size
        return np.random.default_rng(random_state)
    raise ValueError(
        f"random_state={random_state!r} is not a source of randomness: give None, an integer of at "
        "least 0, a numpy RandomState or a numpy Generator."
    )


def _check_scales(scales: Sequence[float] | FloatArray | None, r: int) -> FloatArray:
    if scales is None:
        return np.ones(r)
    try:
        checked = np.asarray(scales, dtype=np.float64)
    except (TypeError, ValueError):
        checked = np.empty(0)
    if checked.shape != (r,) or not np.all(np.isfinite(checked) & (checked > 0.0)):
        raise ValueError(
            f"inlier_scales={scales!r} is not possible: give n_components={r} positive finite "
            "numbers, or None for equal scales."
        )
    return checked


def _check_outliers(
    kind: str, rank: int | None, spread: float | None, D: int, r: int
) -> tuple[int, float]:
    """Return rank and spread; an option that the kind would ignore is refused."""
    checked_choice("outliers", kind, get_args(OutlierKind))
    if rank is not None and kind != "low-rank":
        raise ValueError(
            f"outlier_rank={rank!r} has no effect with outliers={kind!r}: leave it out, or set "
            "outliers='low-rank'."
        )
    if spread is not None and kind != "cluster":
        raise ValueError(
            f"cluster_spread={spread!r} has no effect with outliers={kind!r}: leave it out, or set "
            "outliers='cluster'."
        )
    rank = min(5 * r, D) if rank is None else rank
    spread = 0.1 if spread is None else spread
    rank = checked_whole("outlier_rank", rank, 1, D, why="n_features")
    return rank, checked_number("cluster_spread", spread, 0.0, inside=False)
