"""The picture of `stillspace plan`: expected error against ε and against the number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from stillspace._limits import LARGEST_EPSILON
from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, new_figure
from stillspace.prediction import USEFUL, Prediction

FACTORS = np.geomspace(0.05, 20.0, 61)


def draw_expected_error(prediction: Prediction) -> Any:
    """Return a figure of two panels: d² over ε at this n, and over n at this ε."""
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, "epsilon", prediction)
    _panel(right, "n", prediction)
    left.set_ylabel("expected squared error d²")
    left.legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"{prediction.n} rows × {prediction.D} columns, {prediction.r} components, "
        f"{prediction.inlier_share:.0%} inliers, noise {prediction.inlier_noise:g}",
        fontsize=10,
        color=INK,
    )
    figure.tight_layout()
    return figure


def _panel(axes: Any, name: str, at: Prediction) -> None:
    """Draw both methods over one of the facts."""
    here = getattr(at, name)
    values = [value for value in here * FACTORS if name == "n" or value <= LARGEST_EPSILON]
    if name == "n":
        values = sorted({max(2, round(value)) for value in values})
    found = [at.changed(**{name: value}) for value in values]
    limit = at.r * (np.pi / 2) ** 2
    axes.plot(values, np.minimum([p.error for p in found], limit), color=BLUE, label="auto")
    pca = np.minimum([p.pca_error for p in found], limit)
    axes.plot(values, pca, color=ORANGE, ls="--", label="private PCA (no outliers)")
    axes.axhline(USEFUL, color=GREY, lw=0.8, ls=":")
    axes.plot([here], [at.error], "o", color=INK, ms=5)
    axes.set(xscale="log", yscale="log", xlabel="ε" if name == "epsilon" else "rows")
    axes.grid(alpha=0.2)
