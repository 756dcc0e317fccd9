"""Dask arrays, computed a part of rows at a time by the scheduler in use."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from stillspace._typing import AnyArray
from stillspace.exceptions import DataFileError
from stillspace.rows.sources.chunked import ArraySource


class _Computed:
    """A Dask array whose slices are computed."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.chunks = (max(array.chunks[0], default=1),)

    def __getitem__(self, rows: slice) -> AnyArray:
        return np.asarray(self.array[rows].compute())


def open_dask_array(array: Any) -> ArraySource:
    """Take a Dask array with a known shape; nothing is computed."""
    check_shape(array)
    source = ArraySource(_Computed(array), "Dask array", again=partial(open_dask_array, array))
    source.sparse = issparse(getattr(array, "_meta", None))
    return source


def check_shape(array: Any) -> None:
    """Refuse a Dask array that does not know its number of rows."""
    if any(np.isnan(length) for length in array.shape):
        msg = (
            "The Dask array does not know its number of rows; call compute_chunk_sizes() on it "
            "before the fit."
        )
        raise DataFileError(msg)
