"""The outside of a model file: a zip archive that is read without trusting any size, and its seal.

The archive of a format 3 file ends in a comment, its seal: a signature (or dashes) and the SHA-256
of every byte before it. So every changed byte is noticed. Files of format 2 have no seal.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import secrets
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy

from stillspace._typing import FloatArray

KIND = "stillspace model"
FORMAT = 3
"""Raised whenever an older version could not read the file right."""
READ_FORMATS = (2, FORMAT)
_ARRAYS = {2: ("components", "center", "scale"), 3: ("components", "center", "scale", "plan")}
"""Members of a file beside `about`, by its format. `plan`: the numbers of the plan's arrays."""
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
_LARGEST_FILE = 4 * LONGEST_TEXT + 4 * 8 * MOST_NUMBERS + 8 * _HEADER

_SEAL = b"stillspace seal 1\n"
_UNSIGNED = b"-" * 64
_CHANGED = "its checksum is not that of its bytes: the file was changed or damaged"
_SEAL_BYTES = len(_SEAL) + 2 * (64 + 1)
_SIGNED = b"stillspace model signature 1\0"
"""Written into every signature, so that one made for another purpose with the same key differs."""
KEY_BYTES = (32, 4096)
"""The fewest and the most bytes of a key file."""


class RefusedError(ValueError):
    """Something in the file is not what `save_model` writes; the text says what."""


class KeyFileError(ValueError):
    """A signature cannot be checked, or is not that of the key."""


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What a model file holds, and what its seal says of it."""

    about: dict[str, Any]
    arrays: dict[str, FloatArray]
    sha256: str
    """Of every byte before the checksum; empty for a file without a seal."""
    signature: str
    """"" (none), "not checked", or "checked" with a key, and right."""


def make_key(path: str | os.PathLike[str]) -> None:
    """Write a new random key that only the owner may read; an existing file is never replaced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_hex(32).encode() + b"\n")


def read_key(path: str | os.PathLike[str]) -> bytes:
    """Return the key in a file: all its bytes but white space at the end."""
    with Path(path).open("rb") as file:
        key = file.read(KEY_BYTES[1] + 1).rstrip()
    least, most = KEY_BYTES
    if not least <= len(key) <= most:
        raise KeyFileError(
            f"{os.fspath(path)} is no key file: it holds {len(key)} bytes, and a key has {least} "
            f"to {most}; make one with stillspace key."
        )
    return key


def sealed(archive: bytes, key: bytes | None = None) -> bytes:
    """Return a zip archive without a comment, with its seal as the comment."""
    content = archive[:-2] + _SEAL_BYTES.to_bytes(2, "little") + _SEAL
    signature = _UNSIGNED
    if key is not None:
        signature = hmac.new(key, _SIGNED + content, "sha256").hexdigest().encode()
    content += signature + b"\n"
    return content + hashlib.sha256(content).hexdigest().encode() + b"\n"


def read_model_file(file: IO[bytes], key: bytes | None = None) -> Contents:
    """Return the JSON text and the arrays; every size is checked before anything is unpacked."""
    size = os.fstat(file.fileno()).st_size
    if size > _LARGEST_FILE:
        raise RefusedError("it is larger than any model file")
    seal = _read_seal(file, size)
    signature, checksum = seal or (_UNSIGNED, b"")
    if seal is not None:
        content, signed = _hashes(file, size - _SEAL_BYTES, signature, key)
        if content != checksum:
            raise RefusedError(_CHANGED)
    if key is not None and signature == _UNSIGNED:
        raise KeyFileError("is not signed; load it without a key, or get a signed file.")
    if key is not None and not hmac.compare_digest(signed, signature):
        msg = "was not signed with this key, or was changed afterwards; do not rely on it."
        raise KeyFileError(msg)
    known = "not checked" if key is None else "checked"
    about, arrays = _contents(file, seal is not None)
    return Contents(about, arrays, checksum.decode(), "" if signature == _UNSIGNED else known)


def _read_seal(file: IO[bytes], size: int) -> tuple[bytes, bytes] | None:
    """Return the signature and the checksum at the end of the file; None if it has no seal."""
    file.seek(max(size - _SEAL_BYTES, 0))
    seal = file.read()
    file.seek(0)
    if len(seal) != _SEAL_BYTES or not seal.startswith(_SEAL):
        return None
    signature, checksum = seal[len(_SEAL) : -66], seal[-65:-1]
    if seal[-66:-65] != b"\n" or seal[-1:] != b"\n":
        raise RefusedError(_CHANGED)
    return signature, checksum


def _hashes(file: IO[bytes], size: int, signature: bytes, key: bytes | None) -> tuple[bytes, bytes]:
    """Return the checksum that the file should have, and the signature that the key gives it."""
    digest = hashlib.sha256()
    signer = hmac.new(key or b"", _SIGNED, "sha256")
    left = size
    while left:
        block = file.read(min(left, 1 << 20))
        if not block:
            raise RefusedError("it ended while it was read")
        left -= len(block)
        digest.update(block)
        signer.update(block)
    digest.update(_SEAL + signature + b"\n")
    signer.update(_SEAL)
    file.seek(0)
    return digest.hexdigest().encode(), signer.hexdigest().encode()


def _contents(file: IO[bytes], is_sealed: bool) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the description and the arrays."""
    arrays = _ARRAYS[3 if is_sealed else 2]
    _check_directory(file, len(arrays) + 1, _SEAL_BYTES if is_sealed else 0)
    with zipfile.ZipFile(file) as archive:
        _check_members(archive.infolist(), ("about", *arrays))
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
        return about, {name: _array(archive, name) for name in arrays}


def _check_directory(file: IO[bytes], members: int, comment: int) -> None:
    """Refuse a table of contents of other members, before anything is read from it."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - comment - _END - 20, 0))
    end = file.read()
    end = end[: len(end) - comment]
    tail, before = end[-_END:], end[-_END - 20 : -_END]
    if tail[:4] != b"PK\5\6" or before[:4] == b"PK\6\7":
        raise RefusedError("it is cut off, or something else")
    counts = int.from_bytes(tail[8:10], "little"), int.from_bytes(tail[10:12], "little")
    if counts != (members,) * 2 or int.from_bytes(tail[12:16], "little") > _HEADER:
        raise RefusedError("it has other members than those of a model")
    file.seek(0)


def _check_members(members: Sequence[zipfile.ZipInfo], names: Sequence[str]) -> None:
    """Refuse other members than those of a model, packed ones, and those that are too large.

    `save_model` packs nothing. A member that is not packed cannot unpack to more than it is.
    """
    if sorted(member.filename for member in members) != sorted(f"{m}.npy" for m in names):
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
