"""Eight numbers as one value inside compiled code.

Numba leaves vector instructions to the compiler's guess, which fails on short loops. These
primitives state them. Each is the IEEE operation on every lane, so a lane's bits are those of
plain scalar code in the same order, on any processor and in any lane (SPEC 4 a).

Arrays are addressed by flat offsets from their first entry and must be C-contiguous float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba.core
import numba.extending
from llvmlite import ir

# numba's extension interface has no types
cgutils: Any = numba.core.cgutils
types: Any = numba.core.types
models: Any = numba.extending.models
intrinsic: Any = numba.extending.intrinsic
register_model: Any = numba.extending.register_model

__all__ = [
    "LANES",
    "add",
    "bits_above",
    "bits_below",
    "constant",
    "divide",
    "entry",
    "finite_or_zero",
    "first_bit",
    "first_lanes",
    "fused",
    "larger",
    "load",
    "magnitude",
    "multiply",
    "root",
    "smaller",
    "spread",
    "store",
    "subtract",
    "total",
    "where_below",
    "where_bits",
    "where_number",
    "where_unequal",
]

LANES = 8
"""As wide as the widest vector register; narrower machines take two or four for one."""

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_I32 = ir.IntType(32)


class LanesType(types.Type):  # type: ignore[misc]
    """The type of a value of eight lanes, for numba."""

    def __init__(self) -> None:
        super().__init__(name="stillspace.Lanes")


class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


_lanes = LanesType()
register_model(LanesType)(_LanesModel)


def entry(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """Return the address of an entry of an array."""
    from numba.np.arrayobj import make_array  # noqa: PLC0415  (slow to load; code may be cached)

    return builder.gep(make_array(kind)(context, builder, array).data, [offset])


def _spread(builder: Any, number: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(_I32, 0))
    mask = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, mask)


def _load(_: Any, array: Any, offset: Any) -> Any:  # noqa: ARG001
    """`load(array, offset)`: the eight entries from `offset` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = entry(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(address, _VECTOR.as_pointer()), align=8)

    return _lanes(array, types.intp), generate


def _store(_: Any, array: Any, offset: Any, lanes: Any) -> Any:  # noqa: ARG001
    """`store(array, offset, lanes)`: write the eight entries from `offset` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = entry(context, builder, signature.args[0], *args[:2])
        builder.store(args[2], builder.bitcast(address, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.none(array, types.intp, _lanes), generate


def _spread_entry(_: Any, array: Any, offset: Any) -> Any:  # noqa: ARG001
    """`spread(array, offset)`: one entry in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(builder, builder.load(entry(context, builder, signature.args[0], *args)))

    return _lanes(array, types.intp), generate


def _constant(_: Any, number: Any) -> Any:  # noqa: ARG001
    """`constant(x)`: a number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return _spread(builder, args[0])

    return _lanes(types.float64), generate


def _operation(name: str) -> Any:
    def operation(_: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            return getattr(builder, name)(*args)

        return _lanes(_lanes, _lanes), generate

    return intrinsic(operation)


def _larger(_: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    """`larger(a, b)`: a where a > b, else b."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return _lanes(_lanes, _lanes), generate


def _smaller(_: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    """`smaller(a, b)`: a where a < b, else b."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return _lanes(_lanes, _lanes), generate


def _function(name: str, count: int) -> Any:
    """Return one of the compiler's own functions of lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * count)
        full = f"llvm.{name}.v{LANES}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), args)

    return generate


def _root(_: Any, a: Any) -> Any:  # noqa: ARG001
    """`root(a)`: the square root, correctly rounded."""
    return _lanes(_lanes), _function("sqrt", 1)


def _magnitude(_: Any, a: Any) -> Any:  # noqa: ARG001
    """`magnitude(a)`: the absolute value."""
    return _lanes(_lanes), _function("fabs", 1)


def _fused(_: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    """`fused(a, b, c)`: a · b + c, rounded once or twice, whatever the processor does faster.

    Only for adding up finished terms, as a matrix product would (SPEC 4 b).
    """
    return _lanes(_lanes, _lanes, _lanes), _function("fmuladd", 3)


def _finite_or_zero(_: Any, a: Any) -> Any:  # noqa: ARG001
    """`finite_or_zero(a)`: 0 where a is infinite or not a number (a − a is then not 0)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        difference = builder.fsub(args[0], args[0])
        return builder.select(builder.fcmp_ordered("==", difference, zero), args[0], zero)

    return _lanes(_lanes), generate


def _where_below(_: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    """`where_below(a, b, c)`: c where a < b, else 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], zero)

    return _lanes(_lanes, _lanes, _lanes), generate


