"""People on a map of Europe, and a stylised genotype matrix made of them (SPEC 7)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stillspace._checks import checked_whole
from stillspace._typing import FloatArray
from stillspace.datasets.haystack import RandomState, _generator

N_SCORES = 20
OUTLIER_RANK = 30

_EIGS, _PLACES = "*-PCA.eigs", "PCA.txt"

# Country: code, longitude, latitude, people in a look-alike of 1000.
_COUNTRIES = {
    "Italy": ("IT", 12.5, 42.5, 150),
    "United Kingdom": ("UK", -2.0, 53.5, 140),
    "Spain": ("ES", -3.7, 40.3, 100),
    "Portugal": ("PT", -8.0, 39.6, 90),
    "Switzerland": ("CH", 7.5, 46.8, 130),
    "France": ("FR", 2.4, 46.6, 80),
    "Germany": ("DE", 10.4, 51.1, 60),
    "Ireland": ("IE", -8.2, 53.2, 50),
    "Belgium": ("BE", 4.6, 50.7, 40),
    "Serbia": ("RS", 20.8, 44.0, 35),
    "Poland": ("PL", 19.4, 52.1, 25),
    "Hungary": ("HU", 19.4, 47.2, 20),
    "Netherlands": ("NL", 5.7, 52.3, 20),
    "Romania": ("RO", 25.0, 45.9, 15),
    "Austria": ("AT", 14.1, 47.6, 15),
    "Sweden": ("SE", 16.0, 60.0, 15),
    "Greece": ("GR", 22.5, 39.5, 15),
}
_SPREAD = 1.5
"""Degrees by which people stand apart from the middle of their country."""
_BLUR = 0.45
"""Part of a leading score that is not geography."""
_EIGENVALUES = np.concatenate([[4.0, 2.0], np.linspace(1.5, 1.3, N_SCORES - 2)])


class Europe(NamedTuple):
    """People with their principal-component scores and the places they come from."""

    scores: FloatArray
    """(n, 20), columns of unit norm."""
    eigenvalues: FloatArray
    """(20,), descending."""
    places: FloatArray
    """(n, 2): longitude and latitude."""
    country: npt.NDArray[np.str_]
    """(n,): a short code."""


class Genotypes(NamedTuple):
    """A stylised genotype matrix, its good rows and its public centre."""

    X: npt.NDArray[np.int8]
    """(n, D) of 0, 1, 2: the good rows in the order of the people, then the outliers."""
    inliers: npt.NDArray[np.bool_]
    center: float


def load_popres(folder: str | Path) -> Europe:
    """Read the public files of Novembre et al. (2008) from a folder that you name.

    Parameters
    ----------
    folder : path
        Holds `PCA.txt` and the file whose name ends in `-PCA.eigs`, of the public repository
        NovembreLab/Novembre_etal_2008_misc. The library does not ship them.

    Returns
    -------
    Europe
    """
    path = Path(folder)
    if not path.is_dir():
        msg = f"{path} is not a folder: name the one that holds {_PLACES} and a file {_EIGS}."
        raise ValueError(msg)
    found = sorted(path.glob(_EIGS))
    if len(found) != 1 or not (path / _PLACES).is_file():
        msg = f"{path} must hold {_PLACES} and exactly one file {_EIGS}; it has {len(found)}."
        raise ValueError(msg)
    eigenvalues, names, scores = _read_scores(found[0])
    places, country = _read_places(path / _PLACES, names)
    return Europe(scores, eigenvalues, places, country)


def _read_scores(path: Path) -> tuple[FloatArray, list[str], FloatArray]:
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line.strip()]
    try:
        eigenvalues = np.array(head.split()[1:], dtype=np.float64)
        scores = np.array([row[2 : 2 + N_SCORES] for row in rows], dtype=np.float64)
    except ValueError:
        scores, eigenvalues = np.empty((0, 0)), np.empty(0)
    if scores.shape != (len(rows), N_SCORES) or eigenvalues.shape != (N_SCORES,) or not rows:
        raise ValueError(
            f"{path} must hold a line of {N_SCORES} eigenvalues, then lines of two names, "
            f"{N_SCORES} numbers and a label."
        )
    return eigenvalues, [row[0] for row in rows], scores


def _read_places(path: Path, names: list[str]) -> tuple[FloatArray, npt.NDArray[np.str_]]:
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    try:
        head = lines[0]
        keep = [head.index(name) for name in ("ID", "alabels", "longitude", "latitude")]
        table = {row[keep[0]]: (row[keep[1]], *map(float, row[keep[2] :][:2])) for row in lines[1:]}
        rows = [table[name] for name in names]
    except (IndexError, KeyError, ValueError):
        raise ValueError(
            f"{path} must be separated by tabulators, with the columns ID, alabels, longitude and "
            "latitude for everybody in the file of scores."
        ) from None
    places = np.array([row[1:] for row in rows], dtype=np.float64)
    return places, np.array([row[0] for row in rows])


def make_europe(n_samples: int = 1387, *, random_state: RandomState = None) -> Europe:
    """Draw people over a map of Europe, with scores that mirror geography: a look-alike.

    The first two scores are latitude and longitude, turned by 16 degrees and blurred; the other
    18 are noise. Eigenvalues fall as in the published analysis: two stand out.

    Parameters
    ----------
    n_samples : int ≥ 50
    random_state : None, int, RandomState or Generator

    Returns
    -------
    Europe
    """
    n = checked_whole("n_samples", n_samples, 50)
    rng = _generator(random_state)
    weights = np.array([people for *_, people in _COUNTRIES.values()], dtype=np.float64)
    which = np.sort(rng.choice(len(weights), size=n, p=weights / weights.sum()))
    codes = np.array([code for code, *_ in _COUNTRIES.values()])
    middles = np.array([(east, north) for _, east, north, _ in _COUNTRIES.values()])
    places = middles[which]
    stands = places + _SPREAD * rng.standard_normal((n, 2))
    angle = np.radians(16.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    flat = (stands - stands.mean(axis=0)) * [np.cos(np.radians(48.0)), 1.0]
    leading = (flat @ turn)[:, ::-1]
    leading = leading / leading.std(axis=0) + _BLUR * rng.standard_normal((n, 2))
    scores = np.hstack([leading, rng.standard_normal((n, N_SCORES - 2))])
    scores -= scores.mean(axis=0)
    scores /= np.linalg.norm(scores, axis=0)
    return Europe(scores, _EIGENVALUES.copy(), places, codes[which])


def make_genotypes(
    europe: Europe,
    n_features: int = 10_000,
    *,
    n_outliers: int = 1000,
    random_state: RandomState = None,
) -> Genotypes:
    """Make the stylised genotype matrix of SPEC 7: people, then outliers, as 0, 1, 2.

    Scores times the square roots of the eigenvalues, times a Gaussian 20 × D matrix; outliers
    uniform(−½, ½) in 30 dimensions, times a Gaussian 30 × D matrix. Each of the two matrices is
    cut at its own thirds.

    Parameters
    ----------
    europe : Europe
    n_features : int ≥ 2
    n_outliers : int ≥ 0
    random_state : None, int, RandomState or Generator

    Returns
    -------
    Genotypes
    """
    D = checked_whole("n_features", n_features, 2)
    m = checked_whole("n_outliers", n_outliers, 0)
    rng = _generator(random_state)
    people = europe.scores * np.sqrt(europe.eigenvalues)
    others = rng.uniform(-0.5, 0.5, (m, OUTLIER_RANK))
    parts = [_alleles(rng, people, D), _alleles(rng, others, D)]
    X = np.concatenate(parts)
    return Genotypes(X, np.arange(len(X)) < len(people), 1.0)


def _alleles(rng: np.random.Generator, factors: FloatArray, D: int) -> npt.NDArray[np.int8]:
    """Return `factors` times a Gaussian matrix, cut into equal thirds: 0, 1, 2."""
    mixed = factors @ rng.standard_normal((factors.shape[1], D))
    if not mixed.size:
        return np.empty(mixed.shape, dtype=np.int8)
    low, high = np.quantile(mixed, [1 / 3, 2 / 3])
    counts: npt.NDArray[np.int8] = (mixed > low).astype(np.int8) + (mixed > high)
    return counts
