"""What is promised, as a curve of ε and δ, and what is left of a budget."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import numpy as np

from stillspace._typing import FloatArray
from stillspace.plots._display import Display, checked_fit
from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, tidy
from stillspace.privacy import Budget, Guarantee

DELTAS = np.geomspace(1e-12, 1e-2, 31)


@dataclass(eq=False)
class PrivacyCurveDisplay(Display):
    """All (ε, δ) that hold for one result at the same time; the stated pair is a point on it.

    Examples
    --------
    >>> from stillspace import PrivatePCA
    >>> from stillspace.datasets import make_haystack
    >>> from stillspace.plots import PrivacyCurveDisplay
    >>> fit = PrivatePCA(2, epsilon=1.0).fit(make_haystack(1000, 6, 2, random_state=0).X)
    >>> display = PrivacyCurveDisplay.from_estimator(fit)
    >>> bool(display.epsilons[0] > display.epsilons[-1])
    True
    """

    deltas: FloatArray
    epsilons: FloatArray
    stated: tuple[float, float] | None = None
    """(ε, δ)."""

    @classmethod
    def from_estimator(cls, fit: Any, *, ax: Any = None) -> Self:
        """Draw the curve of a fitted private estimator."""
        return cls.from_guarantee(checked_fit(fit).privacy_, ax=ax)

    @classmethod
    def from_guarantee(cls, guarantee: Guarantee, *, ax: Any = None) -> Self:
        """Draw the curve of a guarantee; without a promise there is no curve."""
        if not guarantee.private:
            reasons = "; ".join(guarantee.not_private_because)
            raise ValueError(f"No privacy is promised, so there is no curve: {reasons}.")
        assert guarantee.delta is not None
        epsilons = np.array([guarantee.get_epsilon(float(delta)) for delta in DELTAS])
        return cls(DELTAS, epsilons, (guarantee.epsilon, guarantee.delta)).plot(ax)

    def _draw(self, ax: Any) -> None:
        ax.semilogy(self.epsilons, self.deltas, color=BLUE, linewidth=2.0)
        ax.fill_betweenx(self.deltas, 0.0, self.epsilons, color=GREY, alpha=0.1, linewidth=0)
        ax.text(0.04, 0.05, "not promised", transform=ax.transAxes, fontsize=9, color=GREY)
        if self.stated is not None:
            epsilon, delta = self.stated
            ax.plot([epsilon], [delta], "o", color=INK, markersize=6)
            words = f"  stated: ε = {epsilon:.3g}, δ = {delta:.2g}"
            ax.annotate(words, (epsilon, delta), fontsize=9, color=INK, va="bottom")
        right = float(self.epsilons.max())
        ax.set(xlim=(0.0, 1.25 * right), ylim=(self.deltas[0], self.deltas[-1]))
        tidy(ax, x="ε", y="δ")


@dataclass(eq=False)
class BudgetDisplay(Display):
    """The part of a ledger's budget that its fits have spent, over time."""

    times: list[datetime]
    spent: FloatArray
    """Part of the budget after each fit; it adds up, ε does not."""
    names: list[str]
    words: str = ""

    @classmethod
    def from_budget(cls, budget: Budget, *, ax: Any = None) -> Self:
        """Draw the entries of a ledger."""
        entries = budget.entries()
        times = [datetime.fromisoformat(entry.time) for entry in entries]
        words = f"({budget.epsilon:g}, {budget.delta:g}) for all fits together"
        names = [entry.note or entry.name for entry in entries]
        return cls(times, np.cumsum(budget.shares()), names, words).plot(ax)

    def _draw(self, ax: Any) -> None:
        numbers = np.arange(len(self.spent) + 1)
        values = np.concatenate([[0.0], self.spent])
        ax.step(numbers, values, where="post", color=BLUE, linewidth=1.8)
        ax.fill_between(numbers, values, step="post", color=BLUE, alpha=0.12, linewidth=0)
        ax.axhline(1.0, color=ORANGE, linewidth=1.4)
        ax.text(0.02, 1.02, "the whole budget", fontsize=8.5, color=GREY,
                transform=ax.get_yaxis_transform())  # fmt: skip
        for k, name in enumerate(self.names[:12], start=1):
            ax.annotate(name, (k, values[k]), xytext=(-3, 4), textcoords="offset points",
                        ha="right", fontsize=7.5, color=INK)  # fmt: skip
        if self.times:
            span = f"{self.times[0]:%Y-%m-%d} to {self.times[-1]:%Y-%m-%d}"
            tidy(ax, x=f"fits, {span} (UTC)", title=self.words)
        else:
            tidy(ax, x="fits: none yet", title=self.words)
        ax.set(ylim=(0.0, 1.12), xlim=(0.0, max(len(self.spent), 1) + 0.1))
        ax.xaxis.get_major_locator().set_params(integer=True)
        tidy(ax, y="part of the budget spent")
