"""Options that commands share, those of a fit, and checks that need neither a table nor a library.

A wrong option is refused at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from stillspace._checks import (
    RELATIONS,
    checked_choice,
    checked_delta,
    checked_epsilon,
    checked_whole,
    described,
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
CheckKey = Annotated[
    Path | None,
    typer.Option("--key", metavar="KEY", help="Check the signature of the model with this key."),
]


@dataclass(frozen=True)
class PrivateOptions:
    """Options of a private fit, by the names that parameters of `PrivateRobustPCA` have."""

    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Privacy loss of this fit: smaller is more private; 1 is a common choice."
        ),
    ] = None
    delta: Annotated[
        float | None, typer.Option(help="Default: min(n^-1.5, 1e-6). Far below 1/n.")
    ] = None
    neighboring_relation: Annotated[
        str,
        typer.Option("--relation", help="replace-one, or add-or-remove-one (needs --public-size)."),
    ] = "replace-one"
    public_size: Annotated[
        int | None, typer.Option(help="A public, rough number of rows, for add-or-remove-one.")
    ] = None
    rows_per_person: Annotated[
        int, typer.Option(help="Largest number of rows that belong to one person.")
    ] = 1
    budget: Annotated[
        Path | None,
        typer.Option(metavar="LEDGER", help="Charge this ledger (see stillspace budget)."),
    ] = None
    groups: Annotated[
        str,
        typer.Option(
            help="leave-out treats groups of rows that lie close together as outliers; "
            "keep keeps all rows: use it if a group may be a real minority."
        ),
    ] = "leave-out"
    radius: Annotated[
        float | None,
        typer.Option(help="For a private median: a public bound on the centre's distance from 0."),
    ] = None
    sketch: Annotated[
        str, typer.Option(help="auto, none, or the number of columns of a public projection.")
    ] = "auto"
    summaries: Annotated[
        list[str] | None,
        typer.Option(
            "--summary",
            help="variances, distances, scores (a map) or scree: a private summary, for a "
            "twentieth of the budget each; or certificate, for a fifth; may be repeated.",
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label-value",
            help="With --label and --summary scores: a label that is public; repeat it for each. "
            "The map is then released per label; all other labels are counted together.",
        ),
    ] = None


def check_loss(epsilon: float | None, delta: float | None) -> None:
    """Refuse a privacy loss that no fit can have; None is allowed."""
    if epsilon is not None:
        checked_epsilon(epsilon, "--epsilon")
    if delta is not None:
        checked_delta(delta, "--delta")


def check_relation(relation: str) -> None:
    """Refuse an unknown neighbouring relation."""
    checked_choice("--relation", relation, RELATIONS)


def check_public_size(relation: str, public_size: int | None) -> None:
    """Refuse a public size without a secret number of rows, and the reverse."""
    check_relation(relation)
    check_count("--public-size", public_size)
    if relation == "replace-one" and public_size is not None:
        raise ValueError(
            "--public-size is for --relation add-or-remove-one; under replace-one the number of "
            "rows itself is public, so leave it out."
        )
    if relation != "replace-one" and public_size is None:
        raise ValueError(
            "--relation add-or-remove-one keeps the number of rows secret: give --public-size, a "
            "rough number of rows that is public knowledge."
        )


def check_count(name: str, value: int | None, least: int = 1) -> None:
    """Refuse a whole number that is too small, or larger than arithmetic takes; None is allowed."""
    if value is not None:
        checked_whole(name, value, least)


def check_shape(rows: int, features: int, components: int) -> None:
    """Refuse a table in which no subspace can be looked for."""
    check_count("--rows", rows, 2)
    check_count("--features", features, 2)
    check_count("--components", components)
    if components >= features:
        raise ValueError(f"--components must be below --features, got {components} and {features}.")


def check_new(path: Path, force: bool) -> None:
    """Refuse to replace a file, unless that was asked for."""
    if path.exists() and not force:
        raise ValueError(f"{path} exists; give another --out, or --force to replace it.")


def whole_number(name: str, text: str, words: tuple[str, ...], least: int) -> int | str:
    """Return one of the words, or a whole number of at least `least`."""
    if text in words:
        return text
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    if number < least:
        allowed = " or ".join([f"a whole number of at least {least}", *words])
        raise ValueError(f"{name} must be {allowed}, got {described(text)}.")
    return number


def words_or_numbers(
    name: str, text: str, words: tuple[str, ...], *, positive: bool = False
) -> str | list[float] | None:
    """Return one of the words, None for "none", or one or more finite numbers."""
    if text in words:
        return text
    if text == "none":
        return None
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        allowed = ", ".join([*words, "none", "one number, or one per column with commas"])
        raise ValueError(f"{name} must be {allowed}; got {described(text)}.") from None
    if not all(isfinite(number) and (number > 0.0 or not positive) for number in found):
        kind = "positive and finite" if positive else "finite"
        raise ValueError(f"The numbers of {name} must be {kind}, got {described(text)}.")
    return found


def per_column(name: str, found: str | list[float] | None, D: int) -> str | list[float] | None:
    """Return D numbers, a single one repeated; a word and None as they are."""
    if not isinstance(found, list):
        return found
    if len(found) not in (1, D):
        raise ValueError(f"{name} must hold one number, or {D}, one per column; got {len(found)}.")
    return found * D if len(found) == 1 else found
