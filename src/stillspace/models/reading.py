"""Reading a model file: every fact is checked, and no code in the file is ever run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any
from warnings import warn

import numpy as np

from stillspace._checks import described
from stillspace._model_files import (
    FORMAT,
    READ_FORMATS,
    Contents,
    KeyFileError,
    RefusedError,
    read_key,
    read_model_file,
)
from stillspace._typing import FloatArray
from stillspace.estimators import RobustPCA
from stillspace.estimators._summary import QUANTILES
from stillspace.methods.certificate import PrivateCertificate
from stillspace.methods.outlier_look import LeftOut
from stillspace.methods.pictures import ScoreMap, Scree
from stillspace.models.facts import CLASSES, MOST_GROUPS, SKETCH, Model, ModelFile
from stillspace.models.plans import OtherVersionError, fits, plan_from_json
from stillspace.privacy import ComposedEvent, GaussianEvent, Guarantee, SingleEvent
from stillspace.privacy.receipts import Receipt
from stillspace.rows import Sketch

_FACTS: Mapping[str, Any] = {
    "kind": str, "format": int, "stillspace": str, "class": str, "parameters": dict,
    "not_stored": list[str], "feature_names": list[str] | None, "n_iter": int,
    "converged": bool | None, "sketch": dict | None, "released": dict, "plan": str | dict | None,
    "privacy": dict, "written": str, "plan_text": str, "receipt": dict | None,
}  # fmt: skip
"""The facts of a description, and their types in JSON."""
_SINCE_3 = {"written", "plan_text", "receipt"}
_RELEASED: Mapping[str, Any] = {
    "error_estimate": float | None, "route": str, "pair_cut": float | None,
    "variances": list[float | None] | None, "distance_quantiles": list[float | None] | None,
    "dropped_columns": list[int], "left_out": list, "certificate": dict | None,
    "score_map": dict | None, "scree": dict | None,
}  # fmt: skip
"""What a fit released besides the subspace. Versions before 0.2.0 did not know all of these."""
_PARTS: Mapping[str, Any] = {
    "direction": list[float], "two_sided": bool, "angle": float, "share": float, "sd": float,
    "loose": bool,
    "shares": list, "length": float, "labels": list[str | int | float | bool],
    "values": list[float], "noise": float,
}  # fmt: skip
"""The fields of groups that were left out (`LeftOut`) and of pictures (`ScoreMap`, `Scree`)."""
_MOST_SAMPLED_PARTS = 8
"""The most different releases of an event that sample rows: each needs a privacy loss distribution
of its own. Fits of this package have one."""


def load_model(path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> Model:
    """Return the fitted estimator that `save_model` wrote; no code in the file is ever run.

    It transforms as the saved one did, and `plan_` is the plan that ran. `privacy_` computes its
    epsilon again from the event in the file and says "as stated by the file". A file that was
    damaged is refused by its checksum. A file that somebody changed on purpose is noticed only by a
    signature. Without one, nothing in the file shows who wrote the guarantee. Files of
    format 2 have neither a checksum nor a plan: they have `plan_text_`, the plan in words. So do
    files of an earlier version, if this version would run another plan in its place.

    Parameters
    ----------
    path : path
    key : path, default=None
        The key file with which the model was signed. With a key, a file that is not signed, or was
        signed with another key, or was changed after that, is refused (`KeyFileError`).

    Returns
    -------
    estimator
        The fitted estimator. Its attribute `file_` (a `ModelFile`) holds the date, the version, the
        checksum and what is known of the signature.
    """
    secret = None if key is None else read_key(key)
    name = os.fspath(path)
    with open(path, "rb") as file:
        try:
            contents = read_model_file(file, secret)
            _check_format(contents)
            model = _rebuilt(contents)
            missing = contents.about["not_stored"]
        except (_OtherFormatError, KeyFileError) as error:
            msg = f"{name} {error}"
            raise (KeyFileError if isinstance(error, KeyFileError) else ValueError)(msg) from None
        except Exception as error:  # foreign bytes make NumPy, zipfile and json raise all kinds
            reason = f" ({error})" if isinstance(error, RefusedError) else ""
            raise ValueError(
                f"{name} is not a whole stillspace model file{reason}; give a file that "
                "stillspace fit or save_model wrote."
            ) from error
    if missing:
        words = ", ".join(missing)
        msg = f"The model file could not hold these parameters: {words}; a new fit would need them."
        warn(msg, UserWarning, stacklevel=2)
    return model


class _OtherFormatError(Exception):
    """The file is a model of a format that this version does not read."""


def _check_types(stored: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    """Raise unless every fact is of its type; facts without a stated type are never looked at."""
    for name in types.keys() & stored.keys():
        if not fits(stored[name], types[name]):
            raise RefusedError(f"its {name} is not of the right type")


def _check_format(contents: Contents) -> None:
    about = contents.about
    found = about["format"]
    if type(found) is not int:
        raise RefusedError("its format is no whole number")
    if found not in READ_FORMATS:
        raise _OtherFormatError(
            f"is a model of format {described(found)}, written by stillspace "
            f"{described(about.get('stillspace'))}; this version reads format "
            f"{' and '.join(map(str, READ_FORMATS))}."
        )
    if bool(contents.sha256) != (found == FORMAT):
        raise RefusedError("its format says otherwise than its end")
    if set(about) != _FACTS.keys() - (_SINCE_3 if found == 2 else set()):
        raise RefusedError("its description has other facts than those of a model")
    _check_types(about, _FACTS)


def _rebuilt(contents: Contents) -> Model:
    """Return an estimator with the attributes of the one that was saved, each checked."""
    about, arrays = contents.about, dict(contents.arrays)
    numbers = arrays.pop("plan", None)
    sketch = None if about["sketch"] is None else Sketch.from_dict(about["sketch"])
    _check_arrays(arrays, sketch)
    parameters: dict[str, Any] = {
        name: Sketch.from_dict(value[SKETCH]) if type(value) is dict and SKETCH in value else value
        for name, value in about["parameters"].items()
    }
    model: Any = CLASSES[about["class"]](**parameters)
    for name, array in arrays.items():
        setattr(model, f"{name}_", array)
    model.sketch_ = sketch
    model.n_features_in_ = len(arrays["center"])
    private = not isinstance(model, RobustPCA)
    if private:
        _set_released(model, about["released"])
    if about["n_iter"] < 1:
        raise RefusedError("not a number of iterations")
    model.n_iter_ = about["n_iter"]
    model.file_ = _origin(contents)
    guarantee = _guarantee(about["privacy"], private=private)
    model.privacy_ = replace(guarantee, signature=model.file_.signature)
    _set_plan(model, about, numbers, private=private)
    if about["converged"] is not None:
        model.converged_ = about["converged"]
    names = about["feature_names"]
    if names is not None:
        if len(names) != model.n_features_in_:
            raise RefusedError("it does not have one name per feature")
        model.feature_names_in_ = np.array(names, dtype=object)
    checked: Model = model
    return checked


def _origin(contents: Contents) -> ModelFile:
    """Return where the model comes from; a date that is none raises."""
    about = contents.about
    written = about.get("written", "")
    if contents.sha256 and datetime.fromisoformat(written).utcoffset() is None:
        raise RefusedError("its date has no time zone")
    version = about["stillspace"]
    return ModelFile(about["format"], written, version, contents.sha256, contents.signature)


def _set_plan(
    model: Any, about: Mapping[str, Any], numbers: FloatArray | None, *, private: bool
) -> None:
    """Set the plan, if the file has one and it is the plan of this fit, and the ledger's entry."""
    if numbers is None:  # format 2
        if type(about["plan"]) is not str:
            raise RefusedError("its plan is no text")
        model.plan_text_ = about["plan"]
        if private:
            model.receipt_ = None
        return
    model.plan_text_ = about["plan_text"]
    if numbers.dtype != np.float64 or numbers.ndim != 1:
        raise RefusedError("the numbers of its plan are no vector")
    plan = None if about["plan"] is None else _known_plan(about["plan"], numbers)
    if plan is not None:
        if private and not _is_plan_of(plan, model):
            raise RefusedError("its plan is not that of its guarantee")
        if not private or plan.event() == model.privacy_.event:
            model.plan_ = plan
    if private:
        receipt = about["receipt"]
        model.receipt_ = None if receipt is None else Receipt.from_dict(receipt)
    elif about["receipt"] is not None:
        raise RefusedError("RobustPCA is never charged to a ledger")


