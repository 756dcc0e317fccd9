"""The options of `stillspace fit`, and checks that need neither a table nor a library.

A wrong option is refused at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from stillspace._checks import (
    RELATIONS,
    checked_delta,
    checked_epsilon,
    checked_positive,
    checked_whole,
)
from stillspace.cli.console import UsageError

# The options, in the order of --help.
ComponentsOption = Annotated[
    str, typer.Option("--components", "-r", help="Dimension of the subspace, or auto.")
]
ModelOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="MODEL.npz", help="File for the fitted model.")
]
EpsilonOption = Annotated[
    float | None,
    typer.Option(help="Privacy loss to spend on this fit; 1 is a usual strong choice."),
]
DeltaOption = Annotated[
    float | None, typer.Option(help="Default: min(n^-1.5, 1e-6). Far below 1/n.")
]
RelationOption = Annotated[
    str, typer.Option(help="replace-one, or add-or-remove-one (needs --public-size).")
]
PublicSizeOption = Annotated[
    int | None, typer.Option(help="A public, rough number of rows, for add-or-remove-one.")
]
RowsPerPersonOption = Annotated[
    int, typer.Option(help="Protect people who own up to this many rows.")
]
BudgetOption = Annotated[
    Path | None,
    typer.Option(metavar="LEDGER", help="Charge this ledger (see stillspace budget)."),
]
JournalOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Keep every answer here, so that the same command goes on if it is killed; a private "
        "fit needs --budget.",
    ),
]
WithoutPrivacyOption = Annotated[
    bool,
    typer.Option(
        "--without-privacy", help="Fit RobustPCA: robust, but the model may give rows away."
    ),
]
AlgorithmOption = Annotated[str, typer.Option(help="A named algorithm; a wrong name lists them.")]
NIterOption = Annotated[
    int | None, typer.Option(help="Number of iterations (with --without-privacy, the most).")
]
BatchSizeOption = Annotated[
    int | None, typer.Option(help="Rows per step, for the stochastic algorithms.")
]
GroupsOption = Annotated[
    str,
    typer.Option(
        help="leave-out takes groups of rows that sit together, away from the others, for "
        "outliers; keep keeps all rows, for tables in which a group may be a real minority."
    ),
]
CenterOption = Annotated[
    str,
    typer.Option(
        help="auto finds the centre privately if the table is large enough; private, pairs or "
        "median; none for 0; or public numbers: one, or one per column, with commas."
    ),
]
RadiusOption = Annotated[
    float | None,
    typer.Option(help="For a private median: a public bound on the centre's distance from 0."),
]
SketchOption = Annotated[
    str, typer.Option(help="auto, none, or the number of columns of a public projection.")
]
SummaryOption = Annotated[
    list[str] | None,
    typer.Option(
        help="variances, distances, scores (a map) or scree: a private summary, for a twentieth "
        "of the budget each; or certificate, for a fifth; may be repeated."
    ),
]
LabelValueOption = Annotated[
    list[str] | None,
    typer.Option(
        help="With --label and --summary scores: a label that is public; repeat it for each. The "
        "map is then released per label; all other labels are counted together."
    ),
]
ScaleOption = Annotated[
    str,
    typer.Option(
        help="auto finds the spread of every column privately if the table is large enough (with "
        "--without-privacy: mad); private; none for 1; or public numbers: one, or one per "
        "column, with commas."
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing model file.")]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="KEY", help="Sign the model file (see stillspace key)."),
]


@contextmanager
def _as_usage() -> Iterator[None]:
    """Turn a refusal of a value into one of the command."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_loss(epsilon: float | None, delta: float | None) -> None:
    """Refuse a privacy loss that no fit can have; None is allowed."""
    with _as_usage():
        if epsilon is not None:
            checked_epsilon(epsilon, "--epsilon")
        if delta is not None:
            checked_delta(delta, "--delta")


def check_relation(relation: str) -> None:
    """Refuse an unknown neighbouring relation."""
    check_word("--relation", relation, RELATIONS)


def check_public_size(relation: str, public_size: int | None) -> None:
    """Refuse a public size without a secret number of rows, and the reverse."""
    check_relation(relation)
    check_count("--public-size", public_size)
    if relation == "replace-one" and public_size is not None:
        msg = (
            "--public-size is for --relation add-or-remove-one; under replace-one the number of "
            "rows itself is public."
        )
        raise UsageError(msg)
    if relation != "replace-one" and public_size is None:
        msg = (
            "--relation add-or-remove-one keeps the number of rows secret: give --public-size, a "
            "rough number of rows that is public knowledge."
        )
        raise UsageError(msg)


def check_word(name: str, word: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of the allowed ones."""
    if word not in allowed:
        msg = f"{name} must be one of {', '.join(allowed)}, got {word[:60]!r}."
        raise UsageError(msg)


def check_count(name: str, value: int | None, least: int = 1) -> None:
    """Refuse a whole number that is too small, or larger than arithmetic takes; None is allowed."""
    with _as_usage():
        if value is not None:
            checked_whole(name, value, least)


def check_shape(rows: int, features: int, components: int) -> None:
    """Refuse a table in which no subspace can be looked for."""
    check_count("--rows", rows, 2)
    check_count("--features", features, 2)
    check_count("--components", components)
    if components >= features:
        msg = f"--components must be below --features, got {components} and {features}."
        raise UsageError(msg)


def check_positive(name: str, value: float | None) -> None:
    """Refuse what is no positive finite number; None is allowed."""
    with _as_usage():
        if value is not None:
            checked_positive(name, value)


def whole_number(name: str, text: str, words: tuple[str, ...], least: int) -> int | str:
    """Return one of the words, or a whole number of at least `least`."""
    if text in words:
        return text
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    if number < least:
        got = repr(text) if len(text) <= 60 else f"a text of {len(text)} characters"
        allowed = " or ".join([f"a whole number of at least {least}", *words])
        msg = f"{name} must be {allowed}, got {got}."
        raise UsageError(msg)
    return number


def numbers(
    name: str, text: str | None, *, words: tuple[str, ...] = (), positive: bool = False
) -> list[float] | None:
    """Return one or more finite numbers; an error lists the `words` that the option takes, too."""
    if text is None:
        return None
    allowed = ", ".join([*words, "one number, or one per column with commas"])
    got = repr(text) if len(text) <= 60 else f"a text of {len(text)} characters"
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        msg = f"{name} must be {allowed}; got {got}."
        raise UsageError(msg) from None
    if not all(isfinite(number) and (number > 0.0 or not positive) for number in found):
        kind = "positive and finite" if positive else "finite"
        msg = f"The numbers of {name} must be {kind}, got {got}."
        raise UsageError(msg)
    return found


def per_column(name: str, found: list[float] | None, D: int) -> list[float] | None:
    """Return D numbers; a single one is repeated."""
    if found is not None and len(found) not in (1, D):
        msg = f"{name} must hold one number, or {D}, one per column; got {len(found)}."
        raise UsageError(msg)
    return found * D if found is not None and len(found) == 1 else found
