"""CSV and TSV files, plain or packed (.gz), parsed by pyarrow.

A text file tells neither its number of rows nor its types before it is read. So the file is read
once, when it is opened, into one array of 8 bytes per cell. A file that would take more memory than
is allowed is refused by a look at its first lines. `to_parquet` writes it as a file that can be
read a part at a time. No message holds a cell.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from stillspace._checks import bytes_in_words
from stillspace._typing import FloatArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.rows.sources.dialect import MISSING, Dialect, NoNumberError, is_place, sniffed
from stillspace.rows.sources.files import new_file

__all__ = ["TextSource", "open_text", "to_parquet"]

_BLOCK = 1 << 22
"""Bytes that are parsed at a time."""
_SAMPLE = 1 << 18
"""Bytes that are looked at to find out the format."""
_COLUMN = re.compile(r"column #(\d+)")
_SPELLED = ("".join(w) for m in MISSING for w in product(*((c, c.upper()) for c in m)))
_NULLS = [padded for word in dict.fromkeys(_SPELLED) for padded in (word, f" {word}")]
"""Missing cells in small and capital letters, after a space or none."""


@dataclass(frozen=True, slots=True, eq=False)
class TextSource:
    """The numbers of a text file in memory, and the columns that were kept as text."""

    path: str
    X: FloatArray
    """(n, D), NaN where a cell is missing."""
    names: tuple[str, ...] | None
    """Of the columns of X, if the header is known to be one; a guessed header is not kept."""
    texts: dict[str, list[str]]
    """Columns that were kept beside the numbers (an id, a label), under the words they have."""
    dialect: Dialect
    in_memory = True
    """All cells are in memory, and count there."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    def read(self, start: int, stop: int) -> FloatArray:
        return self.X[start:stop]

    def take(self, numbers: IntArray) -> FloatArray:
        return self.X[numbers]

    def describe(self) -> str:
        return f"text file, {self.shape[1]} columns of float64, in {self.path}"


