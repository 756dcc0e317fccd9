"""What all pictures share: figures without a display, and a palette for every eye."""

from __future__ import annotations

import io
from typing import Any

# Okabe and Ito (2008): told apart with any common kind of colour blindness.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
INK = "#1A1A1A"
GREY = "#5F5F5F"


def new_figure(width: float, height: float, dpi: int = 150) -> Any:
    """Return an empty matplotlib figure of this size in inches; no window, no global state."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  (an extra, and slow to import)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        msg = 'Pictures need matplotlib: pip install "stillspace[plots]"'
        raise ModuleNotFoundError(msg, name="matplotlib") from None
    return Figure(figsize=(width, height), dpi=dpi)


def png(figure: Any) -> bytes:
    """Return the figure as the bytes of a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white")
    return buffer.getvalue()


def svg(figure: Any) -> bytes:
    """Return the figure as the bytes of an SVG, the same for the same figure."""
    import matplotlib as mpl  # noqa: PLC0415

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "stillspace", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    return buffer.getvalue()
