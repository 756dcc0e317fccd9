"""Reading a table of numbers from a CSV file.

No message shows a cell or says in which row it stands: the rows may be private. Column names and
column numbers are public.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import nan
from pathlib import Path

import numpy as np

from stillspace._typing import FloatArray
from stillspace.cli.console import DataError

_MISSING = {"", "na", "n/a", "nan", "null", "none"}


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Numbers (n, D), NaN where a cell was missing, and the columns' names if there were any."""

    X: FloatArray
    names: tuple[str, ...] | None


def read_table(
    path: Path, *, header: bool | None = None, delimiter: str = ",", hidden: bool = False
) -> Table:
    """Return the numbers in a CSV file; `header=None` looks at the first line.

    `hidden`: the number of rows is secret, so that the file must have a header. A file without
    rows and without a header does not tell its number of columns.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(csv.reader(file, delimiter=delimiter), str(path), header, hidden)
    except UnicodeDecodeError:
        msg = f"{path} is not a UTF-8 text file; save it as CSV (UTF-8)."
        raise DataError(msg) from None
    except csv.Error:
        msg = f"{path} cannot be read as CSV."
        raise DataError(msg) from None


def _read(lines: Iterator[list[str]], path: str, header: bool | None, hidden: bool) -> Table:
    filled = (line for line in lines if line)
    first = next(filled, None)
    if hidden and (first is None or not _has_header(first, path, header)):
        msg = (
            f"{path} needs a header line: under add-or-remove-one the number of rows is secret, "
            "and a file without rows must still tell its number of columns."
        )
        raise DataError(msg)
    if first is None:
        msg = f"{path} is empty."
        raise DataError(msg)
    D = len(first)
    if D < 2:
        msg = f"{path} has one column; at least two are needed (see --delimiter)."
        raise DataError(msg)
    has_header = _has_header(first, path, header)
    names = _checked_names(first, path) if has_header else None
    # A header that was guessed is not named in errors: should the guess be wrong, it is a row.
    spoken = names if header else None
    cells = array("d")
    for line in filled if has_header else chain([first], filled):
        if len(line) != D:
            msg = f"The lines of {path} do not all have the same number of cells."
            raise DataError(msg)
        for j, cell in enumerate(line):
            cells.append(_number(cell, j, path, spoken))
    return Table(np.frombuffer(cells, dtype=np.float64).reshape(-1, D).copy(), names)


def _number(cell: str, j: int, path: str, names: tuple[str, ...] | None) -> float:
    try:
        return _float(cell)
    except ValueError:
        column = f"column {j + 1}" if names is None else f"column {names[j]!r}"
    msg = f"A cell of {column} in {path} could not be read as a number; encode or drop the column."
    raise DataError(msg)


def _float(cell: str) -> float:
    """Return a number, NaN for a missing one, or raise ValueError."""
    text = cell.strip()
    if text.lower() in _MISSING:
        return nan
    if "_" in text:  # Python would read 1_0 as 10
        raise ValueError
    return float(text)


def _has_header(first: list[str], path: str, header: bool | None) -> bool:
    """Say whether the first line holds names: all words, or all numbers and gaps, else ask."""
    if header is not None:
        return header
    words = [not _readable(cell) for cell in first]
    if all(words) and len(set(first)) == len(first):
        return True
    if not any(words):
        return False
    msg = (
        f"The first line of {path} could be names or data: give --header or --no-header. "
        "(An index column without a name should be dropped.)"
    )
    raise DataError(msg)


def _readable(cell: str) -> bool:
    try:
        _float(cell)
    except ValueError:
        return False
    return True


def _checked_names(first: list[str], path: str) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in first)
    if "" in names or len(set(names)) < len(names):
        msg = (
            f"The header of {path} has a column without a name or a name twice; name each column "
            "once, and drop an index column."
        )
        raise DataError(msg)
    return names
