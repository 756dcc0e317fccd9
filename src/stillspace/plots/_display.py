"""What all displays share, after scikit-learn's: data in fields, `plot(ax=None)`, `ax_`."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stillspace.estimators import RobustPCA
from stillspace.estimators._base import SubspaceEstimator
from stillspace.plots._figure import VERMILION, new_axes


class Display:
    """A picture as data; `plot` draws it on given axes, or on those of a new figure.

    After `plot` the axes are `ax_` and their figure is `figure_`, as with scikit-learn's displays.
    """

    size: ClassVar[tuple[float, float]] = (6.4, 4.4)
    """Of a new figure, in inches."""
    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure, and return this display."""
        self.ax_ = new_axes(*self.size) if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError


def checked_fit(fit: Any) -> SubspaceEstimator:
    """Return a fitted estimator of this library, or raise."""
    if not isinstance(fit, SubspaceEstimator):
        msg = f"This picture needs a fitted estimator of stillspace, got {type(fit).__name__}."
        raise TypeError(msg)
    check_is_fitted(fit)
    return fit


def column_names(fit: SubspaceEstimator) -> list[str]:
    """Return the names of the columns that the components have, or their numbers."""
    width = fit.components_.shape[1]
    names = getattr(fit, "feature_names_in_", None)
    if fit.sketch_ is not None:
        return [f"sketched {j}" for j in range(width)]
    return [str(name) for name in (np.arange(width) if names is None else names)]


def row_mark(fit: Any) -> str:
    """Return what a picture of rows must say if the rows are those of a private fit."""
    return "" if isinstance(fit, RobustPCA) else "shows rows: not private"


def draw_mark(ax: Any, text: str) -> None:
    """Write across the whole picture, if there is something to write."""
    if text:
        ax.text(0.5, 0.5, text, transform=ax.transAxes, fontsize=20, rotation=25, ha="center",
                va="center", color=VERMILION, alpha=0.45, zorder=9)  # fmt: skip
