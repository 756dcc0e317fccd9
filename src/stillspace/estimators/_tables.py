"""Checks of the kind, the shape and the dtype of X. No message ever shows a cell of X."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from stillspace._checks import checked_bytes
from stillspace._typing import AnyArray, FloatArray
from stillspace.estimators._files import check_table, check_table_shape
from stillspace.estimators._sparse import check_sparse, sparse_rows
from stillspace.rows import Rows, RowTable
from stillspace.rows.file import LEAST_MEMORY
from stillspace.rows.maps import BLOCK_CELLS
from stillspace.rows.sources import is_source

STORAGE_TYPES = (np.float64, np.float32, np.int8, np.uint8)
"""Types that are read as they are; anything else is converted to float64 first."""


def opened(X: Any, estimator: BaseEstimator, *, hidden: bool = False) -> Any:
    """Return a table for a path, a handle or a source, and anything else as it is.

    `hidden`: the number of rows is secret.
    """
    memory = getattr(estimator, "memory", None)
    if memory is not None:
        checked_bytes("memory", memory, LEAST_MEMORY)
    is_plain = type(X) is np.ndarray
    return X if is_plain or not is_source(X) else RowTable.of(X, memory, hidden=hidden)


def checked_array(
    estimator: BaseEstimator,
    X: Any,
    *,
    reset: bool,
    min_samples: int,
    finite: bool,
    hidden: bool = False,
) -> Any:
    """Return X as a 2-d array of a storage type, or as sparse rows (CSR).

    X is judged by shape and dtype alone, and by finiteness if asked for. scikit-learn's own errors
    print parts of the array for 1-d, complex and non-numeric input, so these three are told apart
    first. `hidden` keeps the number of rows out of every message. A path, a handle or a source
    comes back as a table in a file, whose cells are read later.
    """
    X = opened(X, estimator)
    if isinstance(X, RowTable):
        facts: dict[str, Any] = {"min_samples": min_samples, "finite": finite, "hidden": hidden}
        return check_table(estimator, X, reset=reset, **facts)
    check_kind(X)
    array = X if sparse.issparse(X) else as_array(X)
    if array.ndim != 2:
        shape = ("n", *array.shape[1:]) if hidden else array.shape
        raise ValueError(_not_a_table(shape))
    if sparse.issparse(X):
        array = sparse_rows(X)
    check_dtype(array.dtype)
    if hasattr(X, "columns"):  # of a frame scikit-learn takes the names, not the cells
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        check: Any = partial(check_array, estimator=estimator)
    else:
        check = partial(validate_data, estimator, reset=reset)
    with np.errstate(all="ignore"):  # a warning of a cast would tell of the rows
        checked = check(
            _numbers(array),
            accept_sparse="csr",
            dtype=list(STORAGE_TYPES),
            ensure_all_finite=False,
            ensure_min_samples=min_samples,
            ensure_min_features=2 if reset else 1,
        )
    if not _declares_dtype(X):
        checked = checked.astype(np.float64, copy=False)
    if finite:
        check_finite(checked)
    return checked


def as_array(X: Any) -> AnyArray:
    """Return X as an array.

    The cells of a list have no common type, and NumPy would choose one from all of them: with one
    cell of text it would turn every number into text. So a list is read row by row, and one row
    never changes how another row is read.
    """
    check_kind(X)
    if _is_listed(X):
        shape = stated_shape(X) or ()
        if len(shape) == 2:
            return _from_rows(X, shape[1])
    try:
        return np.asarray(X)
    except ValueError:  # NumPy's message gives the number of rows
        raise ValueError(_RAGGED) from None


_RAGGED = "X must be a table: all its rows must have the same number of cells."


def _is_listed(X: Any) -> bool:
    """Return whether X is a Python sequence without a data type of its own."""
    if isinstance(X, list | tuple):
        return True
    if isinstance(X, str | bytes | bytearray | memoryview | Mapping) or sparse.issparse(X):
        return False
    typed = ("__array__", "__array_interface__", "__array_struct__", "__buffer__", "typecode")
    if any(hasattr(X, name) for name in typed):
        return False
    return isinstance(X, Sequence) or all(hasattr(X, n) for n in ("__len__", "__getitem__"))


def _is_array_like(X: Any) -> bool:
    """Return whether X converts to an array of cells."""
    converts = ("__array__", "__array_interface__", "__array_struct__")
    if sparse.issparse(X) or any(hasattr(X, name) for name in converts) or _is_listed(X):
        return True
    try:
        memoryview(X)
    except TypeError:
        return False
    return True


def _from_rows(X: Any, D: int) -> FloatArray:
    """Return float64 rows, each converted by itself."""
    table = np.empty((len(X), D))
    for i in range(len(X)):
        table[i] = _from_row(X[i], D)
    return table


def _from_row(row: Any, D: int) -> FloatArray:
    """Return one row as float64; cells of mixed types are converted one by one."""
    try:
        cells = np.asarray(row)
    except ValueError:
        raise ValueError(_RAGGED) from None
    if cells.shape != (D,):
        raise ValueError(_RAGGED)
    if cells.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return cells.astype(np.float64)
    if _is_listed(row):  # not the array: NumPy gave its cells a common type
        cells = np.empty(D, dtype=object)
        for j in range(D):
            cells[j] = row[j]
    return _floats(cells, "X has a cell that")


def _declares_dtype(X: Any) -> bool:
    """Return whether X's data type is a public fact that no cell can change.

    The type of other containers may depend on a cell. A nullable column of pandas is one type with
    a missing cell and another type without one, for example.
    """
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return True
    dtypes = getattr(X, "dtypes", None) if hasattr(X, "iloc") else None
    return dtypes is not None and all(
        isinstance(getattr(dtype, "subtype", dtype), np.dtype) for dtype in dtypes
    )


def stated_shape(X: Any) -> tuple[int, ...] | None:
    """Return X's shape without reading a cell, or None where only a conversion would tell it."""
    if _is_listed(X):
        if len(X) == 0:
            return (0,)
        first = X[0]
        inner = getattr(first, "shape", None)
        if inner is None:
            inner = (len(first),) if _is_listed(first) else ()
        return (len(X), *inner)
    shape = getattr(X, "shape", None)
    return tuple(int(length) for length in shape) if isinstance(shape, tuple) else None


