"""The map of Europe: stylised genotypes of 1387 people and 1000 outliers, in two dimensions."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.spatial import procrustes

from reproduction.cells import OURS, STOCHASTIC, AnyCell, Result, seed_from, true_epsilon
from reproduction.experiment import (
    Done,
    Experiment,
    Size,
    Tables,
    Verdict,
    epsilon_text,
)
from reproduction.figures import MapPanel, draw_maps
from reproduction.tables import Row, Table, number, one, pick
from stillspace import __version__
from stillspace._typing import AnyArray, FloatArray
from stillspace.datasets import Europe, Genotypes, load_popres, make_europe, make_genotypes
from stillspace.exceptions import PrivacyWarning, SeededNoiseWarning
from stillspace.parts.noise import seeded_generator
from stillspace.parts.schedules import Constant
from stillspace.plans.fixed import Plan
from stillspace.recipes import Facts, fixed_plan
from stillspace.rows import MemoryRows, Sketch
from stillspace.run import run

MapColumn: TypeAlias = Literal["as-printed", "honest", "ours", "not private"]

CONSTANT = "dp-SGGD (step 1)"
"""The paper states no steps here. Those of its other experiments are halved every 50 iterations,
too soon to come from the noisy start to the map; a step that stays 1 comes there as printed."""
PAPER = ("dp-PCA", "dp-SGGD", CONSTANT, "dp-GGD", "dp-SGD-REAP")
DEAR = 60.0
"""A method that takes more seconds than this, by estimate, is run once."""
R = 2
EPSILON = 0.8
GOOD = 0.8
"""A map counts as recovered with this share of the correlation of PCA without privacy."""


@dataclass(frozen=True, slots=True)
class MapSize:
    """How large the experiment is."""

    n_features: int
    n_outliers: int
    sketch: int
    """Columns that dp-SGD-REAP sees."""
    n_iter: int
    """The paper states none; 500 are ten halvings of the step."""
    runs: int


@dataclass(frozen=True, slots=True)
class MapCell:
    """One embedding of the people by one method."""

    size: MapSize
    method: str
    column: MapColumn
    run: int
    seed: int
    folder: str | None
    """Of the published files; None for the look-alike."""
    source: str
    """A digest of those files, or "look-alike"."""

    @property
    def cost(self) -> float:
        """Estimated seconds."""
        D, T = self.size.n_features, self.size.n_iter
        start = 1.0 + 6e-7 * D**2
        if self.column in ("ours", "not private"):
            return 4.0
        if self.method == "dp-SGD-REAP":
            return 2.0 + T * 2.2e-9 * self.size.sketch**3
        step = {"dp-PCA": 0.0, "dp-GGD": 5e-6 * D}.get(self.method, 4e-7 * D)
        return 2.0 + start + T * step

    @property
    def label(self) -> str:
        """A name for people and for the file."""
        name = f"{self.column}-{self.method}-D{self.size.n_features}-{self.run}"
        return name.replace(" ", "-")

    def key(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""
        facts = {name: value for name, value in asdict(self).items() if name != "folder"}
        if self.column == "ours":
            facts["size"]["sketch"] = "auto"
        return {"version": __version__, "experiment": Popres.id, **facts}

    def compute(self) -> Result:
        """Embed the people; keep where they are, turned onto the map."""
        europe, genes = _data(self.folder, self.size, self.seed)
        rng = np.random.default_rng(seed_from("map", self.seed, self.method, self.column, self.run))
        began = time.process_time()
        basis, rows, epsilon = self._fit(genes, rng)
        seconds = time.process_time() - began
        points = rows[: len(europe.scores)].astype(np.float64) @ basis.T
        onto, correlation = onto_map(points, europe.places)
        return {
            "correlation": correlation,
            "epsilon": epsilon,
            "columns": basis.shape[1],
            "seconds": seconds,
            "points": np.round(onto, 5).tolist(),
        }

    def _fit(
        self, genes: Genotypes, rng: np.random.Generator
    ) -> tuple[FloatArray, AnyArray, float]:
        """Return the components, the rows that they are for, and the ε of the noise."""
        X, n = genes.X, len(genes.X)
        center = np.full(X.shape[1], genes.center)
        if self.column == "ours":
            return self._fit_ours(X, center, rng)
        if self.method == "dp-SGD-REAP":
            # A matrix of 10⁸ cells is decomposed in every step of REAPER: it runs in a sketch.
            Z = Sketch(X.shape[1], self.size.sketch).apply(X, center=center)
            plan = self._plan(n, self.size.sketch)
            V = run(plan, MemoryRows.prepare(Z), _seeded(rng)).V
            return V.T, Z, true_epsilon(plan, n**-0.5)
        centred = X.astype(np.float32) - np.float32(genes.center)
        if self.column == "not private":
            return _pca(centred), centred, inf
        if self.column == "as-printed" and self.method == "dp-PCA":
            return wishart_pca(centred, EPSILON, R, rng), centred, inf
        plan = self._plan(n, X.shape[1])
        rows = MemoryRows.prepare(X, center=center)
        V = run(plan, rows, _seeded(rng)).V
        return V.T, centred, true_epsilon(plan, n**-0.5)

    def _fit_ours(
        self, X: AnyArray, center: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, AnyArray, float]:
        """Fit the library's default, which takes a public projection of such wide rows."""
        estimator = OURS[self.method](
            R, epsilon=EPSILON, delta=len(X) ** -0.5, center=center, random_state=rng
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            estimator.fit(X)
        sketch = estimator.sketch_
        Z = X - center if sketch is None else sketch.apply(X, center=center)
        return estimator.components_, Z, estimator.privacy_.epsilon

    def _plan(self, n: int, D: int) -> Plan:
        facts = Facts(
            n=n,
            D=D,
            r=R,
            epsilon=EPSILON,
            delta=n**-0.5,
            calibration="honest" if self.column == "honest" else "as-printed",
        )
        if self.method == "dp-PCA":
            return fixed_plan("dp-pca", facts)
        options: dict[str, Any] = {"n_iter": self.size.n_iter}
        method = self.method
        if method == CONSTANT:
            method = "dp-SGGD"
            options["schedule"] = Constant(1.0)
        if method in STOCHASTIC:
            options["sampling"] = "with-replacement"
        return fixed_plan(method.lower(), facts, **options)


def _seeded(rng: np.random.Generator) -> np.random.Generator:
    return seeded_generator(int.from_bytes(rng.bytes(32), "little"))


@lru_cache(maxsize=1)
def _data(folder: str | None, size: MapSize, seed: int) -> tuple[Europe, Genotypes]:
    europe = _people(folder, seed)
    genes = make_genotypes(
        europe,
        size.n_features,
        n_outliers=size.n_outliers,
        random_state=seed_from("genes", seed),
    )
    return europe, genes


def _people(folder: str | None, seed: int) -> Europe:
    if folder is not None:
        return load_popres(folder)
    return make_europe(random_state=seed_from("europe", seed))


def onto_map(points: FloatArray, places: FloatArray) -> tuple[FloatArray, float]:
    """Return the points turned and scaled onto the map (Procrustes), and the correlation.

    It is `√(1 − m²)`, m² the part of the map's variance that is left.
    """
    _, onto, left = procrustes(places, points)
    return onto, float(np.sqrt(max(0.0, 1.0 - left)))


def _pca(centred: AnyArray) -> FloatArray:
    """Return the top components of the rows on the sphere, without privacy."""
    unit = _on_sphere(centred)
    return _top(lambda v: unit.T @ (unit @ v), unit.shape[1], R)


def wishart_pca(centred: AnyArray, epsilon: float, r: int, rng: np.random.Generator) -> FloatArray:
    """Return what the Wishart mechanism gives (Jiang et al. 2016), which is *not* private.

    `XᵀX/n + W`, W of D + 1 degrees of freedom and scale 3/(2nε). Its support depends on the rows
    (SPEC 9.6): kept only to redraw the paper's panel, with no ε to its name.
    """
    unit = _on_sphere(centred)
    n, D = unit.shape
    G = rng.standard_normal((D, D + 1), dtype=np.float32)
    scale = 3.0 / (2.0 * n * epsilon)
    return _top(lambda v: unit.T @ (unit @ v) / n + scale * (G @ (G.T @ v)), D, r)


def _on_sphere(centred: AnyArray) -> AnyArray:
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return centred / np.where(lengths > 0, lengths, 1)


def _top(matvec: Callable[[AnyArray], AnyArray], D: int, r: int) -> FloatArray:
    operator = LinearOperator((D, D), matvec=matvec, dtype=np.float32)
    _, vectors = eigsh(operator, k=r, which="LA", v0=np.ones(D, dtype=np.float32), tol=1e-4)
    return np.asarray(vectors[:, ::-1].T, dtype=np.float64)


class Popres(Experiment):
    """n = 2387, D = 10 000, r = 2."""

    id: ClassVar[str] = "popres"
    title: ClassVar[str] = "The map of Europe"
    sizes: ClassVar[dict[Size, MapSize]] = {
        "quick": MapSize(1000, 1000, 200, 500, 1),
        "paper": MapSize(10_000, 1000, 200, 500, 3),
    }

    def cells(self, size: Size, seed: int, data: Path | None) -> list[AnyCell]:
        """Return what is to be run."""
        folder, source = (None, "look-alike") if data is None else (str(data), _digest(data))
        made = self.sizes[size]
        plan: list[tuple[str, MapColumn]] = [
            *((method, "as-printed") for method in PAPER),
            ("PCA", "not private"),
            *((method, "honest") for method in PAPER),
            ("PrivatePCA", "ours"),
            ("PrivateRobustPCA", "ours"),
        ]
        first = [MapCell(made, method, column, 0, seed, folder, source) for method, column in plan]
        return [
            replace(cell, run=i)
            for cell in first
            for i in range(1 if cell.cost > DEAR or cell.column == "not private" else made.runs)
        ]

    def tables(self, done: Done) -> Tables:
        """Return one row a method and column."""
        groups: dict[tuple[str, str], list[tuple[MapCell, Result]]] = {}
        for cell, result in done:
            assert isinstance(cell, MapCell)
            groups.setdefault((cell.method, cell.column), []).append((cell, result))
        return {self.id: [_row(parts) for parts in groups.values()]}

    def figures(self, tables: Tables, done: Done) -> dict[str, Any]:
        """Return the maps: as printed above, with PCA; honest below, with ours."""
        table = tables[self.id]
        first = [(c, r) for c, r in done if isinstance(c, MapCell) and c.run == 0]
        europe = _people(first[0][0].folder, first[0][0].seed)
        panels = [
            MapPanel(*_words(one(table, method=c.method, column=c.column)), np.array(r["points"]))
            for c, r in first
            if c.method != "PrivatePCA"
        ]
        size, source = first[0][0].size, first[0][0].source
        columns = one(table, column="ours", method="PrivateRobustPCA")["columns"]
        people = "look-alike people" if source == "look-alike" else "people of the published file"
        note = (
            f"{len(europe.scores)} {people} with {size.n_features} stylised genotypes, and "
            f"{size.n_outliers} outliers (not drawn); δ = 1/√n, T = {size.n_iter}; steps as in the "
            "other experiments, but for the third column, whose step stays 1. Colour "
            "and letters: the country; every picture is turned and scaled onto the map "
            f"(Procrustes). dp-SGD-REAP sees a public random projection to {size.sketch} columns, "
            f"ours one to {columns}. Positions of private people are no private output: these are "
            "invented or public."
        )
        figure = draw_maps(
            panels,
            europe.places,
            europe.country.tolist(),
            title="The map of Europe: as printed (above), at an honest ε = 0.8 and ours (below)",
            note=note,
            width=len(PAPER) + 1,
        )
        return {self.id: figure}

    def verdict(self, tables: Tables) -> Verdict:
        """Judge who recovers the map."""
        table = tables[self.id]
        top = number(one(table, column="not private"), "correlation")
        found = {
            column: [
                row["method"]
                for row in pick(table, column=column)
                if row["correlation"] >= GOOD * top
            ]
            for column in ("as-printed", "honest", "ours")
        }
        ours = one(table, column="ours", method="PrivateRobustPCA")
        plain = one(table, column="ours", method="PrivatePCA")
        D, m = int(one(table, column="not private")["columns"]), int(ours["columns"])
        reaper = int(one(table, column="honest", method="dp-SGD-REAP")["columns"])
        return Verdict(
            claim="dp-SGGD recovers the map; dp-PCA, dp-GGD and dp-SGD-REAP do not.",
            printed=_correlations(pick(table, column="as-printed"))
            + " dp-PCA by the Wishart mechanism is not differentially private at all (SPEC 9.6).",
            honest=_correlations(pick(table, column="honest")),
            ours=(
                f"PrivateRobustPCA, whose default takes a public random projection to {m} columns "
                "and narrows it to a quarter of them by a charged release "
                f"([wide.md](wide.md)): correlation {ours['correlation']:.2f} (PrivatePCA: "
                f"{plain['correlation']:.2f}), against {top:.2f} of PCA without privacy. A "
                "subspace of the projection serves the picture and does not lift back."
            ),
            label="holds" if {"dp-SGGD", CONSTANT} & set(found["honest"]) else "fails",
            judgement=(
                f"As printed, {_found(found['as-printed'])} the map (at least {100 * GOOD:.0f} % "
                "of the correlation of PCA), with the ε above; at the honest budget "
                f"{_found(found['honest'])} it. The printed noise of the stochastic methods lacks "
                f"a factor (n/B)² in its variance (SPEC 9.3). In {D} columns honest noise on a "
                f"direction has the length σ√{D}; in the columns that ours keeps, σ√{m // 4}; ours "
                f"reaches {100 * ours['correlation'] / top:.0f} % of the correlation of PCA. "
                f"dp-SGD-REAP is run in a projection too ({reaper} columns), which favours it: in "
                f"all columns each step would decompose a {D} × {D} matrix. The paper states "
                "neither T nor the steps of this experiment: the steps are those of its others, "
                "and beside them a step that stays 1."
            ),
        )


def _found(methods: list[str]) -> str:
    if not methods:
        return "no method of the paper recovers"
    return f"{' and '.join(methods)} {'recovers' if len(methods) == 1 else 'recover'}"


def _row(parts: list[tuple[MapCell, Result]]) -> Row:
    cell, result = parts[0]
    correlations = [r["correlation"] for _, r in parts]
    return {
        "method": cell.method,
        "column": cell.column,
        "source": "look-alike" if cell.source == "look-alike" else "published",
        "columns": result["columns"],
        "runs": len(parts),
        "true_epsilon": result["epsilon"],
        "correlation": float(np.median(correlations)),
        "correlation_low": min(correlations),
        "correlation_high": max(correlations),
        "seconds_a_run": float(np.median([r["seconds"] for _, r in parts])),
    }


def _words(row: Row) -> tuple[str, str]:
    column = {"as-printed": "as printed", "honest": "honest", "ours": "ours (sketch)"}
    words = column.get(row["column"], row["column"])
    epsilon = ""
    if row["column"] == "as-printed":
        true = number(row, "true_epsilon")
        epsilon = ", not private" if true == inf else f", true ε {epsilon_text([true])}"
    below = f"correlation {row['correlation']:.2f}, {row['seconds_a_run']:.3g} s{epsilon}"
    return f"{row['method']}, {words}", below


def _correlations(rows: Table) -> str:
    parts = []
    for row in rows:
        true = number(row, "true_epsilon")
        epsilon = "" if true == inf else f", ε {epsilon_text([true])}"
        parts.append(f"{row['method']} {row['correlation']:.2f}{epsilon}")
    return f"Correlation with geography: {'; '.join(parts)}."


def _digest(folder: Path) -> str:
    """Return a digest of the people that the folder holds."""
    europe = load_popres(folder)
    parts = (europe.scores.tobytes(), europe.eigenvalues.tobytes(), europe.places.tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
