"""One ledger operation at a time in a process, also with threads, signal handlers and forks.

SQLite's locks belong to a process, not to a connection: closing any descriptor of the file drops
them. So a process has at most one connection to ledgers open at a time.

- *Threads* wait for each other, for as long as the budget's timeout says.
- *A signal handler* may run in the middle of an operation of its own thread. It cannot wait for
  that operation to end, so a second operation is refused in words.
- *A fork* from another thread waits until the operation has ended. A fork by a signal handler
  inside the operation cannot wait. The parent goes on. The child has a copy of the connection
  without its locks: in the child SQLite refuses every further statement on it, it is never closed
  (closing would delete the journal of the parent), and ledgers cannot be used in the child.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from stillspace.exceptions import BudgetError


class _Process:
    """What this process knows; only the thread that holds `lock` may change it."""

    lock = threading.RLock()
    inside = False
    """Whether an operation is under way."""
    connection: sqlite3.Connection | None = None
    """The connection of that operation."""
    forked_inside = False
    """Whether this process is a child that was forked in the middle of an operation."""


@contextmanager
def one_operation(path: str, timeout: float) -> Iterator[None]:
    """Wait up to `timeout` seconds for other threads; refuse if this thread is inside one."""
    if not _Process.lock.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX)):
        raise BudgetError(
            f"The ledger {path} cannot be used now: another thread of this process is in the "
            "middle of a ledger operation; try again, or give the Budget a longer timeout."
        )
    try:
        _check_free(path)
        try:
            _Process.inside = True
            yield
        finally:
            _Process.inside = False
    finally:
        _Process.lock.release()


def _check_free(path: str) -> None:
    if _Process.forked_inside:
        raise BudgetError(
            f"The ledger {path} cannot be used here: this process was forked in the middle of a "
            "ledger operation; use it in another process."
        )
    if _Process.inside:
        raise BudgetError(
            f"The ledger {path} cannot be used now: this thread is in the middle of a ledger "
            "operation, which a signal handler interrupted; ask again when the handler has ended."
        )


@contextmanager
def opened(connect: Callable[[], sqlite3.Connection]) -> Iterator[sqlite3.Connection]:
    """Open the one connection of an operation and close it; what was not committed is undone."""
    connection = connect()
    try:
        _Process.connection = connection
        yield connection
    finally:
        _Process.connection = None
        if not _Process.forked_inside:
            # A traceback may keep a cursor, and with it a closed connection, alive: its locks
            # must go now.
            with suppress(sqlite3.Error):
                connection.rollback()
            connection.close()


def _after_fork_in_child() -> None:
    connection = _Process.connection
    if connection is not None:
        _Process.forked_inside = True
        connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
        # One reference more than there are: not even the end of the interpreter closes it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _Process.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_Process.lock.acquire,  # at once if it is this thread's own operation
        after_in_parent=_Process.lock.release,
        after_in_child=_after_fork_in_child,
    )
