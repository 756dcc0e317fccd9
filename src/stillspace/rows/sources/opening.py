"""From a path, a handle or an array of another library to a source of rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from stillspace.exceptions import DataFileError
from stillspace.rows.sources.protocol import RowSource
from stillspace.rows.sources.stacked import StackedSource

_HERE = "stillspace.rows.sources"
_TEXT = f"{_HERE}.text:open_text"

SUFFIXES: dict[str, str] = {
    ".npy": f"{_HERE}.raw:open_npy",
    ".bin": f"{_HERE}.raw:open_raw",
    ".raw": f"{_HERE}.raw:open_raw",
    ".parquet": f"{_HERE}.arrow:ParquetSource",
    ".pq": f"{_HERE}.arrow:ParquetSource",
    ".arrow": f"{_HERE}.arrow:IpcSource",
    ".feather": f"{_HERE}.arrow:IpcSource",
    ".ipc": f"{_HERE}.arrow:IpcSource",
    ".h5": f"{_HERE}.hdf5:open_hdf5",
    ".hdf5": f"{_HERE}.hdf5:open_hdf5",
    ".h5ad": f"{_HERE}.hdf5:open_h5ad",
    ".zarr": f"{_HERE}.zarrs:open_zarr",
    ".bed": f"{_HERE}.plink:open_bed",
    ".csv": _TEXT,
    ".tsv": _TEXT,
    ".gz": _TEXT,
}
"""Which function opens a file, by the end of its name: `module:function(path, **options)`."""

HANDLES: dict[str, str] = {
    "h5py._hl.dataset.Dataset": f"{_HERE}.hdf5:open_h5py",
    "h5py._hl.group.Group": f"{_HERE}.hdf5:open_h5py",
    "zarr.core.array.Array": f"{_HERE}.zarrs:open_zarr_handle",
    "zarr.core.group.Group": f"{_HERE}.zarrs:open_zarr_handle",
    "dask.array.core.Array": f"{_HERE}.chunked:open_dask_array",
}
"""Which function opens an object, by the full name of its type or of a base of it."""


def is_source(X: Any) -> bool:
    """Whether `open_source` takes it: a path, a handle, a memory map or a source."""
    return _recognised(X) is not None


def open_source(
    given: Any, *, hidden: bool = False, memory: int | None = None, **options: Any
) -> RowSource:
    """Open rows that are not in memory; no cell is read, but a text file is parsed as a whole.

    Parameters
    ----------
    given : path, handle or source
        A path (str or PathLike) to a file or to a folder of part files; an open binary file; an
        object of a library that is listed in docs/scale.md; or a `RowSource`, which is returned.
        In a path to HDF5, .h5ad or Zarr, `FILE::KEY` names a part of the file, as `key` does.
    hidden : bool, default=False
        Whether the number of rows is secret. A text file then needs a header: without one, a file
        without rows does not tell its number of columns.
    memory : int, default=None
        Bytes that a text file may take, which is read as a whole.
    **options
        What the format needs besides: `columns` (Parquet, Arrow), `key` (HDF5, .h5ad, Zarr),
        `dtype` and `columns` or `shape` (raw files).
    """
    found = _recognised(given)
    if found is None:
        raise TypeError(
            f"A {type(given).__name__} is not a source of rows; pass a path, an open file, or a "
            "source of stillspace.rows.sources."
        )
    if isinstance(found, Path):
        return _opened(found, options, hidden, memory)
    if isinstance(found, str):
        return _called(found, given, options)
    if options:
        raise TypeError(
            f"The options {', '.join(options)} are only for paths and handles, and this source is "
            "already open; leave them out."
        )
    return found


def _recognised(X: Any) -> RowSource | str | Path | None:
    """Return the open source that it is, the opener of a handle, or the path of a file."""
    if isinstance(X, str | os.PathLike):
        return Path(X)
    if isinstance(X, np.memmap):
        from stillspace.rows.sources.raw import open_map  # noqa: PLC0415

        return open_map(X)
    if isinstance(X, np.ndarray):
        return None
    if not hasattr(X, "__array__") and isinstance(X, RowSource):  # a data frame is none
        return X
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(X).__mro__)
    opener = next((HANDLES[name] for name in names if name in HANDLES), None)
    return opener or _path_of(X)


def _opened(path: Path, options: dict[str, Any], hidden: bool, memory: int | None) -> RowSource:
    where, _, key = str(path).partition("::")
    if key and not path.exists():
        path, options = Path(where), {**options, "key": key}
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        if SUFFIXES[suffix] == _TEXT:
            options = {**options, "hidden": hidden, "memory": memory}
        return _called(SUFFIXES[suffix], path, options)
    if path.is_dir():
        return _folder(path, {**options, "hidden": hidden, "memory": memory})
    if not path.exists():
        raise DataFileError(f"{path} does not exist on this machine; check the path.")
    known = ", ".join(sorted(SUFFIXES))
    msg = f"{path} has no known format; the name of a file of rows must end in one of {known}."
    raise DataFileError(msg)


def _folder(path: Path, options: dict[str, Any]) -> RowSource:
    """Open files in the order of their names; hidden files and _SUCCESS do not count."""
    files = sorted(f for f in path.iterdir() if f.is_file() and f.name[0] not in "._")
    strange = [f for f in files if f.suffix.lower() not in SUFFIXES]
    if not files or strange:
        what = f"holds {strange[0].name}, which has no known format" if strange else "has no files"
        raise DataFileError(f"{path} {what}; give a folder with the part files of one table.")
    return StackedSource([open_source(file, **options) for file in files], str(path))


def _path_of(X: Any) -> Path | None:
    name = getattr(X, "name", None)
    binary = "b" in str(getattr(X, "mode", ""))
    is_file = callable(getattr(X, "fileno", None)) and callable(getattr(X, "readinto", None))
    return Path(name) if is_file and binary and isinstance(name, str) else None


def _called(where: str, given: Any, options: dict[str, Any]) -> RowSource:
    module, name = where.split(":")
    try:
        opener: Callable[..., RowSource] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        subject = given if isinstance(given, Path) else f"A {type(given).__name__}"
        msg = f"{subject} needs the package {error.name}: pip install 'stillspace[files]'."
        raise ImportError(msg) from None
    return opener(given, **options)
