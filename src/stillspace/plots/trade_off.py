"""An audit as a picture: what an adversary may achieve by the claim, and what one did achieve."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from textwrap import fill
from typing import Any, Self

import numpy as np

from stillspace._typing import FloatArray
from stillspace.audit import AuditReport, Claim
from stillspace.plots._display import Display
from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, new_figure, tidy

_POINTS = 400
_CURVE_POINTS = 60
_CHANCE = 0.05
"""The probability with which an attack on a mechanism that keeps its claim enters the region."""


@dataclass(eq=False)
class AuditDisplay(Display):
    """What an attack gained over guessing, 1 − FPR − FNR, and what the claim allows.

    No test of a mechanism that keeps its claim lies above the claimed line on average. A finite
    number of runs scatters around that average. So the region "more than is claimed" begins where
    chance ends: by the inequality of Dvoretzky, Kiefer and Wolfowitz both error rates are within
    their margins at all thresholds together, but for 5 % of audits. The bounds of the report do
    not come from this region.
    """

    report: AuditReport

    @classmethod
    def from_report(cls, report: AuditReport, *, ax: Any = None) -> Self:
        """Draw an audit (`stillspace.audit.audit`)."""
        return cls(report).plot(ax)

    @property
    def margins(self) -> tuple[float, float]:
        """How far chance moves the false-positive and the false-negative rate."""
        coins = self.report.coins[self.report.counted_from :]
        ones = int(coins.sum())
        counts = max(len(coins) - ones, 1), max(ones, 1)
        first, second = (sqrt(log(4.0 / _CHANCE) / (2.0 * count)) for count in counts)
        return first, second

    def beyond_chance(self, fpr: FloatArray) -> FloatArray:
        """Return the false-negative rates below which chance does not explain an attack."""
        positive, negative = self.margins
        return np.asarray(_claimed_errors(self.report.claim, fpr + positive) - negative)

    def _draw(self, ax: Any) -> None:
        fpr, fnr = self.report.rates()
        grid = np.linspace(0.0, 1.0, _POINTS)
        least = _claimed_errors(self.report.claim, grid)
        edge = 1.0 - grid - np.maximum(self.beyond_chance(grid), 0.0)
        ax.axhline(0.0, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)), label="guessing")
        ax.plot(grid, 1.0 - grid - least, color=BLUE, linewidth=2.0, label="claimed, at most")
        ax.plot(fpr, 1.0 - fpr - fnr, color=INK, linewidth=1.4, label="this attack")
        top = 1.25 * max(float(np.max(1.0 - fpr - fnr)), float(np.max(edge)), 0.05)
        ax.fill_between(grid, edge, np.maximum(edge, top), color=ORANGE, alpha=0.16, linewidth=0,
                        label="more than is claimed, beyond chance")  # fmt: skip
        ax.set(xlim=(0, 1), ylim=(min(float(np.min(1.0 - fpr - fnr)), 0.0) - 0.02, top))
        ax.legend(frameon=False, fontsize=8, loc="upper right")
        tidy(ax, x="false-positive rate", y="gain over guessing, 1 − FPR − FNR")


def draw_trade_off(report: AuditReport) -> Any:
    """Return a figure with the claimed and the empirical trade-off, as they are and magnified.

    Left, false negatives against false positives; right, what both leave to certainty
    (`AuditDisplay`).
    """
    fpr, fnr = report.rates()
    claimed = np.linspace(0.0, 1.0, _POINTS)
    display = AuditDisplay(report)
    figure = new_figure(9.0, 4.9)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.075, right=0.98, top=0.83, bottom=0.22, wspace=0.24)
    limit = np.clip(display.beyond_chance(claimed), 0.0, 1.0)
    left.fill_between(claimed, 0.0, limit, color=ORANGE, alpha=0.16, linewidth=0)
    left.plot(claimed, 1.0 - claimed, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)))
    left.plot(claimed, _claimed_errors(report.claim, claimed), color=BLUE, linewidth=2.0)
    left.plot(fpr, fnr, color=INK, linewidth=1.4)
    left.set(xlim=(0, 1), ylim=(0, 1))
    tidy(left, x="false-positive rate", y="false-negative rate")
    display.plot(right)
    title = (
        f"Audit: epsilon is at least {report.epsilon:.3g}, claimed is {report.claim.epsilon:.3g}"
    )
    figure.text(0.03, 0.955, title, va="top", fontsize=13.5, fontweight="bold", color=INK)
    about = f"{report.mechanism}; {report.adversary} adversary; δ = {report.claim.delta:.3g}"
    figure.text(0.03, 0.895, about, va="top", fontsize=9, color=GREY)
    text = f"{report.runs} runs. {report.verdict}"
    figure.text(0.03, 0.105, fill(text, 150), va="top", fontsize=8, color=GREY, linespacing=1.4)
    return figure


def _claimed_errors(claim: Claim, fpr: FloatArray) -> FloatArray:
    """Return the smallest false-negative rate that the claim allows at each false-positive rate.

    f(α) = max over (ε, δ) of 1 − δ − e^ε α and e^−ε (1 − δ − α) (Dong, Roth and Su 2022).
    """
    pairs = [(claim.epsilon, claim.delta)]
    curve = claim.curve
    if curve is not None and np.isfinite(claim.epsilon):
        grid = np.linspace(0.0, 2.0 * claim.epsilon, _CURVE_POINTS)
        pairs += [(float(e), curve.get_delta(float(e))) for e in grid]
    fpr = np.minimum(fpr, 1.0)
    least = np.zeros_like(fpr)
    for epsilon, delta in pairs:
        shrink = np.exp(-min(epsilon, 700.0))
        both = (1.0 - delta - fpr / shrink, shrink * (1.0 - delta - fpr))
        least = np.maximum(least, np.maximum(*both))
    return np.asarray(least)
