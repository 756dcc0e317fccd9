"""The picture of `stillspace plan`: expected error against ε and against the number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from stillspace._checks import LARGEST_EPSILON
from stillspace.methods.newton import NEWTON_RULE
from stillspace.plots._display import Display
from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, new_figure, tidy
from stillspace.prediction import USEFUL, Prediction

Fact: TypeAlias = Literal["epsilon", "n"]
FACTORS = np.geomspace(0.05, 20.0, 61)


@dataclass(eq=False)
class PlannerDisplay(Display):
    """The error that a private fit will have, over ε or over the number of rows.

    Examples
    --------
    >>> from stillspace.plots import PlannerDisplay
    >>> from stillspace.prediction import predict
    >>> display = PlannerDisplay.from_prediction(predict(5000, 20, 2, epsilon=1.0))
    >>> bool(display.errors[0] > display.errors[-1])
    True
    """

    at: Prediction
    fact: Fact
    values: list[float]
    predictions: list[Prediction]

    @classmethod
    def from_prediction(cls, at: Prediction, over: Fact = "epsilon", *, ax: Any = None) -> Self:
        """Draw the errors around a prediction; the point is the prediction itself."""
        if over not in ("epsilon", "n"):
            raise ValueError(f"over must be 'epsilon' or 'n', got {over!r}.")
        here = getattr(at, over)
        values = [value for value in here * FACTORS if over == "n" or value <= LARGEST_EPSILON]
        if over == "n":
            values = sorted({max(2, round(value)) for value in values})
        found = [at.changed(**{over: value}) for value in values]
        return cls(at, over, values, found).plot(ax)

    @property
    def errors(self) -> list[float]:
        """d² of algorithm="auto"."""
        return [found.error for found in self.predictions]

    def _draw(self, ax: Any) -> None:
        pca = [found.pca_error for found in self.predictions]
        most = self.at.r * pi**2 / 4.0
        ax.plot(self.values, self.errors, color=BLUE, lw=2.0, label='algorithm="auto"')
        ax.plot(self.values, pca, color=ORANGE, ls="--", label="private PCA, outliers on all sides")
        ax.axhline(USEFUL, color=GREY, lw=0.8, ls=":", label="useful up to here")
        ax.axhline(most, color=GREY, lw=0.8)
        ax.text(1.0, 1.05 * most, "the largest possible error", fontsize=8, color=GREY,
                ha="right", va="bottom", transform=ax.get_yaxis_transform())  # fmt: skip
        here = getattr(self.at, self.fact)
        ax.plot([here], [self.at.error], "o", color=INK, ms=6, label="this plan")
        weak = [
            v
            for v, p in zip(self.values, self.predictions, strict=True)
            if p.kappa < NEWTON_RULE.weak
        ]
        if weak:
            ax.axvspan(self.values[0], weak[-1], color=GREY, alpha=0.1, lw=0)
            ax.text(0.03, 0.04, "grey: budget too small for robust steps", fontsize=8, color=GREY,
                    transform=ax.transAxes)  # fmt: skip
        self._mark_units(ax)
        ax.set(xscale="log", yscale="log", xlim=(self.values[0], self.values[-1]))
        name = "ε" if self.fact == "epsilon" else "rows"
        tidy(ax, x=name, y="expected squared error d²")
        ax.set_ylim(min(self.errors) / 6.0, 2.5 * most)
        ax.legend(frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(1.0, 0.92))

    def _mark_units(self, ax: Any) -> None:
        """Mark where centre and scale begin to be found privately: both curves step up there."""
        found = [prediction.units_share > 0.0 for prediction in self.predictions]
        if not any(found) or all(found):
            return
        at = self.values[found.index(True)]
        ax.axvline(at, color=GREY, lw=0.8, ls="-.")
        ax.text(at, 0.02, " from here: private\n centre and scale", fontsize=8, color=GREY,
                transform=ax.get_xaxis_transform())  # fmt: skip


def draw_expected_error(prediction: Prediction) -> Any:
    """Return a figure of two panels: d² over ε at this n, and over n at this ε."""
    figure = new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    PlannerDisplay.from_prediction(prediction, "epsilon", ax=left)
    PlannerDisplay.from_prediction(prediction, "n", ax=right)
    right.set_ylabel("")
    right.get_legend().remove()
    title = (
        f"{prediction.n} rows × {prediction.D} columns, {prediction.r} components, "
        f"{prediction.inlier_share:.0%} inliers, noise {prediction.inlier_noise:g}"
    )
    figure.suptitle(title, fontsize=10, color=INK)
    figure.tight_layout()
    return figure
