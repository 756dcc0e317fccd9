"""Rows from modules of plain functions: each returns (name, ours, peer seconds[, note]) or a list.

Seconds are a median, or one number a turn: then the ratio is formed turn by turn, and the row
has quartiles.
`loops.py` and `passes.py` are such modules. A target is looked up by the row's name: the first
entry of `TARGETS` whose words all occur in it.
"""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks._facts import named
from benchmarks._measure import spread
from benchmarks._rows import Row, Target, at_least, at_most

TARGETS: tuple[tuple[tuple[str, ...], Target], ...] = (
    (("dp-sggd", "lattice"), at_least(0)),  # reported: ours with the lattice noise it needs
    (("dp-sggd", "second fit"), at_least(12)),
    (("dp-sggd",), at_least(30)),
    (("dp-ggd", "float32"), at_least(18)),
    (("dp-ggd",), at_least(8)),
    (("reap",), at_most(1.15)),
    (("mirror",), at_most(1.15)),
    (("roofline",), at_most(1.7)),
    (("scattered rows",), at_most(2)),
    (("int8", "float64"), at_least(13)),
    (("int8", "float32"), at_least(6)),
    (("4e5", "float32"), at_least(2.5)),
    (("4e5",), at_least(2.3)),
)


def target_of(name: str) -> Target | None:
    lowered = name.lower()
    for words, target in TARGETS:
        if all(word in lowered for word in words):
            return target if target.limit else None
    return None


def functions(module: ModuleType) -> list[Any]:
    """Return the module's own public functions that can be called without arguments."""
    found = []
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("_") or name == "main" or function.__module__ != module.__name__:
            continue
        needed = inspect.signature(function).parameters.values()
        if all(p.default is not p.empty or p.name == "quick" for p in needed):
            found.append(function)
    return sorted(found, key=lambda f: f.__code__.co_firstlineno)


def collect(module: ModuleType, topic: str, quick: bool) -> Iterator[Row]:
    for function in functions(module):
        options = {"quick": quick} if "quick" in inspect.signature(function).parameters else {}
        answer = function(**options)
        for item in [answer] if isinstance(answer, tuple) else answer:
            yield item if isinstance(item, Row) else from_tuple(topic, item)


def from_tuple(topic: str, item: tuple[Any, ...]) -> Row:
    """Return a row: a speed-up, or a cost where the target is an upper limit."""
    name, ours, peer, *rest = item
    target = target_of(name)
    cost = target is not None and not target.at_least
    above, below = (ours, peer) if cost else (peer, ours)
    measured = spread(np.divide(above, below))
    a, b = float(np.median(ours)), float(np.median(peer))
    note = str(rest[0]) if rest else ""
    unit = "× its time" if cost else "× faster"
    return Row(topic, name, named("numpy"), unit, measured, target, a, b, note)
