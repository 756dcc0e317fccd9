"""Fits with another constant: an ablation is another plan."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple
from unittest.mock import patch

from stillspace.estimators import _private
from stillspace.models.plans import _CLASSES


class Change(NamedTuple):
    """Another value of one constant."""

    rule: str
    field: str
    value: float

    @classmethod
    def of(cls, text: str) -> "Change":
        """Read "NewtonRule.cut=4"; raise ValueError if there is no such constant."""
        name, _, value = text.partition("=")
        rule, field = name.split(".")
        if field not in getattr(_CLASSES.get(rule), "__dataclass_fields__", ()):
            raise ValueError(name)
        return cls(rule, field, float(value))

    def made(self, part: Any) -> Any:
        """Return a plan, or a part of one, with the change in every rule of this name."""
        if isinstance(part, tuple):
            return tuple(map(self.made, part))
        if not is_dataclass(part) or isinstance(part, type):
            return part
        if type(part).__name__ == self.rule:
            kind = type(getattr(part, self.field))
            return replace(part, **{self.field: kind(self.value)})
        old = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
        new = {name: self.made(value) for name, value in old.items()}
        return part if new == old else replace(part, **new)


@contextmanager
def varying(text: str) -> Iterator[None]:
    """Let private fits run plans with a change such as "NewtonRule.cut=4"; none if it is empty."""
    planned = _private.planned

    def other(*arguments: Any) -> Any:
        return Change.of(text).made(planned(*arguments))

    with patch.object(_private, "planned", other if text else planned):
        yield