def checked_shape(X: Any, *, hidden: bool) -> tuple[int, int]:
    """Return (n, D) of something with a shape, by its shape, dtype and column names alone.

    What is refused here is refused before a budget is charged; `checked_array` then reads.
    `hidden`: n is secret.
    """
    if isinstance(X, RowTable):
        check_table_shape(X, 0 if hidden else 2, 2, hidden=hidden)
        return X.shape
    check_kind(X)
    if hidden and _is_listed(X):
        msg = (
            "neighboring_relation='add-or-remove-one' keeps the number of rows secret, and a list "
            "without rows has no known number of columns; pass a NumPy array or a data frame."
        )
        raise ValueError(msg)
    shape = stated_shape(X) or ()
    spoken = ("n", *shape[1:]) if hidden and shape else shape
    if len(shape) != 2:
        raise ValueError(_not_a_table(spoken))
    least = (0 if hidden else 2, 2)
    for length, fewest, unit in zip(shape, least, ("sample", "feature"), strict=True):
        if length < fewest:
            msg = (
                f"Found array with {length} {unit}(s) (shape={spoken}) while a minimum of "
                f"{fewest} is required."
            )
            raise ValueError(msg)
    if sparse.issparse(X):
        check_sparse(X)
    if type(X) is not np.ndarray:
        # Column names, on an estimator of no use: a fit that is refused leaves this one as it was.
        validate_data(BaseEstimator(), X, reset=True, skip_check_array=True)
    return shape[0], shape[1]


