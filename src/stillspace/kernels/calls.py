"""Calls of compiled functions by address, from other compiled code.

A numba function that calls another one takes its code in and optimises it again: with three ways
of storing rows and several sums over them, most of the time to compile would go there. By address
each is compiled once, alone, and only if it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic


def address_of(function: Any, kinds: tuple[Any, ...]) -> int:
    """Return where the compiled function for arguments of these numba types begins.

    Compiles it, or loads it from the cache, if that has not been done.
    """
    if kinds not in function.overloads:
        function.compile(kinds)
    found = function.overloads[kinds]
    return int(found.library.get_pointer_to_function(found.fndesc.llvm_func_name))


def _call(_: Any, address: Any, args: Any) -> Any:  # noqa: ARG001
    """`call(address, args)`: call a function that takes these arguments and returns nothing."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args[1].types
        parts = cgutils.unpack_tuple(  # type: ignore[no-untyped-call]
            builder, values[1], len(kinds)
        )
        convention = context.call_conv
        kind = convention.get_function_type(types.none, kinds)
        function = builder.inttoptr(values[0], kind.as_pointer())
        status, _ = convention.call_function(builder, function, types.none, kinds, parts)
        with cgutils.if_unlikely(builder, status.is_error):  # type: ignore[no-untyped-call]
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.none(types.intp, args), generate


call: Callable[..., None] = intrinsic(_call)
