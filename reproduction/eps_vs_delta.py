"""ε against δ: where the budget is enough (supplement)."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from reproduction.cells import FULL_BATCH, SIX, Setting
from reproduction.experiment import (
    Size,
    Tables,
    Verdict,
    convex_noise,
    error_text,
    in_both_columns,
)
from reproduction.phase import PhaseTransition, Shown, recovery_text
from reproduction.tables import Table, pick, values


class EpsilonVersusDelta(PhaseTransition):
    """n = T = 2000, D = 20, r = 2, half of the rows outliers."""

    id: ClassVar[str] = "eps-vs-delta"
    title: ClassVar[str] = "ε against δ"
    x: ClassVar[tuple[str, str]] = ("epsilon", "ε")
    y: ClassVar[tuple[str, str]] = ("delta", "δ")
    shown: ClassVar[tuple[Shown, ...]] = (
        Shown("eps-vs-delta", "median_log10_error", "median log10 final error"),
    )
    n: ClassVar[int] = 2000
    D: ClassVar[int] = 20
    runs: ClassVar[dict[Size, int]] = {"quick": 5, "paper": 50}
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
        """Judge how abrupt the transitions are: the largest step between neighbours."""
        table = tables[self.id]
        printed, honest = in_both_columns(table, _steps_text)
        nonconvex, *convex = (
            largest_step(pick(table, column="honest", method=m)) for m in FULL_BATCH
        )
        ours = pick(table, column="ours")
        hard = min(
            pick(ours, method="PrivateRobustPCA"), key=lambda row: (row["epsilon"], row["delta"])
        )
        return Verdict(
            claim=(
                "From small ε and δ the error of dp-GGD falls more abruptly than that of "
                "dp-GD-REAP and dp-MD-REAP."
            ),
            printed=printed,
            honest=honest,
            ours=(
                f"{recovery_text(ours)} PrivateRobustPCA at the smallest budget (ε = "
                f"{hard['epsilon']:g}, δ = {hard['delta']:g}): "
                f"{error_text(hard['median_log10_error'])}."
            ),
            label="holds" if nonconvex > max(convex) else "fails",
            judgement=(
                "At the honest budget the largest step is "
                f"{nonconvex:.1f} decades for dp-GGD, {max(convex):.1f} for the steeper of the two "
                f"convex ones. {convex_noise(table)}"
            ),
        )


def _steps_text(rows: Table) -> str:
    steps = [f"{m} {largest_step(pick(rows, method=m)):.1f}" for m in SIX]
    return (
        "Largest step of the median error between neighbouring cells, in decades: "
        f"{', '.join(steps)}. {recovery_text(rows)}"
    )


def largest_step(rows: Table) -> float:
    """Return the largest change of the median log10 error between neighbours of the grid."""
    at = {(row["epsilon"], row["delta"]): row["median_log10_error"] for row in rows}
    epsilons, deltas = values(rows, "epsilon"), values(rows, "delta")
    across = [(at[e, d], at[f, d]) for d in deltas for e, f in pairwise(epsilons)]
    upwards = [(at[e, d], at[e, f]) for e in epsilons for d, f in pairwise(deltas)]
    return float(max(abs(one - other) for one, other in across + upwards))
