"""Phase transitions: a number over a grid of two settings, for each method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from reproduction.cells import OURS, AnyCell
from reproduction.columns import HALVING, NONCONVEX, PRINTED, SIX, STOCHASTIC, WORDS, Setting
from reproduction.experiment import (
    Done,
    Experiment,
    Size,
    Tables,
    all_columns,
    epsilon_text,
    haystack_cells,
)
from reproduction.figures import SECONDS, Grid, Look, draw_grids, grid_of
from reproduction.statements import DRAWN, VIEWS, error
from reproduction.tables import OUTPUT, Row, Table, number, pick, summary, values
from stillspace.theory import predict_recovery

CONVEX = tuple(method for method in SIX if method not in NONCONVEX)
GOOD = -2.0
"""log10 of the error that counts as recovery."""
PAPER_STEPS = ("as-printed", "without-misprint", "honest", "poisson")
BOUNDARY_NOTE = (
    "Orange line on dp-(S)GGD: predicted phase boundary, no constant fitted (docs/theory.md); "
    "no line if all cells lie on one side."
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the table that becomes a figure."""

    name: str
    """Of the file."""
    column: str
    scale: str
    look: Look
    """Colours: the same in all maps that show the same kind of number."""
    methods: tuple[str, ...] = SIX
    """The methods of the paper that are drawn. (Only REAPER's iterates differ from its output.)"""


class PhaseTransition(Experiment):
    """A grid of settings; one figure or more, with the paper's axes."""

    x: ClassVar[tuple[str, str]]
    """The horizontal setting, and what the figure calls it."""
    y: ClassVar[tuple[str, str]]
    shown: ClassVar[tuple[Shown, ...]]
    methods: ClassVar[tuple[str, ...]] = SIX
    runs: ClassVar[dict[Size, int]]
    note: ClassVar[str]

    @abstractmethod
    def settings(self, size: Size) -> list[Setting]:
        """Return the grid."""

    def cells(self, size: Size, seed: int, data: Path | None) -> list[AnyCell]:  # noqa: ARG002
        """Return what is to be run."""
        runs = self.runs[size]
        return [
            cell
            for setting in self.settings(size)
            for cell in all_columns(self.id, setting, runs, seed, methods=self.methods)
        ]

    def tables(self, done: Done) -> Tables:
        """Return the grid as a table."""
        return {self.id: summary(haystack_cells(done, self.id))}

    def figures(self, tables: Tables, done: Done) -> dict[str, Any]:  # noqa: ARG002
        """Return one figure per column of the table that is shown."""
        return {shown.name: self._figure(tables[self.id], shown) for shown in self.shown}

    def _figure(self, table: Table, shown: Shown) -> Any:
        paper = [row for row in table if row["column"] != "ours"]
        x, y = (self.x[0], values(paper, self.x[0])), (self.y[0], values(paper, self.y[0]))
        lines: list[list[Grid]] = []
        for method in (m for m in self.methods if m in shown.methods):
            panels = [pick(table, column=c, method=method) for c in DRAWN]
            lines.append([self._grid(rows, x, y, shown) for rows in panels if rows])
        if shown.methods == SIX:
            mine = [self._spread(pick(table, column="ours", method=m), x, y) for m in OURS]
            lines.append([self._grid(rows, x, y, shown) for rows in mine])
        runs = values(table, "runs")
        count = f"{runs[0]:.0f}" if len(runs) == 1 else f"{runs[0]:.0f} to {runs[-1]:.0f}"
        return draw_grids(
            [line for line in lines if line],
            x=(self.x[1], list(map(_tick, x[1]))),
            y=(self.y[1], list(map(_tick, y[1]))),
            title=f"{self.title}: {shown.scale}",
            scale=shown.scale,
            note=f"{self.note} Runs per cell: {count}. Dark: good. Hatched: "
            f"{'no run got there, or not run' if shown.look is SECONDS else 'not run'}."
            f"{f' {BOUNDARY_NOTE}' if shown.methods == SIX else ''}",
            look=shown.look,
        )

    def _spread(self, rows: Table, x: tuple[str, list[Any]], y: tuple[str, list[Any]]) -> Table:
        """Return our rows for the grid; a setting that ours does not have holds for all its values.

        (Ours takes no batch size.)
        """
        spread: Table = []
        for row in rows:
            at = [{}] if row[x[0]] in x[1] else [{x[0]: value} for value in x[1]]
            above = [{}] if row[y[0]] in y[1] else [{y[0]: value} for value in y[1]]
            spread += [{**row, **i, **j} for i in at for j in above]
        return spread

    def _grid(
        self, rows: Table, x: tuple[str, list[Any]], y: tuple[str, list[Any]], shown: Shown
    ) -> Grid:
        column, method = str(rows[0]["column"]), str(rows[0]["method"])
        below = ""
        if column in PRINTED:
            sign = "≤ " if any(row.get("epsilon_is") == "upper bound" for row in rows) else ""
            below = f"true ε {sign}{epsilon_text(number(row, 'true_epsilon') for row in rows)}"
        predicted = None
        if method in NONCONVEX:
            marked = [{**row, "predicted": float(predicted_to_recover(row))} for row in rows]
            predicted = grid_of(marked, x, y, "predicted")
        cells = grid_of(rows, x, y, shown.column)
        return Grid(f"{method}, {WORDS[column]}", cells, below, predicted)


