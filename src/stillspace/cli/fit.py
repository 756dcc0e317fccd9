"""`stillspace fit`: from a table in a file to a model file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace.cli.console import DataError, UsageError, command, out_json, say
from stillspace.cli.data import (
    Columns,
    DataFile,
    Decimal,
    Delimiter,
    Drop,
    Encoding,
    Format,
    Header,
    Id,
    Label,
    ReadTable,
    check_there,
    read_table,
)
from stillspace.cli.describe import facts_of, say_model
from stillspace.cli.options import (
    AlgorithmOption,
    BatchSizeOption,
    BudgetOption,
    CenterOption,
    ComponentsOption,
    DeltaOption,
    EpsilonOption,
    ForceOption,
    GroupsOption,
    JournalOption,
    KeyOption,
    LabelValueOption,
    ModelOption,
    NIterOption,
    PublicSizeOption,
    RadiusOption,
    RelationOption,
    RowsPerPersonOption,
    ScaleOption,
    SketchOption,
    SummaryOption,
    WithoutPrivacyOption,
    check_count,
    check_loss,
    check_positive,
    check_public_size,
    check_word,
    numbers,
    per_column,
    whole_number,
)

if TYPE_CHECKING:
    from stillspace.models import Model
    from stillspace.privacy import Budget


_CENTERS = ("auto", "private", "pairs", "median")


@command
def fit(
    file: DataFile,
    *,
    components: ComponentsOption,
    model: ModelOption,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    relation: RelationOption = "replace-one",
    public_size: PublicSizeOption = None,
    rows_per_person: RowsPerPersonOption = 1,
    budget: BudgetOption = None,
    journal: JournalOption = None,
    without_privacy: WithoutPrivacyOption = False,
    algorithm: AlgorithmOption = "auto",
    n_iter: NIterOption = None,
    batch_size: BatchSizeOption = None,
    groups: GroupsOption = "leave-out",
    center: CenterOption = "auto",
    radius: RadiusOption = None,
    sketch: SketchOption = "auto",
    summary: SummaryOption = None,
    label_value: LabelValueOption = None,
    scale: ScaleOption = "auto",
    columns: Columns = None,
    drop: Drop = None,
    id_column: Id = None,
    label: Label = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Fit a subspace to a table of numbers, with differential privacy, and store it.

    The columns are brought to one centre and one unit first, privately, unless you give --center
    or --scale. A missing cell sits at the centre.

    \b
    Examples:
      stillspace fit patients.csv --header --id patient --label group -r 2 --epsilon 1 -o model.npz
      stillspace fit rows.parquet -r 3 --epsilon 2 --budget ledger.db --key secret.key -o model.npz
      zcat rows.csv.gz | stillspace fit - -r 2 --without-privacy -o model.npz
    """
    private: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "neighboring_relation": relation,
        "public_size": public_size,
        "rows_per_person": rows_per_person,
        "budget": budget,
        "radius": radius,
        "sketch": sketch,
        "summaries": tuple(summary or ()),
        "labels": tuple(label_value) if label_value else None,
        "groups": groups,
    }
    # What needs no library comes first, then what needs no table, then what needs its columns.
    _check_promise(private, without_privacy)
    check_loss(epsilon, delta)
    check_public_size(relation, public_size)
    check_count("--rows-per-person", rows_per_person)
    check_count("--n-iter", n_iter)
    check_count("--batch-size", batch_size)
    check_positive("--radius", radius)
    check_word("--groups", groups, ("leave-out", "keep"))
    if journal is not None and budget is None and not without_privacy:
        msg = "--journal needs --budget: the ledger counts what was published."
        raise UsageError(msg)
    private["sketch"] = _sketch(sketch)
    common: dict[str, Any] = {
        "n_components": whole_number("--components", components, ("auto",), 1),
        "algorithm": algorithm,
        "batch_size": batch_size,
        "journal": journal,
        "center": _center(center, without_privacy),
        "scale": _scale(scale, without_privacy),
    }
    asked = Format.of(columns, drop, id_column, label, header, delimiter, decimal, encoding)
    _check_files(file, model, force)
    _check_key(key)
    _check_words(algorithm, private["summaries"], without_privacy)
    _check_labels(private, label)
    private["budget"] = _ledger(budget)
    hidden = relation == "add-or-remove-one"
    table = read_table(file, asked, hidden=hidden)
    if not hidden:  # the number of rows is public
        _check_rows(file, table)
    for name in ("center", "scale"):
        if not isinstance(common[name], str):
            common[name] = per_column(f"--{name}", common[name], table.n_columns)
    y = None if private["labels"] is None else _labels(table, label)
    fitted = _fitted(table, y, common, n_iter, None if without_privacy else private)
    _report(fitted, _stored(fitted, model, key), as_json)


