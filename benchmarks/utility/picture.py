"""One figure: against Gaussian-noise PCA, against the best in hindsight, on real tables."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.utility.contenders import GAUSSIAN, OURS
from benchmarks.utility.problems import KINDS, Regime
from benchmarks.utility.results import EXACT, SET_ASIDE, STRONG, Entry, Results, ran_somewhere

MARKERS = dict(zip((*KINDS, "none"), "osD^vX", strict=True))
STYLES = ("-", "--", "-.", ":")


def draw(results: Results, path: Path) -> None:
    """Write the figure."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(15, 5.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
    _scatter(left, results.regimes())
    _regrets(middle, results.regimes())
    _tables(right, [e for e in results.tables() if e.problem.epsilon == 1.0])
    figure.savefig(path, dpi=110)


def _scatter(axes: Any, entries: list[Entry]) -> None:
    for kind, marker in MARKERS.items():
        for held, colour in ((False, "white"), (True, "0.25")):
            shown = [
                e for e in entries if _kind(e) == kind and (e.problem.group in SET_ASIDE) == held
            ]
            if not shown:
                continue
            gaussian = np.maximum([e.d2(GAUSSIAN) for e in shown], EXACT)
            ours = np.maximum([e.ours() for e in shown], EXACT)
            label = kind if not held or not _has(entries, kind, False) else None
            axes.scatter(
                gaussian, ours, marker=marker, facecolor=colour, edgecolor="0.25", s=34, label=label
            )
    line = np.array([1e-8, 10.0])
    for factor, text in ((1.0, "equal"), (0.1, "10× better"), (0.001, "1000× better")):
        axes.plot(line, factor * line, color="0.6", lw=0.8, zorder=0)
        axes.annotate(
            text, (3e-7, 3e-7 * factor), fontsize=7, color="0.35", rotation=28,
            rotation_mode="anchor", va="bottom",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="d² of Gaussian-noise PCA", ylabel="d² of ours")
    axes.set_title("All regimes (filled: fresh)", fontsize=10)
    axes.legend(title="outliers", fontsize=7, title_fontsize=8)


def _regrets(axes: Any, entries: list[Entry]) -> None:
    shown = [e for e in entries if e.grid is not None and _kappa(e) >= STRONG]
    for i, name in enumerate(ran_somewhere(shown)):
        values = np.sort([v for e in shown if (v := e.regret(name)) is not None])
        share = np.arange(1, len(values) + 1) / len(values)
        ours = name == OURS
        axes.step(
            values, share, where="post", label=name, ls=STYLES[i % len(STYLES)],
            lw=2.6 if ours else 1.2, color="black" if ours else str(0.15 + 0.07 * i),
        )  # fmt: skip
    axes.axvline(1.0, color="0.6", lw=0.8, zorder=0)
    axes.set(
        xscale="log", xlim=(0.2, 1e5), ylim=(0, 1.02),
        xlabel="d² over that of the best plan in hindsight", ylabel="share of regimes",
    )  # fmt: skip
    axes.set_title("Regret, regimes with κ ≥ 10", fontsize=10)
    axes.legend(fontsize=7, loc="lower right")


def _tables(axes: Any, entries: list[Entry]) -> None:
    for row, entry in enumerate(entries):
        gaussian, ours = entry.d2(GAUSSIAN, "PCA"), entry.d2(OURS, "PCA")
        axes.plot([gaussian, ours], [row, row], color="0.6", lw=1, zorder=0)
        once = row == 0
        axes.scatter(
            gaussian, row, marker="s", facecolor="white", edgecolor="0.25", s=40,
            label=GAUSSIAN if once else None,
        )  # fmt: skip
        axes.scatter(ours, row, marker="o", color="0.1", s=30, label=OURS if once else None)
    axes.set_yticks(range(len(entries)), [e.problem.name for e in entries], fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="d² to the PCA optimum of the clean table")
    axes.set_title("Real tables, ε = 1", fontsize=10)
    if entries:
        axes.legend(fontsize=8)


def _kind(entry: Entry) -> str:
    assert isinstance(entry.problem, Regime)
    return entry.problem.kind if entry.problem.contaminated else "none"


def _has(entries: list[Entry], kind: str, held: bool) -> bool:
    return any(_kind(e) == kind and (e.problem.group in SET_ASIDE) == held for e in entries)


def _kappa(entry: Entry) -> float:
    assert isinstance(entry.problem, Regime)
    return entry.problem.kappa
