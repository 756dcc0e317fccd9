"""D against r: where the full-batch methods work (supplement)."""

from __future__ import annotations

from typing import ClassVar

from stillspace.reproduce.cells import FULL_BATCH, SIX, Setting
from stillspace.reproduce.experiment import (
    FEWER_RUNS_NOTE,
    Size,
    Tables,
    Verdict,
    convex_noise,
    epsilon_by_method,
    error_text,
)
from stillspace.reproduce.phase import GOOD, PhaseTransition, Shown, good_share
from stillspace.reproduce.tables import Table, pick


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
        texts: dict[str, str] = {}
        work: dict[str, list[str]] = {}
        for column in ("as-printed", "honest"):
            rows = pick(table, column=column)
            work[column] = [m for m in FULL_BATCH if _small_corner(pick(rows, method=m)) <= GOOD]
            texts[column] = (
                (f"True ε: {epsilon_by_method(rows)}. " if column == "as-printed" else "")
                + "Median d² at the smallest D and r, and at the largest: "
                + ", ".join(
                    f"{m} {error_text(_small_corner(pick(rows, method=m)))} and "
                    f"{error_text(_large_corner(pick(rows, method=m)))}"
                    for m in SIX
                )
                + ". Cells with median d² ≤ 1e-2: "
                + ", ".join(f"{m} {100 * good_share(pick(rows, method=m)):.0f} %" for m in SIX)
                + "."
            )
        ours = pick(table, column="ours", method="PrivateRobustPCA")
        plain = pick(table, column="ours", method="PrivatePCA")
        holds = len(work["honest"]) == len(FULL_BATCH)
        return Verdict(
            claim=("dp-GD-REAP, dp-MD-REAP and dp-GGD work well where both D and r are small."),
            printed=texts["as-printed"],
            honest=texts["honest"],
            ours=(
                f"Cells with median d² ≤ 1e-2: PrivateRobustPCA {100 * good_share(ours):.0f} %, "
                f"PrivatePCA {100 * good_share(plain):.0f} %."
            ),
            label="holds" if holds else "holds in part",
            judgement=(
                "At the honest budget "
                + (", ".join(work["honest"]) or "none of them")
                + " recover the subspace in the smallest cell. As printed, "
                + (", ".join(work["as-printed"]) or "none of them")
                + f" do. {convex_noise(table)}"
            ),
        )


def _small_corner(rows: Table) -> float:
    return float(min(rows, key=lambda row: (row["D"], row["r"]))["median_log10_error"])


def _large_corner(rows: Table) -> float:
    return float(max(rows, key=lambda row: (row["D"], row["r"]))["median_log10_error"])