def check_kind(X: Any) -> None:
    """Refuse what is no table, or would be read as something else, before a cell is read."""
    if type(X) is np.ndarray:
        check_dtype(X.dtype)
        return
    if isinstance(X, Rows):
        msg = (
            f"{type(X).__name__} are Rows, which only the fit of a private estimator accepts; pass "
            "an array, a sparse matrix or a data frame."
        )
        raise TypeError(msg)
    if stated_shape(X) is not None and not _is_array_like(X):
        msg = (
            f"X must be an array, a sparse matrix, a data frame or Rows, got a {type(X).__name__}; "
            "convert it to a NumPy array first."
        )
        raise TypeError(msg)
    rows = X if isinstance(X, list | tuple) else ()
    if isinstance(X, np.ma.MaskedArray) or any(isinstance(row, np.ma.MaskedArray) for row in rows):
        msg = (
            "X is a masked array, whose mask would be lost; replace the masked cells by a number "
            "with X.filled(code), and pass missing_code=code."
        )
        raise TypeError(msg)
    dtypes = getattr(X, "dtypes", None)  # of a data frame, one per column
    for dtype in (getattr(X, "dtype", None), *(() if dtypes is None else dtypes)):
        check_dtype(dtype)


def check_dtype(dtype: Any) -> None:
    """Refuse complex numbers, dates and durations."""
    kind = getattr(dtype, "kind", "")
    if kind == "c":
        msg = f"Complex data not supported: X has dtype {dtype}; pass real numbers."
        raise ValueError(msg)
    temporal = getattr(dtype, "is_temporal", None)  # of polars
    if kind in ("m", "M") or (callable(temporal) and temporal()):
        msg = (
            f"X has dtype {dtype}: dates and durations are not numbers; convert them, for example "
            "to days since a public date, or drop such columns."
        )
        raise TypeError(msg)


def _not_a_table(shape: tuple[Any, ...]) -> str:
    return (
        f"X must be a 2-d array of shape (n_samples, n_features), got shape {shape}. "
        "Reshape your data with X.reshape(-1, 1) or X.reshape(1, -1)."
    )


def check_finite(X: Any) -> None:
    """Raise if any entry is NaN or infinite, naming none, looking at a part at a time."""
    array = X.data if sparse.issparse(X) else X
    if not _all_finite(array):
        msg = "X contains NaN or infinity; remove or impute these rows first."
        raise ValueError(msg)


def _all_finite(array: AnyArray) -> bool:
    """Return whether all entries are finite, looking at a part at a time."""
    if array.dtype.kind != "f":
        return True
    step = max(1, BLOCK_CELLS // max(1, array[:1].size))
    return all(
        bool(np.isfinite(array[start : start + step]).all()) for start in range(0, len(array), step)
    )


def _numbers(array: Any) -> Any:
    """Return an array with objects turned into floats: missing ones into NaN, huge ones into inf.

    What is no number at all raises. That every cell reads as a number is therefore an assumption
    of private fits.
    """
    if array.dtype.kind not in "OSU":
        return array
    return _floats(array, f"X has dtype {array.dtype} and")


def _floats(cells: AnyArray, what: str) -> FloatArray:
    """Return objects as floats, one by one."""
    try:
        return np.asarray(np.frompyfunc(_number, 1, 1)(cells), dtype=np.float64)
    except (TypeError, ValueError):
        msg = (
            f"{what} does not convert to float: each argument must be a real number or a string "
            "that reads as a number; encode or drop such columns."
        )
        raise TypeError(msg) from None


def _number(cell: Any) -> float:
    if cell is None or cell is np.ma.masked or type(cell).__name__ == "NAType":
        return nan  # the last is pandas.NA, without importing pandas
    if isinstance(cell, complex | np.complexfloating | np.datetime64 | np.timedelta64):
        raise TypeError  # NumPy would drop the imaginary part, or the unit
    try:
        return float(cell)
    except OverflowError:
        return inf
