"""The two ways in which this package declares a numba function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def jit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile `function` on its first call, without the GIL and without fast-math.

    The machine code is cached beside the source or in the user's cache directory. Where neither
    can be written (read-only images, service accounts) it is compiled anew in each process: a
    shared temporary directory would let other users plant code in it.
    """
    return _compiled(function, fastmath=False)


def jit_sum(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function that does nothing but add up finished terms, in any order.

    Additions may be reordered and contracted with the product before them, as a matrix product
    would do it: SPEC 4 (b) charges for that by the length of the chain, whatever its order. The
    licence is on this function's own instructions alone, also where it is inlined.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"})


def _compiled(function: Callable[_P, _R], fastmath: bool | set[str]) -> Callable[_P, _R]:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        compiled: Callable[_P, _R] = numba.njit(cache=True, **options)(function)
    except (RuntimeError, OSError):  # "no locator available": nothing is writable
        compiled = numba.njit(**options)(function)
    return compiled
