"""Tables of every format for the commands: which columns, and what is said of wrong files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from stillspace.cli.console import progress
from stillspace.exceptions import DataFileError

STDIN = "-"
TEXT = (".csv", ".tsv", ".txt", ".tab", ".csv.gz", ".tsv.gz", ".txt.gz", ".tab.gz")
_ARROW = (".parquet", ".pq", ".arrow", ".feather", ".ipc")

DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="CSV, TSV (also .gz), Parquet, Arrow, NPY, NPZ, HDF5, Zarr or .bed; - for CSV on "
        "standard input. One row per line.",
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """Options of every command that reads a table."""

    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to read, by name or by number from 1, with commas. Default: all."
        ),
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option(help="Columns to leave out, by name or number, with commas.")
    ] = None
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column that names a person. It is left out.")
    ] = None
    label: Annotated[
        str | None, typer.Option(help="A column with labels of the rows. It is left out.")
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Does the first line hold names? Default: guess from the file, and keep no name.",
        ),
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(help="The character between cells, or 'tab'. Default: guess.")
    ] = None
    decimal: Annotated[
        str | None, typer.Option(help="Decimal mark: . or a comma. Default: guess.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Such as latin-1. Default: UTF-8, or what the file says.")
    ] = None

    def format(self) -> Format:
        """Return what the options say; what needs no file is checked."""
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"--decimal must be . or a comma, got {self.decimal[:20]!r}.")
        given = self.delimiter
        delimiter = "\t" if given is not None and given.lower() in ("tab", "\\t") else given
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError(f"--delimiter must be one character or 'tab', got {delimiter[:20]!r}.")
        return Format(
            _split(self.columns) if self.columns else None,
            _split(self.drop or ()),
            tuple(name for name in (self.id_column, self.label) if name is not None),
            self.header,
            delimiter,
            self.decimal,
            self.encoding,
        )


@dataclass(frozen=True, slots=True)
class Format:
    """What the options say of a file and of its columns."""

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """Columns that are not numbers and are kept beside them: the id and the label."""
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReadTable:
    """What a command reads: an array or a source, with names only where they are known."""

    X: Any
    names: tuple[str, ...] | None
    texts: dict[str, list[str]] = field(default_factory=dict)
    dialect: Any = None

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])


def _split(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def check_there(file: Path) -> None:
    """Refuse a file that is not there; a folder of parts and standard input are allowed."""
    if str(file) != STDIN and not file.exists() and not Path(str(file).split("::")[0]).exists():
        raise ValueError(f"{file} does not exist; check the path.")


def read_table(file: Path, asked: Format, *, hidden: bool = False) -> ReadTable:
    """Return the table in a file. `hidden`: the number of rows is secret."""
    name = str(file).partition("::")[0].lower()  # FILE::KEY names a part of a file
    try:
        if str(file) == STDIN or name.endswith(TEXT):
            return _text(file, asked, hidden)
        if {asked.header, asked.delimiter, asked.decimal, asked.encoding} != {None}:
            options = "--header, --delimiter, --decimal and --encoding"
            msg = f"{options} are for text files, and {file.name} is none; leave them out."
            raise ValueError(msg)
        if name.endswith(_ARROW):
            return _arrow(file, asked)
        return _other(file, asked, name, hidden)
    except DataFileError as error:
        error.args = (_with_remedy(error),)
        raise


def _with_remedy(error: DataFileError) -> str:
    """Return the sentence of an error, with the option that helps."""
    text, column = str(error), getattr(error, "column", "")
    if column:
        what = f"'{column}'" if " " in column else column
        head, _, _ = text.partition("; leave the column out")
        return f"{head}: leave the column out with --drop {what}, or repair the file."
    text = text.replace("(is the delimiter right?)", "(see --delimiter)")
    text = text.replace("give its encoding, such as", "give --encoding, such as")
    text = text.replace("(delimiter).", "(--delimiter).")
    return text.replace(" (header=True or False)", "")


def _text(file: Path, asked: Format, hidden: bool) -> ReadTable:
    from stillspace.rows.sources.text import open_text  # noqa: PLC0415  (pyarrow is slow to load)

    given: Any = _NamedInput() if str(file) == STDIN else file
    with progress(f"Reading {given}", quiet=True) as advance:
        found = open_text(given, **asdict(asked), hidden=hidden, progress=advance)
    return ReadTable(found.X, found.names, found.texts, found.dialect)


class _NamedInput:
    """Standard input under a name for messages."""

    name = "standard input"

    def read(self, size: int = -1) -> bytes:
        return sys.stdin.buffer.read(size)

    def __str__(self) -> str:
        return self.name


def _places(names: Sequence[str] | None, width: int, file: Path) -> Callable[[str], int]:
    def place(column: str) -> int:
        if names is not None and column in names:
            return list(names).index(column)
        if column.isascii() and column.isdecimal() and 1 <= int(column) <= width:
            return int(column) - 1
        msg = f"{file} has no column {column[:60]!r}; give a name, or a number from 1 to {width}."
        raise DataFileError(msg)

    return place


def _chosen(asked: Format, names: Sequence[str] | None, width: int, file: Path) -> list[int]:
    place = _places(names, width, file)
    out = {place(column) for column in (*asked.drop, *asked.texts)}
    wanted = range(width) if asked.columns is None else [place(c) for c in asked.columns]
    chosen = [j for j in dict.fromkeys(wanted) if j not in out]
    if len(chosen) < 2:
        raise DataFileError(f"{file} has {len(chosen)} columns to read; at least two are needed.")
    return chosen


def _arrow(file: Path, asked: Format) -> ReadTable:
    """Open Parquet or Arrow: names and types are known before a cell is read."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.dataset as ds  # noqa: PLC0415

    from stillspace.rows.sources import open_source  # noqa: PLC0415
    from stillspace.rows.sources.dialect import NoNumberError  # noqa: PLC0415

    kind = "parquet" if file.name.lower().endswith((".parquet", ".pq")) else "ipc"
    format_name = "Parquet" if kind == "parquet" else "Arrow"
    try:
        data = ds.dataset(file, format=kind)
    except (pa.ArrowException, OSError):
        msg = f"{file} is not a readable {format_name} file; write the file again."
        raise DataFileError(msg) from None
    names = list(data.schema.names)
    chosen = [names[j] for j in _chosen(asked, names, len(names), file)]
    for name in chosen:
        held = _what_is_no_number(data.schema.field(name).type)
        if held:
            error = NoNumberError(f"Column {name!r} of {file} holds {held}")
            error.column = name
            raise error
    place = _places(names, len(names), file)
    kept = [names[place(text)] for text in asked.texts]
    texts: dict[str, list[str]] = {}
    if kept:
        found = data.to_table(columns=kept)
        texts = {text: [str(v) for v in found.column(text).to_pylist()] for text in kept}
    return ReadTable(open_source(file, columns=chosen), tuple(chosen), texts)


