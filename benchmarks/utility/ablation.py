"""`python -m benchmarks.utility.ablation`: what each constant of the private default does.

Every number of a rule is halved and doubled, one at a time, in fits to the development tables and
to drawn regimes. The noise of a fit has the same seed with and without the change. Numbers of the
standardiser are judged by the units that it finds (`units_alone`), those of the look for outliers
by the rows that it leaves out (`looks`).
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from math import exp, log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from reproduction.store import Store
from reproduction.workers import run_cells

from benchmarks.utility.cells import Result, data_of, label, sources, timed
from benchmarks.utility.contenders import OURS, ours, seeds_of
from benchmarks.utility.looks import ALL_KINDS, Counts, Looks, counts_of, looks
from benchmarks.utility.planted import CLEAN
from benchmarks.utility.problems import DRAWN, NOISELESS, Regime
from benchmarks.utility.table_fits import UNITS, TableFit
from benchmarks.utility.tables_real import DEVELOPMENT, load
from benchmarks.utility.units_alone import DRAWN as DRAWN_COLUMNS
from benchmarks.utility.units_alone import UnitsAlone, unit_cells
from benchmarks.utility.vary import varying
from stillspace.methods.division import DivisionRule
from stillspace.methods.newton import NewtonRule
from stillspace.methods.outlier_look import LookRule
from stillspace.methods.standardiser import StandardiserRule
from stillspace.metrics import subspace_error

RULES = (NewtonRule, LookRule, StandardiserRule, DivisionRule)
TABLES = tuple(map("/".join, DEVELOPMENT))
ROWS = 4000
"""A choice of so many rows of each table, if it has more."""
PLANTED = "tight 20 %"
CASES = ((CLEAN, 1.0), (CLEAN, 4.0), (PLANTED, 1.0), (PLANTED, 4.0))
"""Bad rows and ε."""
REGIMES = (*DRAWN[::4], *NOISELESS[::3])
LARGE = Regime("large", "ablation", 70_000, 60, 2, 0.6, "isotropic", 0.05, 1.0)
"""A table that is divided: only there do the constants of `DivisionRule` count."""
NOT_IN_A_RUN = ("StandardiserRule.least_kappa", "StandardiserRule.safe_kappa")
"""They say whether the standardiser runs, not how: one table shows that nothing changes."""
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


Fit = TableFit | RegimeFit | UnitsAlone | Looks


class Effect(NamedTuple):
    """Ratios of d² with a change to d² without it, in whole fits."""

    change: str
    mean: float
    """Geometric mean over the fits."""
    error: float
    """Standard error of its logarithm."""
    worst: float
    where: str

    def line(self) -> str:
        """Return a line of a Markdown table."""
        where = self.where if self.worst > 1.0 else ""
        mean, worst = f"{self.mean:.2f} | {self.error:.2f}", f"{self.worst:.2g}"
        return f"| `{self.change}` | {mean} | {worst} | {where} |"


class UnitsEffect(NamedTuple):
    """What a change does to the units that the standardiser finds."""

    change: str
    captured: float
    """Mean captured share, less that without the change."""
    captured_error: float
    """Standard error of this difference."""
    ratio: float
    """Geometric mean of d² with the change over d² without it."""
    ratio_error: float
    """Standard error of its logarithm."""
    octaves: float
    """Mean error of the scales in octaves, less that without the change."""
    octaves_error: float
    """Standard error of this difference."""
    dropped: float
    """Columns that vary and are dropped, per run, less those without the change."""
    narrow: float
    """Scales that are far too small, per 100 runs, less those without the change."""
    worst: float
    """The largest loss of captured share, the mean over the seeds of one table."""
    where: str

    def line(self) -> str:
        """Return a line of a Markdown table."""
        where = f"{self.worst:+.3f} {self.where}" if self.worst < 0.0 else ""
        return (
            f"| `{self.change}` | {self.captured:+.4f} ± {self.captured_error:.4f} "
            f"| {self.ratio:.3f} ± {self.ratio_error:.3f} "
            f"| {self.octaves:+.3f} ± {self.octaves_error:.3f} "
            f"| {self.dropped:+.2f} | {self.narrow:+.1f} | {where} |"
        )


class LookEffect(NamedTuple):
    """What looks alone leave out with a change, which is empty for the look as it is."""

    change: str
    counts: Counts

    def line(self) -> str:
        """Return a line of a Markdown table."""
        right = " | ".join(str(self.counts.right[kind]) for kind in ALL_KINDS)
        name = f"`{self.change}`" if self.change else "as it is"
        return f"| {name} | {self.counts.clean} | {right} | {self.counts.wrong} |"


AnyEffect = Effect | UnitsEffect | LookEffect


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


def fits(change: str) -> list[Fit]:
    """Return the fits that a change may move."""
    rule = change.partition(".")[0]
    if rule == "StandardiserRule":
        runs = change.partition("=")[0] not in NOT_IN_A_RUN
        found = map("/".join, DEVELOPMENT) if runs else ()
        return [*unit_cells([DRAWN_COLUMNS, *found], change)]
    if rule == "LookRule":
        return [*looks(change)]
    if rule == "DivisionRule" or change.startswith("NewtonRule.divided"):
        return [RegimeFit(LARGE, 2, change)]
    return [*tables(UNITS, change), *(RegimeFit(regime, 1, change) for regime in REGIMES)]


def tables(method: str, change: str) -> list[TableFit]:
    """Return one fit per table and case."""
    return [
        TableFit(table, kind, method, epsilon, 1, rows=_rows(table), change=change)
        for table in TABLES
        for kind, epsilon in CASES
    ]


@cache
def _rows(table: str) -> int | None:
    return ROWS if len(load(*table.split("/", 1)).X) > ROWS else None


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


def units_effect(change: str, store: Store) -> UnitsEffect:
    """Compare the units with a change with the units without it, cell by cell."""
    cells = fits(change)
    with_it, without = (
        [_read(store, cell) for cell in some]
        for some in (cells, [replace(cell, change="") for cell in cells])
    )
    names = "captured", "d2", "octaves", "dropped", "narrow"
    here, there = (
        {name: np.array([result[name] for result in results]) for name in names}
        for results in (with_it, without)
    )
    for some in (here, there):
        some["d2"] = np.log(np.maximum(some["d2"], LEAST))
    off = {name: np.mean(here[name] - there[name], axis=1) for name in names}
    mean = {name: float(values.mean()) for name, values in off.items()}
    error = {name: float(np.std(values)) / sqrt(len(cells)) for name, values in off.items()}
    at = int(np.argmin(off["captured"]))
    cell = cells[at]
    assert isinstance(cell, UnitsAlone)
    return UnitsEffect(
        change,
        mean["captured"],
        error["captured"],
        exp(mean["d2"]),
        error["d2"],
        mean["octaves"],
        error["octaves"],
        mean["dropped"],
        100.0 * mean["narrow"],
        float(off["captured"][at]),
        f"{cell.table}, {cell.rows} rows, ε = {cell.epsilon:g}",
    )


def _read(store: Store, cell: Fit) -> Result:
    result = store.load(cell)
    assert result is not None
    return result


def look_effect(change: str, store: Store) -> LookEffect:
    """Count what the looks with a change leave out."""
    return LookEffect(change, counts_of(_read(store, cell) for cell in looks(change)))


HEADER = "| change | mean ratio of d² | ± | worst ratio | where |"
UNITS_HEADER = (
    "| change | captured share, difference | ratio of d² | error of scales, octaves, difference "
    "| dropped columns per run | far too narrow, per 100 runs | worst table |"
)
LOOK_HEADER = f"| change | clean | {' | '.join(ALL_KINDS)} | wrong |"
HEADERS: dict[type, str] = {Effect: HEADER, UnitsEffect: UNITS_HEADER, LookEffect: LOOK_HEADER}


def lines(effects: Sequence[AnyEffect]) -> Iterator[str]:
    """Yield a Markdown table of effects of one kind."""
    header = HEADERS[type(effects[0])]
    yield header
    yield "|---" * (header.count("|") - 1) + "|"
    for effect in effects:
        yield effect.line()


def write(page: Path, effects: Sequence[AnyEffect]) -> None:
    """Replace the table of a page that has the same header."""
    text = page.read_text(encoding="utf-8")
    header, *_ = found = list(lines(effects))
    pattern = re.compile(rf"^{re.escape(header)}\n(\|.*\n)*", flags=re.MULTILINE)
    assert len(pattern.findall(text)) == 1
    table = "\n".join(found) + "\n"
    page.write_text(pattern.sub(lambda _: table, text), encoding="utf-8")


EFFECTS = {"StandardiserRule": units_effect, "LookRule": look_effect}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.utility.ablation", description=__doc__
    )
    parser.add_argument("--only", default="", help="changes whose name begins like this")
    parser.add_argument("--write", type=Path, help="a page whose table is replaced")
    parser.add_argument("--cache", type=Path, default=Path(".cache/utility"), metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread (1)")
    options = parser.parse_args(arguments)
    store = Store(options.cache / "ablation")
    asked = [change for change in changes(RULES) if change.startswith(options.only)]
    cells = [cell for change in asked for cell in fits(change)]
    cells += [replace(cell, change="") for cell in cells]
    cells.sort(key=lambda cell: cell.label)  # fits to one table follow each other
    run_cells(dict.fromkeys(cells), store, workers=options.jobs)
    found: dict[type, list[AnyEffect]] = {Effect: [], UnitsEffect: [], LookEffect: []}
    for change in asked:
        measured = EFFECTS.get(change.partition(".")[0], effect)(change, store)
        found[type(measured)].append(measured)
    if found[LookEffect]:
        found[LookEffect].insert(0, look_effect("", store))
    for effects in filter(None, found.values()):
        print("\n".join(lines(effects)))
        if options.write:
            write(options.write, effects)


if __name__ == "__main__":
    main(sys.argv[1:])
