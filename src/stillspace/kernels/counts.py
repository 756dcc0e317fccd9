"""Counts of cells in bins, column by column.

The bin of a cell x is the number of edges at or below x. A search over all edges for every cell
would cost more than the fit that the counts serve, so cells are first put into classes by a cheap
function `key` that never falls as x grows. An edge in a lower class lies below x, one in a higher
class above x. Only the edges in the class of x itself are compared with x, exactly. So the bin
depends on exact comparisons alone, however `key` rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numba.core
import numba.extending
import numpy as np
from llvmlite import ir

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.kernels.jit import bare, part

CLASSES = 256
"""Classes of equal width between the first and the last edge of a column."""
FEW = 4
"""Up to so many edges of one class are compared one after another."""
OCTAVES = 4096
"""Classes of numbers with the same sign and the same power of two."""


class Classes(NamedTuple):
    """The edges of k columns, and how many of them lie below each class."""

    edges: FloatArray
    """(k, m + 1), ascending; at the end of each row stands NaN, which is at or below no cell."""
    by_octave: bool
    """Whether a class is a power of two with its sign, or one of equal width."""
    origin: FloatArray
    """(k): where the first class of equal width begins."""
    inverse: FloatArray
    """(k): classes per unit."""
    below: AnyArray
    """(k, classes + 1): the number of edges below a class."""


def _bits(_: Any, number: Any) -> Any:  # noqa: ARG001
    """`bits(x)`: the 64 bits of a float64 as a whole number with a sign."""
    types: Any = numba.core.types

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


_intrinsic: Any = numba.extending.intrinsic
bits: Callable[[float], int] = _intrinsic(_bits)


@part
def _octave(x: float) -> int:
    """Return the class of x by sign and power of two: 0 … OCTAVES − 1."""
    word = bits(x + 0.0)  # −0 is the number 0
    if word < 0:
        word ^= 0x7FFFFFFFFFFFFFFF
    return (word >> 52) + OCTAVES // 2


@part
def _place(x: float, origin: float, inverse: float) -> int:
    """Return the class of x among those of equal width: 0 … CLASSES − 1."""
    t = (x - origin) * inverse
    if not t > 0.0:
        return 0
    return int(t) if t < CLASSES - 1 else CLASSES - 1


@bare
def _count_below(
    edges: FloatArray, by_octave: bool, origin: FloatArray, inverse: FloatArray, below: AnyArray
) -> None:
    """Write the number of edges below each class, for every column."""
    k, m = edges.shape
    for j in range(k):
        for i in range(m):
            e = edges[j, i]
            key = _octave(e) if by_octave else _place(e, origin[j], inverse[j])
            below[j, key + 1] += 1
        for key in range(1, below.shape[1]):
            below[j, key] += below[j, key - 1]


def _classes(edges: FloatArray, *, by_octave: bool) -> Classes:
    k, m = edges.shape
    finite = np.where(np.isfinite(edges), edges, edges[:, :1] if m else 0.0)
    origin, last = finite.min(axis=1, initial=np.inf), finite.max(axis=1, initial=-np.inf)
    with np.errstate(all="ignore"):
        inverse = (CLASSES - 2) / (last - origin)
    origin = np.where(np.isfinite(origin), origin, 0.0)
    inverse = np.where(np.isfinite(inverse), inverse, 1.0)
    small = np.int16 if m < 2**15 else np.int32  # 256 columns then fit into a core's second cache
    below = np.zeros((k, (OCTAVES if by_octave else CLASSES) + 1), dtype=small)
    _count_below(edges, by_octave, origin, inverse, below)
    ended = np.column_stack([edges, np.full(k, np.nan)])
    return Classes(ended, by_octave, origin, inverse, below)


@lru_cache(maxsize=4)
def classes_of(edges: bytes, k: int) -> Classes:
    """Return the classes for edges (k, m), of the kind in which fewer edges share a class."""
    table = np.frombuffer(edges, dtype=np.float64).reshape(k, -1)
    both = [_classes(table, by_octave=by_octave) for by_octave in (False, True)]
    return min(both, key=lambda found: float(np.square(np.diff(found.below)).sum()))


@bare
def _count(
    X: AnyArray, columns: IntArray, E: FloatArray, by_octave: bool, origin: FloatArray,
    inverse: FloatArray, B: AnyArray, missing: float, C: FloatArray,
) -> None:  # fmt: skip
    """Add 1 to one bin of each counted column, for every row of X (b, D).

    Flat: the edges E, the numbers of edges below each class B, and the counts C.
    """
    k = columns.size
    width, classes, bins = E.size // k, B.size // k, C.size // k
    for i in range(X.shape[0]):
        for j in range(k):
            x = np.float64(X[np.uintp(i), np.uintp(columns[j])])
            if math.isnan(x) or x == missing:
                C[np.uintp((j + 1) * bins - 1)] += 1.0
                continue
            key = _octave(x) if by_octave else _place(x, origin[j], inverse[j])
            at, e = np.uintp(j * classes + key), j * width
            low, high = np.int64(B[at]), np.int64(B[at + np.uintp(1)])
            while high - low > FEW:
                middle = (low + high) // 2
                if E[np.uintp(e + middle)] <= x:
                    low = middle + 1
                else:
                    high = middle
            low += np.int64(E[np.uintp(e + low)] <= x)  # often the only step, and no branch
            while E[np.uintp(e + low)] <= x:
                low += 1
            C[np.uintp(j * bins + low)] += 1.0


def count_cells(
    X: AnyArray, columns: IntArray, edges: bytes, missing: float, counts: FloatArray
) -> None:
    """Add 1 to one bin of each counted column, for every row of X (b, D) of any real type.

    `edges` are those of the k counted columns (k, m), each ascending. A cell x goes to the bin with
    as many edges at or below x. A missing cell (NaN, or equal to `missing`) goes to the last bin.
    """
    if not counts.flags.c_contiguous:
        raise ValueError("counts are added to C-contiguous memory")
    E, by_octave, origin, inverse, B = classes_of(edges, len(columns))
    flat = E.reshape(-1), by_octave, origin, inverse, B.reshape(-1)
    _count(X, columns, *flat, missing, counts.reshape(-1))
