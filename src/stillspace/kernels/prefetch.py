"""A hint to the processor: this part of a row will be read soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_I32 = ir.IntType(32)
_READ, _SECOND_CACHE, _DATA = 0, 2, 1


def _prefetch(_: Any, array: Any, row: Any, column: Any) -> Any:  # noqa: ARG001
    """`prefetch(X, row, column)`: have the cache line of this cell brought to the second cache."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        inside = make_array(kind)(context, builder, args[0])  # type: ignore[no-untyped-call]
        cell = cgutils.get_item_pointer(  # type: ignore[no-untyped-call]
            context, builder, kind, inside, list(args[1:])
        )
        address = builder.bitcast(cell, ir.IntType(8).as_pointer())
        shape = ir.FunctionType(ir.VoidType(), [address.type, _I32, _I32, _I32])
        hint = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, shape, "llvm.prefetch.p0"
        )
        builder.call(
            hint, [address, *(ir.Constant(_I32, flag) for flag in (_READ, _SECOND_CACHE, _DATA))]
        )
        return context.get_dummy_value()

    return types.none(array, types.intp, types.intp), generate


prefetch: Callable[..., None] = intrinsic(_prefetch)
