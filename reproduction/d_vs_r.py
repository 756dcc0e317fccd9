"""D against r: where the full-batch methods work (supplement)."""

from __future__ import annotations

from typing import ClassVar

from reproduction.columns import FULL_BATCH, SIX, Setting
from reproduction.experiment import (
    FEWER_RUNS_NOTE,
    Size,
    Tables,
    Verdict,
    convex_noise,
    error_text,
    texts_by_column,
)
from reproduction.figures import ERRORS
from reproduction.phase import (
    CONVEX,
    PhaseTransition,
    Shown,
    prediction_text,
    recovered,
    recovery_text,
)
from reproduction.statements import by_share, judged
from reproduction.tables import Table, pick, values


class DVersusR(PhaseTransition):
    """n = T = 2000, half of the rows outliers."""

    id: ClassVar[str] = "D-vs-r"
    title: ClassVar[str] = "Dimension against dimension of the subspace"
    x: ClassVar[tuple[str, str]] = ("D", "D")
    y: ClassVar[tuple[str, str]] = ("r", "r")
    shown: ClassVar[tuple[Shown, ...]] = (
        Shown("D-vs-r", "median_log10_error", "median log10 final error", ERRORS),
        Shown(
            "D-vs-r-iterate",
            "median_log10_error_of_iterate",
            "median log10 error of the last iterate",
            ERRORS,
            CONVEX,
        ),
    )
    n: ClassVar[int] = 2000
    runs: ClassVar[dict[Size, int]] = {"quick": 2, "paper": 50}
    note: ClassVar[str] = (
        "Haystack, n = T = 2000, half outliers, ε = 0.8, δ = 1/√n. No cell has r ≥ D. "
        f"{FEWER_RUNS_NOTE}"
    )
    grid: ClassVar[dict[Size, tuple[tuple[int, ...], tuple[int, ...]]]] = {
        "quick": ((5, 10, 20, 40), (1, 2, 4)),
        "paper": ((5, 10, 20, 40, 70, 100), (1, 2, 4, 8)),
    }

    def settings(self, size: Size) -> list[Setting]:
        """Return the grid."""
        dimensions, ranks = self.grid[size]
        return [Setting(self.n, D, r) for D in dimensions for r in ranks if r < D]

    def verdict(self, tables: Tables) -> Verdict:
        """Judge whether the full-batch methods work for small D and r."""
        table = tables[self.id]
        ours = recovery_text(pick(table, column="ours"))
        D, r = (values(table, name) for name in ("D", "r"))
        small = (D[(len(D) - 1) // 2], r[(len(r) - 1) // 2])
        return Verdict(
            statements=(
                judged(
                    "dp-GD-REAP, dp-MD-REAP and dp-GGD work well where both D and r are small.",
                    f"The three recover (median d² ≤ 1e-2) in at least three quarters of their "
                    f"cells with D ≤ {small[0]:.0f} and r ≤ {small[1]:.0f}, the smaller half of "
                    "the grid.",
                    table,
                    lambda rows, view: by_share(*_small_cells(rows, view, small)),
                    ours,
                ),
            ),
            texts=texts_by_column(table, _corners_text),
            ours=ours,
            judgement=f"{convex_noise(table)} {prediction_text(table)}",
        )


def _corners_text(rows: Table) -> str:
    methods = [m for m in SIX if pick(rows, method=m)]
    corners = [f"{m} {' and '.join(_corners(pick(rows, method=m)))}" for m in methods]
    return (
        f"Median d² at the smallest D and r, and at the largest that were run: "
        f"{', '.join(corners)}. {recovery_text(rows)}"
    )


def _small_cells(rows: Table, view: str, small: tuple[float, float]) -> tuple[int, int]:
    """Return in how many cells with small D and r the full-batch methods recover."""
    cells = [
        row
        for row in rows
        if row["method"] in FULL_BATCH and row["D"] <= small[0] and row["r"] <= small[1]
    ]
    return sum(recovered(row, view) for row in cells), len(cells)


def _corners(rows: Table) -> list[str]:
    """Return the errors at the smallest and at the largest D and r of a method's rows."""
    ends = [choose(rows, key=lambda row: (row["D"], row["r"])) for choose in (min, max)]
    return [
        f"{error_text(row['median_log10_error'])} (D = {row['D']:.0f}, r = {row['r']:.0f})"
        for row in ends
    ]
