"""`stillspace fit`: from a table in a file to a model file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace._checks import checked_choice, checked_positive, checked_words
from stillspace._files import check_writable
from stillspace.cli.console import command, out_json, say
from stillspace.cli.data import DataFile, ReadTable, TableOptions, check_there, read_table
from stillspace.cli.options import (
    ForceFlag,
    JsonFlag,
    PrivateOptions,
    check_count,
    check_loss,
    check_new,
    check_public_size,
    per_column,
    whole_number,
    words_or_numbers,
)
from stillspace.cli.show import facts_of, say_model
from stillspace.exceptions import DataFileError

if TYPE_CHECKING:
    from stillspace.models import Model


@command
def fit(
    file: DataFile,
    *,
    components: Annotated[
        str, typer.Option("--components", "-r", help="Dimension of the subspace, or auto.")
    ],
    model: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL.npz", help="File for the fitted model.")
    ],
    private: PrivateOptions,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Store every answer in this file, so that the same command can continue after a "
            "crash; a private fit needs --budget.",
        ),
    ] = None,
    without_privacy: Annotated[
        bool,
        typer.Option(
            "--without-privacy", help="Fit RobustPCA: robust, but the model may reveal rows."
        ),
    ] = False,
    algorithm: Annotated[
        str, typer.Option(help="Name of the algorithm; a wrong name lists all names.")
    ] = "auto",
    n_iter: Annotated[
        int | None, typer.Option(help="Number of iterations (with --without-privacy, the most).")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Rows per step, for the stochastic algorithms.")
    ] = None,
    center: Annotated[
        str,
        typer.Option(
            help="auto finds the centre privately if the table is large enough; private, pairs or "
            "median; none for 0; or public numbers: one, or one per column, with commas."
        ),
    ] = "auto",
    scale: Annotated[
        str,
        typer.Option(
            help="auto finds the spread of every column privately if the table is large enough "
            "(with --without-privacy: mad); private; none for 1; or public numbers: one, or one "
            "per column, with commas."
        ),
    ] = "auto",
    options: TableOptions,
    force: ForceFlag = False,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="KEY", help="Sign the model file (see stillspace key)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit a subspace to a table of numbers, with differential privacy, and store it.

    First every column is centred and scaled, privately, unless you give --center or --scale. Later
    steps fill missing cells from the subspace; before, they are at the centre.

    \b
    Examples:
      stillspace fit patients.csv --header --id patient --label group -r 2 --epsilon 1 -o model.npz
      stillspace fit rows.parquet -r 3 --epsilon 2 --budget ledger.db --key secret.key -o model.npz
      zcat rows.csv.gz | stillspace fit - -r 2 --without-privacy -o model.npz
    """
    # What needs no library comes first, then what needs no table, then what needs its columns.
    _check_promise(private, without_privacy)
    _check_private(private)
    check_count("--n-iter", n_iter)
    check_count("--batch-size", batch_size)
    if journal is not None and private.budget is None and not without_privacy:
        raise ValueError("--journal needs --budget, because a ledger must count what is published.")
    centers = ("auto", "pairs", "median") if without_privacy else _CENTERS
    found_center = words_or_numbers("--center", center, centers)
    scales = ("auto", "mad") if without_privacy else ("auto", "private")
    found_scale = words_or_numbers("--scale", scale, scales, positive=True)
    if without_privacy and scale == "auto":
        found_scale = "mad"
    common: dict[str, Any] = {
        "n_components": whole_number("--components", components, ("auto",), 1),
        "algorithm": algorithm,
        "batch_size": batch_size,
        "journal": journal,
    }
    sketch = whole_number("--sketch", private.sketch, ("auto", "none"), 2)
    asked = options.format()
    _check_files(file, model, force)
    _check_words(algorithm, private, without_privacy, key)
    if private.labels and (options.label is None or "scores" not in (private.summaries or ())):
        raise ValueError("--label-value needs --label COLUMN and --summary scores.")
    own = _private_parameters(private, sketch)
    hidden = private.neighboring_relation == "add-or-remove-one"
    table = read_table(file, asked, hidden=hidden)
    rows = int(table.X.shape[0])
    if not hidden and rows < 2:  # the number of rows is public
        msg = f"{file} has {rows} row{'s' if rows != 1 else ''}; a fit needs at least two."
        raise DataFileError(msg)
    common["center"] = per_column("--center", found_center, table.n_columns)
    common["scale"] = per_column("--scale", found_scale, table.n_columns)
    y = _labels(table, options.label) if private.labels else None
    fitted = _fitted(table, y, common, n_iter, None if without_privacy else own)
    _report(fitted, _stored(fitted, model, key), as_json)


_CENTERS = ("auto", "private", "pairs", "median")


def _check_promise(private: PrivateOptions, without_privacy: bool) -> None:
    """Refuse a fit that is private in name only, or of which nobody said which it is."""
    if not without_privacy and private.epsilon is None:
        raise ValueError("Give --epsilon, the privacy loss to spend, or --without-privacy.")
    if without_privacy and private != PrivateOptions():
        raise ValueError(
            "--without-privacy promises nothing, so it takes no option of a private fit; leave out "
            "--epsilon, --delta, --relation, --public-size, --rows-per-person, --budget, --radius, "
            "--sketch, --groups, --summary and --label-value."
        )


