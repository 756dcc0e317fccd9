"""`python -m benchmarks.utility.ablation`: what each constant of the private default does.

Every number of a rule is halved and doubled, one at a time, in fits to some development tables and
drawn regimes. The noise of a fit has the same seed with and without the change.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import exp, log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from reproduction.store import Store
from reproduction.workers import run_cells

from benchmarks.utility.cells import Result, data_of, label, sources, timed
from benchmarks.utility.contenders import OURS, ours, seeds_of
from benchmarks.utility.planted import CLEAN
from benchmarks.utility.problems import DRAWN, NOISELESS, Regime
from benchmarks.utility.table_fits import DEFAULT, UNITS, TableFit
from benchmarks.utility.vary import varying
from stillspace.methods.division import DivisionRule
from stillspace.methods.newton import NewtonRule
from stillspace.methods.outlier_look import LookRule
from stillspace.methods.standardiser import StandardiserRule
from stillspace.metrics import subspace_error

RULES = (NewtonRule, LookRule, StandardiserRule, DivisionRule)
TABLES = "ggplot2/diamonds", "modeldata/deliveries"
ROWS = 6000
"""A choice of so many rows of each table."""
PLANTED = "tight 20 %"
CASES = ((CLEAN, 1.0), (CLEAN, 4.0), (PLANTED, 1.0), (PLANTED, 4.0))
"""Bad rows and ε."""
REGIMES = (*DRAWN[::8], *NOISELESS[:2])
LARGE = Regime("large", "ablation", 70_000, 60, 2, 0.6, "isotropic", 0.05, 1.0)
"""A table that is divided: only there do the constants of `DivisionRule` count."""
LEAST = 1e-12
"""d² below which two fits count as equal: both are exact for every purpose."""


@dataclass(frozen=True, slots=True)
class RegimeFit:
    """The default on one drawn regime, with another constant."""

    problem: Regime
    count: int
    change: str = ""

    @property
    def cost(self) -> float:
        return 0.1 * self.count

    @property
    def label(self) -> str:
        return label(self.problem.name, "varied")

    def key(self) -> dict[str, Any]:
        return {**asdict(self), "sources": sources(True)}

    @timed
    def compute(self) -> Result:
        data = data_of(self.problem)
        with varying(self.change):
            found = list(ours(self.problem, data, seeds_of(OURS, self.problem, self.count)))
        return {"d2": [subspace_error(V.T, data.targets["truth"].T) for V, _ in found]}


Fit = TableFit | RegimeFit


class Effect(NamedTuple):
    """Ratios of d² with a change to d² without it."""

    change: str
    mean: float
    """Geometric mean over the fits."""
    error: float
    """Standard error of its logarithm."""
    worst: float
    where: str


def neighbours(value: float) -> Iterator[float]:
    """Yield half and twice a number; a share that cannot be doubled moves half the way to 1."""
    yield max(1, value // 2) if isinstance(value, int) and value > 0 else value / 2
    yield 2 * value if isinstance(value, int) or not 0.5 < value < 1.0 else (1.0 + value) / 2


def changes(rules: Sequence[type]) -> Iterator[str]:
    """Yield every change, such as "NewtonRule.cut=6.0"."""
    for rule in rules:
        for field in fields(rule):
            for value in neighbours(field.default):
                if value != field.default:
                    yield f"{rule.__name__}.{field.name}={value!r}"


def fits(change: str = "") -> list[Fit]:
    """Return the fits that a change may move; without a change, all of them."""
    rule = change.partition(".")[0]
    if rule == "DivisionRule" or change.startswith("NewtonRule.divided"):
        return [RegimeFit(LARGE, 2, change)]
    found: list[Fit] = []
    if rule != "StandardiserRule":
        found += tables(UNITS, change)
        found += [RegimeFit(regime, 1, change) for regime in REGIMES]
    if rule in ("StandardiserRule", ""):
        found += tables(DEFAULT, change)
    return found


def tables(method: str, change: str) -> list[Fit]:
    """Return one fit per table and case."""
    return [
        TableFit(table, kind, method, epsilon, 1, rows=ROWS, change=change)
        for table in TABLES
        for kind, epsilon in CASES
    ]


def effect(change: str, store: Store) -> Effect:
    """Compare the fits with a change with the same fits without it."""
    ratios, names = [], []
    for fit in fits(change):
        here, there = (store.load(f) for f in (fit, replace(fit, change="")))
        assert here is not None
        assert there is not None
        for a, b in zip(here["d2"], there["d2"], strict=True):
            ratios.append(log(max(a, LEAST) / max(b, LEAST)))
            names.append(fit.label)
    at = int(np.argmax(ratios))
    error = float(np.std(ratios)) / sqrt(len(ratios))
    return Effect(change, exp(float(np.mean(ratios))), error, exp(ratios[at]), names[at])


HEADER = "| change | mean ratio of d² | ± | worst ratio | where |"


def lines(effects: Sequence[Effect]) -> Iterator[str]:
    """Yield a Markdown table."""
    yield HEADER
    yield "|---|---|---|---|---|"
    for e in effects:
        where = e.where if e.worst > 1.0 else ""
        yield f"| `{e.change}` | {e.mean:.2f} | {e.error:.2f} | {e.worst:.2g} | {where} |"


def write(page: Path, effects: Sequence[Effect]) -> None:
    """Replace the table of a page."""
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"^{re.escape(HEADER)}\n(\|.*\n)*", flags=re.MULTILINE)
    assert len(pattern.findall(text)) == 1
    table = "\n".join(lines(effects)) + "\n"
    page.write_text(pattern.sub(lambda _: table, text), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.utility.ablation", description=__doc__
    )
    parser.add_argument("--only", default="", help="changes whose name begins like this")
    parser.add_argument("--write", type=Path, help="a page whose table is replaced")
    parser.add_argument("--cache", type=Path, default=Path(".cache/utility"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    store = Store(options.cache / "ablation")
    asked = [change for change in changes(RULES) if change.startswith(options.only)]
    cells = [cell for change in asked for cell in fits(change)]
    cells += [replace(cell, change="") for cell in cells]
    cells.sort(key=lambda cell: cell.label)  # fits to one table follow each other
    run_cells(dict.fromkeys(cells), store, workers=1)
    effects = [effect(change, store) for change in asked]
    print("\n".join(lines(effects)))
    if options.write:
        write(options.write, effects)


if __name__ == "__main__":
    main(sys.argv[1:])
