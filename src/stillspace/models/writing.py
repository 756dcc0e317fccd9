"""Writing a model file: each fact of a fitted estimator by its name."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stillspace import __version__
from stillspace._files import write_atomically
from stillspace._model_files import FORMAT, KIND, LONGEST_TEXT, MOST_NUMBERS, read_key, sealed
from stillspace._typing import FloatArray
from stillspace.methods.outlier_look import LeftOut
from stillspace.methods.pictures import ScoreMap, Scree
from stillspace.models.facts import (
    CLASSES,
    LONGEST_PARAMETER,
    RELEASED,
    SECRET,
    SKETCH,
    Model,
    ModelFile,
)
from stillspace.models.plans import UnknownPartError, plan_to_json
from stillspace.rows import Sketch


def save_model(
    estimator: Model,
    path: str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
) -> None:
    """Write a fitted estimator to `path`, in one step: a failed write leaves an older file alone.

    The file holds a checksum of all its bytes, so that `load_model` refuses a damaged file.

    Parameters
    ----------
    estimator : RobustPCA, PrivateRobustPCA or PrivatePCA
        Fitted. `random_state` is not stored, nor is a parameter that JSON has no word for (a
        schedule object, say); `load_model` says so.
    path : path
        Used as it is; `.npz` is customary.
    key : path, default=None
        A key file (`make_key`), to sign the file with. The signature proves that somebody who has
        the key wrote the file, and that no byte changed since. It does not prove that the fit ran
        as the file says, and whoever can check a signature can also make one.
    """
    if type(estimator) not in CLASSES.values():
        raise TypeError(f"save_model stores {', '.join(CLASSES)}, got {type(estimator).__name__}.")
    check_is_fitted(estimator)
    secret = None if key is None else read_key(key)
    description, numbers = _about(estimator)
    about = json.dumps(description, ensure_ascii=False, allow_nan=False)
    size = max(estimator.components_.size, len(numbers))
    if len(about) > LONGEST_TEXT or size > MOST_NUMBERS:
        raise ValueError(
            f"The model has {size} numbers and a description of {len(about)} "
            f"characters; a model file holds at most {MOST_NUMBERS} and {LONGEST_TEXT}."
        )
    buffer = io.BytesIO()
    np.savez(
        buffer,
        about=np.array(about),
        components=np.asarray(estimator.components_, dtype=np.float64),
        center=np.asarray(estimator.center_, dtype=np.float64),
        scale=np.asarray(estimator.scale_, dtype=np.float64),
        plan=numbers,
    )
    write_atomically(path, sealed(buffer.getvalue(), secret))


def _about(estimator: Any) -> tuple[dict[str, Any], FloatArray]:
    """Return everything but the arrays, as JSON values, and the numbers of the plan's arrays."""
    parameters, not_stored = _parameters(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    plan = getattr(estimator, "plan_", None)
    converged = getattr(estimator, "converged_", None)
    receipt = getattr(estimator, "receipt_", None)
    written, version = _origin(estimator)
    stored, numbers = _plan(plan)
    description = {
        "kind": KIND,
        "format": FORMAT,
        "stillspace": version,
        "written": written,
        "class": type(estimator).__name__,
        "parameters": parameters,
        "not_stored": not_stored,
        "feature_names": None if names is None else [str(name) for name in names],
        "n_iter": int(estimator.n_iter_),
        "converged": None if converged is None else bool(converged),
        "sketch": None if estimator.sketch_ is None else estimator.sketch_.to_dict(),
        "released": released_facts(estimator),
        "plan": stored,
        "plan_text": getattr(estimator, "plan_text_", "") if plan is None else repr(plan),
        "receipt": None if receipt is None else receipt.to_dict(),
        "privacy": estimator.privacy_.to_dict(),
    }
    return description, numbers


def _origin(estimator: Any) -> tuple[str, str]:
    """Return date and version: those of the file it was loaded from, unless it is a new fit."""
    origin = getattr(estimator, "file_", None)
    if isinstance(origin, ModelFile) and origin.written and estimator.privacy_.stated_by_file:
        return origin.written, origin.version
    return datetime.now(UTC).isoformat(timespec="seconds"), __version__


def _plan(plan: Any) -> tuple[Any, FloatArray]:
    """Return a plan as JSON values; None for one that is not known, or of parts of a user's own."""
    if plan is None:
        return None, np.zeros(0)
    try:
        return plan_to_json(plan)
    except UnknownPartError:
        return None, np.zeros(0)


def _parameters(estimator: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters that JSON has words for, and the names of the others."""
    parameters: dict[str, Any] = {}
    not_stored: list[str] = []
    for name, value in estimator.get_params(deep=False).items():
        if name == SECRET:
            continue
        try:
            plain = _plain(value)
        except TypeError:
            not_stored.append(name)
            continue
        if len(json.dumps(plain, allow_nan=False)) > LONGEST_PARAMETER:
            not_stored.append(name)
        else:
            parameters[name] = plain
    return parameters, not_stored


def released_facts(estimator: Any) -> dict[str, Any]:
    """Return what a private fit released besides the subspace, as JSON values."""
    found = {name: getattr(estimator, f"{name}_", None) for name in RELEASED}
    certificate = getattr(estimator, "certificate_", None)
    return {
        **{name: _plain(_with_gaps(value)) for name, value in found.items()},
        "left_out": [_fields(group) for group in getattr(estimator, "left_out_", ())],
        "certificate": None if certificate is None else certificate.to_dict(),
        "dropped_columns": [int(j) for j in getattr(estimator, "dropped_columns_", ())],
        "score_map": _fields(getattr(estimator, "score_map_", None)),
        "scree": _fields(getattr(estimator, "scree_", None)),
    }


def _fields(made: LeftOut | ScoreMap | Scree | None) -> dict[str, Any] | None:
    """Return a group that was left out, or a released picture, as JSON values."""
    return None if made is None else {f.name: _plain(getattr(made, f.name)) for f in fields(made)}


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
        return {SKETCH: value.to_dict()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    raise TypeError("JSON has no word for it")
