"""Four cells of each of eight rows, from any type of number to four values of eight lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from stillspace.kernels.lanes import LANES, LanesType

_I32 = ir.IntType(32)
_QUAD = ir.VectorType(ir.DoubleType(), 4)


def _mix(builder: Any, a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
    mask = ir.Constant(ir.VectorType(_I32, len(lanes)), list(lanes))
    return builder.shuffle_vector(a, b, mask)


def _quad(context: Any, builder: Any, kind: Any, data: Any, offset: Any) -> Any:
    """Return four entries from a flat offset on, as float64."""
    address = builder.gep(data, [offset])
    vector = ir.VectorType(address.type.pointee, 4)
    size = context.get_abi_sizeof(address.type.pointee)
    cells = builder.load(builder.bitcast(address, vector.as_pointer()), align=size)
    if kind.dtype == types.float64:
        return cells
    if isinstance(kind.dtype, types.Float):
        return builder.fpext(cells, _QUAD)
    return (builder.sitofp if kind.dtype.signed else builder.uitofp)(cells, _QUAD)


def _turned(_: Any, array: Any, offsets: Any) -> Any:  # noqa: ARG001
    """`turned(array, offsets)`: the cells 0…3 from each of eight flat offsets on, as four lanes.

    The array is C-contiguous.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        data = make_array(kind)(context, builder, args[0]).data  # type: ignore[no-untyped-call]
        starts = cgutils.unpack_tuple(builder, args[1], LANES)  # type: ignore[no-untyped-call]
        quads = [_quad(context, builder, kind, data, start) for start in starts]
        # rows k and k + 4 side by side; then four by four in both halves at once
        a, b, c, d = (_mix(builder, quads[k], quads[k + 4], tuple(range(LANES))) for k in range(4))
        even, odd = (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)
        low, high = (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)
        pairs = [(_mix(builder, a, b, half), _mix(builder, c, d, half)) for half in (even, odd)]
        columns = [_mix(builder, *pair, half) for half in (low, high) for pair in pairs]
        return context.make_tuple(builder, signature.return_type, columns)

    eight = types.UniTuple(types.intp, LANES)  # type: ignore[no-untyped-call]
    four = types.UniTuple(LanesType(), 4)  # type: ignore[no-untyped-call]
    return four(array, eight), generate


turned: Callable[..., Any] = intrinsic(_turned)
