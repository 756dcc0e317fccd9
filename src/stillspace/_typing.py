"""Array types used across the package."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
WordArray: TypeAlias = npt.NDArray[np.uint64]
AnyArray: TypeAlias = npt.NDArray[Any]
