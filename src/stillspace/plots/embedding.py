"""Rows in the plane of two components: the embedding, and the biplot with its loadings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from stillspace._typing import FloatArray
from stillspace.diagnostics import check_leave
from stillspace.plots._display import Display, checked_fit, column_names, draw_mark, row_mark
from stillspace.plots._figure import BLUE, GREEN, GREY, INK, ORANGE, VERMILION, tidy

COLOURS = (BLUE, ORANGE, GREEN, VERMILION, "#CC79A7", "#56B4E9", "#F0E442", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(eq=False)
class EmbeddingDisplay(Display):
    """Scores of rows along two components, coloured by a label.

    Scores show the rows they are computed from. For rows behind a private fit `from_estimator`
    asks for `rows_may_be_seen=True`, and the picture says that it is not private.

    Examples
    --------
    >>> from stillspace import RobustPCA
    >>> from stillspace.datasets import make_haystack
    >>> from stillspace.plots import EmbeddingDisplay
    >>> data = make_haystack(200, 6, 2, random_state=0)
    >>> fit = RobustPCA(2).fit(data.X)
    >>> display = EmbeddingDisplay.from_estimator(fit, data.X, labels=data.inliers)
    >>> display.scores.shape
    (200, 2)
    """

    scores: FloatArray
    """(n, 2)."""
    labels: Any = None
    """(n,), or None."""
    names: tuple[str, str] = ("component 1", "component 2")
    watermark: str = ""

    @classmethod
    def from_estimator(
        cls,
        fit: Any,
        X: Any,
        *,
        labels: Any = None,
        components: tuple[int, int] = (0, 1),
        rows_may_be_seen: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw the scores of the rows of X along two components (numbers from 0)."""
        return cls._of(fit, X, labels, components, rows_may_be_seen).plot(ax)

    @classmethod
    def _of(
        cls, fit: Any, X: Any, labels: Any, components: tuple[int, int], rows_may_be_seen: bool
    ) -> Self:
        fit = checked_fit(fit)
        check_leave(fit, rows_may_be_seen)
        r = len(fit.components_)
        if len(components) != 2 or not all(0 <= k < r for k in components):
            msg = f"components must be two numbers from 0 to {r - 1}, got {components!r}."
            raise ValueError(msg)
        scores = np.asarray(fit.transform(X))[:, list(components)]
        labels = None if labels is None else np.asarray(labels)
        if labels is not None and len(labels) != len(scores):
            raise ValueError(f"There are {len(scores)} rows and {len(labels)} labels.")
        names = (f"component {components[0] + 1}", f"component {components[1] + 1}")
        return cls(scores, labels, names, row_mark(fit))

    def _draw(self, ax: Any) -> None:
        draw_points(ax, self.scores, self.labels)
        ax.axhline(0.0, color=GREY, linewidth=0.6, zorder=0)
        ax.axvline(0.0, color=GREY, linewidth=0.6, zorder=0)
        tidy(ax, x=self.names[0], y=self.names[1])
        draw_mark(ax, self.watermark)


@dataclass(eq=False)
class BiplotDisplay(EmbeddingDisplay):
    """Scores of rows and, as arrows, the loadings of the columns that have the largest ones."""

    loadings: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    """(D, 2)."""
    columns: list[str] = field(default_factory=list)
    shown: int = 8
    """Number of columns with an arrow."""

    @classmethod
    def from_estimator(
        cls,
        fit: Any,
        X: Any,
        *,
        labels: Any = None,
        components: tuple[int, int] = (0, 1),
        rows_may_be_seen: bool = False,
        shown: int = 8,
        ax: Any = None,
    ) -> Self:
        """Draw scores of the rows of X and the `shown` largest loadings."""
        display = cls._of(fit, X, labels, components, rows_may_be_seen)
        display.loadings = fit.components_[list(components)].T
        display.columns, display.shown = column_names(fit), shown
        return display.plot(ax)

    def _draw(self, ax: Any) -> None:
        super()._draw(ax)
        lengths = np.linalg.norm(self.loadings, axis=1)
        widest = float(np.quantile(np.abs(self.scores), 0.99))
        reach = 0.9 * widest / max(float(lengths.max()), 1e-9)
        for j in np.argsort(lengths)[::-1][: self.shown]:
            tip = reach * self.loadings[j]
            arrow = {"arrowstyle": "->", "color": INK, "lw": 1.2}
            ax.annotate("", tip, (0.0, 0.0), arrowprops=arrow)
            side = "left" if tip[0] >= 0 else "right"
            ax.text(*(1.06 * tip), self.columns[j], ha=side, va="center", fontsize=8, color=INK)


def draw_points(ax: Any, scores: FloatArray, labels: Any) -> None:
    """Scatter scores; each label has a colour and a marker of its own."""
    style: dict[str, Any] = {"s": 14, "alpha": 0.6, "linewidths": 0}
    if labels is None:
        ax.scatter(*scores.T, color=BLUE, **style)
        return
    for k, label in enumerate(np.unique(labels)):
        at = labels == label
        style |= {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
        ax.scatter(*scores[at].T, label=f"{label} ({at.sum()})", **style)
    ax.legend(frameon=False, fontsize=8)
