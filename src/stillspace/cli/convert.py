"""`stillspace convert`: a .bed file in the order in which single rows can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stillspace.cli.console import DataError, UsageError, command, say


@command
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="FILE.bed", help="A PLINK file, as plink --make-bed writes.")
    ],
    target: Annotated[Path, typer.Argument(metavar="NEW.bed", help="The file to write.")],
    memory: Annotated[str, typer.Option(help="Bound on the memory, such as 256MB.")] = "256MB",
) -> None:
    """Rewrite a PLINK .bed file with individuals as rows; the file takes as much space again.

    \b
    Example:
      stillspace convert genotypes.bed people.bed --memory 1GB
    """
    if source.suffix.lower() != ".bed" or target.suffix.lower() != ".bed":
        msg = "convert takes two names that end in .bed: the file to read and the file to write."
        raise UsageError(msg)
    # Only here: numba takes a while to import, and --help need not wait for it.
    from stillspace._checks import checked_bytes  # noqa: PLC0415
    from stillspace.exceptions import DataFileError  # noqa: PLC0415
    from stillspace.rows.sources.plink import rewritten  # noqa: PLC0415

    try:
        size = checked_bytes("--memory", memory, 2**20)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        new = rewritten(source, target, size)
    except DataFileError as error:
        raise DataError(str(error)) from None
    say("Written:", f"{new}, with its .bim and .fam; fit it by its path.")
