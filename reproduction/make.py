"""From an experiment's name to its tables, figures and verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any

from reproduction import EXPERIMENTS, SIZES, Experiment, Size
from reproduction.cells import AnyCell, Cell
from reproduction.columns import COLUMNS, PRINTED
from reproduction.europe import MapCell
from reproduction.experiment import Verdict
from reproduction.report import write_facts
from reproduction.store import Store
from reproduction.tables import read_csv, write_csv
from reproduction.workers import run_cells
from stillspace import __version__
from stillspace._files import write_atomically
from stillspace.plots._figure import png


def chosen(name: str) -> list[Experiment]:
    """Return the experiments of a name, or of "all"."""
    if name == "all":
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        msg = f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)} and all."
        raise ValueError(msg)
    return [EXPERIMENTS[name]]


@dataclass(frozen=True, slots=True)
class Task:
    """One experiment at one size into one folder."""

    experiment: Experiment
    size: Size
    out: Path
    seed: int = 0
    data: Path | None = None
    runs: int | None = None
    """At most so many runs per cell; None leaves it to the size."""
    columns: tuple[str, ...] = COLUMNS
    """Only these columns are run."""
    c: float = 1.0
    c2: float = 1.0
    """The constants that the paper's printed variances leave open."""

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            msg = f"There is no size {self.size!r}; there are {', '.join(SIZES)}."
            raise ValueError(msg)
        unknown = [column for column in self.columns if column not in COLUMNS]
        if unknown:
            msg = f"There is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}."
            raise ValueError(msg)
        if not (0.0 < self.c < inf and 0.0 < self.c2 < inf):
            msg = f"The constants must be finite and above 0, got c={self.c}, c2={self.c2}."
            raise ValueError(msg)
        if self.seed < 0:
            msg = f"The seed must be a whole number of at least 0, got {self.seed}."
            raise ValueError(msg)

    @property
    def store(self) -> Store:
        """Where the finished cells are."""
        return Store(self.out / "cells" / f"{self.experiment.id}-{self.size}")

    def cells(self) -> list[AnyCell]:
        """Return all cells, finished or not."""
        made = self.experiment.cells(self.size, self.seed, self.data)
        wanted = [cell for cell in made if getattr(cell, "column", "ours") in self._columns]
        capped = [self._capped(cell) for cell in wanted]
        return [self._with_constants(cell) for cell in capped if cell is not None]

    @property
    def _columns(self) -> tuple[str, ...]:
        return (*self.columns, "not private")

    def _capped(self, cell: AnyCell) -> AnyCell | None:
        """Return the cell with at most `runs` runs in all cells of its kind; None if too late."""
        if self.runs is None:
            return cell
        if isinstance(cell, Cell):
            left = min(cell.runs, self.runs - cell.first)
            return replace(cell, runs=left) if left > 0 else None
        if isinstance(cell, MapCell):
            return cell if cell.run < self.runs else None
        return cell

    def _with_constants(self, cell: AnyCell) -> AnyCell:
        if isinstance(cell, Cell) and cell.column in PRINTED:
            return replace(cell, setting=replace(cell.setting, c=self.c, c2=self.c2))
        return cell

    def forget(self, column: str) -> None:
        """Drop the finished cells of a column, or of "all", so that they are made again."""
        if column not in (*COLUMNS, "all"):
            msg = f"There is no column {column!r}; there are {', '.join(COLUMNS)} and all."
            raise ValueError(msg)
        for cell in self.cells():
            if column in ("all", getattr(cell, "column", None)):
                self.store.drop(cell)

    def run(
        self,
        *,
        workers: int | None = None,
        done: Callable[[AnyCell], None] = lambda _cell: None,
    ) -> Verdict:
        """Run what is missing, then write tables and figures; return the verdict."""
        cells = self.cells()
        run_cells(cells, self.store, workers=workers, done=done)
        return self.write(cells)

    def write(self, cells: list[AnyCell]) -> Verdict:
        """Write the tables and figures of finished cells."""
        results = [(cell, self.store.load(cell)) for cell in cells]
        finished = [(cell, result) for cell, result in results if result is not None]
        tables = self.experiment.tables(finished)
        for name, table in tables.items():
            write_csv(table, self.out / f"{name}.csv")
        figures = self.experiment.figures(tables, finished)
        for name, figure in figures.items():
            write_atomically(self.out / f"{name}.png", _small(png(figure)))
            figure.set_layout_engine("none")  # it is laid out by now; once is enough
            write_atomically(self.out / f"{name}.svg", _svg(figure))
        facts: dict[str, object] = {
            "size": self.size,
            "seed": self.seed,
            "version": __version__,
            "tables": list(tables),
            "figures": list(figures),
        }
        if self.runs is not None:
            facts["most_runs"] = self.runs
        not_run = _not_run(cells, [cell for cell, _ in finished])
        if not_run:
            facts["not_run"] = not_run
        if isinstance(cells[0], MapCell):
            facts["source"] = "look-alike" if self.data is None else "published"
        write_facts(self.out, self.experiment, facts)
        # From the files, as the report: their numbers are rounded.
        return self.experiment.verdict({n: read_csv(self.out / f"{n}.csv") for n in tables})


def _not_run(cells: list[AnyCell], finished: list[AnyCell]) -> list[str]:
    """Return the methods and sizes of which a cell was never run, for the report."""
    made = {(c.setting, c.method, c.column) for c in finished if isinstance(c, Cell)}
    missing: dict[tuple[int, int], list[str]] = {}
    for cell in cells:
        if isinstance(cell, Cell) and (cell.setting, cell.method, cell.column) not in made:
            methods = missing.setdefault((cell.setting.n, cell.setting.D), [])
            methods += [] if cell.method in methods else [cell.method]
    return [f"n = {n}, D = {D}: {', '.join(methods)}" for (n, D), methods in missing.items()]


def _small(image: bytes) -> bytes:
    """Return a PNG with at most 256 colours: a third of the bytes, and the same to the eye."""
    from PIL import Image  # noqa: PLC0415

    kept = BytesIO()
    Image.open(BytesIO(image)).convert("RGB").quantize(256).save(kept, "png", optimize=True)
    return kept.getvalue()


def _svg(figure: Any) -> bytes:
    """Return the figure as the bytes of an SVG, the same for the same figure."""
    import matplotlib as mpl  # noqa: PLC0415

    buffer = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "stillspace", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    return buffer.getvalue()
