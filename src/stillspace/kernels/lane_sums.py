"""Sums over the lanes of eight values at once, with fewer shuffles than single sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from stillspace.kernels.lanes import LANES, LanesType

_lanes = LanesType()
_I32 = ir.IntType(32)
_STAY, _SWAP = (0, 9, 2, 11, 4, 13, 6, 15), (1, 8, 3, 10, 5, 12, 7, 14)
_STAY_2, _SWAP_2 = (0, 1, 10, 11, 4, 5, 14, 15), (2, 3, 8, 9, 6, 7, 12, 13)
_STAY_4, _SWAP_4 = (0, 1, 2, 3, 12, 13, 14, 15), (4, 5, 6, 7, 8, 9, 10, 11)
"""Of two values, lanes that stay where they are, and the lanes that are added to them: the first
kind costs no shuffle."""


def _totals(
    _: Any,
    a0: Any,  # noqa: ARG001
    a1: Any,  # noqa: ARG001
    a2: Any,  # noqa: ARG001
    a3: Any,  # noqa: ARG001
    a4: Any,  # noqa: ARG001
    a5: Any,  # noqa: ARG001
    a6: Any,  # noqa: ARG001
    a7: Any,  # noqa: ARG001
) -> Any:
    """`totals(a0, …, a7)`: lane k is the sum of the lanes of a_k, three additions deep."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        def mix(a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
            return builder.shuffle_vector(
                a, b, ir.Constant(ir.VectorType(_I32, LANES), list(lanes))
            )

        values = list(args)
        for one, other in ((_STAY, _SWAP), (_STAY_2, _SWAP_2), (_STAY_4, _SWAP_4)):
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [builder.fadd(mix(a, b, one), mix(a, b, other)) for a, b in pairs]
        return values[0]

    return _lanes(*[_lanes] * LANES), generate


totals: Callable[..., Any] = intrinsic(_totals)
