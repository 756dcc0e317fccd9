"""What commands say of a model: in words, or as JSON."""

from __future__ import annotations

from math import isnan
from typing import Any

from stillspace.cli.console import say, say_guarantee

_LARGEST = 8
"""Columns per component whose loadings are printed."""


def say_model(fitted: Any) -> None:
    """Say what a model is, what it released and what it promises."""
    r, D = fitted.components_.shape
    say("Fitted:", f"{type(fitted).__name__}, {r} of {D} dimensions, {fitted.n_iter_} steps.")
    plan = getattr(fitted, "plan_", None)
    say("Plan:", fitted.plan_text_ if plan is None else plan.in_words())
    _say_released(fitted)
    receipt = getattr(fitted, "receipt_", None)
    if receipt is not None:
        say("Ledger:", str(receipt))
    say_guarantee("Guarantee:", fitted.privacy_)


def _say_released(fitted: Any) -> None:
    """Say what a private fit released besides the subspace."""
    if getattr(fitted, "route_", ""):
        say("Route:", fitted.route_.partition("; ")[0] + ".")
    if hasattr(fitted, "error_meaning_"):
        error = fitted.error_estimate_
        number = (
            "" if isnan(error) else f"estimated d² ≈ {error:.2g}, up to about {2 * error:.2g}. "
        )
        say("Accuracy:", number + fitted.error_meaning_)
    for group in getattr(fitted, "left_out_", ()):
        say(
            "Left out:",
            f"a group of about {group.share:.1%} of the rows (± {2 * group.sd:.1%}) that sit "
            "together away from the others. If they are a real minority, this fit is not about "
            "them; --groups keep keeps all rows.",
        )
    dropped = getattr(fitted, "dropped_columns_", ())
    if len(dropped) > 0:
        numbers = ", ".join(str(j + 1) for j in dropped)
        say("Dropped:", f"columns {numbers}: their scale could not be resolved.")
    if getattr(fitted, "pair_cut_", None) is not None:
        say("Pairs:", f"differences of length {fitted.pair_cut_:.3g} and more were left out.")
    if getattr(fitted, "sketch_", None) is not None:
        width = fitted.sketch_.n_components
        say("Sketch:", f"the components live in a public projection to {width} columns.")
    if getattr(fitted, "variances_", None) is not None:
        say("Variances:", ", ".join(f"{value:.3g}" for value in fitted.variances_))
    scree, score_map = getattr(fitted, "scree_", None), getattr(fitted, "score_map_", None)
    if scree is not None:
        shown = ", ".join(f"{value:.3g}" for value in scree.values[:10])
        say("Scree:", f"{shown} (noise lifts a value by up to {scree.noise:.2g})")
    if score_map is not None:
        cells = " × ".join(map(str, score_map.maps[0][1].shape))
        cells = f"{len(score_map.maps)} times {cells}" if score_map.labels else cells
        say("Map:", f"{cells} cells of scores up to {score_map.length:.3g}; see stillspace report.")
    if getattr(fitted, "distance_quantiles_", None) is not None:
        levels = ("25", "50", "75", "90", "95", "97.5")
        pairs = zip(levels, fitted.distance_quantiles_, strict=True)
        say("Distances:", ", ".join(f"{level} %: {value:.3g}" for level, value in pairs))
    if getattr(fitted, "certificate_", None) is not None:
        say("Certificate:", str(fitted.certificate_))


def say_loadings(fitted: Any) -> None:
    """Say which columns count most in each component."""
    if fitted.sketch_ is not None:
        return
    names = column_names(fitted)
    for i, component in enumerate(fitted.components_):
        order = sorted(range(len(component)), key=lambda j: -abs(component[j]))[:_LARGEST]
        more = len(component) - len(order)
        text = ", ".join(f"{names[j]} {component[j]:+.3f}" for j in order)
        say(f"Component {i + 1}:", text + (f", and {more} smaller" if more else ""))


def column_names(fitted: Any) -> list[str]:
    """Return the names in the model, or numbers from 1 where it has none."""
    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        return [f"column {j + 1}" for j in range(fitted.n_features_in_)]
    return [str(name) for name in names]


def facts_of(fitted: Any) -> dict[str, Any]:
    """Return what a model is, what it released and what it promises, as JSON values."""
    from stillspace.models import released_facts  # noqa: PLC0415
    from stillspace.plans.fixed import fingerprint  # noqa: PLC0415

    plan, origin = getattr(fitted, "plan_", None), getattr(fitted, "file_", None)
    receipt = getattr(fitted, "receipt_", None)
    r, width = fitted.components_.shape
    return {
        "class": type(fitted).__name__,
        "n_components": r,
        "n_columns": fitted.n_features_in_,
        "columns": column_names(fitted) if hasattr(fitted, "feature_names_in_") else None,
        "width": width,
        "components": fitted.components_.tolist(),
        "center": fitted.center_.tolist(),
        "scale": fitted.scale_.tolist(),
        "released": released_facts(fitted),
        "plan": getattr(fitted, "plan_text_", "") if plan is None else plan.in_words(),
        "plan_fingerprint": None if plan is None else fingerprint(plan),
        "ledger_entry": None if receipt is None else receipt.to_dict(),
        "privacy": fitted.privacy_.to_dict(),
        "file": None
        if origin is None
        else {
            "format": origin.format,
            "written": origin.written,
            "stillspace": origin.version,
            "sha256": origin.sha256,
            "signature": origin.signature,
        },
    }
