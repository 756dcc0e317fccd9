"""The outside of a model file: a zip archive of four members, read without trusting any size."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Sequence
from typing import IO, Any

from numpy.lib import format as npy

from stillspace._typing import FloatArray

KIND = "stillspace model"
ARRAYS = ("components", "center", "scale")
MEMBERS = {"about", *ARRAYS}
MOST_NUMBERS = 1 << 23
"""The most numbers in one array of a model file: 64 MiB."""
LONGEST_TEXT = 1 << 21
"""The most characters of the description. Python's objects for them take some 100 MB at worst."""
MOST_NESTED = 1 << 16
"""The most lists and objects in the description: an event has one per different release."""
_HEADER = 1 << 12
"""More bytes than the header of an array has."""
_END = 22
"""Bytes of the record at the end of a zip archive without a comment."""


class RefusedError(ValueError):
    """Something in the file is not what `save_model` writes; the text says what."""


def read_model_file(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the JSON text and the arrays; every size is checked before anything is unpacked."""
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        _check_members(archive.infolist())
        text = _array(archive, "about")
        if text.dtype.kind != "U" or text.shape != ():
            raise RefusedError("its description is no text")
        if str(text).count("[") + str(text).count("{") > MOST_NESTED:
            raise RefusedError("its description has more lists than that of any fit")
        about = json.loads(
            str(text), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_object
        )
        if type(about) is not dict or about.get("kind") != KIND:
            raise RefusedError("its description is of something else")
        return about, {name: _array(archive, name) for name in ARRAYS}


def _check_directory(file: IO[bytes]) -> None:
    """Refuse a table of contents that is not of four members, before anything is read from it."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - _END - 20, 0))
    end = file.read()
    tail, before = end[-_END:], end[-_END - 20 : -_END]
    if tail[:4] != b"PK\5\6" or before[:4] == b"PK\6\7":
        raise RefusedError("it does not end as a model file ends")
    counts = int.from_bytes(tail[8:10], "little"), int.from_bytes(tail[10:12], "little")
    if counts != (len(MEMBERS),) * 2 or int.from_bytes(tail[12:16], "little") > _HEADER:
        raise RefusedError("it has other members than those of a model")
    file.seek(0)


def _check_members(members: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse other members than those of a model, packed ones, and those that are too large.

    `save_model` packs nothing. A member that is not packed cannot unpack to more than it is.
    """
    if sorted(member.filename for member in members) != sorted(f"{m}.npy" for m in MEMBERS):
        raise RefusedError("it has other members than those of a model")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise RefusedError("it is packed, which save_model never does")
        text = member.filename == "about.npy"
        limit = 4 * LONGEST_TEXT if text else 8 * MOST_NUMBERS
        if max(member.file_size, member.compress_size) > limit + _HEADER:
            raise RefusedError(f"{member.filename} is larger than {limit} bytes")
        if member.file_size != member.compress_size:
            raise RefusedError(f"the sizes of {member.filename} do not agree")


def _array(archive: zipfile.ZipFile, name: str) -> Any:
    """Return one array, if its header asks for exactly the bytes that are there."""
    size = archive.getinfo(f"{name}.npy").file_size
    with archive.open(f"{name}.npy") as member:
        if npy.read_magic(member) != (1, 0):
            raise RefusedError(f"the array {name} is of another version")
        shape, _, dtype = npy.read_array_header_1_0(member)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != size - member.tell():
            raise RefusedError(f"the array {name} is not as long as it says")
    with archive.open(f"{name}.npy") as member:
        return npy.read_array(member, allow_pickle=False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a name that stands twice could be read in two ways."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RefusedError("a name stands twice in its description")
    return found


def _finite(text: str) -> float:
    """Return a number of the description; NaN and infinity are never written."""
    number = float(text)
    if not math.isfinite(number):
        raise RefusedError("a number is not finite")
    return number
