"""Does a pipeline keep the promise of the private estimator in it? Nothing here reads a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from warnings import warn

from sklearn.utils import get_tags

from stillspace.estimators import PrivatePCA, PrivateRobustPCA
from stillspace.exceptions import PrivacyWarning

__all__ = ["check_pipeline"]

_PRIVATE = (PrivatePCA, PrivateRobustPCA)


def check_pipeline(pipeline: Any) -> tuple[str, ...]:
    """Warn of steps whose fit the guarantee of a private estimator does not cover.

    A step before the private estimator that is fitted on the rows, such as a scaler, an imputer
    or a choice of columns, makes the components depend on the rows in a way that no noise hides.
    A step after it is fitted on scores of the rows, which are not private either.

    Parameters
    ----------
    pipeline : Pipeline
        Of scikit-learn, with a `PrivatePCA` or `PrivateRobustPCA` in it; fitted or not.

    Returns
    -------
    tuple of str
        One sentence for each finding. Each is also a `PrivacyWarning`.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> from stillspace import PrivatePCA, check_pipeline
    >>> check_pipeline(make_pipeline(Normalizer(), PrivatePCA(2)))  # a row by itself: fine
    ()
    """
    steps = list(_steps(pipeline))
    places = [k for k, (_, step) in enumerate(steps) if isinstance(step, _PRIVATE)]
    if not places:
        msg = "check_pipeline needs a pipeline with a PrivatePCA or PrivateRobustPCA in it."
        raise ValueError(msg)
    at, found = places[0], []
    private = type(steps[at][1]).__name__
    for name, step in steps[:at]:
        if _learns(step):
            found.append(_before(name, step, private))
    for name, step in steps[at + 1 :]:
        if not isinstance(step, _PRIVATE) and _learns(step):
            found.append(
                f"Step {name!r} ({type(step).__name__}) is fitted on scores that {private} makes "
                "of the rows: its coefficients and predictions are not private."
            )
    for sentence in found:
        warn(sentence, PrivacyWarning, stacklevel=2)
    return tuple(found)


def _before(name: str, step: Any, private: str) -> str:
    kind = type(step).__name__
    if "Scaler" in kind or "Transformer" in kind:
        remedy = "leave it out and use center='private', scale='private'"
    elif "Imputer" in kind:
        remedy = "leave it out: a missing cell then sits at the centre"
    else:
        remedy = "leave it out, or give it public parameters and no fit"
    return (
        f"Step {name!r} ({kind}) is fitted on the rows before {private}, which the guarantee does "
        f"not cover: {remedy}."
    )


def _learns(step: Any) -> bool:
    """Whether a step learns from the rows: a transformer that needs no fit does not."""
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return False
    return bool(getattr(get_tags(step), "requires_fit", True))


def _steps(part: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield name and estimator of each step, those of nested pipelines and unions one by one."""
    inner = getattr(part, "steps", None) or getattr(part, "transformer_list", None)
    if inner is None:
        inner = getattr(part, "transformers", None)
    if inner is None:
        yield prefix or type(part).__name__, part
        return
    for name, step, *_ in inner:
        yield from _steps(step, f"{prefix}{'__' if prefix else ''}{name}")
