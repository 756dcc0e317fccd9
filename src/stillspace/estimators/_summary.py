"""What a fit found, as names and values: for `summary()`, notebooks, `show` and the report."""

from __future__ import annotations

from math import degrees, isnan, sqrt
from typing import Any

import numpy as np

Facts = list[tuple[str, str]]

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.975)
"""Levels of `distance_quantiles_`."""


def facts_of(fit: Any) -> Facts:
    """Return what there is to say of a fitted estimator: public facts and releases.

    A fit that was read from a file may know less than one that was made here.
    """
    r, D = fit.components_.shape
    where = f"{D} columns" if fit.sketch_ is None else f"{D} columns of a public sketch"
    facts: Facts = [("components", f"{r} of {where}")]
    return [*facts, *(_private(fit) if hasattr(fit, "route_") else _robust(fit))]


def _robust(fit: Any) -> Facts:
    facts = []
    if hasattr(fit, "explained_variance_"):
        ratio = fit.explained_variance_ratio_
        facts = [
            ("explained variance", numbers(fit.explained_variance_)),
            ("explained ratio", f"{numbers(ratio)} (together {float(np.sum(ratio)):.1%})"),
            ("noise variance", f"{fit.noise_variance_:.3g} per direction across the subspace"),
        ]
    facts.append(("passes", str(fit.n_iter_)))
    facts.append(("converged", "yes" if fit.converged_ else "no"))
    if getattr(fit, "clumps_", ()):
        shares = ", ".join(f"{clump.share:.1%}" for clump in fit.clumps_)
        facts.append(("groups of nearly equal rows", f"{shares} of the rows; each counted as one"))
    doubt = fit._doubt() if hasattr(fit, "_prominence") else None
    if doubt is not None:
        facts.append(("doubt", doubt))
    facts.append(("privacy", "no guarantee: RobustPCA adds no noise"))
    return facts


def _private(fit: Any) -> Facts:
    facts = [("privacy", repr(fit.privacy_).removeprefix("Guarantee"))]
    if fit.route_:
        facts.append(("route", fit.route_.partition("; ")[0]))
    return [*facts, *released_words(fit)]


def released_words(fit: Any) -> Facts:
    """Return what a private fit released besides the subspace, each with what it means."""
    facts: Facts = []
    if hasattr(fit, "error_meaning_"):
        facts.append(("accuracy", _error(fit.error_estimate_) + fit.error_meaning_))
    facts += [
        (
            "left out",
            f"A group of about {group.share:.1%} of the rows (± {2 * group.sd:.1%}) lies close "
            "together and was left out as outliers. If it is a real minority, the "
            "result does not describe it; groups='keep' (--groups keep) keeps all rows.",
        )
        for group in getattr(fit, "left_out_", ())
    ]
    if len(getattr(fit, "dropped_columns_", ())):
        names = column_names(fit)
        dropped = ", ".join(names[j] for j in fit.dropped_columns_)
        facts.append(("dropped columns", f"{dropped}: no scale could be found for them."))
    if getattr(fit, "pair_cut_", None) is not None:
        words = f"Pairs of rows whose difference is {fit.pair_cut_:.3g} or longer were left out."
        facts.append(("pairs", words))
    if getattr(fit, "variances_", None) is not None:
        facts.append(("variances", f"{numbers(fit.variances_)} along the components."))
    quantiles = getattr(fit, "distance_quantiles_", None)
    if quantiles is not None:
        pairs = zip(QUANTILES, quantiles, strict=True)
        words = ", ".join(f"{100 * level:g} % within {value:.3g}" for level, value in pairs)
        hidden = "Not known: the noise hides all counts."
        known = f"Distances from the subspace, of rows scaled to length 1: {words}."
        facts.append(("distances", hidden if np.isnan(quantiles).any() else known))
    if getattr(fit, "certificate_", None) is not None:
        facts.append(("certificate", str(fit.certificate_)))
    return facts


def _error(d2: float) -> str:
    """Return an estimated error in words; nothing if it is not known."""
    if isnan(d2):
        return ""
    angle = degrees(sqrt(max(d2, 0.0)))
    size = f"d² ≈ {d2:.2g}, up to about {2 * d2:.2g}"
    return f"Noise turned the directions by an estimated {angle:.2g}° ({size}). "


def column_names(fit: Any) -> list[str]:
    """Return the names in the fit, or numbers from 1 where it has none."""
    names = getattr(fit, "feature_names_in_", None)
    if names is None:
        return [f"column {j + 1}" for j in range(fit.n_features_in_)]
    return [str(name) for name in names]


def numbers(values: Any, most: int = 8) -> str:
    """Return a few numbers with three digits."""
    first = ", ".join(f"{value:.3g}" for value in values[:most])
    return first + (", …" if len(values) > most else "")
