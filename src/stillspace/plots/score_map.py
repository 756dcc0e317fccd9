"""Pictures of scores: the released map, and, only if rows may be seen, the rows themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from stillspace.methods.pictures import ScoreMap
from stillspace.plots._figure import BLUE, GREY, INK, new_figure

WATERMARK = "shows individual rows: not private"


def draw_score_map(found: ScoreMap) -> Any:
    """Draw a released map of scores as a matplotlib figure, with the level of its noise.

    Cells within twice the noise are left white. The map is covered by the guarantee of its fit
    (`summaries=("scores",)`) and may be published with it.
    """
    shares = np.atleast_2d(found.shares)
    shown = np.where(shares > 2.0 * found.sd, shares, 0.0)
    figure = new_figure(5.2, 4.6 if found.shares.ndim == 2 else 2.2)
    axes = figure.add_axes((0.14, 0.22, 0.78, 0.7))
    across = found.edges
    down = across if found.shares.ndim == 2 else np.array([0.0, 1.0])
    cells = shown.T if found.shares.ndim == 2 else shown
    axes.pcolormesh(across, down, 100.0 * cells, cmap="Blues")
    axes.set_xlabel("score on component 1")
    if found.shares.ndim == 2:
        axes.set_ylabel("score on component 2")
    else:
        axes.set_yticks([])
    note = (
        f"Share of rows per cell, released with noise of {100 * found.sd:.2g} %; cells within "
        "twice the noise are white.\nRows further out are drawn at the rim."
    )
    figure.text(0.02, 0.03, note, fontsize=7, color=GREY)
    return figure


def draw_scores(estimator: Any, X: Any, *, rows_may_be_seen: bool = False) -> Any:
    """Draw one point per row at its first two scores. The picture shows rows and is not private.

    It is refused unless you say `rows_may_be_seen=True`, and it is watermarked. For a picture that
    may be published, fit with `summaries=("scores",)` and draw `score_map_`.
    """
    if rows_may_be_seen is not True:
        msg = (
            "A picture of scores shows individual rows, which no guarantee covers: say "
            "rows_may_be_seen=True if everybody who will see it may see the rows, or publish "
            "draw_score_map(est.score_map_) of a fit with summaries=('scores',)."
        )
        raise ValueError(msg)
    scores = np.asarray(estimator.transform(X))
    second = scores[:, 1] if scores.shape[1] > 1 else np.zeros(len(scores))
    figure = new_figure(5.2, 4.6)
    axes = figure.add_axes((0.14, 0.14, 0.8, 0.8))
    axes.plot(scores[:, 0], second, ".", color=BLUE, markersize=3, alpha=0.6)
    axes.set_xlabel("score on component 1")
    axes.set_ylabel("score on component 2")
    style = {"ha": "center", "va": "center", "rotation": 30, "alpha": 0.35}
    axes.text(0.5, 0.5, WATERMARK, transform=axes.transAxes, fontsize=18, color=INK, **style)
    return figure
