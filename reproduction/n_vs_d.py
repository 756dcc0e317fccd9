"""n against D: final error, time to error 1e-2, share of runs that fail; error against n."""

from __future__ import annotations

from functools import partial
from math import isnan
from pathlib import Path
from typing import ClassVar

from reproduction.cells import OURS, AnyCell
from reproduction.columns import FULL_BATCH, NONCONVEX, SIX, Setting
from reproduction.convergence import decay_columns
from reproduction.experiment import (
    FEWER_RUNS_NOTE,
    Done,
    Size,
    Tables,
    Verdict,
    all_columns,
    haystack_cells,
    sampled_noise,
    texts_by_column,
)
from reproduction.figures import ERRORS, SECONDS, SHARE_FAILED
from reproduction.phase import (
    CONVEX,
    PhaseTransition,
    Shown,
    prediction_text,
    recovered,
    recovery_text,
    wins,
)
from reproduction.rates import decay_in_n
from reproduction.statements import VIEWS, Mark, Statement, by_share, columns_in, judged, rows_of
from reproduction.tables import Row, Table, number, one, pick, values

RATE_D = 5
"""Small, so that the methods work at the smallest n."""
UNIT = 1000
MUCH = 1.0
""""Much more accurate": by at least so many decades of d²."""
PAIRS = (("dp-GGD", "dp-GD-REAP"), ("dp-SGGD", "dp-SGD-REAP"))
"""The nonconvex and the convex method that the paper compares by accuracy."""


class NVersusD(PhaseTransition):
    """T = 2n, r = 2, half of the rows outliers."""

    id: ClassVar[str] = "n-vs-D"
    title: ClassVar[str] = "Number of rows against dimension"
    x: ClassVar[tuple[str, str]] = ("n", "n")
    y: ClassVar[tuple[str, str]] = ("D", "D")
    shown: ClassVar[tuple[Shown, ...]] = (
        Shown("n-vs-D", "mean_log10_error", "mean log10 final error", ERRORS),
        Shown(
            "n-vs-D-iterate",
            "mean_log10_error_of_iterate",
            "mean log10 error of the last iterate",
            ERRORS,
            CONVEX,
        ),
        Shown("n-vs-D-time", "seconds_to_reach", "seconds to error 1e-2", SECONDS),
        Shown("n-vs-D-failed", "share_failed", "share of runs that never reach 1e-2", SHARE_FAILED),
    )
    runs: ClassVar[dict[Size, int]] = {"quick": 2, "paper": 50}
    note: ClassVar[str] = (
        f"Haystack, r = 2, half outliers, T = 2n, ε = 0.8, δ = 1/√n. {FEWER_RUNS_NOTE} Times of "
        "one core, known up to the distance of the checkpoints (a quarter)."
    )
    grid: ClassVar[dict[Size, tuple[tuple[int, ...], tuple[int, ...]]]] = {
        "quick": ((500, 1000, 2000), (10, 20, 50)),
        "paper": ((500, 1000, 2000, 4000), (10, 20, 50, 100)),
    }
    rate_sizes: ClassVar[dict[Size, tuple[int, ...]]] = {
        "quick": (150, 250, 375, 500, 625, 1000, 2000),
        "paper": (150, 250, 375, 500, 625, 750, 1000, 1500, 2000, 3000),
    }
    rate_runs: ClassVar[dict[Size, int]] = {"quick": 3, "paper": 50}

    def settings(self, size: Size) -> list[Setting]:
        """Return the grid."""
        sizes, dimensions = self.grid[size]
        return [Setting(n, D, n_iter=2 * n) for n in sizes for D in dimensions]

    def cells(self, size: Size, seed: int, data: Path | None) -> list[AnyCell]:
        """Return the grid, and a finer line of n at one D for the rates."""
        found = super().cells(size, seed, data)
        for n in self.rate_sizes[size]:
            setting = Setting(n, RATE_D, n_iter=2 * n)
            runs = self.rate_runs[size]
            found += all_columns(f"{self.id}-rate", setting, runs, seed)
        return found

    def tables(self, done: Done) -> Tables:
        """Return the grid, and the fitted rates."""
        grid = super().tables(done)[self.id]
        for row in grid:
            row["share_failed"] = 1.0 - row["share_reached"]
        return {self.id: grid, f"{self.id}-rates": self._rates(done)}

    def _rates(self, done: Done) -> Table:
        errors: dict[tuple[str, str, str], dict[int, list[float]]] = {}
        for cell, result in haystack_cells(done, f"{self.id}-rate"):
            for view, name in (("output", "error"), ("iterate", "iterate_error")):
                found = errors.setdefault((cell.method, cell.column, view), {})
                made = found.setdefault(cell.setting.n, [])
                made += [run.get(name, run["error"]) for run in result["runs"]]
        rows: Table = []
        for (method, column, view), by_n in errors.items():
            decay = decay_in_n(list(by_n), list(by_n.values()))
            if decay is not None:
                facts = {"method": method, "column": column, "view": view}
                rows.append({**facts, **decay_columns(decay, UNIT)})
        return rows

    def verdict(self, tables: Tables) -> Verdict:
        """Judge who is better where, and the rates in n."""
        table, rates = tables[self.id], tables[f"{self.id}-rates"]
        ours = recovery_text(pick(table, column="ours"))
        texts = {
            column: f"{text} {_rates_text(pick(rates, column=column, view='output'))}".strip()
            for column, text in texts_by_column(table, _cells_text).items()
        }
        return Verdict(
            statements=_statements(table, rates, ours),
            texts=texts,
            ours=ours,
            judgement=(
                f"{sampled_noise(table)} {prediction_text(table)} "
                "T = 2n iterations halve the step n/25 times: where the error of dp-(S)GGD falls "
                "exponentially in n, it is the step that falls."
            ),
        )


