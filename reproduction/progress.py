"""A progress bar for the experiments."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reproduction.cells import AnyCell
from reproduction.experiment import Verdict
from reproduction.make import Task

SPEED_SECONDS = 900.0
"""The time left is judged by the speed of so long a while: one cell alone may take a minute."""


def run_with_progress(task: Task, workers: int | None) -> Verdict:
    """Run one task under a progress bar; the time left is judged by the work that is left."""
    cells = task.cells()
    kept = {cell for cell in cells if task.store.load(cell) is not None}
    with _progress() as bar:
        entry = bar.add_task(
            task.experiment.id,
            total=sum(cell.cost for cell in cells),
            cells=len(kept),
            all=len(cells),
        )
        # In one step, which starts the clock: the speed is that of the cells made now.
        bar.update(entry, advance=sum(cell.cost for cell in kept))
        count = len(kept)

        def done(cell: AnyCell) -> None:
            nonlocal count
            if cell not in kept:
                count += 1
                bar.update(entry, advance=cell.cost, cells=count)

        return task.run(workers=workers, done=done)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[cells]}/{task.fields[all]} cells"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        speed_estimate_period=SPEED_SECONDS,
    )
