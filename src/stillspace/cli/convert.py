"""`stillspace convert`: files rewritten so that single rows can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stillspace._checks import checked_bytes
from stillspace.cli.console import command, say

_TEXT = (".csv", ".tsv", ".gz")


@command
def convert(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A PLINK .bed file, or a CSV or TSV file (.gz too)."),
    ],
    target: Annotated[
        Path, typer.Argument(metavar="NEW", help="The file to write: .bed, or .parquet.")
    ],
    memory: Annotated[str, typer.Option(help="Bound on the memory, such as 256MB.")] = "256MB",
) -> None:
    """Rewrite a file so that single rows can be read: .bed to .bed, text to Parquet.

    A PLINK .bed file gets individuals as rows; the new file has the same size. The columns of a
    text file must be numbers. Nothing is overwritten.

    \b
    Examples:
      stillspace convert genotypes.bed people.bed --memory 1GB
      stillspace convert measurements.csv measurements.parquet
    """
    ends = source.suffix.lower(), target.suffix.lower()
    text = ends[0] in _TEXT and ends[1] == ".parquet"
    if not text and ends != (".bed", ".bed"):
        msg = "convert takes FILE.bed and NEW.bed, or a .csv, .tsv or .gz file and NEW.parquet."
        raise ValueError(msg)
    # Only here: libraries take a while to import, and --help need not wait for them.
    from stillspace.rows.sources.files import stamp_of  # noqa: PLC0415
    from stillspace.rows.sources.plink import rewritten  # noqa: PLC0415
    from stillspace.rows.sources.text import to_parquet  # noqa: PLC0415

    size = checked_bytes("--memory", memory, 2**20)
    stamp_of(str(source))  # one sentence if it is not there
    new = to_parquet(source, target) if text else rewritten(source, target, size)
    say("Written:", f"{new}{'' if text else ', with its .bim and .fam'}; fit it by its path.")
