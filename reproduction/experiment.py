"""What an experiment is: cells to run, tables and figures made of them, and a verdict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from math import ceil, isfinite, log10
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from reproduction.cells import (
    OURS,
    SIX,
    AnyCell,
    Cell,
    Column,
    Result,
    Setting,
    run_seconds,
)
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

CELL_SECONDS = 60.0
"""A cell takes about this long at most: what a kill can lose."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim of the paper in our words, and what was measured."""

    claim: str
    printed: str
    honest: str
    ours: str
    label: str
    """In a few words, for the overview."""
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
    """Return cells for all runs of a method, each short enough; fewer runs if they are dear."""
    each = run_seconds(setting, method)
    runs = min([runs, *(most for seconds, most in FEWER_RUNS if each > seconds)])
    block = max(1, min(runs, int(CELL_SECONDS / each)))
    return [
        Cell(experiment, setting, method, column, at, min(block, runs - at), seed, traced)
        for at in range(0, runs, block)
    ]


def three_columns(
    experiment: str,
    setting: Setting,
    runs: int,
    seed: int,
    *,
    methods: Iterable[str] = SIX,
    traced: bool = False,
) -> list[Cell]:
    """Return the cells of one setting: the paper's methods twice, and ours."""
    found: list[Cell] = []
    for method in methods:
        for column in ("as-printed", "honest"):
            found += repeated(experiment, setting, method, column, runs, seed, traced=traced)
    for method in OURS:
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


def epsilon_by_method(table: Table) -> str:
    """Return the true ε of each method of a column, over all settings."""
    methods = dict.fromkeys(row["method"] for row in table)
    texts = {
        method: epsilon_text(
            number(row, "true_epsilon") for row in table if row["method"] == method
        )
        for method in methods
    }
    return "; ".join(f"{method} {text}" for method, text in texts.items())


def in_both_columns(table: Table, say: Callable[[Table], str]) -> tuple[str, str]:
    """Return what there is to say of the rows as printed, after their true ε, and of the honest."""
    printed, honest = (pick(table, column=column) for column in ("as-printed", "honest"))
    return f"True ε: {epsilon_by_method(printed)}. {say(printed)}", say(honest)


def sampled_noise(table: Table) -> str:
    """Say what is wrong with the printed noise of the stochastic methods, by how much."""
    low, high = _sigma_ratio(table, ("dp-SGGD", "honest"), ("dp-SGGD", "as-printed"))
    text = (
        "The printed variance of the stochastic methods has a factor (B/n)² too many (SPEC 9.3): "
        f"for dp-SGGD the accountant asks for a σ {_times(low, high)} as large, so that what it "
        "does as printed it does with hardly any privacy."
    )
    if not pick(table, method="dp-GGD"):
        return text
    low, high = _sigma_ratio(table, ("dp-SGGD", "honest"), ("dp-GGD", "honest"))
    saves = "time and not noise" if low >= 1 else "time and, in some cells, noise"
    return (
        f"{text} At the honest budget the σ of dp-SGGD is {_times(low, high)} that of dp-GGD: "
        f"sampling saves {saves} (SPEC 9.4)."
    )


def convex_noise(table: Table) -> str:
    """Say what is wrong with the printed noise of the full-batch convex methods, by how much."""
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
    facts = [f.name for f in fields(Setting)]
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
    one, other = f"{low:.3g}", f"{high:.3g}"
    return f"{one} times" if one == other else f"{one} to {other} times"
