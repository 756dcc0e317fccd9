"""What is computed and stored on its own: one contender on one problem, one grid, one answer.

A stored cell is found again only if nothing that it depends on has changed: the key holds a digest
of the sources.
"""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, wraps
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import stillspace
from benchmarks.utility import affine, neighbours
from benchmarks.utility.contenders import CONTENDERS, OURS, REAPERS, seeds_of
from benchmarks.utility.effort import Effort, n_seeds, reaper_seconds
from benchmarks.utility.hindsight import best_in_hindsight
from benchmarks.utility.problems import Data, Problem, Regime, Table, work
from benchmarks.utility.references import glad_optimum, pca_optimum
from stillspace._typing import FloatArray
from stillspace.metrics import subspace_error

Result = dict[str, Any]

_NO_FIT = {
    "audit", "cli", "diagnostics.py", "plots", "prediction.py", "theory",
}  # fmt: skip
"""Parts of the library that no contender runs."""
_OURS_ALONE = {
    "estimators", "methods", "models.py", "search",
}  # fmt: skip
"""Parts of the library that the other contenders do not run."""


@cache
def sources(ours: bool) -> str:
    """Return a digest of the sources that a result depends on."""
    library, here = Path(stillspace.__file__).parent, Path(__file__).parent
    digest = hashlib.sha256()
    left_out = _NO_FIT if ours else _NO_FIT | _OURS_ALONE
    for path in sorted(library.rglob("*.py")):
        inside = path.relative_to(library).as_posix()
        within = {inside, *(parent.as_posix() for parent in Path(inside).parents)}
        if path.name != "__init__.py" and not within & left_out:  # those only name others
            digest.update(path.read_bytes())
    for name in ("problems", "references", "coinpress", "power", "contenders", "hindsight"):
        digest.update((here / f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=2)
def data_of(problem: Problem) -> Data:
    """Return the data, made once for the cells that follow each other in a process."""
    return problem.data()


def timed(compute: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """Add the CPU seconds that a cell took, children not counted."""

    @wraps(compute)
    def measured(cell: Any) -> Result:
        begin = process_time()
        return {**compute(cell), "cpu_seconds": process_time() - begin}

    return measured


def errors(V: FloatArray, data: Data) -> dict[str, float]:
    return {name: subspace_error(V.T, target.T) for name, target in data.targets.items()}


@dataclass(frozen=True, slots=True)
class Contest:
    """One contender on one problem."""

    problem: Regime | Table
    contender: str
    count: int

    @property
    def cost(self) -> float:
        if self.contender in REAPERS:
            return self.count * reaper_seconds(self.contender, self.problem)
        return self.count * (work(self.problem) * 1.5e-8 + self.problem.D**3 * 1e-8)

    @property
    def label(self) -> str:
        return label(self.problem.name, self.contender)

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "sources": sources(self.contender == OURS)}

    @timed
    def compute(self) -> Result:
        data = data_of(self.problem)
        seeds = seeds_of(self.contender, self.problem, self.count)
        answers = list(CONTENDERS[self.contender](self.problem, data, seeds))
        measured = [errors(V, data) for V, _ in answers]
        says = [said for _, said in answers if said]
        return {
            "d2": {target: [e[target] for e in measured] for target in data.targets},
            **({"says": says} if says else {}),
        }


@dataclass(frozen=True, slots=True)
class Reference:
    """What no private method is given: the optima of PCA and of GLAD on these rows."""

    problem: Regime | Table

    @property
    def cost(self) -> float:
        return work(self.problem) * 1e-8

    @property
    def label(self) -> str:
        return label(self.problem.name, "references")

    def key(self) -> dict[str, Any]:
        return {"reference": asdict(self), "sources": sources(False)}

    @timed
    def compute(self) -> Result:
        data = data_of(self.problem)
        starts = list(data.targets.values())
        found = {
            "PCA": pca_optimum(data.X, self.problem.r),
            "GLAD": glad_optimum(data.X, self.problem.r, *starts),
        }
        return {"d2": {name: errors(V, data) for name, V in found.items()}}


@dataclass(frozen=True, slots=True)
class Grid:
    """The best plan in hindsight on one regime."""

    problem: Regime
    effort: Effort

    @property
    def cost(self) -> float:
        return 180 * 48 * work(self.problem) * 3e-10 / self.effort.every_plan

    @property
    def label(self) -> str:
        return label(self.problem.name, "grid")

    def key(self) -> dict[str, Any]:
        every = self.effort.every_plan
        return {"problem": asdict(self.problem), "grid": every, "sources": sources(False)}

    @timed
    def compute(self) -> Result:
        return best_in_hindsight(self.problem, data_of(self.problem), self.effort)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a neighbour, or none."""

    problem: Regime | Table
    index: int
    folder: str
    limit: int

    @property
    def cost(self) -> float:
        return float(self.limit)

    @property
    def label(self) -> str:
        return label(self.problem.name, neighbours.NEIGHBOURS[self.index].name)

    def key(self) -> dict[str, Any]:
        neighbour = neighbours.NEIGHBOURS[self.index]
        asked = {"problem": asdict(self.problem), "neighbour": asdict(neighbour)}
        return {**asked, "limit": self.limit}

    @timed
    def compute(self) -> Result:
        neighbour, data = neighbours.NEIGHBOURS[self.index], data_of(self.problem)
        asked = (data.X, self.problem.r, self.problem.epsilon, self.limit)
        answer = neighbours.ask(neighbour, Path(self.folder), *asked)
        if "none" in answer:
            return answer
        V = np.linalg.qr(np.asarray(answer["components"]).T)[0]
        return {"d2": errors(V, data), "seconds": answer["seconds"]}


@dataclass(frozen=True, slots=True)
class Affine:
    """A subspace whose centre is unknown too."""

    center: str
    outliers: str
    count: int

    @property
    def cost(self) -> float:
        return 2.0 * self.count

    @property
    def label(self) -> str:
        return label("affine", self.center, self.outliers)

    def key(self) -> dict[str, Any]:
        made = Path(affine.__file__).read_bytes()
        digest = hashlib.sha256(made).hexdigest()[:16]
        return {"affine": asdict(self), "made": digest, "sources": sources(True)}

    @timed
    def compute(self) -> Result:
        found = affine.errors(self.center, self.outliers, self.count)
        return {"d2": found, "not_private": affine.not_private(self.center, self.outliers)}


def contests(problem: Regime | Table, effort: Effort) -> list[Contest]:
    """Return a problem's contests, without contenders that would take too long."""
    counts = {name: n_seeds(name, problem, effort) for name in CONTENDERS}
    return [Contest(problem, name, count) for name, count in counts.items() if count]


def label(*words: str) -> str:
    kept = "".join(c if c.isalnum() else "-" for c in "-".join(words))
    return "-".join(filter(None, kept.split("-")))
