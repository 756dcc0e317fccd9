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
from stillspace._model_files import (
    KIND,
    LONGEST_TEXT,
    MOST_NUMBERS,
    RefusedError,
    read_model_file,
)
from stillspace._shown import shown
from stillspace._typing import FloatArray
from stillspace.estimators import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.estimators._private import QUANTILES
from stillspace.methods.certificate import PrivateCertificate
from stillspace.methods.outlier_look import LeftOut
from stillspace.privacy import GaussianEvent, Guarantee, SingleEvent
from stillspace.rows import Sketch

__all__ = ["Model", "load_model", "save_model"]

Model: TypeAlias = RobustPCA | PrivateRobustPCA | PrivatePCA

FORMAT = 2
"""Raised whenever an older version could not read the file right."""

_SKETCH = "stillspace sketch"
_CLASSES: dict[str, type[Model]] = {
    "PrivatePCA": PrivatePCA,
    "PrivateRobustPCA": PrivateRobustPCA,
    "RobustPCA": RobustPCA,
}
_FACTS = {
    "kind", "format", "stillspace", "class", "parameters", "not_stored", "feature_names", "n_iter",
    "converged", "sketch", "released", "plan", "privacy",
}  # fmt: skip
_RELEASED = ("error_estimate", "route", "variances", "distance_quantiles", "pair_cut")
_LONGEST_PARAMETER = LONGEST_TEXT // 8
"""A longer parameter (a centre of 13 000 columns, say) is left out; `center_` is stored anyway."""
_MOST_SAMPLED_PARTS = 8
"""The most different releases of an event that sample rows: each needs a privacy loss distribution
of its own. Fits of this package have one."""
_GROUP_NUMBERS = ("angle", "share", "sd")
_MOST_GROUPS = 64
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
    if len(about) > LONGEST_TEXT or estimator.components_.size > MOST_NUMBERS:
        msg = (
            f"The model has {estimator.components_.size} numbers and a description of {len(about)} "
            f"characters; a model file holds at most {MOST_NUMBERS} and {LONGEST_TEXT}."
        )
        raise ValueError(msg)
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

    It transforms as the saved one did. `privacy_` computes its epsilon again from the event in
    the file and says "as stated by the file": the file is not signed, so the guarantee is as good
    as the hands that it came from. In place of `plan_` there is `plan_text_`, the plan in words.
    """
    with open(path, "rb") as file:
        try:
            about, arrays = read_model_file(file)
            _check_format(about)
            model = _rebuilt(about, arrays)
            missing = _texts(about["not_stored"])
        except _OtherFormatError as error:
            msg = f"{os.fspath(path)} {error}"
            raise ValueError(msg) from None
        except Exception as error:  # foreign bytes make NumPy, zipfile and json raise all kinds
            reason = f" ({error})" if isinstance(error, RefusedError) else ""
            name = os.fspath(path)
            msg = f"{name} is not a whole stillspace model file{reason}; it cannot be loaded."
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
            plain = _plain(value)
        except TypeError:
            not_stored.append(name)
            continue
        if len(json.dumps(plain, allow_nan=False)) > _LONGEST_PARAMETER:
            not_stored.append(name)
        else:
            parameters[name] = plain
    names = getattr(estimator, "feature_names_in_", None)
    plan = getattr(estimator, "plan_", None)
    converged = getattr(estimator, "converged_", None)
    return {
        "kind": KIND,
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
    groups = [_group_facts(group) for group in getattr(estimator, "left_out_", ())]
    certificate = getattr(estimator, "certificate_", None)
    return {
        **{name: _plain(_with_gaps(value)) for name, value in found.items()},
        "left_out": groups,
        "certificate": None if certificate is None else certificate.to_dict(),
    }


def _group_facts(group: LeftOut) -> dict[str, Any]:
    """Return a group of rows that was left out, as JSON values."""
    numbers = {name: float(getattr(group, name)) for name in _GROUP_NUMBERS}
    return {**numbers, "two_sided": group.two_sided, "direction": group.direction.tolist()}


def _group(stored: Any, width: int) -> LeftOut:
    """Return a group that `_group_facts` wrote."""
    if type(stored) is not dict or type(stored["two_sided"]) is not bool:
        raise RefusedError("a group that was left out is not described as one")
    numbers = {name: stored[name] for name in _GROUP_NUMBERS}
    direction = stored["direction"]
    if type(direction) is not list or len(direction) != width:
        raise RefusedError("a direction has another length than the components")
    if any(type(value) is not float for value in (*numbers.values(), *direction)):
        raise RefusedError("a group that was left out is not described by numbers")
    return LeftOut(np.array(direction), stored["two_sided"], **numbers)


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


def _check_format(about: Mapping[str, Any]) -> None:
    found = about["format"]
    if type(found) is not int:
        raise RefusedError("its format is no whole number")
    if found != FORMAT:
        msg = (
            f"is a model of format {shown(found)}, written by stillspace "
            f"{shown(about.get('stillspace'))}; this version reads format {FORMAT}."
        )
        raise _OtherFormatError(msg)
    if set(about) != _FACTS:
        raise RefusedError("its description has other facts than those of a model")


def _parameter(value: Any) -> Any:
    """Return a parameter that `_plain` wrote."""
    if isinstance(value, dict) and _SKETCH in value:
        return Sketch.from_dict(value[_SKETCH])
    return value


def _rebuilt(about: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Model:
    """Return an estimator with the attributes of the one that was saved, each checked."""
    for name, kind in (("parameters", dict), ("released", dict), ("class", str)):
        if type(about[name]) is not kind:
            raise RefusedError(f"its {name} is not of the right type")
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
    model.plan_text_ = _text(about["plan"])
    model.privacy_ = _guarantee(about["privacy"], private=not isinstance(model, RobustPCA))
    if about["converged"] is not None:
        if type(about["converged"]) is not bool:
            raise RefusedError("whether it converged is neither true nor false")
        model.converged_ = about["converged"]
    if about["feature_names"] is not None:
        names = _texts(about["feature_names"])
        if len(names) != model.n_features_in_:
            raise RefusedError("it does not have one name per feature")
        model.feature_names_in_ = np.array(names, dtype=object)
    checked: Model = model
    return checked


def _guarantee(stored: Any, *, private: bool) -> Guarantee:
    """Return the guarantee in the file, if a fit of this class can have such an event.

    A private class reads rows through releases with noise alone, at least one of them. Their
    number is limited, since ε is computed from all of them whenever somebody asks.
    """
    guarantee = Guarantee.from_dict(stored)
    singles = [single for single, _ in guarantee.event]
    if not singles or any(count < 1 for _, count in guarantee.event):
        raise RefusedError("its event is empty, but every fit reads rows")
    if not private:
        if guarantee.private or not guarantee.event.non_private_reasons:
            raise RefusedError("RobustPCA is never private, and its event says otherwise")
        return guarantee
    sampled = {e for e in singles if isinstance(e, GaussianEvent) and e.sampling != "all"}
    if len(sampled) > _MOST_SAMPLED_PARTS:
        raise RefusedError("its event has more different sampled releases than any fit")
    if guarantee.private and not 0 < (guarantee.delta or 0) < 1:
        raise RefusedError("its delta is none of a private fit")
    if guarantee.private and not all(map(_has_noise, singles)):
        raise RefusedError("its event has a release without noise and claims to be private")
    return guarantee


def _has_noise(event: SingleEvent) -> bool:
    return not isinstance(event, GaussianEvent) or (event.sigma > 0 and event.norm_bound > 0)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise RefusedError("something that is no text stands where a text belongs")
    return value


def _texts(value: Any) -> list[str]:
    if type(value) is not list:
        raise RefusedError("something that is no list stands where a list of texts belongs")
    return [_text(item) for item in value]


def _set_released(model: Any, released: Mapping[str, Any]) -> None:
    """Set what was released besides the subspace; numbers that no fit releases raise."""
    model.error_estimate_ = _released_number(released["error_estimate"])
    model.route_ = _text(released["route"])
    cut = released.get("pair_cut")
    if cut == 0.0:
        raise RefusedError("a length from which pairs are left out is positive")
    model.pair_cut_ = None if cut is None else _released_number(cut)
    groups = released.get("left_out", [])
    if type(groups) is not list or len(groups) > _MOST_GROUPS:
        raise RefusedError("not as many groups as a fit leaves out")
    model.left_out_ = tuple(_group(group, model.components_.shape[1]) for group in groups)
    model.certificate_ = _certificate(released.get("certificate"), model.components_)
    lengths = {"variances": len(model.components_), "distance_quantiles": len(QUANTILES)}
    for name, length in lengths.items():
        value = released[name]
        if value is not None and len(value) != length:
            raise RefusedError("not as many numbers as a fit releases")
        made = None if value is None else np.array([_released_number(item) for item in value])
        setattr(model, f"{name}_", made)


def _certificate(stored: Any, components: FloatArray) -> PrivateCertificate | None:
    """Return the certificate in the file, if there is one and it is of this subspace's size."""
    if stored is None:
        return None
    if type(stored) is not dict:
        raise RefusedError("a certificate is not described as one")
    try:
        made = PrivateCertificate.from_dict(stored)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    if (made.r, made.D) != components.shape:
        raise RefusedError("the certificate is of another subspace")
    return made


