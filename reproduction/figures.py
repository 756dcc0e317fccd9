"""The figures: curves, grids and maps, all of which can be read in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from textwrap import fill
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.plots._figure import BLUE, GREEN, GREY, INK, ORANGE, new_figure

# Colour, dash and marker: two of them alone tell the methods apart.
STYLES: dict[str, dict[str, Any]] = {
    "dp-GGD": {"color": BLUE, "linestyle": "-", "marker": "o"},
    "dp-SGGD": {"color": BLUE, "linestyle": "-", "marker": "o"},
    "dp-GD-REAP": {"color": ORANGE, "linestyle": (0, (5, 2)), "marker": "s"},
    "dp-SGD-REAP": {"color": ORANGE, "linestyle": (0, (5, 2)), "marker": "s"},
    "dp-MD-REAP": {"color": GREEN, "linestyle": (0, (1, 1.5)), "marker": "^"},
    "dp-SMD-REAP": {"color": GREEN, "linestyle": (0, (1, 1.5)), "marker": "^"},
    "PrivateRobustPCA": {"color": INK, "linestyle": (0, (8, 2, 1, 2)), "marker": "*"},
    "PrivatePCA": {"color": GREY, "linestyle": (0, (3, 3)), "marker": "D"},
}


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A median with its quartiles."""

    method: str
    x: FloatArray
    low: FloatArray
    middle: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class CurvePanel:
    """Some curves over one axis."""

    title: str
    xlabel: str
    curves: Sequence[Curve]
    log_x: bool = False


def draw_curves(
    lines: Sequence[Sequence[CurvePanel]], *, title: str, ylabel: str, note: str
) -> Any:
    """Return a figure with one line of panels each, all with the same vertical axis."""
    count, width = len(lines), max(map(len, lines))
    figure = new_figure(3.4 * width + 0.4, 2.9 * count + 1.3)
    axes = figure.subplots(count, width, sharey=True, squeeze=False)
    for row, panels in zip(axes, lines, strict=True):
        for ax, panel in zip(row, panels, strict=True):
            _draw_curve_panel(ax, panel)
        row[0].set_ylabel(ylabel, fontsize=9)
    _frame(figure, title, note)
    return figure


def _draw_curve_panel(ax: Any, panel: CurvePanel) -> None:
    for curve in panel.curves:
        style = STYLES[curve.method]
        flat = len(curve.x) == 2
        every = max(1, len(curve.x) // 8)
        ax.fill_between(
            curve.x, curve.low, curve.high, color=style["color"], alpha=0.18, linewidth=0
        )
        ax.plot(
            curve.x,
            curve.middle,
            label=curve.method,
            linewidth=1.6,
            markersize=8 if len(curve.x) == 1 else 4.5,
            markevery=every,
            **{**style, "marker": "" if flat else style["marker"]},
        )
    if panel.log_x:
        ax.set_xscale("log")
        ax.tick_params(axis="x", which="minor", labelbottom=False)
    ax.set_title(panel.title, loc="left", fontsize=9.5, color=INK)
    ax.set_xlabel(panel.xlabel, fontsize=9)
    ax.grid(visible=True, color="#E4E4E4", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=7.5, frameon=False)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """One phase-transition panel: `cells` is (len(y), len(x)), NaN where nothing was run."""

    title: str
    cells: FloatArray
    below: str = ""


def draw_grids(
    lines: Sequence[Sequence[Grid | None]],
    *,
    x: tuple[str, Sequence[str]],
    y: tuple[str, Sequence[str]],
    title: str,
    scale: str,
    note: str,
    limits: tuple[float, float],
    log: bool = False,
) -> Any:
    """Return a figure of phase-transition panels on one grey-safe scale, each cell with its number.

    A cell without a number is hatched: no run got there. The colour only sorts; the number says.
    """
    from matplotlib.colors import LogNorm, Normalize  # noqa: PLC0415

    norm = (LogNorm if log else Normalize)(*limits)
    count, width = len(lines), max(map(len, lines))
    cell = 0.48
    size = (cell * len(x[1]) + 0.75, cell * 0.8 * len(y[1]) + 1.05)
    figure = new_figure(size[0] * width + 1.1, size[1] * count + 1.25, dpi=110)
    axes = figure.subplots(count, width, squeeze=False)
    image = None
    for i, row in enumerate(lines):
        for j, ax in enumerate(axes[i]):
            panel = row[j] if j < len(row) else None
            if panel is None:
                ax.set_axis_off()
                continue
            image = _draw_grid(ax, panel, x, y, norm)
            if j:
                ax.set_ylabel("")
    _frame(figure, title, note)
    bar = figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01)
    bar.set_label(scale, fontsize=8.5)
    bar.ax.tick_params(labelsize=8)
    return figure


