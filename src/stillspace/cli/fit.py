"""`stillspace fit`: from a CSV file to a model file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace.cli.console import UsageError, command, say, say_guarantee

if TYPE_CHECKING:
    from stillspace.cli.table import Table
    from stillspace.models import Model


@command
def fit(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Numbers, one row a line.")],
    *,
    components: Annotated[
        str,
        typer.Option(
            "--components",
            "-r",
            help="Dimension of the subspace; with --without-privacy also 'auto'.",
        ),
    ],
    model: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL.npz", help="File for the fitted model.")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy loss to spend on this fit; 1 is a usual strong choice."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Default: min(n^-1.5, 1e-6). Far below 1/n.")
    ] = None,
    relation: Annotated[
        str, typer.Option(help="replace-one, or add-or-remove-one (needs --public-size).")
    ] = "replace-one",
    public_size: Annotated[
        int | None, typer.Option(help="A public, rough number of rows, for add-or-remove-one.")
    ] = None,
    rows_per_person: Annotated[
        int, typer.Option(help="Protect people who own up to this many rows.")
    ] = 1,
    budget: Annotated[
        Path | None,
        typer.Option(metavar="LEDGER", help="Charge this ledger (see stillspace budget)."),
    ] = None,
    without_privacy: Annotated[
        bool,
        typer.Option(
            "--without-privacy", help="Fit RobustPCA: robust, but the model may give rows away."
        ),
    ] = False,
    algorithm: Annotated[
        str, typer.Option(help="A named algorithm; a wrong name lists them.")
    ] = "auto",
    n_iter: Annotated[
        int | None, typer.Option(help="Number of iterations (with --without-privacy, the most).")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Rows a step, for the stochastic algorithms.")
    ] = None,
    center: Annotated[
        str | None,
        typer.Option(
            help="Public centre: one number, or one a column, with commas. Default 0; with "
            "--without-privacy 'pairs' (found from the rows), or 'median', or 'none' for 0."
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(help="Public scale: one number, or one a column, with commas. Default 1."),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Is the first line names? Default: look at it."),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Between cells; 'tab' for tabulators.")] = ",",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model file.")] = False,
) -> None:
    """Fit a subspace to a table of numbers, with differential privacy, and store it.

    Rows are scaled to length 1 about the centre. A row with a missing cell counts as a zero row.
    """
    private: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "neighboring_relation": relation,
        "public_size": public_size,
        "rows_per_person": rows_per_person,
        "budget": budget,
    }
    _check_promise(private, without_privacy)
    _check_files(file, model, force)
    if budget is not None:
        from stillspace.privacy import Budget  # noqa: PLC0415

        private["budget"] = Budget(budget)
    from stillspace.cli.table import read_table  # noqa: PLC0415  (NumPy; --help need not wait)

    table = read_table(file, header=header, delimiter=_delimiter(delimiter))
    D = table.X.shape[1]
    common = {
        "n_components": _count(components, without_privacy),
        "algorithm": algorithm,
        "batch_size": batch_size,
        "center": _center(center, D, without_privacy),
        "scale": _vector("--scale", scale, D),
    }
    fitted = _fitted(table, common, n_iter, None if without_privacy else private)
    _report(fitted, _stored(fitted, model))


def _check_promise(private: dict[str, Any], without_privacy: bool) -> None:
    """Refuse a fit that is private in name only, or of which nobody said which it is."""
    if not without_privacy:
        if private["epsilon"] is None:
            msg = "Give --epsilon, the privacy loss to spend, or --without-privacy."
            raise UsageError(msg)
        return
    usual = {"neighboring_relation": "replace-one", "rows_per_person": 1}
    if any(value != usual.get(name) for name, value in private.items()):
        msg = (
            "--without-privacy promises nothing: leave out --epsilon, --delta, --relation, "
            "--public-size, --rows-per-person and --budget."
        )
        raise UsageError(msg)


def _check_files(file: Path, model: Path, force: bool) -> None:
    """Refuse what could not be stored in the end, before any privacy is spent."""
    from stillspace._files import check_writable  # noqa: PLC0415

    if not file.is_file():
        msg = f"{file} is not there, or is no file."
        raise UsageError(msg)
    if model.suffix != ".npz":
        msg = f"--out must end in .npz, got {model.name!r}."
        raise UsageError(msg)
    if not model.parent.is_dir():
        msg = f"The folder {model.parent} is not there; make it first."
        raise UsageError(msg)
    if model.exists() and (model.is_dir() or model.samefile(file)):
        msg = f"{model} cannot be the model file: it is a folder or the data itself."
        raise UsageError(msg)
    if model.exists() and not force:
        msg = f"{model} exists; give another --out, or --force to replace it."
        raise UsageError(msg)
    try:
        check_writable(model)
    except OSError as error:
        msg = f"Nothing can be written to {model.parent}: {error.strerror}."
        raise OSError(error.errno, msg) from error


def _delimiter(text: str) -> str:
    delimiter = "\t" if text.lower() in ("tab", "\\t") else text
    if len(delimiter) != 1 or delimiter in '"\r\n':
        msg = f"--delimiter must be one character or 'tab', got {text!r}."
        raise UsageError(msg)
    return delimiter


def _count(text: str, without_privacy: bool) -> int | str:
    """Return the number of components, or "auto"."""
    if text == "auto" and without_privacy:
        return text
    try:
        return int(text)
    except ValueError:
        words = "a whole number, or 'auto'" if without_privacy else "a whole number"
        msg = f"--components must be {words}, got {text!r}."
        raise UsageError(msg) from None


def _center(text: str | None, D: int, without_privacy: bool) -> Any:
    """Return a vector, None for the origin, or how a robust fit finds its centre."""
    if without_privacy and text in (None, "pairs", "median", "none"):
        return {None: "auto", "none": None}.get(text, text)
    return _vector("--center", text, D)


def _vector(name: str, text: str | None, D: int) -> list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, D):
        msg = f"{name} must be one number, or {D} with commas, one a column; got {text!r}."
        raise UsageError(msg)
    return numbers * D if len(numbers) == 1 else numbers


def _fitted(
    table: Table, common: dict[str, Any], n_iter: int | None, private: dict[str, Any] | None
) -> Model:
    from stillspace.estimators import PrivateRobustPCA, RobustPCA  # noqa: PLC0415

    estimator: Any
    if private is None:
        estimator = RobustPCA(**common, max_iter=n_iter)
    else:
        estimator = PrivateRobustPCA(**common, n_iter=n_iter, **private)
    estimator.fit(table.X)
    if table.names is not None:
        import numpy as np  # noqa: PLC0415

        estimator.feature_names_in_ = np.array(table.names, dtype=object)
    fitted: Model = estimator
    return fitted


def _stored(fitted: Model, path: Path) -> Path:
    """Store the model and return where; if that fails, elsewhere: the privacy is spent by now."""
    from stillspace.models import save_model  # noqa: PLC0415

    try:
        save_model(fitted, path)
    except OSError as error:
        rescue = Path(tempfile.mkdtemp(prefix="stillspace-")) / path.name
        save_model(fitted, rescue)
        msg = f"{path} could not be written ({error.strerror}); the model is kept in {rescue}."
        raise OSError(error.errno, msg) from error
    return path


def _report(fitted: Model, path: Path) -> None:
    from stillspace.cli.words import plan_in_words  # noqa: PLC0415

    r, D = fitted.components_.shape
    say("Fitted:", f"{type(fitted).__name__}, {r} of {D} dimensions, {fitted.n_iter_} steps.")
    say("Plan:", plan_in_words(fitted.plan_))
    say_guarantee("Guarantee:", fitted.privacy_)
    say("Model:", str(path))
