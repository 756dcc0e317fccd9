"""What the components are made of, and how much they hold: loadings, scree plot, profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from stillspace._typing import FloatArray
from stillspace.plots._display import Display, checked_fit, column_names
from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, tidy
from stillspace.search import DimensionProfile


@dataclass(eq=False)
class LoadingsDisplay(Display):
    """The largest loadings of one component, as bars. Loadings of a private fit are released.

    Examples
    --------
    >>> from stillspace import PrivateRobustPCA
    >>> from stillspace.datasets import make_haystack
    >>> from stillspace.plots import LoadingsDisplay
    >>> X = make_haystack(2000, 6, 2, random_state=0).X
    >>> fit = PrivateRobustPCA(2, epsilon=1.0).fit(X)
    >>> LoadingsDisplay.from_estimator(fit, component=0).loadings.shape
    (6,)
    """

    loadings: FloatArray
    """(D,)."""
    columns: list[str]
    component: int = 0
    shown: int = 15
    """Number of columns with a bar."""

    @classmethod
    def from_estimator(
        cls, fit: Any, *, component: int = 0, shown: int = 15, ax: Any = None
    ) -> Self:
        """Draw the `shown` largest loadings of a component (numbers from 0)."""
        fit = checked_fit(fit)
        if not 0 <= component < len(fit.components_):
            msg = f"component must be 0 to {len(fit.components_) - 1}, got {component!r}."
            raise ValueError(msg)
        return cls(fit.components_[component], column_names(fit), component, shown).plot(ax)

    def _draw(self, ax: Any) -> None:
        order = np.argsort(np.abs(self.loadings))[::-1][: self.shown][::-1]
        values, names = self.loadings[order], [self.columns[j] for j in order]
        ax.barh(names, values, color=np.where(values >= 0, BLUE, ORANGE), height=0.7)
        ax.axvline(0.0, color=INK, linewidth=0.8)
        tidy(ax, x=f"loading on component {self.component + 1}")


@dataclass(eq=False)
class ScreeDisplay(Display):
    """The variance along each component, and the noise across them where it is known.

    For a private fit these are `variances_`, which the summary "variances" buys.
    """

    variances: FloatArray
    noise: float | None = None
    name: str = "explained variance"

    @classmethod
    def from_estimator(cls, fit: Any, *, ax: Any = None) -> Self:
        """Draw the variances of a fit."""
        fit = checked_fit(fit)
        if hasattr(fit, "variances_"):
            if fit.variances_ is None:
                raise ValueError(
                    "This private fit has no variances: they are a release of their own. Fit with "
                    'summaries=("variances",) to buy them.'
                )
            return cls(fit.variances_, None, "variance of the scaled rows, with noise").plot(ax)
        return cls(fit.explained_variance_, fit.noise_variance_).plot(ax)

    def _draw(self, ax: Any) -> None:
        numbers = np.arange(1, len(self.variances) + 1)
        ax.plot(numbers, self.variances, color=BLUE, marker="o", linewidth=1.6)
        if self.noise is not None:
            ax.axhline(self.noise, color=GREY, linestyle=":", linewidth=1.2)
            words = "noise per direction across the subspace"
            ax.text(1.0, self.noise, words, ha="right", va="bottom", fontsize=8, color=GREY,
                    transform=ax.get_yaxis_transform())  # fmt: skip
        ax.set_ylim(bottom=0.0)
        ax.set_xticks(numbers)
        tidy(ax, x="component", y=self.name)


@dataclass(eq=False)
class DimensionDisplay(Display):
    """How distances fall with the number of components: the profile of n_components="auto"."""

    profile: DimensionProfile

    @classmethod
    def from_estimator(cls, fit: Any, *, ax: Any = None) -> Self:
        """Draw the profile of a `RobustPCA(n_components="auto")`."""
        profile = getattr(checked_fit(fit), "profile_", None)
        if profile is None:
            raise ValueError("This fit has no profile; fit RobustPCA(n_components='auto').")
        return cls(profile).plot(ax)

    def _draw(self, ax: Any) -> None:
        found, r = self.profile, self.profile.n_components
        ax.semilogy(found.ranks, found.distances, color=BLUE, marker="o", linewidth=1.6)
        ax.semilogy([r], [found.distances[r]], color=ORANGE, marker="o", markersize=11)
        ax.xaxis.get_major_locator().set_params(integer=True)
        tidy(ax, x="components", y=f"orthogonal distance, {found.quantile:.0%} quantile")