def _draw_grid(
    ax: Any,
    panel: Grid,
    x: tuple[str, Sequence[str]],
    y: tuple[str, Sequence[str]],
    norm: Any,
) -> Any:
    ax.set_facecolor("white")
    image = ax.imshow(panel.cells, origin="lower", aspect="auto", cmap="viridis", norm=norm)
    for i, j in np.ndindex(*panel.cells.shape):
        value = float(panel.cells[i, j])
        if not isfinite(value):
            ax.add_patch(_hatched(j, i))
            continue
        dark = norm(value) < 0.55
        text = f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"
        ax.text(
            j, i, text, ha="center", va="center", fontsize=6.5, color="white" if dark else "black"
        )
    ax.set_xticks(range(len(x[1])), x[1], fontsize=7)
    ax.set_yticks(range(len(y[1])), y[1], fontsize=7)
    ax.set_xlabel(x[0], fontsize=8)
    ax.set_ylabel(y[0], fontsize=8)
    head = panel.title + (f"\n{panel.below}" if panel.below else "")
    ax.set_title(head, loc="left", fontsize=8, color=INK)
    return image


def _hatched(j: int, i: int) -> Any:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    return Rectangle(
        (j - 0.5, i - 0.5), 1, 1, facecolor="#F2F2F2", edgecolor="#9A9A9A", hatch="///", linewidth=0
    )


@dataclass(frozen=True, slots=True, eq=False)
class MapPanel:
    """People where an embedding puts them, turned onto the map."""

    title: str
    below: str
    points: FloatArray


def draw_maps(
    panels: Sequence[MapPanel],
    places: FloatArray,
    country: Sequence[str],
    *,
    title: str,
    note: str,
    width: int,
) -> Any:
    """Return a figure with one map a panel, countries by colour and by their letters."""
    lines = -(-len(panels) // width)
    figure = new_figure(3.1 * width, 3.2 * lines + 1.2, dpi=100)  # many points make large files
    axes = figure.subplots(lines, width, squeeze=False)
    codes = np.asarray(country)
    colours = _map_colours(places)
    for ax, panel in zip(axes.flat, panels, strict=False):
        ax.scatter(*panel.points.T, s=5, c=colours, alpha=0.55, linewidths=0)
        for code in np.unique(codes):
            mine = codes == code
            if mine.sum() >= 8:
                spot = np.median(panel.points[mine], axis=0)
                ax.text(*spot, code, fontsize=7, ha="center", va="center", fontweight="bold")
        ax.set_title(panel.title, loc="left", fontsize=9, color=INK)
        ax.set_xlabel(panel.below, fontsize=8.5, loc="left")
        ax.set(xticks=[], yticks=[])
        for side in ax.spines.values():
            side.set_color("#C8C8C8")
    for ax in list(axes.flat)[len(panels) :]:
        ax.set_axis_off()
    _frame(figure, title, note)
    return figure


def _map_colours(places: FloatArray) -> FloatArray:
    """Return a colour a person: hue from west to east, darker to the south."""
    import matplotlib as mpl  # noqa: PLC0415

    spread = (places - places.min(axis=0)) / np.ptp(places, axis=0)
    colours: FloatArray = mpl.colormaps["turbo"](0.05 + 0.9 * np.clip(spread[:, 0] * 1.4, 0, 1))
    colours[:, :3] *= (0.55 + 0.45 * spread[:, 1])[:, None]
    return colours


def _frame(figure: Any, title: str, note: str) -> None:
    """Put the title above and the note below, and the panels between."""
    height, width = float(figure.get_figheight()), float(figure.get_figwidth())
    figure.set_layout_engine("constrained", rect=(0.005, 0.62 / height, 0.99, 1.0 - 1.06 / height))
    left = 0.12 / width
    figure.text(left, 1 - 0.12 / height, title, va="top", fontsize=12, fontweight="bold", color=INK)
    figure.text(
        left,
        0.54 / height,
        fill(note, int(15.2 * width), break_on_hyphens=False),
        va="top",
        fontsize=8,
        color=GREY,
        linespacing=1.35,
    )


def grid_of(
    rows: Sequence[Mapping[str, Any]],
    x: tuple[str, Sequence[Any]],
    y: tuple[str, Sequence[Any]],
    value: str,
) -> FloatArray:
    """Return a column of a table as an array (len(y), len(x)), NaN where there is nothing."""
    cells = np.full((len(y[1]), len(x[1])), np.nan)
    for row in rows:
        if row[value] is not None:
            cells[y[1].index(row[y[0]]), x[1].index(row[x[0]])] = row[value]
    return cells
