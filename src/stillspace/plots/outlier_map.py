"""The outlier map: how far each row lies from the subspace, and how far out along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from stillspace.diagnostics import OutlierMap, diagnose
from stillspace.plots._display import Display, draw_mark, row_mark
from stillspace.plots._figure import BLUE, GREEN, INK, ORANGE, VERMILION, tidy

_STYLES = {
    "regular": (BLUE, "o"),
    "good leverage": (GREEN, "^"),
    "orthogonal outlier": (ORANGE, "s"),
    "bad leverage": (VERMILION, "D"),
}


@dataclass(eq=False)
class OutlierMapDisplay(Display):
    """All rows by score distance and orthogonal distance, with the cut-offs (dashed).

    Rows of private data must not be published as points: the map shows them.

    Examples
    --------
    >>> from stillspace import RobustPCA
    >>> from stillspace.datasets import make_haystack
    >>> from stillspace.plots import OutlierMapDisplay
    >>> X = make_haystack(200, 6, 2, inlier_noise=0.1, random_state=0).X
    >>> display = OutlierMapDisplay.from_estimator(RobustPCA(2).fit(X), X)
    >>> int(display.found.outliers.sum()) > 50
    True
    """

    found: OutlierMap
    named: int = 5
    """Number of outliers that have their row number, the farthest first."""
    watermark: str = ""

    @classmethod
    def from_estimator(
        cls,
        fit: Any,
        X: Any,
        *,
        false_alarms: float = 0.025,
        named: int = 5,
        rows_may_be_seen: bool = False,
        ax: Any = None,
    ) -> Self:
        """Diagnose the rows of X (`stillspace.diagnostics.diagnose`) and draw the map."""
        found = diagnose(fit, X, false_alarms=false_alarms, rows_may_be_seen=rows_may_be_seen)
        return cls(found, named, row_mark(fit)).plot(ax)

    def _draw(self, ax: Any) -> None:
        found, kinds = self.found, self.found.kinds
        for kind, (colour, marker) in _STYLES.items():
            at = kinds == kind
            places = found.score_distance[at], found.orthogonal_distance[at]
            style = {"s": 18, "color": colour, "marker": marker, "alpha": 0.6, "linewidths": 0}
            ax.scatter(*places, label=f"{kind} ({len(places[0])})", **style)
        ax.axvline(found.score_cutoff, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
        ax.axhline(found.orthogonal_cutoff, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
        _name_farthest(ax, found, self.named)
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=-0.015 * ax.get_ylim()[1])  # rows on the subspace itself are seen whole
        across, away = "how far out along the subspace", "how far from the subspace"
        tidy(ax, x=f"score distance: {across}", y=f"orthogonal distance: {away}")
        ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, frameon=False, fontsize=8)
        draw_mark(ax, self.watermark)


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
