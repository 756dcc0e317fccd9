"""Checks of sparse arrays, before compiled code follows their indices.

SciPy checks a sparse array when it is made, but its parts can be replaced afterwards. Compiled code
would then read outside of the arrays. Every check looks at the shapes, types and indices of the
parts, never at a stored value. No message shows an index, the number of rows or of stored cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stillspace._typing import AnyArray
from stillspace.rows.stored import compressed

_INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))


def check_sparse(X: Any) -> None:
    """Raise ValueError unless the parts of a 2-d sparse array fit together."""
    check = _CHECKS.get(X.format)
    if check is None:
        known = ", ".join(_CHECKS)
        msg = f"X is a sparse array of an unknown format; pass one of the formats {known}."
        raise ValueError(msg)
    fault = check(X, *X.shape)
    if fault:
        msg = (
            f"X is a damaged sparse array ({X.format}): {fault}; make it again with a constructor "
            "of scipy.sparse."
        )
        raise ValueError(msg)


def sparse_rows(X: Any) -> Any:
    """Return a checked sparse array as compressed rows (CSR)."""
    check_sparse(X)
    try:
        return compressed(X)
    except (TypeError, ValueError, OverflowError):  # the message would show the value
        msg = (
            f"X is a sparse array ({X.format}) with a value that is not a real number; encode or "
            "drop such columns."
        )
        raise TypeError(msg) from None


def _compressed(X: Any, major: int, minor: int) -> str:
    """Return what is wrong with rows (or columns) that are stored one after the other."""
    indptr, indices, data = (_part(X, name) for name in ("indptr", "indices", "data"))
    if not (_is_index(indptr) and _is_index(indices)):
        return "indptr and indices must be 1-d arrays of int32 or int64"
    if not _is_numeric(data, 1) or len(data) != len(indices):
        return "data must be a 1-d array of real numbers, as long as indices"
    return _limits(indptr, indices, major) or _outside("index", indices[: indptr[-1]], minor)


def _csr(X: Any, n: int, D: int) -> str:
    return _compressed(X, n, D)


def _csc(X: Any, n: int, D: int) -> str:
    return _compressed(X, D, n)


def _bsr(X: Any, n: int, D: int) -> str:
    """Return what is wrong with rows of dense blocks."""
    indptr, indices, data = (_part(X, name) for name in ("indptr", "indices", "data"))
    if not (_is_index(indptr) and _is_index(indices)):
        return "indptr and indices must be 1-d arrays of int32 or int64"
    if not _is_numeric(data, 3) or len(data) != len(indices):
        return "data must be a 3-d array of real numbers, as long as indices"
    height, width = data.shape[1:]
    if height < 1 or width < 1 or n % height or D % width:
        return "the size of a block must divide the shape"
    fault = _limits(indptr, indices, n // height)
    return fault or _outside("index", indices[: indptr[-1]], D // width)


def _coo(X: Any, n: int, D: int) -> str:
    """Return what is wrong with a list of cells."""
    coords, data = getattr(X, "coords", None), _part(X, "data")
    if not isinstance(coords, tuple) or len(coords) != 2 or not all(map(_is_index, coords)):
        return "its coordinates must be two 1-d arrays of int32 or int64"
    if not _is_numeric(data, 1) or any(len(part) != len(data) for part in coords):
        return "data must be a 1-d array of real numbers, as long as the coordinates"
    return _outside("row index", coords[0], n) or _outside("column index", coords[1], D)


def _dia(X: Any, n: int, D: int) -> str:
    """Return what is wrong with a list of diagonals."""
    offsets, data = _part(X, "offsets"), _part(X, "data")
    if not _is_index(offsets):
        return "offsets must be a 1-d array of int32 or int64"
    if not _is_numeric(data, 2) or len(data) != len(offsets):
        return "data must be a 2-d array of real numbers with one row per offset"
    if len(np.unique(offsets)) < len(offsets):
        return "every offset must stand once"
    return _outside("offset", offsets.astype(np.int64) + n, n + D)


def _lil(X: Any, n: int, D: int) -> str:
    """Return what is wrong with one list of indices and one of values per row."""
    rows, data = _part(X, "rows"), _part(X, "data")
    for part in (rows, data):
        if part is None or part.shape != (n,) or not all(type(row) is list for row in part):
            return "rows and data must hold one list per row"
    if any(len(row) != len(values) for row, values in zip(rows, data, strict=True)):
        return "the lists of rows and data must be of the same lengths"
    if X.dtype.kind not in "biuf":
        return "data must hold real numbers"
    inside = all(_within(j, D) for row in rows for j in row)
    return "" if inside else "every column index must lie inside of the shape"


def _dok(X: Any, n: int, D: int) -> str:
    """Return what is wrong with a dictionary from (row, column) to value."""
    if X.dtype.kind not in "biuf":
        return "its values must be real numbers"
    for key in X.keys():  # noqa: SIM118  (a sparse array, not a dictionary)
        if not isinstance(key, tuple) or len(key) != 2:
            return "every key must be a pair of a row and a column index"
        if not (_within(key[0], n) and _within(key[1], D)):
            return "every key must lie inside of the shape"
    return ""


_CHECKS: Mapping[str, Callable[[Any, int, int], str]] = {
    "csr": _csr,
    "csc": _csc,
    "coo": _coo,
    "bsr": _bsr,
    "dia": _dia,
    "lil": _lil,
    "dok": _dok,
}


def _part(X: Any, name: str) -> Any:
    """Return an array that X is made of, None if there is none. A mask would be lost."""
    part = getattr(X, name, None)
    usable = isinstance(part, np.ndarray) and not isinstance(part, np.ma.MaskedArray)
    return part if usable else None


def _is_index(part: Any) -> bool:
    return part is not None and part.ndim == 1 and part.dtype in _INDEX_TYPES


def _is_numeric(part: Any, ndim: int) -> bool:
    return part is not None and part.ndim == ndim and part.dtype.kind in "biuf"


def _limits(indptr: AnyArray, indices: AnyArray, count: int) -> str:
    """Return what is wrong with the places where each of `count` rows begins and ends."""
    if len(indptr) != count + 1:
        return "indptr must have one entry more than there are rows (csc: columns; bsr: blocks)"
    rising = bool((indptr[1:] >= indptr[:-1]).all())
    if indptr[0] != 0 or not rising or indptr[-1] > len(indices):
        return "indptr must begin with 0, never fall and end within indices"
    return ""


def _outside(name: str, indices: AnyArray, count: int) -> str:
    """Return a fault if an index is not in 0…count − 1."""
    inside = len(indices) == 0 or bool(indices.min() >= 0 and indices.max() < count)
    return "" if inside else f"every {name} must lie inside of the shape"


def _within(index: Any, count: int) -> bool:
    return isinstance(index, int | np.integer) and 0 <= int(index) < count
