"""Zarr arrays, and AnnData's sparse matrices in Zarr groups."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import zarr

from stillspace.exceptions import DataFileError
from stillspace.rows.sources.chunked import ArraySource, CsrSource, source_of


def open_zarr(path: str | os.PathLike[str], *, key: str | None = None) -> ArraySource | CsrSource:
    """Open a Zarr array; of a group `key` names the part, "X" by default."""
    where = os.path.abspath(os.fspath(path))
    try:
        found = zarr.open(where, mode="r")
    except Exception:  # the library has many errors for what is no array of its own
        msg = f"{where} is not a readable Zarr array on this machine; check the path."
        raise DataFileError(msg) from None
    return _source(found, where, key)


def open_zarr_handle(handle: Any, *, key: str | None = None) -> ArraySource | CsrSource:
    """Take an open array or group of zarr."""
    root = getattr(handle.store_path.store, "root", None)
    where = "" if root is None else os.path.join(str(root), handle.store_path.path)
    return _source(handle, where, key)


def _source(found: Any, where: str, key: str | None) -> ArraySource | CsrSource:
    again = partial(open_zarr, where, key=key) if where else None
    if isinstance(found, zarr.Group) and (key is not None or "indptr" not in found):
        name = "X" if key is None else key
        if name not in found:
            where = where or "The Zarr group"
            raise DataFileError(f"{where} has no {name!r}; name one of its arrays by FILE::KEY.")
        found = found[name]
    return source_of(found, "Zarr", where, again)
