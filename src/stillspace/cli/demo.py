"""`stillspace demo`: four fits of one contaminated data set, and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from stillspace.cli.console import command, out, out_json, say, say_list
from stillspace.cli.options import JsonFlag


@command
def demo(
    out_dir: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the picture.")
    ] = Path("demo"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the synthetic rows. The noise is never seeded.")
    ] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Fit simulated rows with and without privacy; three in ten rows are wrong. Draw the result.

    \b
    Example:
      stillspace demo --out demo
    """
    # Only here: `stillspace --help` need not wait for NumPy and the kernels.
    from stillspace.cli.showcase import Demo, run_demo, write_picture  # noqa: PLC0415

    if not as_json:
        out("Synthetic data with a cluster of wrong rows; the truth is known. Fitting four times …")
    outcome: Demo = run_demo(seed)
    if as_json:
        fits = [
            {"method": f.name, "private": f.guarantee is not None, "error": f.error}
            for f in outcome.fits
        ]
        out_json({"fits": fits, "picture": str(write_picture(outcome, out_dir))})
        return
    table = Table("method", "private?")
    for head in ("epsilon", "error d²", "worst angle"):
        table.add_column(head, justify="right")
    for fit in outcome.fits:
        private = fit.guarantee is not None
        epsilon = f"{fit.guarantee.epsilon:.3g}" if fit.guarantee else "-"
        cells = ("yes" if private else "no", epsilon, f"{fit.error:.2g}", f"{fit.angle:.2f}°")
        table.add_row(fit.name, *cells)
    out(table)
    say_list("Guarantee of PrivateRobustPCA:", str(outcome.guarantee))
    path = write_picture(outcome, out_dir)
    say("Picture:", str(path))
