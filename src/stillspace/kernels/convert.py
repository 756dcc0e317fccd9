"""Four cells of each of eight rows, from any type of number to scaled lanes, in registers.

The operations on a cell are those of `storage`, each rounded once, so its bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from stillspace.kernels.lanes import LANES

_I32 = ir.IntType(32)
_QUAD = ir.VectorType(ir.DoubleType(), 4)
_EVEN, _ODD = (0, 4, 2, 6), (1, 5, 3, 7)


def _mix(builder: Any, a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
    mask = ir.Constant(ir.VectorType(_I32, len(lanes)), list(lanes))
    return builder.shuffle_vector(a, b, mask)


def _splat(builder: Any, number: Any) -> Any:
    none = ir.Constant(_QUAD, ir.Undefined)
    first = builder.insert_element(none, number, ir.Constant(_I32, 0))
    return _mix(builder, first, none, (0, 0, 0, 0))


def _quad(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """Return four entries of a C-contiguous array from a flat offset on, as float64."""
    data = make_array(kind)(context, builder, array).data  # type: ignore[no-untyped-call]
    address = builder.gep(data, [offset])
    vector = ir.VectorType(address.type.pointee, 4)
    size = context.get_abi_sizeof(address.type.pointee)
    cells = builder.load(builder.bitcast(address, vector.as_pointer()), align=size)
    if kind.dtype == types.float64:
        return cells
    if isinstance(kind.dtype, types.Float):
        return builder.fpext(cells, _QUAD)
    return (builder.sitofp if kind.dtype.signed else builder.uitofp)(cells, _QUAD)


def _columns(builder: Any, quads: list[Any]) -> list[Any]:
    """Return the four columns of four rows of four."""
    a, b, c, d = quads
    pairs = [(_mix(builder, a, b, half), _mix(builder, c, d, half)) for half in (_EVEN, _ODD)]
    lower = [_mix(builder, *pair, (0, 1, 4, 5)) for pair in pairs]
    return lower + [_mix(builder, *pair, (2, 3, 6, 7)) for pair in pairs]


def _convert(
    _: Any,
    X: Any,
    offsets: Any,  # noqa: ARG001
    factors: Any,  # noqa: ARG001
    center: Any,
    unit: Any,
    d: Any,  # noqa: ARG001
    missing: Any,  # noqa: ARG001
    plain: Any,  # noqa: ARG001
    target: Any,
    at: Any,  # noqa: ARG001
    stride: Any,  # noqa: ARG001
) -> Any:
    """`convert(X, offsets, factors, center, unit, d, missing, plain, target, at, stride)`.

    Four cells from each of eight flat offsets in X on, of columns d…d + 3, become scaled lanes at
    at, at + stride, … of the target.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        starts = cgutils.unpack_tuple(builder, args[1], LANES)  # type: ignore[no-untyped-call]
        scales = cgutils.unpack_tuple(builder, args[2], LANES)  # type: ignore[no-untyped-call]
        middle = _quad(context, builder, kinds[3], args[3], args[5])
        unit_ = _quad(context, builder, kinds[4], args[4], args[5])
        code, zero = _splat(builder, args[6]), ir.Constant(_QUAD, [0.0] * 4)
        as_is = context.cast(builder, args[7], types.boolean, types.boolean)
        quads = []
        for start, scale in zip(starts, scales, strict=True):
            raw = _quad(context, builder, kinds[0], args[0], start)
            centred = builder.fmul(builder.fsub(raw, middle), unit_)
            cell = builder.fmul(builder.select(as_is, raw, centred), _splat(builder, scale))
            quads.append(builder.select(builder.fcmp_ordered("==", raw, code), zero, cell))
        data = make_array(kinds[8])(context, builder, args[8]).data  # type: ignore[no-untyped-call]
        where = args[9]
        lanes = tuple(range(LANES))
        pairs = zip(_columns(builder, quads[:4]), _columns(builder, quads[4:]), strict=True)
        for first, second in pairs:
            eight = _mix(builder, first, second, lanes)
            address = builder.gep(data, [where])
            builder.store(eight, builder.bitcast(address, eight.type.as_pointer()), align=8)
            where = builder.add(where, args[10])
        return context.get_dummy_value()

    rows = types.UniTuple(types.intp, LANES)  # type: ignore[no-untyped-call]
    numbers = types.UniTuple(types.float64, LANES)  # type: ignore[no-untyped-call]
    whole, real = types.intp, types.float64
    return types.none(
        X, rows, numbers, center, unit, whole, real, types.boolean, target, whole, whole
    ), generate


convert: Callable[..., None] = intrinsic(_convert)
