"""Phase transitions: a number over a grid of two settings, for each method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reproduction.cells import OURS, SIX, AnyCell, Setting
from reproduction.experiment import (
    Done,
    Experiment,
    Size,
    Tables,
    epsilon_text,
    haystack_cells,
    three_columns,
)
from reproduction.figures import Grid, draw_grids, grid_of
from reproduction.tables import Table, number, pick, summary, values

GOOD = -2.0
"""log10 of the error that counts as recovery."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the table that becomes a figure."""

    name: str
    """Of the file."""
    column: str
    scale: str
    limits: tuple[float, float] | None = None
    log: bool = False
    """Whether the colours follow the logarithm."""


class PhaseTransition(Experiment):
    """A grid of settings; one figure or more, with the paper's axes."""

    x: ClassVar[tuple[str, str]]
    """The horizontal setting, and what the figure calls it."""
    y: ClassVar[tuple[str, str]]
    shown: ClassVar[tuple[Shown, ...]]
    methods: ClassVar[tuple[str, ...]] = SIX
    runs: ClassVar[dict[Size, int]] = {"quick": 5, "paper": 50}
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
            for cell in three_columns(self.id, setting, runs, seed, methods=self.methods)
        ]

    def tables(self, done: Done) -> Tables:
        """Return the grid as a table."""
        return {self.id: summary(haystack_cells(done, self.id))}

    def figures(self, tables: Tables, done: Done) -> dict[str, Any]:  # noqa: ARG002
        """Return one figure a column that is shown."""
        return {shown.name: self._figure(tables[self.id], shown) for shown in self.shown}

    def _figure(self, table: Table, shown: Shown) -> Any:
        paper = [row for row in table if row["column"] != "ours"]
        x, y = (self.x[0], values(paper, self.x[0])), (self.y[0], values(paper, self.y[0]))
        lines: list[list[Grid | None]] = []
        for column, ours in zip(("as-printed", "honest"), OURS, strict=True):
            line: list[Grid | None] = [
                self._grid(pick(table, column=column, method=method), x, y, shown)
                for method in self.methods
            ]
            mine = self._spread(pick(table, column="ours", method=ours), x, y)
            lines.append([*line, self._grid(mine, x, y, shown)])
        found = np.array([number(row, shown.column) for row in table])
        limits = shown.limits or (float(np.nanmin(found)), float(np.nanmax(found)))
        runs = values(table, "runs")
        count = f"{runs[0]:.0f}" if len(runs) == 1 else f"{runs[0]:.0f} to {runs[-1]:.0f}"
        return draw_grids(
            lines,
            x=(self.x[1], list(map(_tick, x[1]))),
            y=(self.y[1], list(map(_tick, y[1]))),
            title=f"{self.title}: {shown.scale}",
            scale=shown.scale,
            note=f"{self.note} Runs per cell: {count}. Hatched: no run got there, or no such cell.",
            limits=limits,
            log=shown.log,
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
        column = str(rows[0]["column"])
        words = {"as-printed": "as printed", "honest": "honest", "ours": "ours"}[column]
        below = ""
        if column == "as-printed":
            below = f"true ε {epsilon_text(number(row, 'true_epsilon') for row in rows)}"
        return Grid(f"{rows[0]['method']}, {words}", grid_of(rows, x, y, shown.column), below)


def _tick(value: float) -> str:
    return f"{value:g}" if value >= 0.01 else f"{value:.0e}".replace("e-0", "e-")


def good_share(table: Table) -> float:
    """Return the share of cells whose median error counts as recovery."""
    return float(np.mean([row["median_log10_error"] <= GOOD for row in table]))


def recovery_text(table: Table) -> str:
    """Return in which share of its cells each method recovers the subspace."""
    methods = dict.fromkeys(str(row["method"]) for row in table)
    parts = (f"{m} {100 * good_share(pick(table, method=m)):.0f} %" for m in methods)
    return f"Cells with median d² ≤ 1e-2: {', '.join(parts)}."


def wins(table: Table, better: str, worse: str, axes: Sequence[str]) -> tuple[int, int]:
    """Return in how many of the settings `better` has the smaller median error, and of how many."""
    theirs = {
        tuple(row[a] for a in axes): row["median_log10_error"] for row in pick(table, method=worse)
    }
    mine = pick(table, method=better)
    won = sum(row["median_log10_error"] < theirs[tuple(row[a] for a in axes)] for row in mine)
    return won, len(mine)
