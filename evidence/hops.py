"""How far a fit walks through the package: files, rooms, depth, and what it computes twice."""

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import stillspace
from evidence._table import markdown
from stillspace import PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack

ROOT = str(Path(stillspace.__file__).parent) + os.sep
SHAPE = (5000, 20, 2)

FITS = {
    "`PrivateRobustPCA()`": PrivateRobustPCA(2, random_state=0),
    "`PrivateRobustPCA(center=None)`": PrivateRobustPCA(2, center=None, random_state=0),
    "`PrivateRobustPCA(algorithm='dp-ggd', center=None)`": PrivateRobustPCA(
        2, algorithm="dp-ggd", center=None, random_state=0
    ),
    "`RobustPCA()`": RobustPCA(2, random_state=0),
}

COUNTED = {
    "releases": "Release._record",
    "events computed": "_Bounds.event",
    "sensitivities computed": "_unit",
    "plans": "Plan.__post_init__",
    "rows prepared": "prepare",
}
"""Heading of a column, and the end of the qualified name of the function whose calls it counts."""


@dataclass
class Trace:
    """The calls of functions of the package, as the profiler saw them."""

    stack: list[tuple[str, str]] = field(default_factory=list)
    deepest: list[tuple[str, str]] = field(default_factory=list)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(ROOT):
            return
        if event == "call":
            place = (code.co_filename[len(ROOT) :], code.co_qualname)
            self.stack.append(place)
            self.calls[place] += 1
            if len(self.stack) > len(self.deepest):
                self.deepest = list(self.stack)
        elif event == "return" and self.stack:
            self.stack.pop()

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.calls}

    @property
    def rooms(self) -> set[str]:
        return {file.split(os.sep)[0] for file in self.files if os.sep in file}

    def count(self, name: str) -> int:
        return sum(n for (_, function), n in self.calls.items() if function.endswith(name))


@contextmanager
def traced() -> Iterator[Trace]:
    trace = Trace()
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)


def trace_of(estimator: Any) -> Trace:
    """Return the calls of a second fit, so that imports and compilation do not count."""
    X = make_haystack(*SHAPE, inlier_noise=0.05, random_state=0).X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X)
        with traced() as trace:
            estimator.fit(X)
    return trace


def table() -> str:
    rows = []
    for name, estimator in FITS.items():
        trace = trace_of(estimator)
        counts = (trace.count(end) for end in COUNTED.values())
        rows.append(
            (name, len(trace.files), len(trace.rooms), len(trace.deepest), *counts),
        )
    n, D, r = SHAPE
    return markdown(
        "Hops of a fit",
        f"The second `fit` of {n} × {D} rows with {r} components, seen by `sys.setprofile`. Files, "
        "rooms (folders of `src/stillspace`) and depth count Python functions of the package "
        "alone; compiled functions do not appear. The other columns count calls in this one fit.",
        ["fit", "files", "rooms", "depth", *COUNTED],
        rows,
    )
