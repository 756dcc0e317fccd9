"""What all pictures share: figures without a display, axes, and a palette for every eye."""

from __future__ import annotations

import io
from typing import Any

# Okabe and Ito (2008): told apart with any common kind of colour blindness.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
INK = "#1A1A1A"
GREY = "#5F5F5F"


def new_figure(width: float, height: float, dpi: int = 150) -> Any:
    """Return an empty matplotlib figure of this size in inches; no window, no global state.

    It shows itself in a notebook, also where nothing else has loaded matplotlib.
    """
    figure_class = _matplotlib("matplotlib.figure").Figure
    figure = figure_class(figsize=(width, height), dpi=dpi)
    figure._repr_png_ = lambda: png(figure)
    return figure


def new_axes(width: float, height: float) -> Any:
    """Return the axes of a new pyplot figure, as scikit-learn's displays do."""
    pyplot = _matplotlib("matplotlib.pyplot")
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def tidy(ax: Any, *, x: str = "", y: str = "", title: str = "") -> None:
    """Label axes in the common style: grey ticks, no frame on the right and above."""
    if x:
        ax.set_xlabel(x, color=GREY)
    if y:
        ax.set_ylabel(y, color=GREY)
    if title:
        ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    ax.tick_params(colors=GREY, which="both")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def png(figure: Any) -> bytes:
    """Return the figure as the bytes of a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white")
    return buffer.getvalue()


def _matplotlib(name: str) -> Any:
    """Import a module of matplotlib, an extra that is slow to import."""
    from importlib import import_module  # noqa: PLC0415

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        msg = 'Pictures need matplotlib: pip install "stillspace[plots]"'
        raise ModuleNotFoundError(msg, name="matplotlib") from None
