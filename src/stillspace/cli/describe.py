"""What commands say of a model: in words, or as JSON."""

from __future__ import annotations

from typing import Any

from stillspace.cli.console import say, say_list

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
    say_list("Guarantee:", str(fitted.privacy_))


def _say_released(fitted: Any) -> None:
    """Say what a private fit released besides the subspace."""
    from stillspace.estimators._summary import released_words  # noqa: PLC0415  (NumPy; --help need not wait)

    if getattr(fitted, "route_", ""):
        say("Route:", fitted.route_.partition("; ")[0] + ".")
    if getattr(fitted, "sketch_", None) is not None:
        width = fitted.sketch_.n_components
        say("Sketch:", f"the components live in a public projection to {width} columns.")
    for name, words in released_words(fitted):
        say(f"{name.capitalize()}:", words)
    scree, score_map = getattr(fitted, "scree_", None), getattr(fitted, "score_map_", None)
    if scree is not None:
        values = ", ".join(f"{value:.3g}" for value in scree.values[:10])
        say("Scree:", f"{values} (noise lifts a value by up to {scree.noise:.2g})")
    if score_map is not None:
        cells = " × ".join(map(str, score_map.maps[0][1].shape))
        cells = f"{len(score_map.maps)} times {cells}" if score_map.labels else cells
        say("Map:", f"{cells} cells of scores up to {score_map.length:.3g}; see stillspace report.")


def say_loadings(fitted: Any) -> None:
    """Say which columns count most in each component."""
    if fitted.sketch_ is not None:
        return
    from stillspace.estimators._summary import column_names  # noqa: PLC0415

    names = column_names(fitted)
    for i, component in enumerate(fitted.components_):
        order = sorted(range(len(component)), key=lambda j: -abs(component[j]))[:_LARGEST]
        more = len(component) - len(order)
        text = ", ".join(f"{names[j]} {component[j]:+.3f}" for j in order)
        say(f"Component {i + 1}:", text + (f", and {more} smaller" if more else ""))


def facts_of(fitted: Any) -> dict[str, Any]:
    """Return what a model is, what it released and what it promises, as JSON values."""
    from stillspace.estimators._summary import column_names  # noqa: PLC0415
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
