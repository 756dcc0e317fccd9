"""D against r: where the full-batch methods work (supplement)."""

from __future__ import annotations

from typing import ClassVar

from reproduction.cells import FULL_BATCH, SIX, Setting
from reproduction.experiment import (
    FEWER_RUNS_NOTE,
    Size,
    Tables,
    Verdict,
    convex_noise,
    error_text,
    in_both_columns,
)
from reproduction.phase import GOOD, PhaseTransition, Shown, recovery_text
from reproduction.tables import Table, pick


class DVersusR(PhaseTransition):
    """n = T = 2000, half of the rows outliers."""

    id: ClassVar[str] = "D-vs-r"
    title: ClassVar[str] = "Dimension against dimension of the subspace"
    x: ClassVar[tuple[str, str]] = ("D", "D")
    y: ClassVar[tuple[str, str]] = ("r", "r")
    shown: ClassVar[tuple[Shown, ...]] = (
        Shown("D-vs-r", "median_log10_error", "median log10 final error"),
    )
    n: ClassVar[int] = 2000
    runs: ClassVar[dict[Size, int]] = {"quick": 3, "paper": 50}
    note: ClassVar[str] = (
        f"Haystack, n = T = 2000, half outliers, ε = 0.8, δ = 1/√n. {FEWER_RUNS_NOTE}"
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
        printed, honest = in_both_columns(table, _corners_text)
        work = {column: _working(pick(table, column=column)) for column in ("as-printed", "honest")}
        return Verdict(
            claim="dp-GD-REAP, dp-MD-REAP and dp-GGD work well where both D and r are small.",
            printed=printed,
            honest=honest,
            ours=recovery_text(pick(table, column="ours")),
            label="holds" if len(work["honest"]) == len(FULL_BATCH) else "holds in part",
            judgement=(
                "Full-batch methods that recover the subspace in the smallest cell: at the honest "
                f"budget {', '.join(work['honest']) or 'none'}; as printed "
                f"{', '.join(work['as-printed']) or 'none'}. {convex_noise(table)}"
            ),
        )


def _corners_text(rows: Table) -> str:
    corners = [
        f"{m} {error_text(_small_corner(pick(rows, method=m)))} and "
        f"{error_text(_large_corner(pick(rows, method=m)))}"
        for m in SIX
    ]
    return (
        f"Median d² at the smallest D and r, and at the largest: {', '.join(corners)}. "
        + recovery_text(rows)
    )


def _working(rows: Table) -> list[str]:
    """Return the full-batch methods that recover the subspace in the smallest cell."""
    return [m for m in FULL_BATCH if _small_corner(pick(rows, method=m)) <= GOOD]


def _small_corner(rows: Table) -> float:
    return float(min(rows, key=lambda row: (row["D"], row["r"]))["median_log10_error"])


def _large_corner(rows: Table) -> float:
    return float(max(rows, key=lambda row: (row["D"], row["r"]))["median_log10_error"])
