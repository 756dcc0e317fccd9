"""Subspaces seen edge-on: the true one lies flat, and a wrong one leans towards the outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt

from stillspace._typing import FloatArray
from stillspace.plots._figure import BLUE, GREEN, GREY, INK, ORANGE, new_figure

_SHOWN = 1500
"""Rows drawn: enough to see the shape, few enough to see the lines."""

# In inches: the figure's width, and the height of its head, of a line of panels and of its foot.
_WIDTH, _HEAD, _LINE, _FOOT = 9.0, 1.1, 2.85, 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One subspace, with the words above it."""

    title: str
    verdict: str
    components: FloatArray
    """(r, D), orthonormal rows."""


def draw_side_views(
    X: FloatArray,
    inliers: npt.NDArray[np.bool_],
    truth: FloatArray,
    panels: Sequence[Panel],
    *,
    title: str,
    note: str,
) -> Any:
    """Return a figure with one panel a subspace, two in a line, all showing the same rows.

    `truth` (r, D) is the true subspace. The view is the plane of the mean outlier: across, its
    direction inside the truth; upwards, its direction away from it. Each subspace is drawn as the
    line on which it puts the direction across, so that the truth lies flat.
    """
    view = _view(X, inliers, truth)
    lines = -(-len(panels) // 2)
    height = _HEAD + _LINE * lines + _FOOT
    figure = new_figure(_WIDTH, height)
    axes = figure.subplots(lines, 2, sharex=True, sharey=True, squeeze=False)
    edges = {"left": 0.05, "right": 0.98, "top": 1 - _HEAD / height, "bottom": _FOOT / height}
    figure.subplots_adjust(**edges, wspace=0.05, hspace=0.2)
    for panel, ax in zip(panels, axes.flat, strict=False):
        _draw_panel(ax, panel, X @ view.T, inliers, view)
    for ax in axes[-1]:
        ax.set_xlabel("along the true plane", color=GREY, fontsize=9)
    for ax in axes[:, 0]:
        ax.set_ylabel("away from it", color=GREY, fontsize=9)
    for ax in list(axes.flat)[len(panels) :]:
        ax.set_axis_off()
    _write(figure, 1 - 0.16 / height, title, fontsize=13.5, fontweight="bold", color=INK)
    small = fill(note, 140, break_on_hyphens=False)
    _write(figure, (_FOOT - 0.42) / height, small, fontsize=8, color=GREY)
    _legend(figure, axes[0, 0], 1 - 0.4 / height)
    return figure


def _write(figure: Any, top: float, text: str, **style: Any) -> None:
    figure.text(0.05, top, text, va="top", linespacing=1.4, **style)


def _view(X: FloatArray, inliers: npt.NDArray[np.bool_], truth: FloatArray) -> FloatArray:
    """Return two orthonormal rows: the mean outlier's direction in the truth, and away from it."""
    mean = X[~inliers].mean(axis=0)
    inside = mean @ truth.T @ truth
    view = np.stack([inside, mean - inside])
    return np.asarray(view / np.linalg.norm(view, axis=1, keepdims=True))


def _draw_panel(
    ax: Any, panel: Panel, flat: FloatArray, inliers: npt.NDArray[np.bool_], view: FloatArray
) -> None:
    some = slice(0, _SHOWN)  # the rows come in random order
    for rows, colour, label in ((inliers, BLUE, "good rows"), (~inliers, ORANGE, "wrong rows")):
        points = flat[some][rows[some]]
        ax.scatter(*points.T, s=7, color=colour, alpha=0.45, linewidths=0, label=label)
    found = view @ panel.components.T @ panel.components @ view[0]
    ax.axline((0, 0), tuple(found), color=INK, linewidth=2.4, label="the plane that was found")
    ax.axline((0, 0), (1, 0), color=GREEN, linewidth=1.6, linestyle=(0, (4, 3)), label="the truth")
    ax.set_title(panel.title, loc="left", fontsize=11, color=INK, pad=6)
    ax.set_title(panel.verdict, loc="right", fontsize=11, fontweight="bold", color=INK, pad=6)
    ax.set(xlim=(-1.3, 1.3), ylim=(-0.5, 1.08), xticks=[], yticks=[])
    ax.set_aspect("equal")
    for side in ax.spines.values():
        side.set_color("#C8C8C8")


def _legend(figure: Any, ax: Any, top: float) -> None:
    place = {"loc": "upper left", "bbox_to_anchor": (0.035, top), "ncols": 4}
    style = {"frameon": False, "fontsize": 9.5, "handletextpad": 0.5, "columnspacing": 1.6}
    legend = figure.legend(*ax.get_legend_handles_labels(), **place, **style)
    for handle in legend.legend_handles[:2]:
        handle.set_alpha(1.0)
        handle.set_sizes([28])
