"""Writing files so that a failure leaves what was there before."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_PROBE_BYTES = 2**14
"""Size of the file that `check_writable` writes: more than an empty file takes of a full disk."""


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file in one step: a temporary file in the same folder, then a rename.

    Whatever fails on the way, an older file of that name stays as it was and no temporary file
    is left. A symbolic link is followed.
    """
    target = Path(os.path.realpath(path))
    temporary = _temporary_beside(target)
    try:
        # "x" and not tempfile: the file then gets the permissions that the user's umask asks for.
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):  # the temporary name, or none, would say little
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless a small file can be written beside `path`; nothing stays behind.

    A real attempt, since permission bits say little for root, network disks and full disks.
    """
    temporary = _temporary_beside(Path(os.path.realpath(path)))
    try:
        with open(temporary, "xb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    finally:
        temporary.unlink(missing_ok=True)


def _temporary_beside(target: Path) -> Path:
    return target.with_name(f".stillspace-{secrets.token_hex(8)}.tmp")
