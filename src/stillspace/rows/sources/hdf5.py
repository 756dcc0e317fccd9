"""HDF5 files and AnnData's .h5ad files, read by h5py."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import h5py

from stillspace.exceptions import DataFileError
from stillspace.rows.sources.chunked import ArraySource, CsrSource, source_of


def open_hdf5(path: str | os.PathLike[str], *, key: str | None = None) -> ArraySource | CsrSource:
    """Open an HDF5 file; `key` names the dataset, or the group of a sparse matrix.

    Without a key the file must have one two-dimensional dataset.
    """
    where = os.path.abspath(os.fspath(path))
    file = _opened(where)
    tables = _tables(file)
    if key is None and len(tables) == 1:
        key = tables[0]
    if key is None or key not in file:
        what = f"{len(tables)} two-dimensional datasets" if key is None else f"no {key!r}"
        known = ", ".join(tables) or "none"
        raise DataFileError(f"{where} has {what}; name one of its tables by FILE::KEY: {known}.")
    return source_of(file[key], "HDF5", where, partial(open_hdf5, where, key=key))


def open_h5ad(path: str | os.PathLike[str], *, key: str = "X") -> ArraySource | CsrSource:
    """Open the matrix of an AnnData file; `key` names another one, such as "layers/counts"."""
    where = os.path.abspath(os.fspath(path))
    source = open_hdf5(where, key=key)
    source._again = partial(open_h5ad, where, key=key)
    source.names = _variable_names(_opened(where), source.shape[1])
    return source


def open_h5py(handle: Any, *, key: str | None = None) -> ArraySource | CsrSource:
    """Take an open dataset or group of h5py; `key` names a part of a group."""
    part = handle if key is None else handle[key]
    path = os.path.abspath(part.file.filename)
    if isinstance(part, h5py.File):
        return open_hdf5(path)
    return source_of(part, "HDF5", path, partial(open_hdf5, path, key=part.name))


def _opened(path: str) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError:
        msg = f"{path} is not a readable HDF5 file on this machine; check the path, or rewrite it."
        raise DataFileError(msg) from None


def _tables(file: h5py.File) -> list[str]:
    found: list[str] = []

    def look(name: str, part: Any) -> None:
        if isinstance(part, h5py.Dataset) and part.ndim == 2:
            found.append(name)

    file.visititems(look)
    return found


def _variable_names(file: h5py.File, D: int) -> tuple[str, ...] | None:
    """Return the names of the variables of an AnnData file, if they are usable."""
    var = file.get("var")
    if not isinstance(var, h5py.Group):
        return None
    column = var.get(str(var.attrs.get("_index", "_index")))
    if not isinstance(column, h5py.Dataset) or column.shape != (D,):
        return None
    names = tuple(str(name) for name in column.asstr()[:])
    return names if len(set(names)) == D else None
