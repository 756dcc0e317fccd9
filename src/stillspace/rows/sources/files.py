"""An open file that must stay as it was: read by position, checked by size, time and inode."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stillspace.exceptions import DataFileError

LONGEST_READ = 2**30
"""Bytes per call of the system: Linux reads a little less than 2 GiB at most."""


class Stamp(NamedTuple):
    """What tells that a file changed."""

    size: int
    modified: int
    """Nanoseconds."""
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


def stamp_of(path: str) -> Stamp:
    """Return the stamp of a file, or raise one sentence."""
    try:
        return Stamp.of(os.stat(path))
    except OSError as error:
        raise unreadable(path, error) from None


def check_stamp(path: str, stamp: Stamp) -> None:
    """Raise unless the file is still the one that was opened."""
    if stamp_of(path) != stamp:
        raise changed(path)


def opened_again(again: Callable[[], Any], stamp: Stamp | None) -> Any:
    """Return a source that another process sent, or raise if its file is another one here."""
    source = again()
    if stamp is not None:
        check_stamp(source.path, stamp)
    return source


def unreadable(path: str, error: OSError) -> DataFileError:
    """Return an error for a file that the system does not give."""
    why = error.strerror or type(error).__name__
    msg = f"{path} cannot be opened ({why}); check the path and the permissions on this machine."
    return DataFileError(msg)


def changed(path: str) -> DataFileError:
    """Return an error for a file that is not the one that was opened."""
    msg = (
        f"{path} changed while it was in use (its size, time or inode differ); fit again while no "
        "program writes to it."
    )
    return DataFileError(msg)


def check_new(target: Path) -> None:
    """Refuse a name that is taken."""
    if target.exists():
        raise DataFileError(f"{target} exists already and is not overwritten; give a new name.")


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Give a path to write to, whose file gets the name `target` at the end.

    A file of that name is not overwritten. If anything fails, nothing is left behind.
    """
    check_new(target)
    temporary = target.with_name(f".{target.name}.part")
    try:
        yield temporary
        os.link(temporary, target)  # fails if the name was taken meanwhile
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        msg = f"{target} cannot be written ({why}); nothing was overwritten."
        raise DataFileError(msg) from None
    finally:
        temporary.unlink(missing_ok=True)


class OpenFile:
    """A file read by position (pread): a truncated file is an error here, never a crash.

    A pickled handle opens the file again by its path, and refuses another file of that name.
    """

    def __init__(self, path: str | os.PathLike[str], stamp: Stamp | None = None) -> None:
        self.path = os.fspath(path)
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise unreadable(self.path, error) from None
        self._closer = weakref.finalize(self, os.close, self._descriptor)
        self.stamp = Stamp.of(os.fstat(self._descriptor)) if stamp is None else stamp
        self.check()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (os.path.abspath(self.path), self.stamp)

    @property
    def size(self) -> int:
        return self.stamp.size

    def check(self) -> None:
        """Raise if the file changed since it was opened."""
        if Stamp.of(os.fstat(self._descriptor)) != self.stamp:
            raise changed(self.path)

    def read_into(self, offset: int, buffer: Any) -> None:
        """Fill a writable buffer of bytes with those from `offset` on."""
        self.check()
        view = memoryview(buffer)
        done = 0
        while done < len(view):
            part = view[done : done + LONGEST_READ]
            try:
                count = os.preadv(self._descriptor, [part], offset + done)
            except OSError as error:
                raise unreadable(self.path, error) from None
            if count == 0:
                raise changed(self.path)
            done += count

    def read(self, offset: int, length: int) -> bytes:
        buffer = bytearray(length)
        self.read_into(offset, buffer)
        return bytes(buffer)

    def announce(self, offset: int, length: int) -> None:
        """Tell the system that these bytes will be read soon, where it listens."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)