def _released_number(value: Any) -> float:
    """Return an error, a length or a variance; NaN for None."""
    if value is None:
        return np.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0.0:
        raise RefusedError("not a number that a fit releases")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RefusedError("not a number of iterations")
    return value


def _check_arrays(arrays: Mapping[str, FloatArray], sketch: Sketch | None) -> None:
    """Raise unless the arrays can be a subspace with its centre and scale."""
    if any(a.dtype != np.float64 or not np.isfinite(a).all() for a in arrays.values()):
        raise RefusedError("an array does not hold finite numbers")
    r, width = arrays["components"].shape
    D = width if sketch is None else sketch.n_features
    if sketch is not None and sketch.n_components != width:
        raise RefusedError("the components are not of the sketch")
    if not 1 <= r < width or arrays["center"].shape != (D,) or arrays["scale"].shape != (D,):
        raise RefusedError("the shapes do not fit together")
    if not (arrays["scale"] > 0.0).all():
        raise RefusedError("a scale is not positive")
    if not _is_orthonormal(arrays["components"]):
        raise RefusedError("the components are not orthonormal")


def _is_orthonormal(V: FloatArray) -> bool:
    """Whether V Vᵀ is the identity, by its products with 16 random vectors.

    The product V Vᵀ itself of a crafted file could take minutes. An entry that is wrong by 1e-5 or
    more shows in each of the 16 products with probability above 0.9.
    """
    probes = np.random.default_rng().standard_normal((len(V), 16))
    return bool(np.abs(V @ (V.T @ probes) - probes).max() < 1e-6 * max(1.0, np.sqrt(len(V))))
