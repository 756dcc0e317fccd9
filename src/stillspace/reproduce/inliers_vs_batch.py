"""Inlier ratio against batch size: which share of runs gets to 1e-2 (supplement)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from stillspace.reproduce.cells import OURS, STOCHASTIC, AnyCell, Setting
from stillspace.reproduce.experiment import (
    Size,
    Tables,
    Verdict,
    epsilon_by_method,
    repeated,
    sampled_noise,
)
from stillspace.reproduce.phase import PhaseTransition, Shown
from stillspace.reproduce.tables import Table, pick, values

MOST = 0.8
"""The share of runs that counts as "converges"."""

ALMOST_ALL = 0.9


class InliersVersusBatch(PhaseTransition):
    """n = T = 2000, D = 20, r = 2; the three stochastic methods."""

    id: ClassVar[str] = "inliers-vs-batch"
    title: ClassVar[str] = "Inlier ratio against batch size"
    x: ClassVar[tuple[str, str]] = ("batch_size", "batch size")
    y: ClassVar[tuple[str, str]] = ("inlier_ratio", "inlier ratio")
    shown: ClassVar[tuple[Shown, ...]] = (
        Shown("inliers-vs-batch", "share_reached", "share of runs that reach 1e-2", (0.0, 1.0)),
    )
    n: ClassVar[int] = 2000
    D: ClassVar[int] = 20
    methods: ClassVar[tuple[str, ...]] = STOCHASTIC
    runs: ClassVar[dict[Size, int]] = {"quick": 5, "paper": 50}
    note: ClassVar[str] = (
        "Haystack, n = T = 2000, D = 20, r = 2, ε = 0.8, δ = 1/√n. Ours takes no batch size: its "
        "column repeats one figure."
    )
    grid: ClassVar[dict[Size, tuple[tuple[float, ...], tuple[int, ...]]]] = {
        "quick": ((0.1, 0.3, 0.5, 0.7, 0.9), (1, 4, 16, 64)),
        "paper": ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (1, 2, 4, 8, 16, 32, 64)),
    }

    def settings(self, size: Size) -> list[Setting]:
        """Return the grid."""
        ratios, batches = self.grid[size]
        return [
            Setting(self.n, self.D, inlier_ratio=q, batch_size=b) for q in ratios for b in batches
        ]

    def cells(self, size: Size, seed: int, data: Path | None) -> list[AnyCell]:
        """Return the grid for the paper's methods, one line of it for ours."""
        paper = [cell for cell in super().cells(size, seed, data) if not _is_ours(cell)]
        ours = [
            cell
            for ratio in self.grid[size][0]
            for method in OURS
            for cell in repeated(
                self.id,
                Setting(self.n, self.D, inlier_ratio=ratio),
                method,
                "ours",
                self.runs[size],
                seed,
            )
        ]
        return [*paper, *ours]

    def verdict(self, tables: Tables) -> Verdict:
        """Judge from which inlier ratio on the runs converge."""
        table = tables[self.id]
        texts: dict[str, str] = {}
        shares: dict[str, float] = {}
        for column in ("as-printed", "honest"):
            rows = pick(table, column=column)
            parts = [f"{m} {_from(pick(rows, method=m))}" for m in STOCHASTIC]
            shares[column] = _converging(
                [r for r in pick(rows, method="dp-SGGD") if r["batch_size"] > 2]
            )
            texts[column] = (
                (f"True ε: {epsilon_by_method(rows)}. " if column == "as-printed" else "")
                + f"Smallest inlier ratio from which at least {100 * MOST:.0f} % of the runs "
                f"converge, at the best batch size: {', '.join(parts)}. With batches above 2, "
                f"dp-SGGD converges in {100 * shares[column]:.0f} % of the cells."
            )
        ours = {m: _from(pick(table, column="ours", method=m)) for m in OURS}
        return Verdict(
            claim=(
                "dp-SGD-REAP converges from an inlier ratio of 0.6 on, dp-SMD-REAP from 0.2 on, "
                "dp-SGGD at almost all ratios once the batch size is above 2."
            ),
            printed=texts["as-printed"],
            honest=texts["honest"],
            ours=", ".join(f"{method} {text}" for method, text in ours.items()) + ".",
            label="holds" if shares["honest"] >= ALMOST_ALL else "fails",
            judgement=(
                f"As printed, dp-SGGD converges in {100 * shares['as-printed']:.0f} % of the cells "
                f"with batches above 2; at the honest budget in {100 * shares['honest']:.0f} %. "
                + sampled_noise(table)
            ),
        )


def _is_ours(cell: AnyCell) -> bool:
    return getattr(cell, "column", "") == "ours"


def _converging(rows: Table) -> float:
    return float(np.mean([row["share_reached"] >= MOST for row in rows]))


def _from(rows: Table) -> str:
    """Return the smallest ratio from which on all larger ones converge at some batch size."""
    best = {
        q: max(row["share_reached"] for row in pick(rows, inlier_ratio=q))
        for q in values(rows, "inlier_ratio")
    }
    smallest = None
    for q in sorted(best, reverse=True):
        if best[q] < MOST:
            break
        smallest = q
    return "at no ratio" if smallest is None else f"from {smallest:g}"
