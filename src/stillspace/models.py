"""Save and load fitted estimators: an `.npz` of three arrays and one JSON text, without pickle.

What goes in is listed here, name by name; nothing is copied from an estimator wholesale. So the
file of a private fit holds what the guarantee covers and what is public anyway: no generator, no
seed, no row, and no number of rows unless the neighbouring relation makes it public.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any, TypeAlias
from warnings import warn

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stillspace import __version__
from stillspace._files import write_atomically
from stillspace._typing import FloatArray
from stillspace.estimators import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.estimators._private import QUANTILES
from stillspace.privacy import Guarantee
from stillspace.rows import Sketch

__all__ = ["Model", "load_model", "save_model"]

Model: TypeAlias = RobustPCA | PrivateRobustPCA | PrivatePCA

FORMAT = 2
"""Raised whenever an older version could not read the file right."""

_KIND = "stillspace model"
_SKETCH = "stillspace sketch"
_CLASSES: dict[str, type[Model]] = {
    "PrivatePCA": PrivatePCA,
    "PrivateRobustPCA": PrivateRobustPCA,
    "RobustPCA": RobustPCA,
}
_ARRAYS = ("components", "center", "scale")
_MEMBERS = {"about", *_ARRAYS}
_RELEASED = ("error_estimate", "route", "variances", "distance_quantiles", "pair_cut")
_SECRET = "random_state"
"""Never stored: whoever has the seed of a fit can remove its noise."""


def save_model(estimator: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to `path`, in one step: a failed write leaves an older file alone.

    Parameters
    ----------
    estimator : RobustPCA, PrivateRobustPCA or PrivatePCA
        Fitted. `random_state` is not stored, nor is a parameter that JSON has no word for (a
        schedule object, say); `load_model` says so.
    path : path
        Used as it is; `.npz` is customary.
    """
    if type(estimator) not in _CLASSES.values():
        msg = f"save_model stores {', '.join(_CLASSES)}, got {type(estimator).__name__}."
        raise TypeError(msg)
    check_is_fitted(estimator)
    about = json.dumps(_about(estimator), ensure_ascii=False, allow_nan=False)
    buffer = io.BytesIO()
    np.savez(
        buffer,
        about=np.array(about),
        components=np.asarray(estimator.components_, dtype=np.float64),
        center=np.asarray(estimator.center_, dtype=np.float64),
        scale=np.asarray(estimator.scale_, dtype=np.float64),
    )
    write_atomically(path, buffer.getvalue())