def _known_plan(stored: Any, numbers: FloatArray) -> Any:
    """Return the stored plan, or None if its tuned numbers are those of another version."""
    try:
        return plan_from_json(stored, numbers)
    except OtherVersionError:
        return None


def _is_plan_of(plan: Any, model: Any) -> bool:
    """Whether the stored plan does what the guarantee accounts for, on rows of this width.

    How many normals a method may draw under its ceiling changes with the version.
    """
    guarantee = model.privacy_
    return bool(
        _without_draws(plan.event()) == _without_draws(guarantee.event)
        and plan.relation == guarantee.neighboring_relation
        and plan.n_columns == model.n_features_in_
        and plan.n_components >= len(model.components_)
    )


def _without_draws(event: ComposedEvent) -> list[tuple[SingleEvent, int]]:
    """Return the parts of an event, ceilings without the number of normals."""
    return [
        (replace(one, coordinates=0), count)
        if isinstance(one, GaussianEvent) and one.ceiling
        else (one, count)
        for one, count in event
    ]


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


def _set_released(model: Any, released: Mapping[str, Any]) -> None:
    """Set what was released besides the subspace; numbers that no fit releases raise."""
    _check_types(released, _RELEASED)
    model.error_estimate_ = _released_number(released["error_estimate"])
    model.route_ = released["route"]
    dropped = released.get("dropped_columns", [])
    if not all(0 <= j < model.n_features_in_ for j in dropped):
        raise RefusedError("a column that was dropped is not there")
    model.dropped_columns_ = np.array(dropped, dtype=np.intp)
    model.score_map_ = _picture(ScoreMap, "shares", released.get("score_map"))
    model.scree_ = _picture(Scree, "values", released.get("scree"))
    cut = released.get("pair_cut")
    if cut == 0.0:
        raise RefusedError("a length from which pairs are left out is positive")
    model.pair_cut_ = None if cut is None else _released_number(cut)
    groups = released.get("left_out", [])
    if len(groups) > MOST_GROUPS:
        raise RefusedError("not as many groups as a fit leaves out")
    model.left_out_ = tuple(_group(group, model.components_.shape[1]) for group in groups)
    certificate = released.get("certificate")
    model.certificate_ = None
    if certificate is not None:
        model.certificate_ = PrivateCertificate.from_dict(certificate)
        if (certificate["r"], certificate["D"]) != model.components_.shape:
            raise RefusedError("the certificate is of another subspace")
    lengths = {"variances": len(model.components_), "distance_quantiles": len(QUANTILES)}
    for name, length in lengths.items():
        value = released[name]
        if value is not None and len(value) != length:
            raise RefusedError("not as many numbers as a fit releases")
        made = None if value is None else np.array([_released_number(item) for item in value])
        setattr(model, f"{name}_", made)


