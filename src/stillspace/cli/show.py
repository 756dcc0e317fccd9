"""`stillspace show`, `key` and `report`: what a model file holds, for people and for officers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace.cli.console import command, out, out_json, say
from stillspace.cli.options import CheckKey, ForceFlag, JsonFlag, check_new
from stillspace.exceptions import DataFileError

if TYPE_CHECKING:
    from stillspace.models import Model

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL.npz", help="A model file made by stillspace fit.")
]


def loaded(path: Path, key: Path | None) -> Model:
    """Return a model from a file; what is wrong with the file is an error of the data."""
    from stillspace.models import load_model  # noqa: PLC0415  (NumPy; --help need not wait)

    if not path.is_file():
        raise ValueError(f"{path} is not there, or is no file.")
    try:
        with warnings.catch_warnings():
            # Parameters that the file could not hold matter for a new fit alone.
            warnings.simplefilter("ignore", UserWarning)
            return load_model(path, key=key)
    except ValueError as error:
        raise DataFileError(str(error)) from None


@command
def show(model: ModelArgument, *, key: CheckKey = None, as_json: JsonFlag = False) -> None:
    """Show what a model file holds: components, releases, plan and guarantee.

    The checksum of the file is checked, and epsilon is computed again from what ran.

    \b
    Examples:
      stillspace show model.npz
      stillspace show model.npz --key secret.key
      stillspace show model.npz --json | jq .privacy.epsilon
    """
    from stillspace.cli.describe import facts_of, say_loadings, say_model  # noqa: PLC0415

    found = loaded(model, key)
    if as_json:
        out_json(facts_of(found))
        return
    say("File:", f"{model}, {found.file_}.")
    say_model(found)
    say_loadings(found)


@command
def key(
    file: Annotated[Path, typer.Argument(metavar="KEY", help="The file to make.")],
) -> None:
    """Make a key file, to sign model files with (fit --key) and to check them (show --key).

    A signature shows that somebody who has the key wrote the file, and that nobody changed it
    since. It does not show that the fit ran as the file says. Whoever can check a signature can
    also make one: give the key to people whom you trust with both.

    \b
    Example:
      stillspace key secret.key
    """
    from stillspace.models import make_key  # noqa: PLC0415

    try:
        make_key(file)
    except FileExistsError:
        msg = f"{file} exists, and a key is never replaced; give another name."
        raise ValueError(msg) from None
    say("Key:", f"{file} (keep it secret, and keep a copy)")


@command
def report(
    model: ModelArgument,
    *,
    page: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.html", help="Default: MODEL.html beside it."),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="An audit of this model (stillspace audit)."),
    ] = None,
    budget: Annotated[
        Path | None, typer.Option(metavar="LEDGER", help="List the entries of this ledger.")
    ] = None,
    key: CheckKey = None,
    force: ForceFlag = False,
) -> None:
    """Write the report for a data-protection officer: one HTML page, to read, print and sign.

    The page holds released numbers and public facts only, loads nothing and runs no script.

    \b
    Examples:
      stillspace report model.npz
      stillspace report model.npz --audit audit.json --budget ledger.db -o report.html
    """
    target = model.with_suffix(".html") if page is None else page
    check_new(target, force)
    found = loaded(model, key)
    from stillspace.privacy import Budget  # noqa: PLC0415
    from stillspace.report import write_report  # noqa: PLC0415

    ledger = None if budget is None else Budget(budget, mode="open")
    write_report(found, target, audit=_audit(audit), budget=ledger)
    say("Report:", str(target))
    if not found.privacy_.private:
        out("The model promises no privacy, and the report says so: treat both as personal data.")


_AUDIT = {
    "plan": str, "verdict": str, "adversary": str, "neighbours": str, "runs": int, "coins": int,
    "confidence": float, "refuted": bool,
}  # fmt: skip


def _audit(path: Path | None) -> dict[str, Any] | None:
    """Return an audit that `stillspace audit --json` wrote."""
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = all(type(found[name]) is kind for name, kind in _AUDIT.items())
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        msg = f"{path} is no audit; make one with stillspace audit MODEL.npz --json {path}."
        raise DataFileError(msg)
    return dict(found)
