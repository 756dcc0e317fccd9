"""Robust fits against an oracle that knows the outliers; centres; false alarms of flags."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from evidence._table import markdown
from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.diagnostics import diagnose
from stillspace.exceptions import DisagreementWarning
from stillspace.metrics import subspace_error

SEEDS = 4
LOSSES = [
    (2000, 20, 2, 0.5, 0.05, {}),
    (4000, 50, 3, 0.7, 0.05, {"outliers": "low-rank", "outlier_rank": 5}),
    (4000, 50, 3, 0.55, 0.05, {"outliers": "low-rank", "outlier_rank": 5}),
    (4000, 50, 3, 0.8, 0.05, {"outliers": "cluster"}),
    (4000, 50, 3, 0.6, 0.05, {"outliers": "cluster"}),
    (4000, 50, 3, 0.6, 0.2, {"outliers": "cluster"}),
    (3000, 20, 3, 0.7, 0.3, {"outliers": "low-rank", "outlier_rank": 3}),
    (3000, 20, 3, 1.0, 0.3, {}),
    (3000, 20, 3, 1.0, 1.0, {}),
]


def losses() -> str:
    lines = []
    for n, D, r, share, noise, more in LOSSES:
        errors: dict[str, list[float]] = {"PCA": [], "glad": [], "default": [], "oracle": []}
        warned = 0
        for seed in range(SEEDS):
            data = make_haystack(
                n, D, r, inlier_ratio=share, inlier_noise=noise, random_state=seed, **more
            )
            X, L = data.X, data.components
            errors["PCA"].append(subspace_error(PCA(r).fit(X).components_, L))
            glad, _ = _told(lambda X=X, r=r: RobustPCA(r, center=None, loss="glad").fit(X))
            fit, said = _told(lambda X=X, r=r: RobustPCA(r, center=None).fit(X))
            oracle = RobustPCA(r, center=None, algorithm="irls").fit(X[data.inliers])
            for name, one in (("glad", glad), ("default", fit), ("oracle", oracle)):
                errors[name].append(subspace_error(one.components_, L))
            warned += said
        kind = str(more.get("outliers", "isotropic" if share < 1.0 else "none"))
        kind += f" {more['outlier_rank']}" if "outlier_rank" in more else ""
        figures = [f"{np.median(values):.1e}" for values in errors.values()]
        lines.append((f"{n}, {D}, {r}, {share:g}, {noise:g}, {kind}", *figures, warned))
    return markdown(
        "Losses of robust fits",
        f"Median d² to the truth over {SEEDS} data sets, centre known. The oracle is GLAD on the "
        "inliers alone; the last column counts the default's warnings that starts disagree.",
        ("n, D, r, inliers, noise, outliers", "PCA", "GLAD", "default", "oracle", "warnings"),
        lines,
    )


def centers() -> str:
    lines = []
    for kind in ("cloud", "far", "tight", "low-rank"):
        for share in (0.8, 0.6):
            figures = []
            for center in ("pairs", "median"):
                errors = []
                for seed in range(SEEDS):
                    X, L = _affine(kind, share, seed)
                    fit, _ = _told(lambda X=X, center=center: RobustPCA(3, center=center).fit(X))
                    errors.append(subspace_error(fit.components_, L))
                figures.append(f"{np.median(errors):.1e}")
            lines.append((kind, share, *figures))
    return markdown(
        "Centres of robust fits",
        f"Median d² to the truth over {SEEDS} data sets: inliers about one point, outliers about "
        "another; n = 4000, D = 50, r = 3, inlier noise .05.",
        ("outliers", "inliers", "pairs", "median"),
        lines,
    )


def false_alarms() -> str:
    lines = []
    for D, r, n in ((3, 2, 2000), (6, 3, 1000), (10, 2, 5000), (50, 3, 5000), (100, 10, 5000)):
        for kind in ("clean", "uneven noise", "30 % outliers"):
            rates = []
            for seed in range(2 * SEEDS):
                rng = np.random.default_rng(seed)
                V = np.linalg.qr(rng.standard_normal((D, r)))[0]
                noise = 0.1 * rng.standard_normal((n, D))
                if kind == "uneven noise":
                    noise *= np.geomspace(1.0, 0.1, D)
                X = rng.standard_normal((n, r)) @ V.T + noise + 5.0
                bad = int(0.3 * n) if kind.startswith("30") else 0
                X[:bad] = 8.0 + rng.standard_normal((bad, D))
                fit, _ = _told(lambda X=X, r=r: RobustPCA(r).fit(X))
                found = diagnose(fit, X).outliers
                rates.append((found[bad:].mean(), 1.0 - found[:bad].mean() if bad else 0.0))
            alarms, missed = np.mean(rates, axis=0)
            lines.append((D, r, n, kind, f"{alarms:.2%}", f"{missed:.2%}"))
    return markdown(
        "False alarms of outlier flags",
        "Share of clean rows flagged at `false_alarms=0.025`, and of outliers missed; Gaussian "
        f"rows, {2 * SEEDS} data sets each.",
        ("D", "r", "n", "rows", "false alarms", "missed"),
        lines,
    )


def _affine(kind: str, share: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(100 + seed)
    data = make_haystack(
        4000, 50, 3, inlier_ratio=share, inlier_noise=0.05, spherical=False, random_state=seed
    )
    away = rng.standard_normal(50)
    away *= 5.0 / np.linalg.norm(away)
    X = data.X + 3.0 * rng.standard_normal(50) / np.sqrt(50)
    bad = ~data.inliers
    rank = rng.standard_normal((bad.sum(), 3)) @ rng.standard_normal((3, 50))
    X[bad] = {
        "cloud": 2.0 * data.X[bad] + away,
        "far": 5.0 * data.X[bad] + 20.0 * away,
        "tight": 0.1 * data.X[bad] + away,
        "low-rank": 0.7 * rank + away,
    }[kind]
    return X, data.components


def _told(fit: Callable[[], RobustPCA]) -> tuple[RobustPCA, bool]:
    """Return the fit, and whether it warned of rivals."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = fit()
    return done, any(issubclass(w.category, DisagreementWarning) for w in caught)
