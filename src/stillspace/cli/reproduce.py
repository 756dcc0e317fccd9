"""`stillspace reproduce`: the paper's experiments, with tables, figures and a verdict on each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from stillspace.cli.console import command, say


def _use_checkout() -> None:
    """Make the package `reproduction` importable; it lies beside `src` and not in the wheel.

    It holds the paper's experiments, which need hours and files that nobody installs a library for.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / "reproduction" / "__init__.py").is_file():
        raise ValueError(
            "The experiments of the paper are not part of the installed package; clone the "
            "repository, run `make demo` there once, and call .venv/bin/stillspace reproduce."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))


@command
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="convergence, n-vs-D, eps-vs-delta, inliers-vs-batch, D-vs-r, popres or all.",
        ),
    ],
    size: Annotated[
        str,
        typer.Option(help="quick: all in minutes. paper: the paper's repetitions, in hours."),
    ] = "quick",
    out_dir: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for tables and figures.")
    ] = Path("build/reproduction"),
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with the public POPRES files, for popres. Default: a look-alike.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same tables.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")
    ] = None,
    redo: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help=(
                "Make a column again that is there already: as-printed, without-misprint, honest, "
                "poisson, tuned, ours or all."
            ),
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Largest number of runs per cell.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Only these columns, with commas between. Default: all."),
    ] = None,
    c: Annotated[
        float, typer.Option("--c", help="Constant of dp-GGD's printed variance, left open there.")
    ] = 1.0,
    c2: Annotated[float, typer.Option("--c2", help="The same for the stochastic methods.")] = 1.0,
    docs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy the report, its tables and PNGs there too."),
    ] = None,
) -> None:
    """Run experiments of the paper: as printed, corrected, at an honest budget, and by our default.

    Finished parts are stored in DIR/cells: an interrupted run continues where it stopped.

    \b
    Example:
      stillspace reproduce convergence --size quick
    """
    _use_checkout()
    # Only here: `stillspace --help` need not wait for NumPy and the kernels.
    from reproduction.columns import COLUMNS as ALL_COLUMNS  # noqa: PLC0415
    from reproduction.make import Task, chosen  # noqa: PLC0415
    from reproduction.progress import run_with_progress  # noqa: PLC0415
    from reproduction.report import publish, write_report  # noqa: PLC0415

    if data is not None and experiment not in ("popres", "all"):
        raise ValueError(f"--data is for popres (or all); {experiment} takes none.")
    any_size: Any = size
    wanted = ALL_COLUMNS if columns is None else tuple(columns.split(","))
    tasks = [
        Task(made, any_size, out_dir, seed, data, runs, wanted, c, c2)
        for made in chosen(experiment)
    ]
    if redo is not None:
        for task in tasks:
            task.forget(redo)
    out_dir.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        say(f"{task.experiment.id}:", run_with_progress(task, workers).judgement)
    say("Report:", str(write_report(out_dir)))
    if docs is not None:
        say("Published:", str(publish(out_dir, docs)))