def _what_is_no_number(kind: Any) -> str:
    """Return what a column holds if it holds no numbers: text, dates, …"""
    import pyarrow as pa  # noqa: PLC0415

    kinds = pa.types
    if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind):
        return ""
    if kinds.is_dictionary(kind):
        return "categories"
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return "text"
    return "dates or times" if kinds.is_temporal(kind) else f"values of type {kind}"


def _other(file: Path, asked: Format, name: str, hidden: bool) -> ReadTable:
    """Open an array of any other format; columns are chosen by number, or by name if it has any."""
    import numpy as np  # noqa: PLC0415

    from stillspace.rows.sources import open_source  # noqa: PLC0415
    from stillspace.rows.sources.opening import SUFFIXES  # noqa: PLC0415

    if not file.is_dir() and not name.endswith((*SUFFIXES, ".npz")):
        msg = f"{file} has no format that can be read; save the table as .csv, .parquet or .npy."
        raise DataFileError(msg)
    source: Any = _npz(file) if name.endswith(".npz") else open_source(file, hidden=hidden)
    names = getattr(source, "names", None)
    if asked.columns is None and not asked.drop and not asked.texts:
        return ReadTable(source, names)
    chosen = _chosen(asked, names, source.shape[1], file)
    n = source.shape[0]
    cells = source[:n] if isinstance(source, np.ndarray) else source.read(0, n)
    place = _places(names, source.shape[1], file)
    texts = {text: [f"{v:g}" for v in cells[:, place(text)]] for text in asked.texts}
    kept = None if names is None else tuple(names[j] for j in chosen)
    return ReadTable(np.ascontiguousarray(cells[:, chosen]), kept, texts)


def _npz(file: Path) -> Any:
    """Return the only array of a NumPy archive, or the one that is called X."""
    import zipfile  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    try:
        with np.load(file, allow_pickle=False) as stored:
            names = stored.files
            found = stored["X" if "X" in names else names[0]] if names else np.zeros(0)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        msg = f"{file} is not a readable NumPy archive of numbers; write the file again."
        raise DataFileError(msg) from None
    if "about" in names:
        raise DataFileError(f"{file} is a model file, not a table; give the rows.")
    if len(names) != 1 and "X" not in names:
        msg = f"{file} holds {len(names)} arrays; give a file with one array, or one called X."
        raise DataFileError(msg)
    if found.ndim != 2 or found.dtype.kind not in "biuf":
        msg = f"{file} must hold a table of real numbers: an array of two dimensions."
        raise DataFileError(msg)
    return found
