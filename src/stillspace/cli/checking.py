"""What `stillspace check` finds in a table: facts about rows, for the curator alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stillspace.cli.console import out, say
from stillspace.cli.data import Format, ReadTable, read_table
from stillspace.rows.sources.dialect import NoNumberError

LEAST_ROWS_OF_IDS = 20
MOST_COLUMNS = 12
"""Columns with missing cells that are listed by name."""
WIDE_UNITS = 30.0
"""From this ratio of the largest to the smallest spread on, columns have different units."""


def findings(file: Path, asked: Format) -> dict[str, Any]:
    """Return what was found, as JSON values."""
    table, texts = _without_texts(file, asked)
    X = _cells(table)
    names = _names(table, replace(asked, drop=(*asked.drop, *texts)))
    missing = np.isnan(X).sum(axis=0)
    finite = np.where(np.isfinite(X), X, np.nan)
    spread = _spread(finite)
    known = spread[np.isfinite(spread) & (spread > 0.0)]
    return {
        "rows": int(X.shape[0]),
        "columns": int(X.shape[1]),
        "text_columns": texts,
        "missing": {n: int(m) for n, m in zip(names, missing, strict=True) if m},
        "rows_with_missing": int(np.isnan(X).any(axis=1).sum()),
        "rows_with_infinity": int(np.isinf(X).any(axis=1).sum()),
        "zero_rows": int((np.nan_to_num(X) == 0.0).all(axis=1).sum()),
        "constant": [n for n, s in zip(names, spread, strict=True) if not s > 0.0],
        "like_ids": [n for n, c in zip(names, X.T, strict=True) if _like_ids(c)],
        "spread_ratio": float(known.max() / known.min()) if len(known) else 1.0,
        "format": [] if table.dialect is None else [list(o) for o in table.dialect.options()],
    }


def _without_texts(file: Path, asked: Format) -> tuple[ReadTable, list[str]]:
    """Return the table without the columns that hold text, and their names."""
    if str(file) == "-":
        return read_table(file, asked), []
    texts: list[str] = []
    while True:
        try:
            return read_table(file, asked), texts
        except NoNumberError as error:
            if not error.column or error.column in texts:
                raise
            texts.append(error.column)
            asked = replace(asked, drop=(*asked.drop, error.column))


def _cells(table: ReadTable) -> Any:
    X = table.X
    cells = X if isinstance(X, np.ndarray) else X.read(0, X.shape[0])
    cells = cells.toarray() if hasattr(cells, "toarray") else cells
    return np.asarray(cells, dtype=np.float64)


def _names(table: ReadTable, asked: Format) -> list[str]:
    if table.names is not None:
        return list(table.names)
    dialect = table.dialect
    places = range(table.n_columns)
    if dialect is not None and asked.columns is None:
        out_of = {dialect.place("", column) for column in (*asked.drop, *asked.texts)}
        kept = [j for j in range(dialect.n_columns) if j not in out_of]
        places = kept[: table.n_columns] if len(kept) >= table.n_columns else places  # type: ignore[assignment]
    return [f"column {j + 1}" for j in places]


def _spread(X: Any) -> Any:
    """Return the distance between the 10 % and the 90 % quantile; the range where that is 0."""
    if not len(X):
        return np.zeros(X.shape[1])
    with np.errstate(all="ignore"):
        low, high = np.nan_to_num(np.nanquantile(X, [0.1, 0.9], axis=0))
        full = np.nan_to_num(np.nanmax(X, axis=0) - np.nanmin(X, axis=0))
    return np.where(high > low, high - low, full)


def _like_ids(column: Any) -> bool:
    """Whether a column holds whole numbers, each once."""
    if len(column) < LEAST_ROWS_OF_IDS or not np.isfinite(column).all():
        return False
    return bool((column == np.floor(column)).all() and len(np.unique(column)) == len(column))


def say_findings(file: Path, found: dict[str, Any]) -> None:
    """Say what was found, and how to read the file."""
    say("Table:", f"{found['rows']} rows, {found['columns']} columns of numbers.")
    if found["text_columns"]:
        texts = [f"column {c}" if c.isdecimal() else c for c in found["text_columns"]]
        say("Text:", f"{', '.join(texts)}; leave such columns out with --drop, --id or --label.")
    if found["like_ids"]:
        ids = ", ".join(found["like_ids"])
        say("Ids:", f"{ids}; every value is a whole number and appears once. Leave ids out (--id).")
    if found["constant"]:
        constant = ", ".join(found["constant"])
        say("Constant:", f"{constant}; every row has the same value, so leave it out with --drop.")
    if found["missing"]:
        say("Missing:", f"{_counted(found['missing'])}. Rows with a missing cell: "
            f"{found['rows_with_missing']}.")  # fmt: skip
    if found["rows_with_infinity"]:
        rows = found["rows_with_infinity"]
        say("Infinite:", f"{rows} rows hold infinity; a private fit counts them as rows of zeros.")
    if found["spread_ratio"] > WIDE_UNITS:
        ratio = f"{found['spread_ratio']:.3g}"
        say("Units:", f"the widest column spreads {ratio} times as far as the narrowest. The "
            "columns have different units.")  # fmt: skip
    if found["format"]:
        options = " ".join(f"{n} '{v}'" if v else n for n, v in found["format"])
        say("Read it by:", f"stillspace fit {file} {options} …")
    else:
        out("The file says its own format: no option is needed to read it.")


def _counted(missing: dict[str, int]) -> str:
    """Return the columns with most missing cells, with their counts."""
    most = sorted(missing.items(), key=lambda item: -item[1])
    named = ", ".join(f"{name}: {count}" for name, count in most[:MOST_COLUMNS])
    more = len(most) - MOST_COLUMNS
    return f"{named}, and {more} more columns" if more > 0 else named
