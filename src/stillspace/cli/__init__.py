"""The `stillspace` command. Each command is a module here; `app` brings them together."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
_EXTRA = {"typer", "rich", "click", "matplotlib", "pyarrow"}


def main() -> None:
    """Run the command line; without the extra's packages, say in one sentence how to get them."""
    try:
        _run()
    except KeyboardInterrupt:  # also while libraries are loading: no trace
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        from stillspace.cli.app import app  # noqa: PLC0415  (the extra may be missing)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write('The stillspace command needs: pip install "stillspace[cli]"\n')
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that has no ε or ² shows a question mark; a fit must not fail over it.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
