"""The released map of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.pictures import ScoreMap
from stillspace.plots._figure import GREY, new_figure

_MOST_COLUMNS = 3
"""Maps side by side."""


def draw_score_map(found: ScoreMap) -> Any:
    """Draw a released map of scores as a matplotlib figure, with the level of its noise.

    Cells within twice the noise are left white. The map is covered by the guarantee of its fit
    (`summaries=("scores",)`) and may be published with it.
    """
    flat = found.maps[0][1].ndim == 2
    columns = min(len(found.maps), _MOST_COLUMNS)
    lines = -(-len(found.maps) // columns)
    width, height = (5.2, 4.6 if flat else 2.2) if columns == 1 else (3.0 * columns, 2.9 * lines)
    figure = new_figure(width, height + 0.3)
    below = 0.75 / (height + 0.3)  # inches for the note and the ticks
    grid = figure.add_gridspec(
        lines, columns, left=0.5 / width + 0.06, right=0.97, bottom=below + 0.08, top=0.93,
        hspace=0.45, wspace=0.35,
    )  # fmt: skip
    top = 100.0 * max(float(found.shares.max()), 2.0 * found.sd)  # one scale for all maps
    for k, (title, shares) in enumerate(found.maps):
        axes = figure.add_subplot(grid[k // columns, k % columns])
        _draw_cells(axes, found, shares, top)
        axes.set_title(title, fontsize=9)
        last_line, first_column = k + columns >= len(found.maps), k % columns == 0
        axes.set_xlabel("score on component 1" if last_line else "")
        axes.set_ylabel("score on component 2" if flat and first_column else "")
    note = (
        f"Share of all rows per cell, released with noise of {100 * found.sd:.2g} %; cells within "
        "twice the noise are white.\nRows further out are drawn at the rim."
    )
    figure.text(0.02, 0.1 / (height + 0.3), note, fontsize=7, color=GREY)
    return figure


def _draw_cells(axes: Any, found: ScoreMap, shares: FloatArray, top: float) -> None:
    """Draw the cells of one map, those within the noise in white."""
    visible = np.where(shares > 2.0 * found.sd, shares, 0.0)
    flat, across = shares.ndim == 2, found.edges
    down = across if flat else np.array([0.0, 1.0])
    cells = visible.T if flat else visible[None]
    axes.pcolormesh(across, down, 100.0 * cells, cmap="Blues", vmin=0.0, vmax=top)
    if not flat:
        axes.set_yticks([])
