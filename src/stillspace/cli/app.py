"""The typer app: its commands, and `--version`."""

from __future__ import annotations

from typing import Annotated

import typer

from stillspace import __version__
from stillspace.cli.audit import audit
from stillspace.cli.budget import budget
from stillspace.cli.console import out
from stillspace.cli.convert import convert
from stillspace.cli.demo import demo
from stillspace.cli.fit import fit
from stillspace.cli.plan import plan
from stillspace.cli.reproduce import reproduce
from stillspace.cli.show import key, report, show
from stillspace.cli.transform import check, transform

app = typer.Typer(
    name="stillspace",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks could print local variables: rows
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,  # a wrong option is then one plain sentence too, not a box
)
for each in (demo, fit, plan, check, show, transform, audit, report, key, convert, reproduce):
    app.command()(each)
app.add_typer(budget, name="budget")


def _show_version(wanted: bool) -> None:
    if wanted:
        out(f"stillspace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """PCA that stays right with outliers, and that limits what anyone learns about one person.

    \b
    From a table to a report:
      stillspace check patients.csv
      stillspace fit patients.csv --header --id patient -r 2 --epsilon 1 -o model.npz
      stillspace report model.npz

    \b
    Exit codes: 0 done; 1 a file or a ledger is wrong, or a budget is used up; 2 an option is
    wrong; 130 interrupted. --install-completion sets up your shell.
    """