def _statements(table: Table, rates: Table, ours: str) -> tuple[Statement, ...]:
    ahead = "Smaller median error in at least three quarters of the cells."
    better = tuple(
        judged(
            f"{mine} is more accurate than {theirs}.",
            ahead,
            table,
            partial(_ahead, pair=(mine, theirs)),
            ours,
        )
        for mine, theirs in PAIRS
    )
    much = judged(
        "dp-(S)GGD is much more accurate than dp-(S)GD-REAP.",
        f"The median error is more than {10**MUCH:.0f} times smaller in at least three quarters of "
        "the cells of both pairs.",
        table,
        _much_ahead,
        ours,
    )
    larger = tuple(
        judged(
            f"{sampled} works for much larger D than {full}.",
            "At each n the largest D with median d² ≤ 1e-2 is at least twice as large, in at least "
            "three quarters of the n at which the full-batch method fails at some D.",
            table,
            partial(_larger_D, full=full, sampled=sampled),
            ours,
        )
        for full, sampled in zip(*PAIRS, strict=True)
    )
    small = judged(
        "dp-GD-REAP, dp-MD-REAP and dp-GGD work well where D is small and n is large.",
        "They recover in at least three quarters of their cells in the smaller half of D and the "
        "larger half of n.",
        table,
        _small_D,
        ours,
    )
    superior = judged(
        "dp-SGGD seems to be superior to dp-GGD (the paper's conclusion).",
        ahead,
        table,
        partial(_ahead, pair=("dp-SGGD", "dp-GGD")),
        ours,
    )
    return (*better, much, *larger, small, _law_statement(rates), superior)


def _ahead(rows: Table, view: str, *, pair: tuple[str, str]) -> Mark:
    return by_share(*wins(rows, *pair, ("n", "D"), view))


def _much_ahead(rows: Table, view: str) -> Mark:
    counts = [wins(rows, *pair, ("n", "D"), view, by=MUCH) for pair in PAIRS]
    return by_share(sum(won for won, _ in counts), sum(cells for _, cells in counts))


