"""The three ways in which this package declares a numba function."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import nrt

if hasattr(os, "register_at_fork"):
    # A fork while another thread compiles would leave numba's lock locked in the child for good.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )

MANY_REGISTERS = "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2]
"""Whether registers hold 32 values of eight lanes. Other processors hold 8 or fewer: what is faster
with 32 would take twice the time there."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False}


def jit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile `function` on its first call, without the GIL and without fast-math.

    The machine code is cached beside the source or in the user's cache directory. Where neither
    can be written (read-only images, service accounts) it is compiled anew in each process: a
    shared temporary directory would let other users plant code in it.
    """
    return _compiled(function, {}, makes_arrays=True)


def bare(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function that makes no array, as `jit` does, without counts of references.

    Whoever calls it holds its arrays. Numba would count each array that is handed on to a `part`,
    for every few rows, which took longer than the rows.
    """
    return _compiled(function, {"_nrt": False}, makes_arrays=False)


def part(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Declare a function that compiled functions call, and nobody else. It makes no array.

    It becomes part of their machine code, without a call: a call would hand over seven numbers per
    array. It gets no code of its own and no entry from Python, which would take most of the time to
    compile it.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options |= {"forceinline": True, "_nrt": False}
    compiled: Callable[_P, _R] = numba.njit(**_OPTIONS, **options)(function)
    return compiled


def _compiled(
    function: Callable[_P, _R], options: dict[str, Any], *, makes_arrays: bool
) -> Callable[_P, _R]:
    try:
        compiled: Callable[_P, _R] = numba.njit(cache=True, **_OPTIONS, **options)(function)
        _prepare_cache(compiled, makes_arrays)
    except (RuntimeError, OSError):  # "no locator available": nothing is writable
        compiled = numba.njit(**_OPTIONS, **options)(function)
    return compiled


def _prepare_cache(compiled: Any, makes_arrays: bool) -> None:
    """Tie the cached machine code to all files of this folder, and load it with less work.

    It holds the code of functions that it calls from other files, but numba looks only at the file
    in which it was declared: after an edit elsewhere an old residual would go on running.
    Before numba loads machine code, it makes its tables of types and functions, which only the
    compiler needs (and makes, if it has to compile): that takes longer than all else. The same
    holds for its extensions, and for its memory management if no array is made.
    Two processes that compile at the same time may give one file to different arguments, and numba
    runs what it finds there. So a file with code for other arguments, or a part of one, does not
    count: the function is compiled again, which writes the file anew.
    Where numba keeps these things under other names, its own rules stay in force.
    """
    cache: Any = getattr(compiled, "_cache", None)
    if hasattr(getattr(cache, "_cache_file", None), "_source_stamp"):
        cache._cache_file._source_stamp = _stamp()
    if hasattr(cache, "_load_overload") and hasattr(cache, "_guard_against_spurious_io_errors"):

        def load(signature: Any, context: Any) -> Any:
            if makes_arrays:
                nrt.rtsys.initialize(cpu_target.target_context)
            found = None
            with cache._guard_against_spurious_io_errors():
                try:
                    found = cache._load_overload(signature, context)
                except (EOFError, UnpicklingError):
                    cache.flush()
            kinds, _ = sigutils.normalize_signature(signature)  # type: ignore[no-untyped-call]
            return found if found is not None and found.signature.args == kinds else None

        cache.load_overload = load
        compiled._compilation_chain_init_hook = lambda: None


@lru_cache(maxsize=1)
def _stamp() -> tuple[tuple[str, int, int], ...]:
    """Return name, time and size of each file: an older file in place of another one counts."""
    found = [(path.name, path.stat()) for path in sorted(Path(__file__).parent.glob("*.py"))]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)
