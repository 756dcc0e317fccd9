"""The figures: curves, grids and maps, all of which can be read in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from textwrap import fill
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.plots._figure import BLUE, GREEN, GREY, INK, ORANGE, VERMILION, new_figure

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
    "propose-test-release": {"color": GREY, "linestyle": (0, (1, 3)), "marker": "P"},
    "dp-GGD from dp-GD-REAP": {"color": VERMILION, "linestyle": (0, (4, 1, 1, 1)), "marker": "v"},
    "dp-SGGD from dp-SGD-REAP": {"color": VERMILION, "linestyle": (0, (4, 1, 1, 1)), "marker": "v"},
    "dp-GGD from dp-MD-REAP": {"color": VERMILION, "linestyle": (0, (1, 2)), "marker": "1"},
    "dp-SGGD from dp-SMD-REAP": {"color": VERMILION, "linestyle": (0, (1, 2)), "marker": "1"},
    "dp-GD-REAP with halved steps": {"color": VERMILION, "linestyle": "-", "marker": "x"},
}


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A median with its quartiles."""

    method: str
    x: FloatArray
    low: FloatArray
    middle: FloatArray
    high: FloatArray
    iterate: FloatArray
    """The median error of the iterate."""


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
    figure = new_figure(PAGE, 2.6 * count + 1.5, dpi=110)
    axes = figure.subplots(count, width, sharey=True, squeeze=False)
    for row, panels in zip(axes, lines, strict=True):
        for ax, panel in zip(row, panels, strict=True):
            _draw_curve_panel(ax, panel)
        row[0].set_ylabel(ylabel, fontsize=7.5)
    below = _frame(figure, title, note, more=LEGEND)
    known: dict[str, Any] = {}
    for ax in axes.flat:
        handles, names = ax.get_legend_handles_labels()
        known |= {name: handle for handle, name in zip(handles, names, strict=True)}
    figure.legend(
        known.values(),
        known.keys(),
        loc="upper center",
        bbox_to_anchor=(0.5, below),
        ncols=4,
        fontsize=7.5,
        frameon=False,
        handlelength=4.0,
    )
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
            linewidth=1.4,
            markersize=6 if len(curve.x) == 1 else 3.0,
            markevery=every,
            **{**style, "marker": "" if flat else style["marker"]},
        )
        if not np.array_equal(curve.iterate, curve.middle):
            ax.plot(curve.x, curve.iterate, color=style["color"], linewidth=0.7)
    if panel.log_x:
        ax.set_xscale("log")
        ax.tick_params(axis="x", which="minor", labelbottom=False)
    ax.set_title(panel.title, loc="left", fontsize=7.5, color=INK)
    ax.set_xlabel(panel.xlabel, fontsize=7.5, labelpad=1)
    ax.grid(visible=True, color="#E4E4E4", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=6.5)


PAGE = 9.6
"""Width of a figure in inches: at page width its smallest letters stay readable."""
ACROSS = 4
"""Panels in a line of a map."""
LEGEND = 0.8
"""Inches for a legend in four columns below the panels."""


@dataclass(frozen=True, slots=True)
class Look:
    """Colours of a kind of number: the same limits in every figure, and dark is always good."""

    limits: tuple[float, float]
    low_is_good: bool = True
    log: bool = False


ERRORS = Look((-8.0, 0.5))
"""log10 error. Errors below 1e-8 have the darkest colour; the number in the cell says more."""
SHARE_GOOD = Look((0.0, 1.0), low_is_good=False)
SHARE_FAILED = Look((0.0, 1.0))
SECONDS = Look((1e-3, 100.0), log=True)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """One phase-transition panel: `cells` is (len(y), len(x)), NaN where nothing was run."""

    title: str
    cells: FloatArray
    below: str = ""
    predicted: FloatArray | None = None
    """1 where recovery is predicted, 0 where not; a line is drawn between the two."""


