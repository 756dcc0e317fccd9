"""The map of Europe: stylised genotypes of 1387 people and 1000 outliers, in two dimensions."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.spatial import procrustes

from reproduction.cells import OURS, AnyCell, Result, our_estimator
from reproduction.columns import (
    PRINTED,
    WORDS,
    Column,
    Setting,
    columns_of,
    paper_plan,
    true_epsilon,
)
from reproduction.experiment import Done, Experiment, Size, Tables, Verdict, epsilon_text
from reproduction.exponential import SWEEPS, exponential_pca
from reproduction.figures import ACROSS, MapPanel, draw_maps
from reproduction.seeds import seed_from
from reproduction.statements import VIEWS, Mark, Statement, columns_in, rows_of
from reproduction.tables import ITERATE, Row, Table, number, one, pick
from stillspace import __version__
from stillspace._typing import AnyArray, FloatArray
from stillspace.datasets import Europe, Genotypes, load_popres, make_europe, make_genotypes
from stillspace.exceptions import PrivacyWarning, SeededNoiseWarning
from stillspace.parts.geometry import as_basis
from stillspace.parts.noise import seeded_generator
from stillspace.parts.schedules import Constant
from stillspace.plans.fixed import Plan
from stillspace.recipes import Facts, fixed_plan
from stillspace.rows import MemoryRows, Sketch
from stillspace.run import run
from stillspace.run.observers import Watch

MapColumn: TypeAlias = Column | Literal["not private"]

CONSTANT = "dp-SGGD (step 1)"
"""The paper states no steps here. Those of its other experiments are halved every 50 iterations,
too soon to come from the noisy start to the map; a step that stays 1 comes there as printed."""
EXPONENTIAL, WISHART = "dp-PCA (exponential)", "dp-PCA (Wishart)"
"""The mechanisms that the paper cites for dp-PCA: for this figure, and for its text."""
OPPOSITE = "dp-PCA (exponential, chain from PCA)"
"""The sampler of the exponential mechanism from the opposite start: how far it has mixed."""
LOOPS = ("dp-SGGD", CONSTANT, "dp-GGD", "dp-SGD-REAP")
OWN_SKETCH = "PrivateRobustPCA (own sketch)"
"""The library's default, which chooses the width of its sketch; all other methods share one."""
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
    """Columns of the public random projection that every method sees."""
    n_iter: int
    """The paper states none; 500 are ten halvings of the step."""
    runs: int


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Components (2, m), the rows (n, m) that they are for, and ε with the start and without."""

    components: FloatArray
    rows: AnyArray
    epsilon: float = inf
    epsilon_of_loop: float = inf
    iterate: FloatArray | None = None
    """The components of the last iterate, where the method returns an average."""


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
        m, T = self.size.sketch, self.size.n_iter
        if self.method == "dp-SGD-REAP":
            return 1.0 + T * 2.2e-9 * m**3
        return 4.0 if self.method == OWN_SKETCH else 1.0 + 5e-6 * m * T / 10

    @property
    def label(self) -> str:
        """A name for people and for the file."""
        name = f"{self.column}-{self.method}-D{self.size.n_features}-{self.run}"
        return name.replace(" ", "-").replace("(", "").replace(")", "")

    def key(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""
        facts = {name: value for name, value in asdict(self).items() if name != "folder"}
        return {"version": __version__, "experiment": Popres.id, **facts}

    def compute(self) -> Result:
        """Embed the people; keep where they are, turned onto the map."""
        europe, genes = _data(self.folder, self.size, self.seed)
        rng = np.random.default_rng(seed_from("map", self.seed, self.method, self.column, self.run))
        _sketched(self.folder, self.size, self.seed)  # made once per process, in nobody's time
        began = time.process_time()
        made = self._fit(genes, rng)
        seconds = time.process_time() - began
        people = made.rows[: len(europe.scores)].astype(np.float64)
        onto, correlation = onto_map(people @ made.components.T, europe.places)
        iterate = made.components if made.iterate is None else made.iterate
        return {
            "correlation": correlation,
            "iterate_correlation": onto_map(people @ iterate.T, europe.places)[1],
            "epsilon": made.epsilon,
            "epsilon_loop": made.epsilon_of_loop,
            "columns": made.components.shape[1],
            "seconds": seconds,
            "points": np.round(onto, 5).tolist(),
        }

    def _fit(self, genes: Genotypes, rng: np.random.Generator) -> Embedding:
        if self.method == OWN_SKETCH:
            return self._fit_ours(genes.X, np.full(genes.X.shape[1], genes.center), rng)
        Z = _sketched(self.folder, self.size, self.seed)
        if self.column == "ours":
            return self._fit_ours(Z, None, rng)
        if self.column == "not private":
            return Embedding(_pca(Z), Z)
        if self.method in (EXPONENTIAL, OPPOSITE):
            unit = _on_sphere(Z)
            start = _pca(Z).T if self.method == OPPOSITE else None
            V = exponential_pca(unit.T @ unit, EPSILON / 2.0, R, rng, start=start)
            return Embedding(V.T, Z)
        plan, last = self._plan(*Z.shape), []
        watch = Watch(
            frozenset({plan.n_iter}), lambda _, __, point: last.append(as_basis(point, R))
        )
        V = run(plan, MemoryRows.prepare(Z), _seeded(rng), watch=watch).V
        true = true_epsilon(plan, len(Z) ** -0.5)
        return Embedding(V.T, Z, true.total, true.loop, last[0].T if last else None)

    def _fit_ours(
        self, X: AnyArray, center: FloatArray | None, rng: np.random.Generator
    ) -> Embedding:
        """Fit the library's default, to the shared projection or to all columns."""
        estimator = our_estimator(
            self.method, R, epsilon=EPSILON, delta=len(X) ** -0.5, center=center, random_state=rng
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            estimator.fit(X)
        sketch = estimator.sketch_
        Z = (
            (X if center is None else X - center)
            if sketch is None
            else sketch.apply(X, center=center)
        )
        epsilon = estimator.privacy_.epsilon
        return Embedding(estimator.components_, Z, epsilon, epsilon)

    def _plan(self, n: int, D: int) -> Plan:
        """Return the plan of a method of the paper on the projected rows."""
        facts = Facts(
            n=n,
            D=D,
            r=R,
            epsilon=EPSILON,
            delta=n**-0.5,
            calibration="as-printed" if self.column in PRINTED else "honest",
        )
        if self.method.startswith("dp-PCA"):
            return fixed_plan("dp-pca", facts, start="wishart" if self.method == WISHART else None)
        setting = Setting(n, D, R, epsilon=EPSILON, n_iter=self.size.n_iter)
        method = "dp-SGGD" if self.method == CONSTANT else self.method
        column: Any = self.column
        plan = paper_plan(method, setting, column)
        return replace(plan, schedule=Constant(1.0)) if self.method == CONSTANT else plan


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


@lru_cache(maxsize=1)
def _sketched(folder: str | None, size: MapSize, seed: int) -> FloatArray:
    """Return the centred rows in the public random projection that all methods share."""
    genes = _data(folder, size, seed)[1]
    D = genes.X.shape[1]
    return Sketch(D, size.sketch).apply(genes.X, center=np.full(D, genes.center))


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


def _on_sphere(centred: AnyArray) -> AnyArray:
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return centred / np.where(lengths > 0, lengths, 1)


def _top(matvec: Callable[[AnyArray], AnyArray], D: int, r: int) -> FloatArray:
    operator = LinearOperator((D, D), matvec=matvec, dtype=np.float32)
    _, vectors = eigsh(operator, k=r, which="LA", v0=np.ones(D, dtype=np.float32), tol=1e-4)
    return np.asarray(vectors[:, ::-1].T, dtype=np.float64)


class Popres(Experiment):
    """n = 2387, D = 10 000, r = 2; every method sees the same sketch."""

    id: ClassVar[str] = "popres"
    title: ClassVar[str] = "The map of Europe"
    sizes: ClassVar[dict[Size, MapSize]] = {
        "quick": MapSize(1000, 1000, 60, 500, 5),
        "paper": MapSize(10_000, 1000, 100, 500, 5),
    }

    def cells(self, size: Size, seed: int, data: Path | None) -> list[AnyCell]:
        """Return what is to be run."""
        folder, source = (None, "look-alike") if data is None else (str(data), _digest(data))
        made = self.sizes[size]
        plan: list[tuple[str, MapColumn]] = [
            (EXPONENTIAL, "as-printed"),
            (OPPOSITE, "as-printed"),
            (WISHART, "as-printed"),
            ("dp-PCA", "honest"),
        ]
        for method in LOOPS:
            wanted = columns_of("dp-SGGD" if method == CONSTANT else method)
            plan += [(method, c) for c in wanted if not (method == CONSTANT and c == "tuned")]
        plan += [(method, "ours") for method in (*OURS, OWN_SKETCH)]
        cells: list[AnyCell] = [MapCell(made, "PCA", "not private", 0, seed, folder, source)]
        for method, column in plan:
            cells += [
                MapCell(made, method, column, i, seed, folder, source) for i in range(made.runs)
            ]
        return cells

    def tables(self, done: Done) -> Tables:
        """Return one row per method and column."""
        groups: dict[tuple[str, str], list[tuple[MapCell, Result]]] = {}
        for cell, result in done:
            assert isinstance(cell, MapCell)
            groups.setdefault((cell.method, cell.column), []).append((cell, result))
        return {self.id: [_row(parts) for parts in groups.values()]}

    def figures(self, tables: Tables, done: Done) -> dict[str, Any]:
        """Return the maps of the median run of each method and column, without "poisson"."""
        table = tables[self.id]
        made = [(c, r) for c, r in done if isinstance(c, MapCell) and c.column != "poisson"]
        europe = _people(made[0][0].folder, made[0][0].seed)
        size, source = made[0][0].size, made[0][0].source
        own = one(table, column="ours", method=OWN_SKETCH)["columns"]
        people = "look-alike people" if source == "look-alike" else "people of the published file"
        note = (
            f"{len(europe.scores)} {people} with {size.n_features} stylised genotypes, and "
            f"{size.n_outliers} outliers (not drawn); δ = 1/√n, T = {size.n_iter}. All methods see "
            f"the same public random projection to {size.sketch} columns; the last panel is the "
            f"library's own choice of {own:.0f}. Each panel: the run with the median correlation "
            f"of {size.runs}. Colour and letters: the country; every picture is turned and scaled "
            "onto the map (Procrustes). Positions of private people are no private output: these "
            "are invented or public."
        )
        drawn = [r for r in table if r["column"] != "poisson" and r["method"] != OPPOSITE]
        panels = [_median_panel(table, made, row) for row in drawn]
        figure = draw_maps(
            panels,
            europe.places,
            europe.country.tolist(),
            title="The map of Europe",
            note=note,
            width=ACROSS,
        )
        return {self.id: figure}

    def verdict(self, tables: Tables) -> Verdict:
        """Judge who recovers the map."""
        table = tables[self.id]
        top = number(one(table, column="not private"), "correlation")
        ours = _ours_text(table, top)
        columns = int(one(table, column="not private")["columns"])
        rule = (
            f"The median correlation with geography is at least {GOOD:g} times that of PCA without "
            f"privacy ({top:.2f}) in the same {columns} columns."
        )
        judge = partial(_recovers, top=top)
        return Verdict(
            statements=(
                _map_statement(
                    table, "dp-SGGD recovers the map.", rule, partial(judge, name="dp-SGGD"), ours
                ),
                _map_statement(
                    table,
                    "dp-PCA, dp-GGD and dp-SGD-REAP do not recover the map.",
                    f"None of them is as good as that. {rule}",
                    partial(_fail_to_recover, top=top),
                    ours,
                ),
            ),
            texts={c: _correlations(pick(table, column=c)) for c in columns_in(table)},
            ours=ours,
            judgement=(
                "The paper states neither T nor the steps of this experiment: the steps are those "
                "of its others, and beside them a step that stays 1. The two mechanisms that the "
                "paper cites for dp-PCA are drawn as printed. The Wishart mechanism is not "
                "differentially private at all (SPEC 9.6). The exponential mechanism would be "
                f"{EPSILON}-private with an exact sampler. Here it is run by {SWEEPS} sweeps of "
                "Gibbs sampling, whose distance from the wanted law nobody has proved. "
                f"{_sampler_text(table)} In all "
                "columns of the table noise on a direction would be longer by the square root of "
                f"the ratio of widths; the projection to {columns} columns helps all methods alike."
            ),
        )


def _map_statement(
    table: Table, claim: str, rule: str, judge: Callable[[Table, str], Mark], ours: str
) -> Statement:
    marks = {}
    for column in columns_in(table):
        rows = rows_of(table, column)
        if column == "tuned":  # dp-PCA has no steps to tune
            rows += pick(table, column="honest", method="dp-PCA")
        marks[column] = {view: judge(rows, view) for view in VIEWS}
    return Statement(claim, rule, marks, ours)


def _recovers(rows: Table, view: str, *, top: float, name: str) -> Mark:
    """Judge a method with its own steps and, where that was run, with a step that stays 1."""
    found = [row for row in rows if str(row["method"]).split(" (")[0] == name]
    good = [number(row, f"correlation{view}") >= GOOD * top for row in found]
    return Mark(any(good), _found_text(found, view))


def _fail_to_recover(rows: Table, view: str, *, top: float) -> Mark:
    others = [r for r in rows if not str(r["method"]).startswith("dp-SGGD")]
    others = [row for row in others if row["method"] != OPPOSITE]
    good = [number(row, f"correlation{view}") >= GOOD * top for row in others]
    return Mark(not any(good), _found_text(others, view))


def _found_text(rows: Table, view: str) -> str:
    return ", ".join(f"{row['method']} {number(row, f'correlation{view}'):.2f}" for row in rows)


def _sampler_text(table: Table) -> str:
    """Say how far the chain has forgotten its start."""
    parts = []
    for method, words in ((EXPONENTIAL, "a random basis"), (OPPOSITE, "the exact components")):
        row = one(table, method=method)
        low, high = (number(row, f"correlation_{end}") for end in ("low", "high"))
        parts.append(f"{row['correlation']:.2f} from {words} ({low:.2f} to {high:.2f})")
    return f"Correlation of chains of this length: {' and '.join(parts)}."


def _ours_text(table: Table, top: float) -> str:
    shared = [one(table, column="ours", method=m) for m in OURS]
    own = one(table, column="ours", method=OWN_SKETCH)
    parts = ", ".join(f"{row['method']} {row['correlation']:.2f}" for row in shared)
    return (
        f"Correlation in the shared projection to {int(shared[0]['columns'])} columns: {parts}; "
        f"with the width that the library chooses itself ({int(own['columns'])} columns, "
        f"[wide.md](wide.md)): {own['correlation']:.2f}; PCA without privacy: {top:.2f}."
    )


def _median_panel(table: Table, made: list[tuple[MapCell, Result]], row: Row) -> MapPanel:
    """Return the picture of the run whose correlation is the median one of its cell."""
    mine = [r for c, r in made if c.method == row["method"] and c.column == row["column"]]
    mine.sort(key=lambda result: float(result["correlation"]))
    points = np.array(mine[(len(mine) - 1) // 2]["points"])
    return MapPanel(*_words(one(table, method=row["method"], column=row["column"])), points)


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
        "true_epsilon_of_loop": result["epsilon_loop"],
        "correlation": float(np.median(correlations)),
        f"correlation{ITERATE}": float(np.median([r["iterate_correlation"] for _, r in parts])),
        "correlation_low": min(correlations),
        "correlation_high": max(correlations),
        "seconds_per_run": float(np.median([r["seconds"] for _, r in parts])),
    }


def _words(row: Row) -> tuple[str, str]:
    words = WORDS.get(row["column"], row["column"])
    epsilon = ""
    if row["column"] in PRINTED:
        true = number(row, "true_epsilon")
        epsilon = ", no ε" if true == inf else f", ε ≤ {epsilon_text([true])}"
    return f"{row['method']}, {words}", f"correlation {row['correlation']:.2f}{epsilon}"


def _correlations(rows: Table) -> str:
    parts = []
    for row in rows:
        true, loop = (number(row, f"true_epsilon{e}") for e in ("", "_of_loop"))
        epsilon = "" if true == inf else f", ε ≤ {epsilon_text([true])}"
        if true not in (inf, loop) and loop > 0.0:
            epsilon += f" (loop alone {epsilon_text([loop])})"
        low, high = (number(row, f"correlation_{e}") for e in ("low", "high"))
        iterate = number(row, f"correlation{ITERATE}")
        same = f"{iterate:.2f}" == f"{row['correlation']:.2f}"
        shown = f"{low:.2f} to {high:.2f}" + ("" if same else f", iterate: {iterate:.2f}")
        parts.append(f"{row['method']} {row['correlation']:.2f} ({shown}){epsilon}")
    return f"Median correlation with geography (range of the runs): {'; '.join(parts)}."


def _digest(folder: Path) -> str:
    """Return a digest of the people that the folder holds."""
    europe = load_popres(folder)
    parts = (europe.scores.tobytes(), europe.eigenvalues.tobytes(), europe.places.tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