def load_model(path: str | os.PathLike[str]) -> Model:
    """Return the fitted estimator that `save_model` wrote; no code in the file is ever run.

    It transforms as the saved one did and `privacy_` computes its epsilon again from the stored
    event. In place of `plan_` it has `plan_text_`, the plan in words. The file is not signed: the
    guarantee is as good as the hands that it came from.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        about, arrays = _read(content)
        _check_format(about)
        model = _rebuilt(about, arrays)
        missing = [str(name) for name in about["not_stored"]]
    except _OtherFormatError as error:
        msg = f"{os.fspath(path)} {error}"
        raise ValueError(msg) from None
    except Exception as error:  # foreign bytes make NumPy, zipfile and json raise all kinds
        msg = f"{os.fspath(path)} is not a whole stillspace model file; it cannot be loaded."
        raise ValueError(msg) from error
    if missing:
        words = ", ".join(missing)
        msg = f"The model file could not hold these parameters: {words}; a new fit would need them."
        warn(msg, UserWarning, stacklevel=2)
    return model


class _OtherFormatError(Exception):
    """The file is a model of a format that this version does not read."""


def _about(estimator: Model) -> dict[str, Any]:
    """Return everything but the arrays, as JSON values."""
    parameters: dict[str, Any] = {}
    not_stored: list[str] = []
    for name, value in estimator.get_params(deep=False).items():
        if name == _SECRET:
            continue
        try:
            parameters[name] = _plain(value)
        except TypeError:
            not_stored.append(name)
    names = getattr(estimator, "feature_names_in_", None)
    plan = getattr(estimator, "plan_", None)
    converged = getattr(estimator, "converged_", None)
    return {
        "kind": _KIND,
        "format": FORMAT,
        "stillspace": __version__,
        "class": type(estimator).__name__,
        "parameters": parameters,
        "not_stored": not_stored,
        "feature_names": None if names is None else [str(name) for name in names],
        "n_iter": int(estimator.n_iter_),
        "converged": None if converged is None else bool(converged),
        "sketch": None if estimator.sketch_ is None else estimator.sketch_.to_dict(),
        "released": _released(estimator),
        "plan": getattr(estimator, "plan_text_", "") if plan is None else repr(plan),
        "privacy": estimator.privacy_.to_dict(),
    }


def _released(estimator: Model) -> dict[str, Any]:
    """Return what a private fit released besides the subspace."""
    found = {name: getattr(estimator, f"{name}_", None) for name in _RELEASED}
    return {name: _plain(_with_gaps(value)) for name, value in found.items()}


def _with_gaps(value: Any) -> Any:
    """Return None for NaN, which says that nothing is known: JSON has no word for it."""
    if isinstance(value, np.ndarray):
        return [_with_gaps(item) for item in value.tolist()]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    """Return a parameter as JSON values, or raise TypeError."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a key that is no text")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Sketch):
        return {_SKETCH: value.to_dict()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    raise TypeError("JSON has no word for it")


def _read(content: bytes) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the JSON text and the arrays; anything unexpected raises."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        if set(stored.files) != _MEMBERS:
            raise ValueError("other members than those of a model")
        text = stored["about"]
        if text.dtype.kind != "U" or text.shape != ():
            raise ValueError("the description is no text")
        about: dict[str, Any] = json.loads(str(text), parse_constant=_finite, parse_float=_finite)
        arrays = {name: stored[name] for name in _ARRAYS}
    if about["kind"] != _KIND:
        raise ValueError("the description is of something else")
    return about, arrays


def _finite(text: str) -> float:
    """Return a number of the description; NaN and infinity are never written."""
    if not np.isfinite(float(text)):
        raise ValueError("a number is not finite")
    return float(text)


def _check_format(about: Mapping[str, Any]) -> None:
    if about["format"] != FORMAT:
        msg = (
            f"is a model of format {about['format']!r}, written by stillspace "
            f"{about.get('stillspace')!r}; this version reads format {FORMAT}."
        )
        raise _OtherFormatError(msg)


def _parameter(value: Any) -> Any:
    """Return a parameter that `_plain` wrote."""
    if isinstance(value, dict) and _SKETCH in value:
        return Sketch.from_dict(value[_SKETCH])
    return value


def _rebuilt(about: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Model:
    """Return an estimator with the attributes of the one that was saved, each checked."""
    sketch = None if about["sketch"] is None else Sketch.from_dict(about["sketch"])
    _check_arrays(arrays, sketch)
    parameters = {name: _parameter(value) for name, value in about["parameters"].items()}
    model: Any = _CLASSES[about["class"]](**parameters)
    for name, array in arrays.items():
        setattr(model, f"{name}_", array)
    model.sketch_ = sketch
    model.n_features_in_ = len(arrays["center"])
    if not isinstance(model, RobustPCA):
        _set_released(model, about["released"])
    model.n_iter_ = _count(about["n_iter"])
    model.plan_text_ = str(about["plan"])
    model.privacy_ = Guarantee.from_dict(about["privacy"])
    if about["converged"] is not None:
        model.converged_ = bool(about["converged"])
    names = about["feature_names"]
    if names is not None:
        if len(names) != model.n_features_in_:
            raise ValueError("not one name a feature")
        model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    checked: Model = model
    return checked


def _set_released(model: Any, released: Mapping[str, Any]) -> None:
    """Set what was released besides the subspace; numbers that no fit releases raise."""
    model.error_estimate_ = _released_number(released["error_estimate"])
    model.route_ = str(released["route"])
    cut = released.get("pair_cut")
    if cut == 0.0:
        raise ValueError("a length from which pairs are left out is positive")
    model.pair_cut_ = None if cut is None else _released_number(cut)
    lengths = {"variances": len(model.components_), "distance_quantiles": len(QUANTILES)}
    for name, length in lengths.items():
        value = released[name]
        if value is not None and len(value) != length:
            raise ValueError("not as many numbers as a fit releases")
        made = None if value is None else np.array([_released_number(item) for item in value])
        setattr(model, f"{name}_", made)


def _released_number(value: Any) -> float:
    """Return an error, a length or a variance; NaN for None."""
    if value is None:
        return np.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0.0:
        raise ValueError("not a number that a fit releases")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("not a number of iterations")
    return value


def _check_arrays(arrays: Mapping[str, FloatArray], sketch: Sketch | None) -> None:
    """Raise unless the arrays can be a subspace with its centre and scale."""
    if any(a.dtype != np.float64 or not np.isfinite(a).all() for a in arrays.values()):
        raise ValueError("an array does not hold finite numbers")
    r, width = arrays["components"].shape
    D = width if sketch is None else sketch.n_features
    if sketch is not None and sketch.n_components != width:
        raise ValueError("the components are not of the sketch")
    if not 1 <= r < width or arrays["center"].shape != (D,) or arrays["scale"].shape != (D,):
        raise ValueError("the shapes do not fit together")
    if not (arrays["scale"] > 0.0).all():
        raise ValueError("a scale is not positive")
    if not np.allclose(arrays["components"] @ arrays["components"].T, np.eye(r), atol=1e-6):
        raise ValueError("the components are not orthonormal")
