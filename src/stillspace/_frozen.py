"""Arrays as values: frozen dataclasses hold them, compare them and hash them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray


@dataclass(frozen=True, slots=True, repr=False)
class FrozenArray:
    """A float64 array as its bytes and its shape.

    The text of a frozen array names its shape and a hash of its bytes, so that the text of a plan
    stays short and still differs when a number differs.
    """

    data: bytes
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: npt.ArrayLike) -> FrozenArray:
        array = np.ascontiguousarray(array, dtype=np.float64)
        return cls(array.tobytes(), array.shape)

    @property
    def array(self) -> FloatArray:
        """The array, as a view that cannot be written to."""
        return np.frombuffer(self.data, dtype=np.float64).reshape(self.shape)

    def __repr__(self) -> str:
        return f"FrozenArray(shape={self.shape}, sha256={hashlib.sha256(self.data).hexdigest()})"