def _check_private(private: PrivateOptions) -> None:
    check_loss(private.epsilon, private.delta)
    check_public_size(private.neighboring_relation, private.public_size)
    check_count("--rows-per-person", private.rows_per_person)
    if private.radius is not None:
        checked_positive("--radius", private.radius)
    checked_choice("--groups", private.groups, ("leave-out", "keep"))


def _private_parameters(private: PrivateOptions, sketch: int | str) -> dict[str, Any]:
    """Return the parameters of `PrivateRobustPCA`; a ledger is opened."""
    from stillspace.privacy import Budget  # noqa: PLC0415

    return {
        **vars(private),
        "sketch": None if sketch == "none" else sketch,
        "summaries": tuple(private.summaries or ()),
        "labels": tuple(private.labels) if private.labels else None,
        "budget": None if private.budget is None else Budget(private.budget, mode="open"),
    }


def _labels(table: ReadTable, label: str | None) -> list[str]:
    """Return the label of every row."""
    if label not in table.texts:
        msg = "--label-value needs a file with named columns, one of which is given by --label."
        raise ValueError(msg)
    return table.texts[label]


def _check_files(file: Path, model: Path, force: bool) -> None:
    """Refuse what could not be stored in the end, before any privacy is spent."""
    check_there(file)
    if model.suffix != ".npz":
        raise ValueError(f"--out must end in .npz, got {model.name!r}.")
    if not model.parent.is_dir():
        raise ValueError(f"The folder {model.parent} does not exist; create it first.")
    if model.exists() and (model.is_dir() or (file.exists() and model.samefile(file))):
        raise ValueError(f"--out must be a new file, but {model} is a folder or the data itself.")
    check_new(model, force)
    try:
        check_writable(model)
    except OSError as error:
        msg = f"The folder {model.parent} is not writable ({error.strerror}); choose another --out."
        raise OSError(error.errno, msg) from error


def _check_words(
    algorithm: str, private: PrivateOptions, without_privacy: bool, key: Path | None
) -> None:
    """Refuse an unknown algorithm or summary, or a wrong key, before the table is read."""
    from stillspace._model_files import read_key  # noqa: PLC0415
    from stillspace.recipes import known_recipe  # noqa: PLC0415
    from stillspace.recipes.fits import SUMMARIES  # noqa: PLC0415

    if key is not None:
        read_key(key)
    known_recipe(algorithm, private=not without_privacy)
    checked_words("--summary", tuple(private.summaries or ()), SUMMARIES)


def _fitted(
    table: ReadTable,
    y: list[str] | None,
    common: dict[str, Any],
    n_iter: int | None,
    private: dict[str, Any] | None,
) -> Model:
    from stillspace.estimators import PrivateRobustPCA, RobustPCA  # noqa: PLC0415

    estimator: Any
    if private is None:
        estimator = RobustPCA(**common, max_iter=n_iter)
    else:
        estimator = PrivateRobustPCA(**common, n_iter=n_iter, **private)
    estimator.set_params(verbose=True)  # the progress of a long fit, on a terminal alone
    estimator.fit(table.X, y)
    if table.names is not None:
        import numpy as np  # noqa: PLC0415

        estimator.feature_names_in_ = np.array(table.names, dtype=object)
    fitted: Model = estimator
    return fitted


def _stored(fitted: Model, path: Path, key: Path | None) -> Path:
    """Store the model and return where; if that fails, elsewhere: the privacy is spent by now."""
    from stillspace.models import save_model  # noqa: PLC0415

    try:
        save_model(fitted, path, key=key)
    except OSError as error:
        rescued = _rescued(fitted, path.name)
        fate = (
            "the model could not be kept anywhere else and is lost; the privacy loss of this fit "
            "is spent"
            if rescued is None
            else f"the model is kept in {rescued}"
        )
        msg = f"{path} could not be written ({error.strerror}); {fate}."
        raise OSError(error.errno, msg) from error
    return path


def _rescued(fitted: Model, name: str) -> Path | None:
    """Return where the model was stored in the folder for temporary files, None if nowhere."""
    from stillspace.models import save_model  # noqa: PLC0415

    try:
        path = Path(tempfile.mkdtemp(prefix="stillspace-")) / name
    except OSError:
        return None
    try:
        save_model(fitted, path)
    except OSError:
        path.parent.rmdir()
        return None
    return path


def _report(fitted: Model, path: Path, as_json: bool) -> None:
    """Say what was fitted; if that cannot be printed, the error says where the model is."""
    try:
        if as_json:
            out_json({"model": str(path), **facts_of(fitted)})
            return
        say_model(fitted)
        say("Model:", str(path))
    except BrokenPipeError:
        raise
    except OSError as error:
        msg = f"The model is stored in {path}, but its report could not be printed"
        raise OSError(error.errno, f"{msg} ({error.strerror})") from error
