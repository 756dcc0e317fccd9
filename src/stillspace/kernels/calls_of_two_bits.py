"""Genotype calls of two bits each, four per byte: from variants as rows to individuals as rows."""

from stillspace._typing import AnyArray
from stillspace.kernels.jit import bare


@bare
def transpose_calls(tile: AnyArray, first: int, rows: AnyArray) -> None:
    """Put the calls of variants `first`… into the packed rows of individuals, which hold zeros.

    `tile` is (variants, bytes), four individuals per byte; `rows` is (individuals, bytes), four
    variants per byte. The first call is in the lowest two bits.
    """
    for j in range(tile.shape[0]):
        at, shift = (first + j) >> 2, 2 * ((first + j) & 3)
        for i in range(rows.shape[0]):
            call = (tile[j, i >> 2] >> (2 * (i & 3))) & 3
            rows[i, at] |= call << shift