def open_text(
    given: str | os.PathLike[str] | IO[bytes],
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    texts: Sequence[str] = (),
    hidden: bool = False,
    memory: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TextSource:
    """Read a table of numbers from a text file.

    Parameters
    ----------
    given : path or open binary file
        A name that ends in .gz is unpacked.
    delimiter, decimal, encoding : str, default=None
        What stands between cells, the decimal mark, and the encoding. None looks at the first
        lines: comma, semicolon, tab or bar; point or comma; UTF-8, or what a byte-order mark says.
    header : bool, default=None
        Whether the first line holds names. None looks at it; names of a guessed header are not
        kept, for the line may be a row.
    columns, drop, texts : sequence of str
        Columns by name, or by number from 1: those to read (all if None), those to leave out, and
        those to keep as text beside the numbers. A name says that there is a header.
    hidden : bool, default=False
        Whether the number of rows is secret. The file then needs a header.
    memory : int, default=None
        Bytes that the table may take while it is read. A file that needs more, judged by the
        length of its first lines, is refused; where the number of rows is secret it is not, since
        the refusal would tell of it.
    progress : callable, default=None
        Called with the number of bytes that were read, and the size of the file.
    """
    path = _name_of(given)
    if header is None and any(not is_place(c) for c in (*(columns or ()), *drop, *texts)):
        header = True
    with _opened(given, progress) as stream:
        dialect = sniffed(
            path,
            stream.sample,
            delimiter,
            decimal,
            header,
            encoding,
            whole=stream.whole,
            hidden=hidden,
        )
        chosen = _chosen(path, dialect, columns, drop, texts)
        if memory is not None and not hidden:
            _check_size(path, stream.lines, len(chosen), memory)
        kinds = {f"c{j}": pa.float64() for j in chosen}
        kinds |= {f"c{dialect.place(path, text)}": pa.string() for text in texts}
        table = _parsed(path, stream, dialect, kinds)
    return _source(path, table, dialect, chosen, tuple(texts))


def to_parquet(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Write the numbers of a text file as Parquet, a part at a time; nothing is overwritten.

    Columns without names are numbered.
    """
    new, name = Path(target), os.fspath(path)
    with new_file(new) as temporary, _opened(path) as stream:
        dialect = sniffed(name, stream.sample, whole=stream.whole)
        chosen = _chosen(name, dialect, None, (), ())
        names = dialect.names or [str(j + 1) for j in range(dialect.n_columns)]
        kinds = {f"c{j}": pa.float64() for j in chosen}
        schema = pa.schema([(names[j], pa.float64()) for j in chosen])
        with pq.ParquetWriter(temporary, schema) as writer:
            try:
                for batch in pc.open_csv(stream.cells, **_options(dialect, kinds)):
                    writer.write_batch(batch.rename_columns(schema.names))
            except (pa.ArrowInvalid, UnicodeDecodeError, EOFError) as error:
                raise _error(name, dialect, str(error)) from None
    return new


def _check_size(path: str, lines: float, columns: int, memory: int) -> None:
    """Refuse a file whose numbers do not fit; they are held twice while they are turned."""
    needed = 2 * 8 * lines * columns
    if needed > memory:
        words, bound = bytes_in_words(needed), bytes_in_words(memory)
        raise DataFileError(
            f"{path} is a text file, which is read into memory as a whole. It would take about "
            f"{words}, and memory is {bound}; write it as Parquet by stillspace convert {path} "
            "NEW.parquet, or give more memory."
        )


def _name_of(given: str | os.PathLike[str] | IO[bytes]) -> str:
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    return str(getattr(given, "name", "The input"))


def _source(
    path: str, table: Any, dialect: Dialect, chosen: list[int], texts: tuple[str, ...]
) -> TextSource:
    X = np.empty((len(chosen), table.num_rows))
    start = 0
    for batch in table.to_batches():
        for k in range(len(chosen)):
            X[k, start : start + batch.num_rows] = batch.column(k).to_numpy(zero_copy_only=False)
        start += batch.num_rows
    names = None
    if dialect.header_given and dialect.names is not None:
        names = tuple(dialect.names[j] for j in chosen)
    kept = {w: table.column(len(chosen) + k).to_pylist() for k, w in enumerate(texts)}
    kept = {word: ["" if cell is None else cell for cell in cells] for word, cells in kept.items()}
    return TextSource(path, X.T, names, kept, dialect)


def _chosen(
    path: str,
    dialect: Dialect,
    columns: Sequence[str] | None,
    drop: Iterable[str],
    texts: Iterable[str],
) -> list[int]:
    """Return the numbers of the columns to read as numbers."""
    out = {dialect.place(path, column) for column in (*drop, *texts)}
    asked: Iterable[int] = range(dialect.n_columns)
    if columns is not None:
        asked = [dialect.place(path, column) for column in columns]
    chosen = [j for j in dict.fromkeys(asked) if j not in out]
    if len(chosen) < 2:
        raise DataFileError(
            f"{path} has {len(chosen)} column{'s' if len(chosen) != 1 else ''} to read; at least "
            "two are needed (is the delimiter right?)."
        )
    return chosen


def _parsed(path: str, stream: _Stream, dialect: Dialect, kinds: dict[str, Any]) -> Any:
    """Return the table of these columns; every error is one of ours."""
    try:
        return pc.read_csv(stream.cells, **_options(dialect, kinds))
    except (pa.ArrowInvalid, UnicodeDecodeError, OSError, EOFError) as error:
        text = str(error)
    if "Empty CSV file" in text:
        return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    raise _error(path, dialect, text)


def _options(dialect: Dialect, kinds: dict[str, Any]) -> dict[str, Any]:
    """Return how pyarrow is to read columns of these types."""
    return {
        "read_options": pc.ReadOptions(
            column_names=[f"c{j}" for j in range(dialect.n_columns)],
            skip_rows=dialect.skipped,
            block_size=_BLOCK,
            encoding="utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
        ),
        "parse_options": pc.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=dialect.quoted
        ),
        "convert_options": pc.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=_NULLS,
            decimal_point=dialect.decimal,
        ),
    }


def _error(path: str, dialect: Dialect, text: str) -> DataFileError:
    """Return our own sentence for an error of the parser, whose text may hold cells."""
    found = _COLUMN.search(text)
    if "conversion error to double" in text and found is not None:
        return NoNumberError.of(path, dialect, int(found.group(1)))
    if "Expected" in text and "columns, got" in text:
        msg = (
            f"The lines of {path} do not all have the same number of cells; repair the file, or "
            "give the delimiter between cells."
        )
    elif "UTF8" in text.upper().replace("-", "") or "decode" in text or "codec" in text:
        msg = f"{path} is not text in {dialect.encoding}; give its encoding, such as latin-1."
    elif "straddling object" in text:
        msg = (
            f"A line of {path} is longer than {_BLOCK} bytes, or a quotation mark is not closed; "
            "repair the file."
        )
    else:
        msg = f"{path} cannot be read as a table of text; save it as CSV (UTF-8) again."
    return DataFileError(msg)


class _Counted(io.RawIOBase):
    """The bytes of a file, counted while they are read."""

    def __init__(self, raw: IO[bytes], size: int, progress: Callable[[int, int], None]) -> None:
        self._raw, self._size, self._progress = raw, size, progress
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._raw.read(len(buffer)) or b""
        self._done += len(part)
        self._progress(min(self._done, self._size or self._done), self._size or self._done)
        buffer[: len(part)] = part
        return len(part)


@dataclass(frozen=True, slots=True)
class _Stream:
    """A text file whose first bytes were looked at."""

    cells: Any
    """What pyarrow reads from, from the first byte on; .gz is unpacked."""
    sample: bytes
    """The first bytes, unpacked."""
    whole: bool
    """Whether the sample is all that there is."""
    lines: float
    """About how many lines the file has, by the first ones."""


@contextmanager
def _opened(given: Any, progress: Callable[[int, int], None] | None = None) -> Iterator[_Stream]:
    """Look at the first bytes of a file, and leave them to be read again."""
    is_path, name = isinstance(given, str | os.PathLike), _name_of(given)
    size = os.path.getsize(given) if is_path else 0
    with open(given, "rb") if is_path else nullcontext(given) as raw:
        stream = io.BufferedReader(_Counted(raw, size, progress or (lambda *_: None)), _SAMPLE)
        ahead = sample = stream.peek()
        cells: Any = pa.PythonFile(stream, mode="r")
        used = len(ahead)
        if name.lower().endswith(".gz"):
            unpacked = zlib.decompressobj(31)
            try:
                sample = unpacked.decompress(ahead, _SAMPLE)
            except zlib.error:
                msg = f"{name} ends in .gz but is not a gzip file; rename it, or compress it again."
                raise DataFileError(msg) from None
            used -= len(unpacked.unconsumed_tail)
            cells = pa.CompressedInputStream(cells, "gzip")
        whole = max(len(ahead), len(sample)) < _SAMPLE
        yield _Stream(cells, sample, whole, sample.count(b"\n") * size / max(used, 1))
