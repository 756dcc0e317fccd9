"""Two figures about real tables: what is captured at which κ, and what bad rows do."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.utility.planted import CLEAN, KINDS
from benchmarks.utility.real_results import nominal
from benchmarks.utility.table_fits import DEFAULT, PCA, UNITS

WAYS = (
    (UNITS, "centre and scale given", "0.55", "s"),
    (DEFAULT, "default: nothing known", "0.0", "o"),
    ("as it is", "taken as it is", "0.55", "^"),
)


def draw(document: dict[str, Any], path: Path, curve: Path) -> None:
    """Write the figure of the page and that of docs/table-size.md."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    draw_curve(left, document["fits"].get("curve", []))
    draw_planted(right, document["fits"])
    figure.savefig(path, dpi=110)
    alone = Figure(figsize=(7.5, 4.6), layout="constrained")
    draw_curve(alone.subplots(), document["fits"].get("curve", []))
    alone.savefig(curve, dpi=110)


def curve_points(fits: list[dict[str, Any]], method: str) -> dict[int, list[float]]:
    """Return, by κ, the captured share of every table (the median over its seeds)."""
    found: dict[int, list[float]] = {}
    for fit in fits:
        if fit["method"] == method:
            found.setdefault(nominal(fit["kappa"]), []).append(float(np.median(fit["captured"])))
    return dict(sorted(found.items()))


def draw_curve(axes: Any, fits: list[dict[str, Any]]) -> None:
    for method, label, colour, marker in WAYS:
        points = curve_points(fits, method)
        if not points:
            continue
        kappas = list(points)
        low, middle, high = np.array([np.quantile(v, [0.25, 0.5, 0.75]) for v in points.values()]).T
        axes.plot(
            kappas, middle, marker=marker, color=colour, label=label,
            markerfacecolor="white" if method != DEFAULT else colour,
        )  # fmt: skip
        if method == DEFAULT:
            axes.fill_between(kappas, low, high, color="0.85", zorder=0, label="its quartiles")
            worst = [min(v) for v in points.values()]
            axes.plot(kappas, worst, ":", color="0.0", lw=1, label="its worst table")
    axes.axvline(40, color="0.6", lw=0.8, zorder=0)
    axes.annotate("units are found from here on", (41, 0.02), fontsize=8, color="0.35")
    axes.set(
        xscale="log", ylim=(0, 1.05), xlabel="κ = μn/√D",
        ylabel="share of the optimum's variance that is captured",
    )  # fmt: skip
    axes.set_title("Clean tables cut to a given κ, ε = 1, two components", fontsize=10)
    axes.legend(fontsize=8, loc="lower right")


def draw_planted(axes: Any, fits: dict[str, list[dict[str, Any]]]) -> None:
    """Draw d² for each kind of bad rows: quartiles over tables, at ε = 4."""
    kinds = [CLEAN, *KINDS]
    for offset, (part, method, label, colour) in enumerate(
        (
            ("set aside", UNITS, "units given", "0.6"),
            ("set aside", DEFAULT, "default: nothing known", "0.0"),
            ("others", PCA, "private PCA, units given (development tables)", "0.8"),
        )
    ):
        chosen = [f for f in fits.get(part, []) if f["method"] == method and f["r"] == 2]
        for row, kind in enumerate(kinds):
            values = [
                float(np.median(f["d2"]))
                for f in chosen
                if f["kind"] == kind and f["epsilon"] == 4.0
            ]
            if not values:
                continue
            low, middle, high = np.quantile(np.maximum(values, 1e-7), [0.25, 0.5, 0.75])
            y = row + 0.22 * (offset - 1)
            axes.plot([low, high], [y, y], color=colour, lw=3, solid_capstyle="butt")
            axes.plot(middle, y, "o", color=colour, ms=6, label=label if row == 0 else None)
    axes.set_yticks(range(len(kinds)), kinds, fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="d² to the optimum of the clean table: median and quartiles")
    axes.set_title("Bad rows in tables that were set aside, ε = 4", fontsize=10)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
