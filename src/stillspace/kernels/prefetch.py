"""Hints to the processor: these rows will be read soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from stillspace._typing import IntArray
from stillspace.kernels.jit import part

_I32 = ir.IntType(32)
_READ, _SECOND_CACHE, _DATA = 0, 2, 1
_LINE = 64

LONG_ROW = 512
"""Bytes of a row from which on rows of the next block come nearer one by one while terms are added
up, and the loader brings the next few rows nearer. Shorter rows come nearer while scores are made:
they take few hints, and chosen ones lie apart."""


def _prefetch(_: Any, address: Any) -> Any:  # noqa: ARG001
    """`prefetch(address)`: have the cache line with this address brought to the second cache."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        shape = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        hint = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, shape, "llvm.prefetch.p0"
        )
        flags = (ir.Constant(_I32, flag) for flag in (_READ, _SECOND_CACHE, _DATA))
        builder.call(hint, [pointer, *flags])
        return context.get_dummy_value()

    return types.none(types.intp), generate


prefetch: Callable[..., None] = intrinsic(_prefetch)


@part
def bring_rows(chosen: IntArray, at: int, stop: int, first: int, size: int) -> None:
    """Bring rows nearer: positions at…stop of `chosen`, or of the rows where it is empty.

    They have `size` bytes each, one after another from the address `first` on.
    """
    for k in range(at, stop):
        begin = first + size * (chosen[k] if len(chosen) > 0 else k)
        for line in range(begin - begin % _LINE, begin + size, _LINE):
            prefetch(line)
