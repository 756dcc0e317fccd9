"""n against D: final error, time to error 1e-2, share of runs that fail; error against n."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from reproduction.cells import NONCONVEX, SIX, AnyCell, Setting
from reproduction.convergence import decay_columns
from reproduction.experiment import (
    FEWER_RUNS_NOTE,
    Done,
    Size,
    Tables,
    Verdict,
    haystack_cells,
    in_both_columns,
    repeated,
    sampled_noise,
)
from reproduction.phase import PhaseTransition, Shown, good_share, recovery_text, wins
from reproduction.rates import decay_in_n
from reproduction.tables import Row, Table, one, pick

RATE_D = 5
"""Small, so that the methods work at the smallest n."""
UNIT = 1000


class NVersusD(PhaseTransition):
    """T = 2n, r = 2, half of the rows outliers."""

    id: ClassVar[str] = "n-vs-D"
    title: ClassVar[str] = "Number of rows against dimension"
    x: ClassVar[tuple[str, str]] = ("n", "n")
    y: ClassVar[tuple[str, str]] = ("D", "D")
    shown: ClassVar[tuple[Shown, ...]] = (
        Shown("n-vs-D", "mean_log10_error", "mean log10 final error"),
        Shown("n-vs-D-time", "seconds_to_reach", "seconds to error 1e-2", log=True),
        Shown("n-vs-D-failed", "share_failed", "share of runs that never reach 1e-2", (0.0, 1.0)),
    )
    runs: ClassVar[dict[Size, int]] = {"quick": 3, "paper": 50}
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
    rate_runs: ClassVar[dict[Size, int]] = {"quick": 5, "paper": 50}

    def settings(self, size: Size) -> list[Setting]:
        """Return the grid."""
        sizes, dimensions = self.grid[size]
        return [Setting(n, D, n_iter=2 * n) for n in sizes for D in dimensions]

    def cells(self, size: Size, seed: int, data: Path | None) -> list[AnyCell]:
        """Return the grid, and a finer line of n at one D for the rates."""
        found = super().cells(size, seed, data)
        for n in self.rate_sizes[size]:
            setting = Setting(n, RATE_D, n_iter=2 * n)
            for method in SIX:
                for column in ("as-printed", "honest"):
                    found += repeated(
                        f"{self.id}-rate", setting, method, column, self.rate_runs[size], seed
                    )
        return found

    def tables(self, done: Done) -> Tables:
        """Return the grid, and the fitted rates."""
        grid = super().tables(done)[self.id]
        for row in grid:
            row["share_failed"] = 1.0 - row["share_reached"]
        return {self.id: grid, f"{self.id}-rates": self._rates(done)}

    def _rates(self, done: Done) -> Table:
        errors: dict[tuple[str, str], dict[int, list[float]]] = {}
        for cell, result in haystack_cells(done, f"{self.id}-rate"):
            found = errors.setdefault((cell.method, cell.column), {})
            made = found.setdefault(cell.setting.n, [])
            made += [run["error"] for run in result["runs"]]
        rows: Table = []
        for (method, column), by_n in errors.items():
            decay = decay_in_n(list(by_n), list(by_n.values()))
            if decay is not None:
                rows.append({"method": method, "column": column, **decay_columns(decay, UNIT)})
        return rows

    def verdict(self, tables: Tables) -> Verdict:
        """Judge who is better where, and the rates in n."""
        table, rates = tables[self.id], tables[f"{self.id}-rates"]
        printed, honest = in_both_columns(table, _cells_text)
        rows = pick(table, column="honest")
        ahead, cells = wins(rows, "dp-GGD", "dp-GD-REAP", ("n", "D"))
        full, sampled = (good_share(pick(rows, method=m)) for m in NONCONVEX)
        return Verdict(
            claim=(
                "The nonconvex methods are more accurate than the convex ones; the stochastic ones "
                "need less noise and so work for much larger D; the error falls exponentially in n "
                "for dp-(S)GGD and as 1/n for dp-REAP."
            ),
            printed=f"{printed} {_rates_text(pick(rates, column='as-printed'))}",
            honest=f"{honest} {_rates_text(pick(rates, column='honest'))}",
            ours=recovery_text(pick(table, column="ours")),
            label=(
                "nonconvex ahead of convex: "
                + ("holds" if 2 * ahead > cells else "fails")
                + "; sampling reaches larger D: "
                + ("holds" if sampled > full else "fails")
            ),
            judgement=(
                f"At the honest budget dp-GGD is ahead of dp-GD-REAP in {ahead} of {cells} cells. "
                f"That sampling reaches larger D {'is' if sampled > full else 'is not'} seen: with "
                f"T = 2n the share of cells that recover is {100 * full:.0f} % for dp-GGD and "
                f"{100 * sampled:.0f} % for dp-SGGD. {sampled_noise(table)} "
                + _rates_judgement(pick(rates, column="honest"))
            ),
        )


def _cells_text(rows: Table) -> str:
    ahead, cells = wins(rows, "dp-GGD", "dp-GD-REAP", ("n", "D"))
    sampled, _ = wins(rows, "dp-SGGD", "dp-SGD-REAP", ("n", "D"))
    return (
        f"{recovery_text(rows)} dp-GGD beats dp-GD-REAP in {ahead} of {cells} cells, dp-SGGD beats "
        f"dp-SGD-REAP in {sampled} of {cells}."
    )


def _rates_text(rates: Table) -> str:
    parts = [_rate_text(one(rates, method=m)) for m in SIX if pick(rates, method=m)]
    return f"Rates in n at D = {RATE_D}, with 95 % intervals: {', '.join(parts)}." if parts else ""


def _rates_judgement(rates: Table) -> str:
    """Say which of the promised laws in n was seen at the honest budget."""
    laws = {row["method"]: row for row in rates}
    exponential = [m for m in NONCONVEX if m in laws and laws[m]["better_law"] == "exponential"]
    fast = [m for m in SIX if m not in NONCONVEX and m in laws and laws[m]["exponent_high"] <= -1.0]
    return (
        f"In n the error of {' and '.join(exponential) or 'no nonconvex method'} falls "
        "exponentially (T = 2n iterations halve the step n/25 times: it is the step that falls); "
        f"that of {', '.join(fast) or 'no convex method'} falls at least as fast as 1/n."
    )


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
