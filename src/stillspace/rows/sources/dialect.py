"""How a text file is written: found out from its first lines, unless it is told."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from stillspace.exceptions import DataFileError

DELIMITERS = (",", ";", "\t", "|", " ")
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_POINT_NUMBER = re.compile(r"[+-]?(\d*\.\d+|\d+\.)([eE][+-]?\d+)?")
_LINE_END = re.compile(r"\r\n|\n|\r")
_LINES = 50
"""Lines that are looked at."""
MISSING = ("", "na", "n/a", "nan", "null", "none")
"""Cells that are missing, in small or capital letters."""


def is_place(column: str) -> bool:
    """Whether a column is given by its number."""
    return column.isascii() and column.isdecimal()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written. Public facts: they are found out before anything is charged."""

    delimiter: str
    decimal: str
    encoding: str
    n_columns: int
    names: tuple[str, ...] | None
    """Of all columns, if the first line holds names."""
    header_given: bool
    """Whether the user said so. A guessed header may be a row: it is not printed and not kept."""
    quoted: bool
    skipped: int
    """Lines before the first row."""

    def spoken(self, column: int) -> tuple[str, str]:
        """Return how a column is called in a message, and what to give for it in an option."""
        if self.header_given and self.names is not None:
            return f"column {self.names[column]!r}", self.names[column]
        return f"column {column + 1}", str(column + 1)

    def place(self, path: str, column: str) -> int:
        """Return the number, from 0, of a column that was given by name or by number from 1."""
        if self.names is not None and self.header_given and column in self.names:
            return self.names.index(column)
        if is_place(column) and 1 <= int(column) <= self.n_columns:
            return int(column) - 1
        raise DataFileError(
            f"{path} has no column {column[:60]!r}; give a name from its header, or a number from "
            f"1 to {self.n_columns}."
        )

    def options(self) -> list[tuple[str, str]]:
        """Return the options of the command that say all of this: nothing of the rows."""
        name = "tab" if self.delimiter == "\t" else self.delimiter
        found = [("--delimiter", name), ("--decimal", self.decimal)]
        found.append(("--header" if self.names is not None else "--no-header", ""))
        return [*found, ("--encoding", self.encoding)]


class NoNumberError(DataFileError):
    """A cell of a column is no number; the column is known, the cell is not shown."""

    column: str = ""
    """What to give in an option to leave the column out."""

    @classmethod
    def of(cls, path: str, dialect: Dialect, column: int) -> NoNumberError:
        """Return the error of a column, by its number from 0."""
        said, option = dialect.spoken(column)
        made = cls(
            f"A cell of {said} in {path} is not a number; leave the column out, or repair the file."
        )
        made.column = option
        return made


def sniffed(
    path: str,
    sample: bytes,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    *,
    whole: bool,
    hidden: bool = False,
) -> Dialect:
    """Return how a file is written; what is told is taken as it is."""
    marked = (word for mark, word in _MARKS.items() if sample.startswith(mark))
    encoding = encoding or next(marked, "utf-8")
    lines = _lines(path, sample, encoding, whole)
    delimiter = delimiter or _delimiter(lines)
    table = _split(lines, delimiter)
    if not table and not hidden:
        raise DataFileError(f"{path} is empty; give a file with rows.")
    decimal = decimal or _decimal(table, delimiter)
    if decimal == delimiter:
        msg = f"The decimal mark and the delimiter of {path} cannot both be {delimiter!r}."
        raise DataFileError(msg)
    has_header = _has_header(path, table, decimal, header, hidden=hidden)
    first = table[0]
    names = _names(first) if has_header else None
    quoted = any('"' in line for line in lines)
    blank = next((i for i, line in enumerate(lines) if line), 0)
    skipped = blank + 1 if has_header else 0
    given = header is True
    return Dialect(delimiter, decimal, encoding, len(first), names, given, quoted, skipped)