def _check_rows(file: Path, table: ReadTable) -> None:
    rows = int(table.X.shape[0])
    if rows < 2:
        msg = f"{file} has {rows} row{'s' if rows != 1 else ''}; a fit needs at least two."
        raise DataError(msg)


def _check_labels(private: dict[str, Any], label: str | None) -> None:
    """Refuse labels that no map would show, before the table is read."""
    if private["labels"] is None:
        return
    if label is None or "scores" not in private["summaries"]:
        msg = "--label-value needs --label COLUMN and --summary scores."
        raise UsageError(msg)


def _labels(table: ReadTable, label: str | None) -> list[str]:
    """Return the label of every row."""
    if label not in table.texts:
        msg = "--label-value needs a file with named columns, one of which is given by --label."
        raise UsageError(msg)
    return table.texts[label]


def _check_promise(private: dict[str, Any], without_privacy: bool) -> None:
    """Refuse a fit that is private in name only, or of which nobody said which it is."""
    if not without_privacy:
        if private["epsilon"] is None:
            msg = "Give --epsilon, the privacy loss to spend, or --without-privacy."
            raise UsageError(msg)
        return
    usual = {
        "neighboring_relation": "replace-one",
        "rows_per_person": 1,
        "sketch": "auto",
        "summaries": (),
        "groups": "leave-out",
    }
    if any(value != usual.get(name) for name, value in private.items()):
        msg = (
            "--without-privacy promises nothing: leave out --epsilon, --delta, --relation, "
            "--public-size, --rows-per-person, --budget, --radius, --sketch, --groups and "
            "--summary."
        )
        raise UsageError(msg)


def _check_files(file: Path, model: Path, force: bool) -> None:
    """Refuse what could not be stored in the end, before any privacy is spent."""
    from stillspace._files import check_writable  # noqa: PLC0415

    check_there(file)
    if model.suffix != ".npz":
        msg = f"--out must end in .npz, got {model.name!r}."
        raise UsageError(msg)
    if not model.parent.is_dir():
        msg = f"The folder {model.parent} is not there; make it first."
        raise UsageError(msg)
    if model.exists() and (model.is_dir() or (file.exists() and model.samefile(file))):
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


def _check_key(key: Path | None) -> None:
    """Refuse a key that cannot be read, before any privacy is spent."""
    if key is not None:
        from stillspace._model_files import read_key  # noqa: PLC0415

        read_key(key)


def _check_words(algorithm: str, summaries: tuple[str, ...], without_privacy: bool) -> None:
    """Refuse an unknown algorithm or summary before the table is read."""
    from stillspace._checks import checked_words  # noqa: PLC0415
    from stillspace.recipes import known_recipe  # noqa: PLC0415
    from stillspace.recipes.fits import SUMMARIES  # noqa: PLC0415

    known_recipe(algorithm, private=not without_privacy)
    checked_words("--summary", summaries, SUMMARIES)


def _ledger(path: Path | None) -> Budget | None:
    if path is None:
        return None
    from stillspace.privacy import Budget  # noqa: PLC0415

    return Budget(path, mode="open")


def _sketch(text: str) -> int | str | None:
    wanted = whole_number("--sketch", text, ("auto", "none"), 2)
    return None if wanted == "none" else wanted


def _center(text: str, without_privacy: bool) -> Any:
    """Return numbers, None for the origin, or how the fit finds its centre."""
    words = ("auto", "pairs", "median") if without_privacy else _CENTERS
    if text in words:
        return text
    return None if text == "none" else numbers("--center", text, words=(*words, "none"))


def _scale(text: str, without_privacy: bool) -> Any:
    """Return numbers, None for the units of the table, or how the fit finds its scale."""
    if without_privacy and text in ("auto", "mad"):
        return "mad"
    words = ("auto", "mad") if without_privacy else ("auto", "private")
    if text in words:
        return text
    return (
        None if text == "none" else numbers("--scale", text, words=(*words, "none"), positive=True)
    )


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