def _tick(value: float) -> str:
    return f"{value:g}" if value >= 0.01 else f"{value:.0e}".replace("e-0", "e-")


def predicted_to_recover(row: Row) -> bool:
    """Whether theory.predict_recovery says that dp-(S)GGD follows its halved steps down to L*."""
    sampled = row["method"] in STOCHASTIC
    n, D, r, T = (int(row[name]) for name in ("n", "D", "r", "n_iter"))
    paper = max(1, round(n * (row["epsilon"] / (4 * T)) ** 0.5))
    return predict_recovery(
        n,
        row["epsilon"],
        D,
        r,
        row["inlier_ratio"],
        every=HALVING,
        sigma=number(row, "sigma"),
        batch_size=int(row["batch_size"] or paper) if sampled else None,
    ).recovers


def prediction_text(table: Table) -> str:
    """Return in how many cells the predicted phase boundary agrees with the measured one."""
    parts = []
    for method in NONCONVEX:
        rows = [row for row in pick(table, method=method) if row["column"] in PAPER_STEPS]
        if not rows:
            continue
        same = sum(predicted_to_recover(row) == recovered(row, OUTPUT) for row in rows)
        parts.append(f"{method} {same} of {len(rows)}")
    return (
        "The predicted phase boundary (line in the figures, [theory.md](theory.md)) agrees with "
        f"the measured one in these cells with the paper's steps: {', '.join(parts)}."
    )


def recovered(row: Row, view: str) -> bool:
    """Whether the median error of a cell counts as recovery."""
    return error(row, view) <= GOOD


def recovery_text(table: Table) -> str:
    """Return in how many of its cells each method recovers the subspace, by output and iterate."""
    methods = dict.fromkeys(str(row["method"]) for row in table)
    parts = []
    for m in methods:
        rows = pick(table, method=m)
        counts = [sum(recovered(row, view) for row in rows) for view in VIEWS]
        same = len(set(counts)) == 1
        shown = f"{counts[0]}" if same else f"{counts[0]} (iterate: {counts[1]})"
        parts.append(f"{m} {shown} of {len(rows)}")
    return f"Cells with median d² ≤ 1e-2: {', '.join(parts)}."


def wins(
    table: Table,
    better: str,
    worse: str,
    axes: Sequence[str],
    view: str = OUTPUT,
    *,
    by: float = 0.0,
) -> tuple[int, int]:
    """Return in how many of the settings `better` is better, and of how many.

    Better means that its median error is the smaller one, by more than `by` decades.
    """
    theirs = {tuple(row[a] for a in axes): error(row, view) for row in pick(table, method=worse)}
    mine = [r for r in pick(table, method=better) if tuple(r[a] for a in axes) in theirs]
    won = sum(error(row, view) + by < theirs[tuple(row[a] for a in axes)] for row in mine)
    return won, len(mine)
