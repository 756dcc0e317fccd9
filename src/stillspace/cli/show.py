"""`stillspace show`, `key` and `report`: what a model file holds, for people and for officers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace.cli.console import command, out, out_json, say, say_list
from stillspace.cli.options import CheckKey, ForceFlag, JsonFlag, check_new
from stillspace.exceptions import DataFileError

if TYPE_CHECKING:
    from stillspace.models import Model

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL.npz", help="A model file made by stillspace fit.")
]


_LARGEST = 8
"""Columns per component whose loadings are printed."""


def loaded(path: Path, key: Path | None) -> Model:
    """Return a model from a file; what is wrong with the file is an error of the data."""
    from stillspace.models import load_model  # noqa: PLC0415  (NumPy; --help need not wait)

    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file; check the path.")
    try:
        with warnings.catch_warnings():
            # Parameters that the file could not hold matter for a new fit alone.
            warnings.simplefilter("ignore", UserWarning)
            return load_model(path, key=key)
    except ValueError as error:
        raise DataFileError(str(error)) from None


def say_model(fitted: Any) -> None:
    """Say what a model is, what it released and what it promises."""
    r, D = fitted.components_.shape
    say("Fitted:", f"{type(fitted).__name__}, {r} of {D} dimensions, {fitted.n_iter_} steps.")
    plan = getattr(fitted, "plan_", None)
    say("Plan:", fitted.plan_text_ if plan is None else plan.in_words())
    _say_released(fitted)
    receipt = getattr(fitted, "receipt_", None)
    if receipt is not None:
        say("Ledger:", str(receipt))
    say_list("Guarantee:", str(fitted.privacy_))


def _say_released(fitted: Any) -> None:
    """Say what a private fit released besides the subspace."""
    from stillspace.estimators._summary import released_words  # noqa: PLC0415  (NumPy; --help need not wait)

    if getattr(fitted, "route_", ""):
        say("Route:", fitted.route_.partition("; ")[0] + ".")
    if getattr(fitted, "sketch_", None) is not None:
        width = fitted.sketch_.n_components
        say("Sketch:", f"the components are directions in a public projection to {width} columns.")
    for name, words in released_words(fitted):
        say(f"{name.capitalize()}:", words)
    scree, score_map = getattr(fitted, "scree_", None), getattr(fitted, "score_map_", None)
    if scree is not None:
        values = ", ".join(f"{value:.3g}" for value in scree.values[:10])
        say("Scree:", f"{values} (noise inflates a value by up to {scree.noise:.2g})")
    if score_map is not None:
        cells = " × ".join(map(str, score_map.maps[0][1].shape))
        cells = f"{len(score_map.maps)} times {cells}" if score_map.labels else cells
        say("Map:", f"{cells} cells of scores up to {score_map.length:.3g}; see stillspace report.")


def say_loadings(fitted: Any) -> None:
    """Say which columns count most in each component."""
    if fitted.sketch_ is not None:
        return
    from stillspace.estimators._summary import column_names  # noqa: PLC0415

    names = column_names(fitted)
    for i, component in enumerate(fitted.components_):
        order = sorted(range(len(component)), key=lambda j: -abs(component[j]))[:_LARGEST]
        more = len(component) - len(order)
        text = ", ".join(f"{names[j]} {component[j]:+.3f}" for j in order)
        say(f"Component {i + 1}:", text + (f", and {more} smaller" if more else ""))


def facts_of(fitted: Any) -> dict[str, Any]:
    """Return what a model is, what it released and what it promises, as JSON values."""
    from stillspace.estimators._summary import column_names  # noqa: PLC0415
    from stillspace.models import released_facts  # noqa: PLC0415
    from stillspace.plans.fixed import fingerprint  # noqa: PLC0415

    plan, origin = getattr(fitted, "plan_", None), getattr(fitted, "file_", None)
    receipt = getattr(fitted, "receipt_", None)
    r, width = fitted.components_.shape
    return {
        "class": type(fitted).__name__,
        "n_components": r,
        "n_columns": fitted.n_features_in_,
        "columns": column_names(fitted) if hasattr(fitted, "feature_names_in_") else None,
        "width": width,
        "components": fitted.components_.tolist(),
        "center": fitted.center_.tolist(),
        "scale": fitted.scale_.tolist(),
        "released": released_facts(fitted),
        "plan": getattr(fitted, "plan_text_", "") if plan is None else plan.in_words(),
        "plan_fingerprint": None if plan is None else fingerprint(plan),
        "ledger_entry": None if receipt is None else receipt.to_dict(),
        "privacy": fitted.privacy_.to_dict(),
        "file": None
        if origin is None
        else {
            "format": origin.format,
            "written": origin.written,
            "stillspace": origin.version,
            "sha256": origin.sha256,
            "signature": origin.signature,
        },
    }


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
    found = loaded(model, key)
    if as_json:
        out_json(facts_of(found))
        return
    say("File:", f"{model}, {found.file_}.")
    say_model(found)
    say_loadings(found)


@command
def key(
    file: Annotated[Path, typer.Argument(metavar="KEY", help="The file to create.")],
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
        msg = f"{file} exists already, and a key is never replaced; give another name."
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
        msg = f"{path} is not an audit; create one with stillspace audit MODEL.npz --json {path}."
        raise DataFileError(msg)
    return dict(found)
