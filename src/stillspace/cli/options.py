"""Checks of options that need neither a table nor a library: a wrong option is refused at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite

from stillspace._checks import (
    RELATIONS,
    checked_delta,
    checked_epsilon,
    checked_positive,
    checked_whole,
)
from stillspace.cli.console import UsageError


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
