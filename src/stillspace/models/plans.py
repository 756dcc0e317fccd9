"""Plans as JSON values: every field of every part, with nothing but known classes on the way back.

A plan is made of frozen dataclasses. Each becomes an object `{"is": its class, field: value, …}`.
Arrays are numbers in one long vector, which the model file keeps beside the text. What is read is
checked against the annotation of its field, and the classes' own checks run again.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from math import inf, prod
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._model_files import RefusedError
from stillspace._typing import FloatArray
from stillspace.methods import stages
from stillspace.methods.certificate import CertificateMethod
from stillspace.methods.certificate.method import CertificateRule
from stillspace.methods.division import DivisionRule
from stillspace.methods.median import MedianRule, PrivateMedian
from stillspace.methods.newton.chosen import ChosenNewton
from stillspace.methods.newton.method import DampedNewton
from stillspace.methods.newton.rule import NewtonRule
from stillspace.methods.outlier_look.method import OutlierLook
from stillspace.methods.outlier_look.rule import LookRule
from stillspace.methods.outlier_look.units import UnitsAgain
from stillspace.methods.pair_lengths import PairLengthRule, PairLengths
from stillspace.methods.standardiser import Standardiser, StandardiserRule
from stillspace.parts import geometry, noise, outputs, queries, sampling, schedules, stops
from stillspace.parts.queries.base import Query
from stillspace.plans import adaptive, fixed, release, staged, starts, tested
from stillspace.plans.protocol import AnyPlan
from stillspace.rows import Sketch, maps

Classes: TypeAlias = tuple[type, ...]

_PLANS: Classes = (
    fixed.Plan,
    fixed.Reading,
    adaptive.AdaptivePlan,
    tested.TestedPlan,
    staged.StagedPlan,
)
_STAGES: Classes = tuple(
    kind
    for name, kind in vars(stages).items()
    if name.endswith("Stage") and not name.startswith("_") and kind.__module__ == stages.__name__
)


def _frozen_in(module: types.ModuleType) -> Classes:
    """Return the public frozen dataclasses that a module defines or brings together."""
    return tuple(
        kind
        for name, kind in vars(module).items()
        if isinstance(kind, type)
        and is_dataclass(kind)
        and not name.startswith("_")
        and kind.__module__.startswith(module.__name__)
    )


_BY_PROTOCOL: Mapping[Any, Classes] = {
    AnyPlan: _PLANS,
    staged.Stage: _STAGES,
    adaptive.Method: (
        PrivateMedian,
        ChosenNewton,
        DampedNewton,
        PairLengths,
        Standardiser,
        CertificateMethod,
    ),
    Query: _frozen_in(queries),
    sampling.Sampling: _frozen_in(sampling),
    geometry.Geometry: _frozen_in(geometry),
    schedules.Schedule: _frozen_in(schedules),
    stops.Stop: _frozen_in(stops),
    outputs.Output: _frozen_in(outputs),
}
"""What may stand where a field is annotated with a protocol."""
_OTHERS: Classes = (
    *_frozen_in(noise),
    *_frozen_in(maps),
    Sketch,
    release.Release,
    release.JointRelease,
    *_frozen_in(starts),
    OutlierLook,
    UnitsAgain,
    CertificateRule,
    DivisionRule,
    LookRule,
    MedianRule,
    NewtonRule,
    PairLengthRule,
    StandardiserRule,
)
_CLASSES: Mapping[str, type] = {
    kind.__name__: kind for kinds in (*_BY_PROTOCOL.values(), _OTHERS) for kind in kinds
}


_RULES: Classes = tuple(kind for kind in _OTHERS if kind.__name__.endswith("Rule"))
"""Tuned numbers, which change with the version."""


class OtherVersionError(RefusedError):
    """A plan has tuned numbers that this version does not know, so it could not run it."""


class UnknownPartError(TypeError):
    """A plan has a part that a model file has no word for: one of the user's own."""