def draw_grids(
    lines: Sequence[Sequence[Grid]],
    *,
    x: tuple[str, Sequence[str]],
    y: tuple[str, Sequence[str]],
    title: str,
    scale: str,
    note: str,
    look: Look,
) -> Any:
    """Return a figure of phase-transition panels on one grey-safe scale, each cell with its number.

    One line per method, at most four panels across. A cell without a number is hatched. The colour
    only sorts; the number says.
    """
    from matplotlib.colors import LogNorm, Normalize  # noqa: PLC0415

    norm = (LogNorm if look.log else Normalize)(*look.limits, clip=True)
    if max(map(len, lines)) <= ACROSS // 2:  # few columns: fill the page
        panels = [panel for line in lines for panel in line]
        lines = [panels[i : i + ACROSS] for i in range(0, len(panels), ACROSS)]
    count = len(lines)
    height = (0.19 * len(y[1]) + 0.75) * count + 1.5
    figure = new_figure(PAGE, height, dpi=110)
    axes = figure.subplots(count, ACROSS, squeeze=False)
    image = None
    for i, row in enumerate(lines):
        for j, ax in enumerate(axes[i]):
            if j >= len(row):
                ax.set_axis_off()
                continue
            image = _draw_grid(ax, row[j], x, y, norm, look)
            if j:
                ax.set_ylabel("")
    _frame(figure, title, note)
    # A share has no values beyond 0 and 1; errors and times have.
    ends = "neither" if look.limits == (0.0, 1.0) else "both"
    bar = figure.colorbar(image, ax=axes, fraction=0.015, pad=0.01, aspect=60, extend=ends)
    bar.set_label(scale, fontsize=8.5)
    bar.ax.tick_params(labelsize=8)
    return figure


def _draw_grid(
    ax: Any,
    panel: Grid,
    x: tuple[str, Sequence[str]],
    y: tuple[str, Sequence[str]],
    norm: Any,
    look: Look,
) -> Any:
    ax.set_facecolor("white")
    colours = "viridis" if look.low_is_good else "viridis_r"
    image = ax.imshow(panel.cells, origin="lower", aspect="auto", cmap=colours, norm=norm)
    for i, j in np.ndindex(*panel.cells.shape):
        value = float(panel.cells[i, j])
        if not isfinite(value):
            ax.add_patch(_hatched(j, i))
            continue
        depth = float(norm(value))
        dark = (depth if look.low_is_good else 1.0 - depth) < 0.55
        text = _cell_text(value, log=look.log)
        ax.text(
            j, i, text, ha="center", va="center", fontsize=6, color="white" if dark else "black"
        )
    if panel.predicted is not None:
        segments = boundary_segments(panel.predicted)
        for color, line_width in (("white", 3.6), (VERMILION, 2.0)):
            for start, end in segments:
                ax.plot(*zip(start, end, strict=True), color=color, linewidth=line_width)
    ax.set_xticks(range(len(x[1])), x[1], fontsize=6.5)
    ax.set_yticks(range(len(y[1])), y[1], fontsize=6.5)
    ax.set_xlabel(x[0], fontsize=7.5, labelpad=1)
    ax.set_ylabel(y[0], fontsize=7.5, labelpad=1)
    head = panel.title + (f"\n{panel.below}" if panel.below else "")
    ax.set_title(head, loc="left", fontsize=7.5, color=INK)
    return image


def _cell_text(value: float, *, log: bool) -> str:
    """Return a number that fits into a cell."""
    if log:
        return f"{value:.1g}"
    return f"{value:.{2 if abs(value) < 1 else 1 if abs(value) < 9.95 else 0}f}"


