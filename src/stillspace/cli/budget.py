"""`stillspace budget`: make a ledger, and look at one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from stillspace._files import write_atomically
from stillspace.cli.console import command, json_text, out, out_json, say
from stillspace.cli.options import JsonFlag

if TYPE_CHECKING:
    from stillspace.privacy import Budget

budget = typer.Typer(
    help="A ledger: it limits the privacy loss of all fits on one data set together.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_BAR = 40


@budget.command()
@command
def create(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="The file to create.")],
    *,
    epsilon: Annotated[float, typer.Option(help="Privacy loss of all fits together.")],
    delta: Annotated[float, typer.Option(help="δ of all fits together; far below 1/n.")],
    kind: Annotated[
        str, typer.Option(help="gaussian: fits that read all rows; renyi: stochastic ones too.")
    ] = "gaussian",
    order: Annotated[
        list[float] | None, typer.Option(help="A Rényi order, for --kind renyi; may be repeated.")
    ] = None,
    relation: Annotated[
        str, typer.Option(help="replace-one or add-or-remove-one.")
    ] = "replace-one",
    rows_per_person: Annotated[
        int, typer.Option(help="Largest number of rows that belong to one person.")
    ] = 1,
) -> None:
    """Create a new ledger. Its terms never change.

    \b
    Example:
      stillspace budget create ledger.db --epsilon 3 --delta 1e-6
    """
    from stillspace.privacy import Budget  # noqa: PLC0415  (SciPy; --help need not wait)

    if ledger.exists():
        raise ValueError(
            f"{ledger} exists already, and a ledger's terms never change; use another file."
        )
    facts: dict[str, Any] = {"kind": kind, "orders": order or None}
    facts |= {"neighboring_relation": relation, "rows_per_person": rows_per_person}
    made = Budget(ledger, epsilon, delta, mode="create", **facts)
    say("Created:", str(made))


@budget.command()
@command
def show(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger's file.")],
    head: Annotated[
        str, typer.Option(help="A head noted earlier: check that no entry up to it was removed.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Show what was charged and what is left; every look checks the chain of entries.

    \b
    Examples:
      stillspace budget show ledger.db
      stillspace budget show ledger.db --json
    """
    from stillspace.privacy import Budget  # noqa: PLC0415

    found = Budget(ledger, mode="open")
    found.verify(head)
    if as_json:
        out_json(_content(found))
        return
    say("Ledger:", str(found))
    out(_bar(found.spent()))
    if found.entries():
        out(_table(found))
    if rights := found.rights.all():
        resumed = sum(right.resumed for right in rights)
        say("Journals:", f"{len(rights)} charges are of fits with a journal, resumed {resumed} ×.")
    say("Head:", f"{found.head() or 'none yet'} (note it elsewhere; --head checks it)")


@budget.command()
@command
def verify(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger's file.")],
    head: Annotated[str, typer.Option(help="A head noted earlier, kept elsewhere.")] = "",
) -> None:
    """Check the file and the chain of entries; with --head, that nothing up to it is gone.

    \b
    Example:
      stillspace budget verify ledger.db --head 0f3a…
    """
    from stillspace.privacy import Budget  # noqa: PLC0415

    found = Budget(ledger)
    found.verify(head)
    what = "The chain is complete" if not head else "The chain is complete and holds the given head"
    say("Verified:", f"{what}: {len(found.entries())} entries, head {found.head() or 'none yet'}.")


@budget.command()
@command
def export(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger's file.")],
    file: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.json", help="The file to write.")
    ],
) -> None:
    """Write terms and entries, with each fit's own guarantee, as JSON: public facts only.

    \b
    Example:
      stillspace budget export ledger.db --out ledger.json
    """
    from stillspace.privacy import Budget  # noqa: PLC0415

    content = _content(Budget(ledger))
    write_atomically(file, json_text(content).encode())
    say("Written:", f"{len(content['entries'])} entries to {file}.")


def _content(found: Budget) -> dict[str, Any]:
    """Return terms and entries as JSON values."""
    return {
        "epsilon": found.epsilon,
        "delta": found.delta,
        "kind": found.kind,
        "orders": list(found.orders),
        "neighboring_relation": found.neighboring_relation,
        "rows_per_person": found.rows_per_person,
        "spent": found.spent(),
        "head": found.head(),
        "entries": [
            {
                "number": entry.number,
                "time": entry.time,
                "algorithm": entry.name,
                "plan": entry.plan,
                "note": entry.note,
                "part_of_the_budget": share,
                "guarantee": entry.guarantee.to_dict(),
                "hash": entry.hash,
            }
            for entry, share in zip(found.entries(), found.shares(), strict=True)
        ],
        "journals": [
            {"entry": right.entry, "answers": right.answers, "resumed": right.resumed}
            for right in found.rights.all()
        ],
    }


def _bar(spent: float) -> str:
    # A started cell counts: a budget that is nearly gone never looks whole.
    full = min(_BAR, int(-(-spent * _BAR // 1)))
    return f"[{'#' * full}{'.' * (_BAR - full)}] {100 * spent:.4g} % spent"


def _table(found: Budget) -> Table:
    table = Table("fit", "time (UTC)", "algorithm", "relation", "note")
    table.add_column("part of the budget", justify="right")
    for entry, share in zip(found.entries(), found.shares(), strict=True):
        when = entry.time.removesuffix("+00:00").replace("T", " ")
        cells = (str(entry.number), when, entry.name, entry.neighboring_relation, entry.note)
        table.add_row(*cells, f"{100 * share:.3g} %")
    return table
