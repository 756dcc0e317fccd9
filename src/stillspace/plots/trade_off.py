"""An audit as a picture: what an adversary may achieve by the claim, and what one did achieve."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np

from stillspace._typing import FloatArray
from stillspace.audit import AuditReport, Claim
from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, new_figure

_POINTS = 400
_CURVE_POINTS = 60
_BAND = 1.96


def draw_trade_off(report: AuditReport) -> Any:
    """Return a figure with the claimed and the empirical trade-off, as they are and magnified.

    Left, false negatives against false positives; right, what both leave to certainty,
    1 − FPR − FNR: no test of a mechanism that keeps its claim lies above the line on average.
    The band is ±1.96 standard errors at each point; it does not hold for all of them together,
    and the bounds in the report do not come from it.
    """
    fpr, fnr = report.rates()
    claimed = np.linspace(0.0, 1.0, _POINTS)
    least = _claimed_errors(report.claim, claimed)
    figure = new_figure(9.0, 4.9)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.075, right=0.98, top=0.83, bottom=0.22, wspace=0.24)
    left.fill_between(claimed, 0.0, least, color=ORANGE, alpha=0.14, linewidth=0)
    left.plot(claimed, 1.0 - claimed, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)))
    left.plot(claimed, least, color=BLUE, linewidth=2.0)
    left.plot(fpr, fnr, color=INK, linewidth=1.4)
    left.text(0.05, 0.06, "below the line: more than is claimed", color=GREY, fontsize=8.5)
    left.set(xlim=(0, 1), ylim=(0, 1), ylabel="false-negative rate")
    error = _standard_error(report, fpr, fnr)
    gain = 1.0 - fpr - fnr
    right.axhline(0.0, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)), label="guessing")
    right.plot(claimed, 1.0 - claimed - least, color=BLUE, linewidth=2.0, label="claimed, at most")
    right.fill_between(
        fpr, gain - _BAND * error, gain + _BAND * error, color=INK, alpha=0.14, linewidth=0
    )
    right.plot(fpr, gain, color=INK, linewidth=1.4, label="this attack")
    right.set(xlim=(0, 1), ylabel="gain over guessing, 1 − FPR − FNR")
    for ax in (left, right):
        ax.set_xlabel("false-positive rate", color=INK, fontsize=9)
        ax.tick_params(labelsize=8, colors=GREY)
        for side in ax.spines.values():
            side.set_color("#C8C8C8")
    right.legend(frameon=False, fontsize=9, loc="upper right")
    low, high = right.get_ylim()
    right.set_ylim(low, high + 0.28 * (high - low))  # room for the legend
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
    least = np.zeros_like(fpr)
    for epsilon, delta in pairs:
        shrink = np.exp(-min(epsilon, 700.0))
        both = (1.0 - delta - fpr / shrink, shrink * (1.0 - delta - fpr))
        least = np.maximum(least, np.maximum(*both))
    return np.asarray(least)


def _standard_error(report: AuditReport, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
    coins = report.coins[report.counted_from :]
    positives = max(int(coins.sum()), 1)
    negatives = max(len(coins) - positives, 1)
    return np.asarray(np.sqrt(fpr * (1 - fpr) / negatives + fnr * (1 - fnr) / positives))
