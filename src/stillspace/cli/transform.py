"""`stillspace transform` and `stillspace check`: what a curator may see, and others may not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stillspace.cli.console import DataError, UsageError, command, note, out, out_json, say
from stillspace.cli.data import (
    Columns,
    DataFile,
    Decimal,
    Delimiter,
    Drop,
    Encoding,
    Format,
    Header,
    Id,
    Label,
    check_there,
    read_table,
)
from stillspace.cli.show import JsonFlag, KeyOption, ModelArgument, loaded

_SCORES = "Scores show the rows that they are made of: no guarantee covers them. Do not publish."


@command
def transform(
    model: ModelArgument,
    data: DataFile,
    *,
    target: Annotated[
        Path, typer.Option("--out", "-o", metavar="SCORES", help="A .csv, .npy or .parquet file.")
    ],
    columns: Columns = None,
    drop: Drop = None,
    id_column: Id = None,
    label: Label = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    key: KeyOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write the scores of rows in the components of a model. Scores are not private.

    The id and the label, if they are given, stand beside the scores.

    \b
    Examples:
      stillspace transform model.npz patients.csv --id patient --label group -o scores.csv
      stillspace transform model.npz rows.parquet -o scores.npy
    """
    asked = Format.of(columns, drop, id_column, label, header, delimiter, decimal, encoding)
    if target.suffix not in (".csv", ".npy", ".parquet"):
        msg = f"--out must end in .csv, .npy or .parquet, got {target.name!r}."
        raise UsageError(msg)
    if target.exists() and not force:
        msg = f"{target} exists; give another --out, or --force to replace it."
        raise UsageError(msg)
    check_there(data)
    found: Any = loaded(model, key)
    names = getattr(found, "feature_names_in_", None)
    if names is not None and asked.columns is None and not asked.drop and asked.header is not False:
        asked = _by_name(asked, names)
    table = read_table(data, asked)
    if table.n_columns != found.n_features_in_:
        msg = (
            f"{data} has {table.n_columns} columns to read and the model has "
            f"{found.n_features_in_}: choose them with --columns or --drop."
        )
        raise DataError(msg)
    vars(found).pop("feature_names_in_", None)  # columns were matched above
    scores = found.transform(table.X)
    _write(target, scores, table.texts)
    note(_SCORES)
    say("Scores:", f"{len(scores)} rows, {scores.shape[1]} components, in {target}")


def _by_name(asked: Format, names: Any) -> Format:
    from dataclasses import replace  # noqa: PLC0415

    return replace(asked, columns=tuple(str(name) for name in names))


def _write(target: Path, scores: Any, texts: dict[str, list[str]]) -> None:
    import io  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    from stillspace._files import write_atomically  # noqa: PLC0415

    buffer = io.BytesIO()
    if target.suffix == ".npy":
        if texts:
            msg = "A .npy file holds numbers alone; use .csv or .parquet with --id and --label."
            raise UsageError(msg)
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
def check(
    data: DataFile,
    *,
    columns: Columns = None,
    drop: Drop = None,
    id_column: Id = None,
    label: Label = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: JsonFlag = False,
) -> None:
    """Look at a file before a fit. What it prints is not private: do not publish it.

    It names columns that hold text, look like ids, are constant or have missing cells, and says
    how a fit has to read the file. Choose the parameters of a private fit from public knowledge,
    not from what is printed here.

    \b
    Examples:
      stillspace check patients.csv
      stillspace check patients.csv --header --drop name --json
    """
    asked = Format.of(columns, drop, id_column, label, header, delimiter, decimal, encoding)
    check_there(data)
    from stillspace.cli.checking import findings, say_findings  # noqa: PLC0415

    found = findings(data, asked)
    if as_json:
        out_json({"not_private": True, **found})
        return
    out("Not private: do not publish what follows. It is for the curator of the data.")
    say_findings(data, found)
