"""Eight cells of a row, from any type of number to one value of eight lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from stillspace.kernels.lanes import LANES, LanesType, entry

_EIGHT = ir.VectorType(ir.DoubleType(), LANES)


def _eight(_: Any, array: Any, offset: Any) -> Any:  # noqa: ARG001
    """`eight(array, offset)`: the cells from a flat offset on, as float64.

    The array is C-contiguous.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        address = entry(context, builder, kind, *args)
        vector = ir.VectorType(address.type.pointee, LANES)
        size = context.get_abi_sizeof(address.type.pointee)
        cells = builder.load(builder.bitcast(address, vector.as_pointer()), align=size)
        if kind.dtype == types.float64:
            return cells
        if isinstance(kind.dtype, types.Float):
            return builder.fpext(cells, _EIGHT)
        return (builder.sitofp if kind.dtype.signed else builder.uitofp)(cells, _EIGHT)

    return LanesType()(array, types.intp), generate


def _contiguous(_: Any, array: Any) -> Any:
    """`contiguous(array)`: whether its type is that of a C-contiguous array.

    As `array.flags.c_contiguous`, for which numba would count a reference.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return ir.Constant(ir.IntType(1), int(array.layout == "C"))

    return types.boolean(array), generate


eight: Callable[..., Any] = intrinsic(_eight)
contiguous: Callable[..., bool] = intrinsic(_contiguous)
