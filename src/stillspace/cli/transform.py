"""`stillspace transform` and `stillspace check`: what a curator may see, and others may not."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from stillspace._files import write_atomically
from stillspace.cli.console import command, note, out, out_json, say
from stillspace.cli.data import DataFile, TableOptions, check_there, read_table
from stillspace.cli.options import CheckKey, ForceFlag, JsonFlag, check_new
from stillspace.cli.show import ModelArgument, loaded
from stillspace.exceptions import DataFileError

_SCORES = "Scores show the rows that they are made of: no guarantee covers them. Do not publish."


@command
def transform(
    model: ModelArgument,
    data: DataFile,
    *,
    target: Annotated[
        Path, typer.Option("--out", "-o", metavar="SCORES", help="A .csv, .npy or .parquet file.")
    ],
    options: TableOptions,
    key: CheckKey = None,
    force: ForceFlag = False,
) -> None:
    """Write the scores of rows in the components of a model. Scores are not private.

    The columns --id and --label, if you give them, are written beside the scores.

    \b
    Examples:
      stillspace transform model.npz patients.csv --id patient --label group -o scores.csv
      stillspace transform model.npz rows.parquet -o scores.npy
    """
    asked = options.format()
    if target.suffix not in (".csv", ".npy", ".parquet"):
        raise ValueError(f"--out must end in .csv, .npy or .parquet, got {target.name!r}.")
    check_new(target, force)
    check_there(data)
    found: Any = loaded(model, key)
    names = getattr(found, "feature_names_in_", None)
    if names is not None and asked.columns is None and not asked.drop and asked.header is not False:
        asked = replace(asked, columns=tuple(str(name) for name in names))
    table = read_table(data, asked)
    if table.n_columns != found.n_features_in_:
        raise DataFileError(
            f"{data} has {table.n_columns} columns to read and the model has "
            f"{found.n_features_in_}: choose them with --columns or --drop."
        )
    vars(found).pop("feature_names_in_", None)  # columns were matched above
    scores = found.transform(table.X)
    _write(target, scores, table.texts)
    note(_SCORES)
    say("Scores:", f"{len(scores)} rows, {scores.shape[1]} components, in {target}")


def _write(target: Path, scores: Any, texts: dict[str, list[str]]) -> None:
    import numpy as np  # noqa: PLC0415

    buffer = io.BytesIO()
    if target.suffix == ".npy":
        if texts:
            msg = "A .npy file holds only numbers; use .csv or .parquet with --id and --label."
            raise ValueError(msg)
        np.save(buffer, scores, allow_pickle=False)
    else:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.csv as pc  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        parts = {f"score_{j + 1}": scores[:, j] for j in range(scores.shape[1])}
        table = pa.table({**texts, **parts})
        (pc.write_csv if target.suffix == ".csv" else pq.write_table)(table, buffer)
    write_atomically(target, buffer.getvalue())


@command
def check(data: DataFile, *, options: TableOptions, as_json: JsonFlag = False) -> None:
    """Check a file before a fit. The output is not private: do not publish it.

    The output lists columns that hold text, look like ids, are constant or have missing cells, and
    the options with which a fit can read the file. Choose the parameters of a private fit from
    public knowledge, not from this output.

    \b
    Examples:
      stillspace check patients.csv
      stillspace check patients.csv --header --drop name --json
    """
    asked = options.format()
    check_there(data)
    from stillspace.cli.checking import findings, say_findings  # noqa: PLC0415

    found = findings(data, asked)
    if as_json:
        out_json({"not_private": True, **found})
        return
    out("Not private: do not publish what follows. It is for the curator of the data.")
    say_findings(data, found)
