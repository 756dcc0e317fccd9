"""PLINK .bed files: two bits per genotype call.

A row is an individual, a column is a variant, a cell is the number of copies of the first allele
(A1), and a missing call is NaN, as bed-reader gives them. Rows can be read from files in
individual-major order. PLINK writes variant-major (SNP-major) files; `rewritten` turns one into
the other, once.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stillspace._typing import AnyArray, IntArray
from stillspace.exceptions import DataFileError
from stillspace.kernels.calls_of_two_bits import transpose_calls
from stillspace.rows.sources.files import OpenFile, check_new, new_file, unreadable
from stillspace.rows.sources.raw import RawSource

MAGIC = b"\x6c\x1b"
BY_INDIVIDUALS, BY_VARIANTS = 0, 1
HEADER = 3

COPIES = np.array([2.0, np.nan, 1.0, 0.0], dtype=np.float32)
"""Copies of A1 for each of the four codes."""


_CODES = (np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3
_CELLS = np.ascontiguousarray(COPIES[_CODES]).view(np.complex128).reshape(256)
"""The four cells of each byte, as one item of 16 bytes."""


@dataclass(frozen=True, slots=True)
class BedSource:
    """Individuals of a .bed file in individual-major order; cells are 0, 1, 2 or NaN."""

    calls: RawSource
    """Bytes of four calls."""
    shape: tuple[int, int]
    names: tuple[str, ...] | None = None
    dtype = COPIES.dtype
    parallel = True

    def read(self, start: int, stop: int) -> AnyArray:
        return self._decoded(self.calls.read(start, stop), 0, self.shape[1])

    def take(self, numbers: IntArray) -> AnyArray:
        return self._decoded(self.calls.take(numbers), 0, self.shape[1])

    def columns(self, start: int, stop: int, rows: IntArray | None = None) -> AnyArray:
        """Return variants of all or chosen individuals: a stretch of each row."""
        calls = self.calls.columns(start // 4, -(-stop // 4), rows)
        return self._decoded(calls, start % 4, start % 4 + stop - start)

    def _decoded(self, calls: AnyArray, low: int, high: int) -> AnyArray:
        cells = _CELLS[calls].view(np.float32)
        return np.ascontiguousarray(cells[:, low:high])

    def announce(self, start: int, stop: int) -> None:
        self.calls.announce(start, stop)

    def describe(self) -> str:
        return f"PLINK .bed file, {self.shape[1]} variants, in {self.calls.file.path}"


def open_bed(path: str | os.PathLike[str]) -> BedSource:
    """Open a .bed file in individual-major order, with its .bim and .fam beside it."""
    file, order, n, D = _checked(path)
    if order != BY_INDIVIDUALS:
        raise DataFileError(
            f"{file.path} is in variant-major (SNP-major) order, in which a single row cannot be "
            f"read; rewrite it once: stillspace convert {file.path} NEW.bed"
        )
    calls = RawSource(file, HEADER, (n, -(-D // 4)), np.dtype(np.uint8))
    return BedSource(calls, (n, D))


def rewritten(
    path: str | os.PathLike[str], target: str | os.PathLike[str], memory: int = 2**28
) -> Path:
    """Write a variant-major .bed file in individual-major order, with its .bim and .fam.

    The parts of the new file have the name of `target`; a file that is there already is not
    overwritten. `memory` bounds the buffers, in bytes.
    """
    file, order, n, D = _checked(path)
    if order != BY_VARIANTS:
        msg = f"{file.path} is already in individual-major order; use it without conversion."
        raise DataFileError(msg)
    new = Path(target).with_suffix(".bed")
    check_new(new)
    made: list[Path] = []
    try:
        for end in (".fam", ".bim"):
            with new_file(new.with_suffix(end)) as copy:
                shutil.copyfile(Path(file.path).with_suffix(end), copy)
            made.append(new.with_suffix(end))
        with new_file(new) as temporary, temporary.open("wb") as out:
            out.write(MAGIC + bytes([BY_INDIVIDUALS]))
            for rows in _turned(file, n, D, memory):
                out.write(rows)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        for path_of_a_copy in made:
            path_of_a_copy.unlink()
        raise
    return new


def _turned(file: OpenFile, n: int, D: int, memory: int) -> Any:
    """Yield packed rows of individuals, a block of individuals at a time."""
    width, packed = -(-n // 4), -(-D // 4)
    people = max(memory // 2 // packed // 4, 1) * 4
    variants = max(memory // 2 // (people // 4), 1)
    for first in range(0, n, people):
        low, high = first // 4, min(-(-(first + people) // 4), width)
        rows = np.zeros((min(people, n - first), packed), dtype=np.uint8)
        for at in range(0, D, variants):
            count = min(variants, D - at)
            tile = np.empty((count, high - low), dtype=np.uint8)
            if high - low == width:
                file.read_into(HEADER + at * width, tile.reshape(-1))
            else:
                for j in range(count):
                    file.read_into(HEADER + (at + j) * width + low, tile[j])
            transpose_calls(tile, at, rows)
        yield rows


def _checked(path: str | os.PathLike[str]) -> tuple[OpenFile, int, int, int]:
    """Return the open file, its order, and the numbers of individuals and variants."""
    file = OpenFile(path)
    D, n = (_lines(Path(file.path).with_suffix(end)) for end in (".bim", ".fam"))
    head = file.read(0, HEADER) if file.size >= HEADER else b""
    if head[:2] != MAGIC or head[2] not in (BY_INDIVIDUALS, BY_VARIANTS):
        msg = f"{file.path} is not a PLINK 1 .bed file; convert it with plink --make-bed."
        raise DataFileError(msg)
    outer, inner = (n, D) if head[2] == BY_INDIVIDUALS else (D, n)
    if file.size != HEADER + outer * -(-inner // 4):
        # No sizes here: they tell the number of rows, which may be secret.
        raise DataFileError(
            f"The size of {file.path} does not match its .bim and .fam files: the three files do "
            "not belong together, or one of them is truncated; check them."
        )
    return file, head[2], n, D


def _lines(path: Path) -> int:
    count, last = 0, b"\n"
    try:
        with path.open("rb") as file:
            while part := file.read(2**20):
                count, last = count + part.count(b"\n"), part[-1:]
    except OSError as error:
        raise unreadable(str(path), error) from None
    return count + (last != b"\n")