def plan_to_json(plan: Any) -> tuple[Any, FloatArray]:
    """Return a plan as JSON values and the numbers of its arrays, or raise UnknownPartError."""
    arrays: dict[FrozenArray, int] = {}
    text = _encoded(plan, arrays)
    numbers = [frozen.array.ravel() for frozen in arrays]
    return text, np.concatenate([np.zeros(0), *numbers])


def _encoded(value: Any, arrays: dict[FrozenArray, int]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if abs(value) < inf else {"is": "infinity"}
    if type(value) is tuple:
        return [_encoded(item, arrays) for item in value]
    if type(value) is FrozenArray:
        begin = arrays.setdefault(value, sum(prod(known.shape) for known in arrays))
        return {"is": "array", "begin": begin, "shape": list(value.shape)}
    kind = type(value)
    if _CLASSES.get(kind.__name__) is not kind:
        raise UnknownPartError(f"a model file has no word for a {kind.__name__}")
    parts = {f.name: _encoded(getattr(value, f.name), arrays) for f in fields(value)}
    return {"is": kind.__name__, **parts}


def plan_from_json(stored: Any, numbers: FloatArray) -> Any:
    """Return the plan that `plan_to_json` wrote, or raise RefusedError."""
    plan = _decoded(stored, numbers)
    if not isinstance(plan, _PLANS):
        raise RefusedError("its plan is none")
    return plan


def _decoded(stored: Any, numbers: FloatArray) -> Any:
    if type(stored) is list:
        return tuple(_decoded(item, numbers) for item in stored)
    if type(stored) is not dict:
        return stored
    name = stored.get("is")
    if name == "infinity" and len(stored) == 1:
        return inf
    if name == "array":
        return _array(stored, numbers)
    kind = _CLASSES.get(name) if type(name) is str else None
    if kind is None:
        raise RefusedError("its plan has a part that this version does not know")
    hints = _hints(kind)
    if kind in _RULES and not set(stored) <= {"is", *hints}:
        raise OtherVersionError(f"its plan has a {kind.__name__} of another version")
    if not _needed(kind) <= set(stored) <= {"is", *hints}:
        raise RefusedError(f"its plan has a {kind.__name__} with other fields")
    found = {field: _decoded(value, numbers) for field, value in stored.items() if field != "is"}
    for field, value in found.items():
        if not fits(value, hints[field]):
            raise RefusedError(f"its plan has a {kind.__name__} with a wrong {field}")
    return kind(**found)


def _array(stored: Mapping[str, Any], numbers: FloatArray) -> FrozenArray:
    begin, shape = stored.get("begin"), stored.get("shape")
    whole = type(shape) is list and all(type(size) is int and size >= 0 for size in shape)
    if set(stored) != {"is", "begin", "shape"} or type(begin) is not int or not whole:
        raise RefusedError("its plan has an array that is not described as one")
    assert isinstance(shape, list)
    if begin < 0 or begin + prod(shape) > len(numbers):
        raise RefusedError("its plan has an array that is longer than the numbers of the file")
    return FrozenArray.of(numbers[begin : begin + prod(shape)].reshape(shape))


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    # By name: a start cannot import the kind of plan that it runs.
    hints = get_type_hints(kind, localns=dict(_CLASSES))
    return {field.name: hints[field.name] for field in fields(kind)}


@cache
def _needed(kind: type) -> frozenset[str]:
    """Return the fields without a default: a file of an earlier version may lack the others."""
    return frozenset(
        f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING
    )


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was read may stand where something is annotated like this."""
    if hint in _BY_PROTOCOL:
        return type(value) in _BY_PROTOCOL[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return type(value) is str and value in inner
    if origin is list:
        return type(value) is list and all(fits(item, inner[0]) for item in value)
    if origin is tuple:
        each = inner[:1] * len(value) if inner[1:] == (...,) and type(value) is tuple else inner
        return type(value) is tuple and len(value) == len(each) and all(map(fits, value, each))
    return type(value) in ((float, int) if hint is float else (hint,))