def _lines(path: str, sample: bytes, encoding: str, whole: bool) -> list[str]:
    """Return the first lines, without one that was cut off."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError as error:
        # A character that was cut off at the end of the sample is no error.
        if whole or error.start < len(sample) - 4:
            msg = f"{path} is not text in {encoding}; give its encoding, such as latin-1."
            raise DataFileError(msg) from None
        text = sample.decode(encoding, "ignore")
    except LookupError:
        msg = f"There is no encoding {encoding[:40]!r}; give one such as utf-8 or latin-1."
        raise DataFileError(msg) from None
    if "\0" in text:
        msg = f"{path} is not a text file (it holds zero bytes); give a CSV, Parquet or NumPy file."
        raise DataFileError(msg)
    lines = _LINE_END.split(text.removeprefix("\ufeff"))
    return (lines if whole else lines[:-1] or lines)[:_LINES]


def _split(lines: list[str], delimiter: str) -> list[list[str]]:
    """Return the cells of lines that are not empty; what cannot be split is left to the parser."""
    try:
        table = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter))
    except csv.Error:  # a cell of more than 128 kB
        table = [line[:1000].split(delimiter) for line in lines]
    return [line for line in table if line]


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter that splits all lines into equally many cells, at least two.

    Of several such delimiters it is the one that leaves most cells readable as numbers: in
    "1,5;2,5" a semicolon leaves two numbers, a comma only two of three cells. Then the one with
    most cells.
    """
    fitting = []
    for candidate in DELIMITERS:
        table = _split(lines, candidate)
        if table and len(table[0]) > 1 and len({len(line) for line in table}) == 1:
            fitting.append((_share_of_numbers(table, candidate), len(table[0]), candidate))
    if fitting:
        return max(fitting, key=lambda found: found[:2])[2]
    # No delimiter fits all lines: the one that the first line has most of.
    first = lines[0] if lines else ""
    return max(DELIMITERS[:-1], key=first.count)


def _share_of_numbers(table: list[list[str]], delimiter: str) -> float:
    decimal = _decimal(table, delimiter)
    cells = [_is_number(cell, decimal) for line in table for cell in line]
    return sum(cells) / len(cells)


def _decimal(table: list[list[str]], delimiter: str) -> str:
    """Return a comma if numbers are written with one and none with a point."""
    if delimiter == ",":
        return "."
    cells = [cell.strip() for line in table for cell in line]
    commas = any(_COMMA_NUMBER.fullmatch(cell) for cell in cells)
    return "," if commas and not any(_POINT_NUMBER.fullmatch(cell) for cell in cells) else "."


def _has_header(
    path: str, table: list[list[str]], decimal: str, header: bool | None, *, hidden: bool
) -> bool:
    """Say whether the first line holds names: all words, or all numbers and gaps, else ask."""
    found = header
    if found is None and table:
        words = [not _is_number(cell, decimal) for cell in table[0]]
        if any(words) and not (all(words) and len(set(table[0])) == len(words)):
            raise DataFileError(
                f"The first line of {path} could be names or data; give --header or --no-header "
                "(in Python, header=True or header=False)."
            )
        found = any(words)
    if hidden and not (table and found):
        raise DataFileError(
            f"{path} needs a header line: under add-or-remove-one the number of rows is secret, "
            "and a file without rows must still show its number of columns."
        )
    return bool(found)


def _is_number(cell: str, decimal: str) -> bool:
    text = cell.strip()
    if text.lower() in MISSING:
        return True
    if "_" in text:  # Python would read 1_0 as 10
        return False
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True


def _names(first: list[str]) -> tuple[str, ...]:
    """Return a name for each column; empty ones are numbered, and a name that repeats too."""
    names: list[str] = []
    for j, cell in enumerate(first):
        name = cell.strip() or f"column {j + 1}"
        again = sum(1 for earlier in first[:j] if earlier.strip() == cell.strip())
        names.append(f"{name}.{again + 1}" if again and cell.strip() else name)
    return tuple(names)