def _where_unequal(_: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    """`where_unequal(a, b, c)`: c where a is not b, or either is not a number; else 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_unordered("!=", args[0], args[1]), args[2], zero)

    return _lanes(_lanes, _lanes, _lanes), generate


def _where_number(_: Any, a: Any, c: Any) -> Any:  # noqa: ARG001
    """`where_number(a, c)`: c where a is a number, be it infinite; 0 where it is none."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("==", args[0], args[0]), args[1], zero)

    return _lanes(_lanes, _lanes), generate


def _bits(relation: str) -> Any:
    """Return a comparison of lanes: bit k is set where it holds, or a lane is not a number."""

    def compare(_: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            lanes = builder.fcmp_unordered(relation, *args)
            return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), ir.IntType(64))

        return types.int64(_lanes, _lanes), generate

    return intrinsic(compare)


def _first_bit(_: Any, bits: Any) -> Any:  # noqa: ARG001
    """`first_bit(bits)`: the lowest bit that is set, of a whole number that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _where_bits(_: Any, bits: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    """`where_bits(bits, a, b)`: a in the lanes whose bit is set, else b."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        kind = ir.VectorType(ir.IntType(1), LANES)
        lanes = builder.bitcast(builder.trunc(args[0], ir.IntType(LANES)), kind)
        return builder.select(lanes, args[1], args[2])

    return _lanes(types.int64, _lanes, _lanes), generate


def _first_lanes(_: Any, a: Any, count: Any) -> Any:  # noqa: ARG001
    """`first_lanes(a, count)`: a in the first lanes, 0 in the others."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        kind = ir.VectorType(args[1].type, LANES)
        empty, zero = ir.Constant(kind, ir.Undefined), ir.Constant(_VECTOR, [0.0] * LANES)
        one = builder.insert_element(empty, args[1], ir.Constant(_I32, 0))
        mask = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
        counts = builder.shuffle_vector(one, empty, mask)
        inside = builder.icmp_signed("<", ir.Constant(kind, list(range(LANES))), counts)
        return builder.select(inside, args[0], zero)

    return _lanes(_lanes, types.intp), generate


def _total(_: Any, a: Any) -> Any:  # noqa: ARG001
    """`total(a)`: the sum of the lanes by halves, three additions deep."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        parts = [builder.extract_element(args[0], ir.Constant(_I32, k)) for k in range(LANES)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[k], parts[k + half]) for k in range(half)]
        return parts[0]

    return types.float64(_lanes), generate


load: Callable[..., Any] = intrinsic(_load)
store: Callable[..., None] = intrinsic(_store)
spread: Callable[..., Any] = intrinsic(_spread_entry)
constant: Callable[..., Any] = intrinsic(_constant)
add: Callable[..., Any] = _operation("fadd")
subtract: Callable[..., Any] = _operation("fsub")
multiply: Callable[..., Any] = _operation("fmul")
divide: Callable[..., Any] = _operation("fdiv")
fused: Callable[..., Any] = intrinsic(_fused)
larger: Callable[..., Any] = intrinsic(_larger)
smaller: Callable[..., Any] = intrinsic(_smaller)
magnitude: Callable[..., Any] = intrinsic(_magnitude)
root: Callable[..., Any] = intrinsic(_root)
first_lanes: Callable[..., Any] = intrinsic(_first_lanes)
bits_below: Callable[..., int] = _bits("<")
bits_above: Callable[..., int] = _bits(">")
first_bit: Callable[..., int] = intrinsic(_first_bit)
where_bits: Callable[..., Any] = intrinsic(_where_bits)
finite_or_zero: Callable[..., Any] = intrinsic(_finite_or_zero)
where_below: Callable[..., Any] = intrinsic(_where_below)
where_number: Callable[..., Any] = intrinsic(_where_number)
where_unequal: Callable[..., Any] = intrinsic(_where_unequal)
total: Callable[..., float] = intrinsic(_total)
