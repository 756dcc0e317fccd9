"""What an experiment is: cells to run, tables and figures made of them, and a verdict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from math import ceil, isfinite, log10
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from reproduction.cells import OURS, AnyCell, Cell, Result, run_seconds
from reproduction.columns import SIX, Column, Setting, columns_of
from reproduction.statements import Statement, columns_in
from reproduction.tables import Row, Table, number, pick

Size: TypeAlias = Literal["quick", "paper"]
SIZES: tuple[Size, ...] = get_args(Size)

Tables: TypeAlias = dict[str, Table]
Done: TypeAlias = Sequence[tuple[AnyCell, Result]]

FEWER_RUNS = ((0.5, 10), (2.0, 5), (10.0, 3))
"""A run that takes longer than so many seconds by estimate is made at most so often."""

FEWER_RUNS_NOTE = (
    "Fewer runs where one is dear: "
    + ", ".join(f"{runs} above {seconds:g} s" for seconds, runs in FEWER_RUNS)
    + " (by estimate, one core)."
)

BLOCKS = (0, 1, 3, 5, *range(10, 101, 10))
"""Runs are cut into cells here: more runs of the same cell keep the finished ones."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the paper says of an experiment, and what was measured."""

    statements: tuple[Statement, ...]
    texts: dict[str, str]
    """What there is to say of each column, by its name."""
    ours: str
    judgement: str
    """Why, with the numbers."""
    theory: str = ""
    """What the theorems say of these data, where that was computed."""


class Experiment(ABC):
    """An experiment of SPEC 8."""

    id: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def cells(self, size: Size, seed: int, data: Path | None) -> list[AnyCell]:
        """Return what is to be run."""

    @abstractmethod
    def tables(self, done: Done) -> Tables:
        """Return the tables, by the name of their file."""

    @abstractmethod
    def figures(self, tables: Tables, done: Done) -> dict[str, Any]:
        """Return the figures, by the name of their file."""

    @abstractmethod
    def verdict(self, tables: Tables) -> Verdict:
        """Return the claim and what the tables say about it."""


def repeated(
    experiment: str,
    setting: Setting,
    method: str,
    column: Column,
    runs: int,
    seed: int,
    *,
    traced: bool = False,
) -> list[Cell]:
    """Return the cells of all runs of a method; fewer runs if they are dear."""
    each = run_seconds(setting, method)
    runs = min([runs, *(most for seconds, most in FEWER_RUNS if each > seconds)])
    return [
        Cell(experiment, setting, method, column, low, min(high, runs) - low, seed, traced)
        for low, high in pairwise(BLOCKS)
        if low < runs
    ]


def all_columns(
    experiment: str,
    setting: Setting,
    runs: int,
    seed: int,
    *,
    methods: Iterable[str] = SIX,
    ours: Iterable[str] = OURS,
    traced: bool = False,
) -> list[Cell]:
    """Return the cells of one setting: the paper's methods in all their columns, and ours."""
    found: list[Cell] = []
    for method in methods:
        for column in columns_of(method):
            found += repeated(experiment, setting, method, column, runs, seed, traced=traced)
    for method in ours:
        found += repeated(experiment, setting, method, "ours", runs, seed)
    return found


def haystack_cells(done: Done, experiment: str) -> list[tuple[Cell, Result]]:
    """Return the finished cells of an experiment on haystack data."""
    return [(c, r) for c, r in done if isinstance(c, Cell) and c.experiment == experiment]


# --- words ---------------------------------------------------------------------------------


def error_text(log_error: float) -> str:
    """Return an error from its decimal logarithm: 3.1e-18."""
    return f"{10**log_error:.1e}"


def median_text(row: Row) -> str:
    """Return a row's method and its median error."""
    return f"{row['method']} {error_text(row['median_log10_error'])}"


def epsilon_text(values: Iterable[float]) -> str:
    """Return the range of true ε: rounded up, to two digits."""
    found = sorted(values)
    low, high = _rounded_up(found[0]), _rounded_up(found[-1])
    return low if low == high else f"{low} to {high}"