def boundary_segments(
    predicted: FloatArray,
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the edges between cells with 1 and cells with 0, as segments in cell coordinates."""
    rows, columns = predicted.shape
    segments = []
    for i, j in np.ndindex(rows, columns):
        here = predicted[i, j]
        right = predicted[i, j + 1] if j + 1 < columns else here
        above = predicted[i + 1, j] if i + 1 < rows else here
        if {here, right} == {0.0, 1.0}:
            segments.append(((j + 0.5, i - 0.5), (j + 0.5, i + 0.5)))
        if {here, above} == {0.0, 1.0}:
            segments.append(((j - 0.5, i + 0.5), (j + 0.5, i + 0.5)))
    return segments


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
    figure = new_figure(PAGE, 2.5 * lines + 1.5, dpi=85)  # many points make large files
    axes = figure.subplots(lines, width, squeeze=False)
    codes = np.asarray(country)
    colours = _map_colours(places)
    for ax, panel in zip(axes.flat, panels, strict=False):
        ax.scatter(*panel.points.T, s=3, c=colours, alpha=0.55, linewidths=0)
        for spot, code in label_spots(panel.points, codes):
            ax.text(*spot, code, fontsize=7, ha="center", va="center", fontweight="bold")
        ax.set_title(panel.title, loc="left", fontsize=7.5, color=INK)
        ax.set_xlabel(panel.below, fontsize=7, loc="left")
        ax.set(xticks=[], yticks=[])
        for side in ax.spines.values():
            side.set_color("#C8C8C8")
    for ax in list(axes.flat)[len(panels) :]:
        ax.set_axis_off()
    _frame(figure, title, note)
    return figure


LABEL_ROOM = (0.12, 0.085)
"""A label takes this part of a panel's width and height."""


def label_spots(points: FloatArray, codes: Any) -> list[tuple[FloatArray, str]]:
    """Return where to write the letters of each country, the most people first.

    A country with fewer than 8 people gets no letters, nor one whose letters would overlap those
    of a larger country.
    """
    names, counts = np.unique(codes, return_counts=True)
    room = np.ptp(points, axis=0) * np.asarray(LABEL_ROOM)
    placed: list[tuple[FloatArray, str]] = []
    for k in np.argsort(-counts, kind="stable"):
        spot = np.median(points[codes == names[k]], axis=0)
        free = all((np.abs(spot - other) >= room).any() for other, _ in placed)
        if counts[k] >= 8 and free:
            placed.append((spot, str(names[k])))
    return placed


def _map_colours(places: FloatArray) -> FloatArray:
    """Return a colour a person: hue from west to east, darker to the south."""
    import matplotlib as mpl  # noqa: PLC0415

    spread = (places - places.min(axis=0)) / np.ptp(places, axis=0)
    colours: FloatArray = mpl.colormaps["turbo"](0.05 + 0.9 * np.clip(spread[:, 0] * 1.4, 0, 1))
    colours[:, :3] *= (0.55 + 0.45 * spread[:, 1])[:, None]
    return colours


def _frame(figure: Any, title: str, note: str, more: float = 0.0) -> float:
    """Put the title above and the note below, and the panels between.

    `more` inches stay free between panels and note; returns where they begin, seen from above.
    """
    height, width = float(figure.get_figheight()), float(figure.get_figwidth())
    text = fill(note, int(16.5 * width), break_on_hyphens=False)
    below = 0.16 * (text.count("\n") + 1) + 0.12
    bottom = (below + more) / height
    rect = (0.005, bottom, 0.99, 1.0 - bottom - 0.42 / height)
    figure.set_layout_engine("constrained", rect=rect)
    left = 0.12 / width
    figure.text(left, 1 - 0.12 / height, title, va="top", fontsize=11, fontweight="bold", color=INK)
    figure.text(
        left,
        (below - 0.06) / height,
        text,
        va="top",
        fontsize=7.5,
        color=GREY,
        linespacing=1.35,
    )
    return bottom


def grid_of(
    rows: Sequence[Mapping[str, Any]],
    x: tuple[str, Sequence[Any]],
    y: tuple[str, Sequence[Any]],
    value: str,
) -> FloatArray:
    """Return a column of a table as an array (len(y), len(x)), NaN where there is nothing."""
    cells = np.full((len(y[1]), len(x[1])), np.nan)
    for row in rows:
        if row.get(value) is not None:
            cells[y[1].index(row[y[0]]), x[1].index(row[x[0]])] = row[value]
    return cells
