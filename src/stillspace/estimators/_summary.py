"""What a fit found, as names and values: for `summary()` and for notebooks."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

Facts = list[tuple[str, str]]


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
            ("as a part of all", f"{numbers(ratio)} (together {float(np.sum(ratio)):.1%})"),
            ("noise across", f"{fit.noise_variance_:.3g} per direction"),
        ]
    facts.append(("passes", str(fit.n_iter_)))
    facts.append(("converged", "yes" if fit.converged_ else "no"))
    if getattr(fit, "clumps_", ()):
        shares = ", ".join(f"{clump.share:.1%}" for clump in fit.clumps_)
        facts.append(("groups of nearly equal rows", f"{shares} of the rows; each counted as one"))
    facts.append(("privacy", "none is promised: RobustPCA reads the rows as they are"))
    return facts


def _private(fit: Any) -> Facts:
    guarantee = fit.privacy_
    error = fit.error_estimate_
    facts = [("privacy", repr(guarantee).removeprefix("Guarantee"))]
    if fit.route_:
        facts.append(("route", fit.route_.partition("; ")[0]))
    facts.append(
        ("error d²", ("" if isnan(error) else f"about {error:.2g}. ") + fit.error_meaning_)
    )
    for group in getattr(fit, "left_out_", ()):
        words = f"a group of {group.share:.1%} of the rows (± {2 * group.sd:.1%})"
        facts.append(("left out", words))
    if len(getattr(fit, "dropped_columns_", ())):
        facts.append(("dropped columns", ", ".join(map(str, fit.dropped_columns_))))
    if fit.pair_cut_ is not None:
        facts.append(("pairs left out", f"of length {fit.pair_cut_:.3g} and more"))
    if fit.variances_ is not None:
        facts.append(("variances", numbers(fit.variances_)))
    if fit.distance_quantiles_ is not None:
        facts.append(("distance quantiles", numbers(fit.distance_quantiles_)))
    return facts


def numbers(values: Any, most: int = 8) -> str:
    """Return a few numbers with three digits."""
    first = ", ".join(f"{value:.3g}" for value in values[:most])
    return first + (", …" if len(values) > most else "")