def _check_part(stored: Any) -> None:
    if type(stored) is not dict:
        raise RefusedError("something that a fit releases is not described as such")
    _check_types(stored, _PARTS)
    if int in map(type, stored.values()):
        raise RefusedError("a number that a fit releases is a whole number")


def _group(stored: Any, width: int) -> LeftOut:
    """Return a group of rows that was left out."""
    _check_part(stored)
    direction = np.array(stored["direction"], dtype=np.float64)
    if len(direction) != width:
        raise RefusedError("a direction has another length than the components")
    return LeftOut(**{**stored, "direction": direction})


def _picture(kind: Any, numbers: str, stored: dict[str, Any] | None) -> Any:
    """Return a released picture, if the file has one; wrong numbers raise."""
    if stored is None:
        return None
    if set(stored) != {f.name for f in fields(kind)}:
        raise RefusedError("a picture is not described as one")
    _check_part(stored)
    labels = tuple(stored.get("labels", ()))
    if len(set(labels)) < len(labels):
        raise RefusedError("a label of a map stands there twice")
    made = np.array(stored[numbers])
    if labels and (made.ndim < 2 or len(made) != len(labels) + 1):
        raise RefusedError("a map has not one picture per label")
    one = made[0] if labels else made
    square = one.ndim == 1 or (one.ndim == 2 and kind is ScoreMap and len(set(one.shape)) == 1)
    if made.dtype != np.float64 or not made.size or not square or not np.isfinite(made).all():
        raise RefusedError("a picture does not hold finite numbers")
    if any(value <= 0.0 for value in stored.values() if type(value) is float):
        raise RefusedError("a picture has a length or a noise that is not positive")
    known = {"labels": labels} if kind is ScoreMap else {}
    return kind(**{**stored, numbers: made, **known})


def _released_number(value: float | None) -> float:
    """Return an error, a length or a variance; NaN for None."""
    if value is None:
        return np.nan
    if value < 0.0:
        raise RefusedError("not a number that a fit releases")
    return float(value)


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