def _rounded_up(value: float) -> str:
    if not isfinite(value) or value <= 0:
        return f"{value:g}"
    unit = 10.0 ** (int(log10(value) // 1) - 1)
    shown = ceil(value / unit - 1e-9) * unit
    return f"{shown:.2g}" if shown < 100 else f"{shown:.1e}".replace("e+0", "e")


def true_epsilon_text(rows: Table) -> str:
    """Return the true ε of a method's rows: of the loop, and with the start where that differs."""
    total = epsilon_text(number(row, "true_epsilon") for row in rows)
    sign = "at most " if any(row.get("epsilon_is") == "upper bound" for row in rows) else ""
    if any(row.get("true_epsilon_of_loop") is None for row in rows):
        return f"{sign}{total}"
    loop = epsilon_text(number(row, "true_epsilon_of_loop") for row in rows)
    return f"{sign}{loop}" if loop == total else f"{sign}{loop} ({total} with the start)"


def epsilon_by_method(table: Table) -> str:
    """Return the true ε of each method of a column, over all settings."""
    methods = dict.fromkeys(row["method"] for row in table)
    return "; ".join(f"{m} {true_epsilon_text(pick(table, method=m))}" for m in methods)


def texts_by_column(table: Table, say: Callable[[Table], str]) -> dict[str, str]:
    """Return what there is to say of each column, after its true ε of the loop."""
    texts = {}
    for column in columns_in(table):
        rows = pick(table, column=column)
        texts[column] = f"True ε of the loop: {epsilon_by_method(rows)}. {say(rows)}"
    return texts


def sampled_noise(table: Table) -> str:
    """Compare the noise of the stochastic methods with what their budget asks for."""
    low, high = _sigma_ratio(table, ("dp-SGGD", "honest"), ("dp-SGGD", "as-printed"))
    text = (
        "The printed variance of the stochastic methods has a factor (B/n)² too many (SPEC 9.3): "
        f"for dp-SGGD the accountant asks for a σ {_times(low, high)} as large, so that what it "
        "does as printed it does with hardly any privacy."
    )
    if not pick(table, method="dp-GGD"):
        return text
    parts = []
    for column, words in (
        ("honest", "batches drawn with replacement"),
        ("poisson", "Poisson ones"),
    ):
        if pick(table, method="dp-SGGD", column=column):
            low, high = _sigma_ratio(table, ("dp-SGGD", column), ("dp-GGD", "honest"))
            parts.append(f"{_times(low, high)} that of dp-GGD for {words}")
    return f"{text} At the honest budget the σ of dp-SGGD is {' and '.join(parts)} (SPEC 9.4)."


def convex_noise(table: Table) -> str:
    """Compare the printed noise of the full-batch convex methods with what their budget asks."""
    low, high = _sigma_ratio(table, ("dp-GD-REAP", "as-printed"), ("dp-GD-REAP", "honest"))
    methods = ("dp-GD-REAP", "dp-MD-REAP")
    rows = [row for m in methods for row in pick(table, method=m, column="as-printed")]
    good = sum(row["median_log10_error"] <= -2 for row in rows)
    return (
        "The printed variance of the full-batch convex methods, 32 T log²(T/δ)/(ε² n²), gives a σ "
        f"{_times(low, high)} as large as their budget asks for; with it they reach d² ≤ 1e-2 in "
        f"{good} of {len(rows)} cells."
    )


def _sigma_ratio(
    table: Table, above: tuple[str, str], below: tuple[str, str]
) -> tuple[float, float]:
    """Return the smallest and largest ratio of σ of two methods over all settings."""
    facts = [f.name for f in fields(Setting) if f.name not in ("c", "c2")]
    divisor = {
        tuple(row[f] for f in facts): number(row, "sigma")
        for row in pick(table, method=below[0], column=below[1])
    }
    ratios = [
        number(row, "sigma") / divisor[tuple(row[f] for f in facts)]
        for row in pick(table, method=above[0], column=above[1])
    ]
    return min(ratios), max(ratios)


def _times(low: float, high: float) -> str:
    one, other = f"{low:.4g}", f"{high:.4g}"
    return f"{one} times" if one == other else f"{one} to {other} times"
