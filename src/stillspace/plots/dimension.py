"""The figure of the profile behind n_components="auto": distances, and their drops."""

from __future__ import annotations

from typing import Any

from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, new_figure, tidy
from stillspace.plots.components import DimensionDisplay
from stillspace.search import DimensionProfile


def draw_dimension_profile(found: DimensionProfile, *, title: str | None = None) -> Any:
    """Return a figure of the profile behind n_components="auto": distances, and their drops."""
    figure = new_figure(7.2, 4.2)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.1, right=0.97, top=0.8, bottom=0.15, wspace=0.3)
    ranks, r = found.ranks, found.n_components
    DimensionDisplay(found).plot(left)
    colours = [ORANGE if k == r else BLUE for k in ranks[1:]]
    right.bar(ranks[1:], found.drops, color=colours, width=0.7)
    right.axhline(0.0, color=INK, linewidth=0.8)
    right.xaxis.get_major_locator().set_params(integer=True)
    tidy(right, x="components", y="drop beyond that of noise (log)")
    words = f"{r} component{'s' if r > 1 else ''}"
    heading = title or (f"{words}, clearly" if found.clear else f"{words}, but not clearly so")
    figure.text(0.1, 0.95, heading, va="top", fontsize=13, fontweight="bold", color=INK)
    note = "orange: the last component before drops end"
    figure.text(0.1, 0.875, note, va="top", fontsize=8.5, color=GREY)
    return figure
