"""How commands speak: results on stdout, one line per warning, one sentence per error."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape

from stillspace._files import write_atomically
from stillspace.exceptions import BudgetError, DataFileError

USAGE, FAILURE = 2, 1
"""Exit codes: what was asked for cannot be done; or something else went wrong."""


def out(text: Any) -> None:
    """Print a result: text as it is, or something that rich can draw."""
    # A new console each time: it then writes to whatever sys.stdout is by now.
    Console(highlight=False, soft_wrap=isinstance(text, str)).print(text, markup=False)


def json_text(value: Any) -> str:
    """Return JSON, with a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def out_json(value: Any) -> None:
    """Print JSON and nothing else, so that another program can read it."""
    sys.stdout.write(json_text(value))


def save(label: str, path: Path, content: bytes) -> None:
    """Write a file in one step, and say where it is."""
    write_atomically(path, content)
    say(label, str(path))


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


def say_list(label: str, text: str) -> None:
    """Print a labelled sentence, and the lines below it as they are."""
    first, *lines = text.split("\n")
    say(label, first)
    for line in lines:
        out(line)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command: expected errors become a sentence and an exit code.

    A parameter whose type is a dataclass becomes one option per field. The estimators' warnings
    become one line each. All others are switched off: NumPy's, for example, would tell what is in
    the rows.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {n: kind for n, kind in hints.items() if is_dataclass(kind)}

    @wraps(function)
    def run_command(**given: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                for name, kind in groups.items():
                    given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
                function(**given)
            except BrokenPipeError:  # the reader of our output went away: typer ends quietly
                raise
            except (DataFileError, BudgetError, ImportError) as error:
                _fail(str(error), FAILURE)
            except (ValueError, TypeError) as error:  # NotAccountedError is a ValueError
                _fail(str(error), USAGE)
            except OSError as error:
                _fail(_os_sentence(error), FAILURE)

    options = list(_options(function, hints, groups))
    vars(run_command)["__signature__"] = Signature(options)
    run_command.__annotations__ = {option.name: option.annotation for option in options}
    return run_command


def _options(
    function: Callable[..., None], hints: dict[str, Any], groups: dict[str, Any]
) -> Iterator[Parameter]:
    """Yield the parameters of a command, the fields of a dataclass in place of one that is it."""
    for parameter in signature(function).parameters.values():
        if parameter.name not in groups:
            yield parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY)
            continue
        kinds = get_type_hints(groups[parameter.name], include_extras=True)
        for f in fields(groups[parameter.name]):
            kind = Parameter.KEYWORD_ONLY
            yield Parameter(f.name, kind, default=f.default, annotation=kinds[f.name])


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
