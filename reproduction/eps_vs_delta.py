"""ε against δ: where the budget is enough (supplement)."""

from __future__ import annotations

from itertools import pairwise
from math import inf, isfinite, log10
from typing import ClassVar

from reproduction.columns import FULL_BATCH, Setting
from reproduction.experiment import (
    Size,
    Tables,
    Verdict,
    convex_noise,
    error_text,
    texts_by_column,
)
from reproduction.figures import ERRORS
from reproduction.phase import CONVEX, PhaseTransition, Shown, prediction_text, recovery_text
from reproduction.statements import Mark, by_share, error, judged
from reproduction.tables import OUTPUT, Table, pick, values


class EpsilonVersusDelta(PhaseTransition):
    """n = T = 2000, D = 20, r = 2, half of the rows outliers."""

    id: ClassVar[str] = "eps-vs-delta"
    title: ClassVar[str] = "ε against δ"
    x: ClassVar[tuple[str, str]] = ("epsilon", "ε")
    y: ClassVar[tuple[str, str]] = ("delta", "δ")
    shown: ClassVar[tuple[Shown, ...]] = (
        Shown("eps-vs-delta", "median_log10_error", "median log10 final error", ERRORS),
        Shown(
            "eps-vs-delta-iterate",
            "median_log10_error_of_iterate",
            "median log10 error of the last iterate",
            ERRORS,
            CONVEX,
        ),
    )
    n: ClassVar[int] = 2000
    D: ClassVar[int] = 20
    runs: ClassVar[dict[Size, int]] = {"quick": 3, "paper": 50}
    note: ClassVar[str] = (
        "Haystack, n = T = 2000, D = 20, r = 2, half outliers. The noise as printed is judged by "
        "its true ε at the same δ."
    )
    grid: ClassVar[dict[Size, tuple[tuple[float, ...], tuple[float, ...]]]] = {
        "quick": ((0.1, 0.4, 1.6), (1e-6, 1e-4, 1e-2)),
        "paper": ((0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2), (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
    }

    def settings(self, size: Size) -> list[Setting]:
        """Return the grid."""
        epsilons, deltas = self.grid[size]
        return [Setting(self.n, self.D, epsilon=e, delta=d) for e in epsilons for d in deltas]

    def verdict(self, tables: Tables) -> Verdict:
        """Judge how abrupt the transitions are: how far ε must grow from failure to recovery."""
        table = tables[self.id]
        ours = pick(table, column="ours")
        hard = min(
            pick(ours, method="PrivateRobustPCA"), key=lambda row: (row["epsilon"], row["delta"])
        )
        text = (
            f"{recovery_text(ours)} PrivateRobustPCA at the smallest budget (ε = "
            f"{hard['epsilon']:g}, δ = {hard['delta']:g}): "
            f"{error_text(hard['median_log10_error'])}."
        )
        return Verdict(
            statements=(
                judged(
                    "From small ε and δ the error of dp-GGD falls more abruptly than that of "
                    "dp-GD-REAP and dp-MD-REAP.",
                    f"At a δ, the width of a transition is the factor by which ε must grow for the "
                    f"median d² to fall from 1e{HIGH:g} to 1e{LOW:g}, both far above every floor. "
                    "dp-GGD's width must be the smaller one in at least three quarters of the "
                    "comparisons with the convex methods. Where one of two methods passes both "
                    "levels and the other does not, the first is the more abrupt one.",
                    table,
                    _abrupt,
                    text,
                ),
            ),
            texts=texts_by_column(table, _widths_text),
            ours=text,
            judgement=f"{convex_noise(table)} {prediction_text(table)}",
        )


HIGH, LOW = -1.0, -3.0
"""log10 of the errors between which a transition lies."""


def _abrupt(rows: Table, view: str) -> Mark:
    ahead = cells = 0
    for delta in values(rows, "delta"):
        at = pick(rows, delta=delta)
        mine, *convex = (width(pick(at, method=m), view) for m in FULL_BATCH)
        for other in convex:
            if isfinite(mine) or isfinite(other):
                cells += 1
                ahead += mine < other
    return by_share(ahead, cells)


def width(rows: Table, view: str) -> float:
    """Return the factor of ε between errors of 1e-1 and 1e-3 at one δ, ∞ if one is not passed.

    log10 error is interpolated linearly in log ε between cells of the grid; the last crossing
    counts.
    """
    found = sorted((log10(row["epsilon"]), error(row, view)) for row in rows)
    levels = []
    for level in (HIGH, LOW):
        crossings = [
            e + (f - e) * (a - level) / (a - b)
            for (e, a), (f, b) in pairwise(found)
            if a > level >= b
        ]
        levels.append(crossings[-1] if crossings else inf)
    return 10.0 ** (levels[1] - levels[0]) if isfinite(levels[1] - levels[0]) else inf


def _widths_text(rows: Table) -> str:
    parts = []
    for m in (m for m in FULL_BATCH if pick(rows, method=m)):
        widths = [width(pick(rows, method=m, delta=d), OUTPUT) for d in values(rows, "delta")]
        known = sorted(w for w in widths if isfinite(w))
        text = f"{known[0]:.2g} to {known[-1]:.2g} at {len(known)} δ" if known else "at no δ"
        parts.append(f"{m} {text}")
    words = f"Width of the transition in ε: {', '.join(parts)}. " if parts else ""
    return f"{words}{recovery_text(rows)}"