def _larger_D(rows: Table, view: str, *, full: str, sampled: str) -> Mark:
    true = cells = 0
    for n in values(rows, "n"):
        mine, other = (
            {row["D"]: recovered(row, view) for row in pick(rows, method=m, n=n)}
            for m in (full, sampled)
        )
        both = sorted(mine.keys() & other.keys())  # a D that one was not run at says nothing
        if all(mine[D] for D in both):
            continue
        largest, wanted = (max((D for D in both if m[D]), default=0.0) for m in (other, mine))
        cells += 1
        true += largest >= max(2.0 * wanted, both[0])
    return by_share(true, cells)


def _small_D(rows: Table, view: str) -> Mark:
    dimensions, sizes = values(rows, "D"), values(rows, "n")
    most, least = dimensions[(len(dimensions) - 1) // 2], sizes[len(sizes) // 2]
    cells = [
        row
        for row in rows
        if row["method"] in FULL_BATCH and row["D"] <= most and row["n"] >= least
    ]
    return by_share(sum(recovered(row, view) for row in cells), len(cells))


def _law_statement(rates: Table) -> Statement:
    """Judge the laws in n, by the fits to outputs and to iterates."""
    marks = {
        column: {v: _law_mark(rows_of(rates, column), w) for v, w in VIEWS.items()}
        for column in columns_in(rates)
    }
    return Statement(
        "The error falls exponentially in n for dp-(S)GGD and as 1/n for dp-REAP.",
        f"At D = {RATE_D}: the exponential law fits both nonconvex methods better than a power of "
        "n, and the 95 % interval of each convex exponent lies at −1 or below. A convex method "
        "that recovers at fewer than three sizes has no fit and does not count.",
        marks,
        _rates_text(pick(rates, column="ours", view="output"), OURS),
    )


def _law_mark(rates: Table, view: str) -> Mark:
    laws = {row["method"]: row for row in pick(rates, view=view)}
    fast = [m for m in NONCONVEX if m in laws and laws[m]["better_law"] == "exponential"]
    convex = [m for m in CONVEX if m in laws]
    slow = [m for m in convex if laws[m]["exponent_high"] <= -1.0]
    count = f"{len(fast)} of 2; {len(slow)} of {len(convex)} convex as 1/n or faster"
    return Mark(len(fast) == 2 and len(slow) == len(convex), count)


def _cells_text(rows: Table) -> str:
    parts = [recovery_text(rows)]
    for mine, theirs in PAIRS:
        won, cells = wins(rows, mine, theirs, ("n", "D"))
        if cells:
            sooner, reached = _sooner(rows, mine, theirs)
            parts.append(
                f"{mine} beats {theirs} in {won} of {cells} cells, and gets to d² = 1e-2 in less "
                f"time in {sooner} of the {reached} that one of them gets to."
            )
    return " ".join(parts)


def _sooner(rows: Table, mine: str, theirs: str) -> tuple[int, int]:
    """Return in how many cells a method needs less time to 1e-2, and of how many that are reached.

    A cell counts where both methods were run and one of them got there; NaN is not there.
    """
    other = {(r["n"], r["D"]): number(r, "seconds_to_reach") for r in pick(rows, method=theirs)}
    times = [
        (number(r, "seconds_to_reach"), other[r["n"], r["D"]])
        for r in pick(rows, method=mine)
        if (r["n"], r["D"]) in other
    ]
    reached = [(a, b) for a, b in times if not (isnan(a) and isnan(b))]
    return sum(a < b or isnan(b) for a, b in reached), len(reached)


def _rates_text(rates: Table, methods: tuple[str, ...] = SIX) -> str:
    parts = [_rate_text(one(rates, method=m)) for m in methods if pick(rates, method=m)]
    return f"Rates in n at D = {RATE_D}, with 95 % intervals: {', '.join(parts)}." if parts else ""


def _rate_text(row: Row) -> str:
    if row["better_law"] == "exponential":
        return (
            f"{row['method']} {-row['decades_a_unit']:.1f} decades every {UNIT} rows "
            f"({-row['decades_a_unit_high']:.1f} to {-row['decades_a_unit_low']:.1f})"
        )
    return (
        f"{row['method']} n^{row['exponent']:.2f} "
        f"({row['exponent_low']:.2f} to {row['exponent_high']:.2f})"
    )
