"""The outlier map: how far each row lies from the subspace, and how far out along it."""

from __future__ import annotations

from typing import Any

import numpy as np

from stillspace.diagnostics import OutlierMap
from stillspace.plots._figure import BLUE, GREEN, GREY, INK, ORANGE, new_figure

VERMILION = "#D55E00"
_STYLES = {
    "regular": (BLUE, "o", "regular"),
    "good leverage": (GREEN, "^", "good leverage: on the subspace, far out"),
    "orthogonal outlier": (ORANGE, "s", "orthogonal outlier: off the subspace"),
    "bad leverage": (VERMILION, "D", "bad leverage: off it and far out"),
}


def draw_outlier_map(found: OutlierMap, *, title: str = "Outlier map", named: int = 5) -> Any:
    """Return a figure of all rows; the `named` rows that lie farthest out have their numbers.

    Rows of private data must not be published as points: the map shows them.
    """
    figure = new_figure(7.2, 5.4)
    ax = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.97, top=0.8, bottom=0.11)
    kinds = found.kinds
    for kind, (colour, marker, label) in _STYLES.items():
        at = kinds == kind
        count = int(np.count_nonzero(at))
        ax.scatter(
            found.score_distance[at],
            found.orthogonal_distance[at],
            s=18,
            color=colour,
            marker=marker,
            alpha=0.6,
            linewidths=0,
            label=f"{label} ({count})",
        )
    ax.axvline(found.score_cutoff, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
    ax.axhline(found.orthogonal_cutoff, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
    _name_farthest(ax, found, named)
    ax.set_xlim(left=0.0)
    ax.set_ylim(bottom=-0.015 * ax.get_ylim()[1])  # rows on the subspace itself are seen whole
    ax.set_xlabel("score distance: how far out along the subspace", color=GREY)
    ax.set_ylabel("orthogonal distance: how far from it", color=GREY)
    ax.tick_params(colors=GREY)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    figure.text(0.1, 0.965, title, va="top", fontsize=13, fontweight="bold", color=INK)
    note = f"dashed: cut-offs that {found.false_alarms:.1%} of clean rows pass"
    figure.text(0.97, 0.96, note, va="top", ha="right", fontsize=8.5, color=GREY)
    figure.legend(
        loc="upper left", bbox_to_anchor=(0.085, 0.925), ncols=2, frameon=False, fontsize=8.5
    )
    return figure


def _name_farthest(ax: Any, found: OutlierMap, named: int) -> None:
    """Write the numbers of the outliers that are farthest in units of the cut-offs."""
    size = np.hypot(
        found.score_distance / found.score_cutoff,
        found.orthogonal_distance / max(found.orthogonal_cutoff, 1e-300),
    )
    size = np.where(found.outliers, size, -1.0)
    for i in np.argsort(size)[::-1][:named]:
        if size[i] < 0.0:
            break
        place = (found.score_distance[i], found.orthogonal_distance[i])
        ax.annotate(str(i), place, xytext=(4, 3), textcoords="offset points", fontsize=8, color=INK)
