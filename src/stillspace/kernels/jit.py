"""The one way in which this package declares a numba function."""

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
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False}
    try:
        compiled: Callable[_P, _R] = numba.njit(cache=True, **options)(function)
    except (RuntimeError, OSError):  # "no locator available": nothing is writable
        compiled = numba.njit(**options)(function)
    return compiled
