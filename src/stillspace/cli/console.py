"""How commands speak: results on stdout, one line per warning, one sentence per error."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import typer
from rich.console import Console
from rich.markup import escape

from stillspace.exceptions import BudgetError

if TYPE_CHECKING:
    from stillspace.privacy import Guarantee

P = ParamSpec("P")

USAGE, FAILURE = 2, 1
"""Exit codes: what was asked for cannot be done; or something else went wrong."""


class UsageError(ValueError):
    """The command was called with something that it cannot do."""


class DataError(ValueError):
    """A file does not hold what it should. The message never shows what it does hold."""


def out(text: Any) -> None:
    """Print a result: text as it is, or something that rich can draw."""
    # A new console each time: it then writes to whatever sys.stdout is by now.
    Console(highlight=False, soft_wrap=isinstance(text, str)).print(text, markup=False)


def out_json(value: Any) -> None:
    """Print JSON and nothing else, so that another program can read it."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr while something runs; a line where stderr is no terminal.

    `quiet`: not even a line. Yields a function to call with what is done and the total.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        if not quiet:
            console.print(f"{text} …", soft_wrap=True, markup=False)
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def say(label: str, text: str, style: str = "bold") -> None:
    """Print a labelled paragraph."""
    console = Console(highlight=False)
    console.print(f"[{style}]{escape(label)}[/]  {escape(text)}", soft_wrap=True)


def say_guarantee(label: str, guarantee: Guarantee) -> None:
    """Print a guarantee in words: the promise, then what it rests on and leaves out, as a list."""
    promise, *assumptions = str(guarantee).split("\n")
    say(label, promise)
    for line in assumptions:
        out(line)


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Make a function a command: expected errors become a sentence and an exit code.

    The estimators' warnings become one line each. All others are switched off: NumPy's, for
    example, would tell what is in the rows.
    """

    @wraps(function)
    def run_command(*args: P.args, **kwargs: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                function(*args, **kwargs)
            except BrokenPipeError:  # the reader of our output went away: typer ends quietly
                raise
            except (DataError, BudgetError) as error:
                _fail(str(error), FAILURE)
            except (ValueError, TypeError) as error:  # NotAccountedError is a ValueError
                _fail(str(error), USAGE)
            except OSError as error:
                _fail(_os_sentence(error), FAILURE)
            except ModuleNotFoundError as error:
                _fail(str(error), FAILURE)

    return run_command


def _fail(sentence: str, code: int) -> None:
    _stderr("Error", sentence, "bold red")
    raise typer.Exit(code)


def _show_warning(message: Warning | str, *_: Any) -> None:
    _stderr("Warning", str(message), "yellow")


def note(text: str) -> None:
    """Print a line that a person should see beside the result."""
    _stderr("Note", text, "yellow")


def _stderr(label: str, text: str, style: str) -> None:
    line = " ".join(text.split())
    console = Console(stderr=True, highlight=False)
    console.print(f"[{style}]{label}:[/] {escape(line)}", soft_wrap=True)


def _os_sentence(error: OSError) -> str:
    reason = error.strerror or "it could not be read or written"
    reason = reason.rstrip(".")
    return f"{error.filename}: {reason}." if error.filename else f"{reason}."
