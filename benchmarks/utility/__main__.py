"""`python -m benchmarks.utility`: accuracy at the same (ε, δ), as a table and a figure."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from reproduction.store import Store
from reproduction.workers import run_cells

from benchmarks._facts import facts
from benchmarks._render import facts_line, write_json
from benchmarks.utility import affine, neighbours, page, picture, real_page
from benchmarks.utility.cells import Affine, Answer, Contest, Grid, Reference, contests
from benchmarks.utility.contenders import OURS
from benchmarks.utility.effort import QUICK, WHOLE, Effort, has_grid, n_seeds
from benchmarks.utility.problems import (
    DRAWN,
    FACTS,
    FEW,
    FRESH,
    HELD_OUT,
    LARGE,
    NOISELESS,
    TABLES,
    Regime,
    Table,
    work,
)
from benchmarks.utility.results import Entry, Results

HERE = Path(__file__).parent
GROUPS: dict[str, tuple[Regime, ...] | tuple[Table, ...]] = {
    "facts": FACTS, "drawn": DRAWN, "held-out": HELD_OUT, "fresh": FRESH, "large": LARGE,
    "noiseless": NOISELESS, "few": FEW, "tables": TABLES,
}  # fmt: skip
QUICK_COUNTS = {"fresh": 8, "tables": 8, "drawn": 4}
"""Of each group, if it has to be quick; 2 of the others."""
LADDER = (4, 6, 8, 10, 12)
"""Columns with which diffprivlib and OpenDP are asked."""


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    known = facts()
    print(facts_line(known), flush=True)
    effort = QUICK if options.quick else WHOLE
    problems = chosen(options.regimes, quick=options.quick)
    results = (
        renewed(problems, effort, options) if options.ours else measure(problems, effort, options)
    )
    print(page.overview(results))
    print(page.text_of(results.figures()))
    for path in options.json:
        write_json(path, document(results, known, quick=options.quick))
    if options.write:
        write_json(HERE / "results.json", document(results, known, quick=False))
        picture.draw(results, HERE / "utility.png")
        (HERE / "README.md").write_text(page.page(results, known), encoding="utf-8")
        if (HERE / "real.json").exists():  # the section about real tables has a run of its own
            kept = json.loads((HERE / "real.json").read_text(encoding="utf-8"))
            real_page.write(kept, HERE / "README.md")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.utility", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small part, about 3 minutes")
    parser.add_argument(
        "--write", action="store_true", help="write README.md, results.json and utility.png here"
    )
    parser.add_argument(
        "--ours", action="store_true",
        help="run our default alone, about 15 minutes; others keep their numbers in results.json",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, action="append", default=[], metavar="PATH")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread (2)")
    parser.add_argument("--regimes", choices=(*GROUPS, "all"), default="all")
    parser.add_argument("--cache", type=Path, default=Path(".cache/utility"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    if options.ours and options.quick:
        parser.error("--ours compares with the whole run: leave out --quick.")
    if options.write and (options.quick or options.regimes != "all"):
        # The page says that its figures come from the whole.
        parser.error("--write needs the whole run: leave out --quick and --regimes.")
    return options


def chosen(group: str, *, quick: bool) -> list[Regime | Table]:
    """Return the problems of a group; of each the first few small ones if it has to be quick."""
    wanted = [GROUPS[name] for name in GROUPS if group in (name, "all")]
    if not quick:
        return [problem for problems in wanted for problem in problems]
    few: list[Regime | Table] = []
    for problems in wanted:
        small = [p for p in problems if work(p) <= QUICK.largest_grid]
        few += small[: QUICK_COUNTS.get(problems[0].group, 2)]
    return few


def measure(
    problems: Sequence[Regime | Table], effort: Effort, options: argparse.Namespace
) -> Results:
    """Compute what the store does not hold, and collect it."""
    store = Store(options.cache / "cells")
    whole = options.regimes == "all"
    ladder, missing = neighbour_cells(effort, options) if whole else ([], [])
    centred = affine_cells(effort) if whole else []
    plain: list[Any] = [*centred]
    for problem in problems:
        plain += [*contests(problem, effort), Reference(problem)]
        if isinstance(problem, Regime) and has_grid(problem, effort):
            plain.append(Grid(problem, effort))
    run_cells(plain, store, workers=options.jobs, done=Progress(len(plain)))
    return Results(
        [entry_of(problem, effort, store) for problem in problems],
        {f'center="{c.center}", outliers {c.outliers}': loaded(store, c) for c in centred},
        climb(ladder, effort, store, options.jobs),
        missing,
        sum(loaded(store, cell)["cpu_seconds"] for cell in plain),
    )


def renewed(
    problems: Sequence[Regime | Table], effort: Effort, options: argparse.Namespace
) -> Results:
    """Compute our default anew; take what others reached from the last run of everything."""
    kept = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    store = Store(options.cache / "cells")
    ours = [Contest(problem, OURS, n_seeds(OURS, problem, effort)) for problem in problems]
    centred = affine_cells(effort)
    plain: list[Any] = [*centred, *ours]
    run_cells(plain, store, workers=options.jobs, done=Progress(len(plain)))
    known = {entry["problem"]["name"]: entry for entry in kept["problems"]}
    return Results(
        [entry_from(known[cell.problem.name], cell, store) for cell in ours],
        {f'center="{c.center}", outliers {c.outliers}': loaded(store, c) for c in centred},
        kept["neighbours"],
        kept["not_installed"],
        sum(loaded(store, cell)["cpu_seconds"] for cell in plain),
        others=kept.get("others") or kept["facts"],
    )


def entry_from(known: dict[str, Any], cell: Contest, store: Store) -> Entry:
    """Return a problem with what is known of others, and with our own new result."""
    measured = {name: {"d2": d2} for name, d2 in known["d2"].items()}
    before = known.get("before") or known["d2"][OURS]
    measured[OURS] = loaded(store, cell)
    reference, grid = known["not_private"], known["best_in_hindsight"]
    return Entry(cell.problem, measured, reference, grid, before)


@dataclass(slots=True)
class Progress:
    """A line now and then."""

    total: int
    count: int = 0

    def __call__(self, cell: Any) -> None:
        self.count += 1
        if self.count % 50 == 0 or self.count == self.total:
            print(f"{self.count} of {self.total}: {cell.label}", file=sys.stderr, flush=True)


def entry_of(problem: Regime | Table, effort: Effort, store: Store) -> Entry:
    measured = {cell.contender: loaded(store, cell) for cell in contests(problem, effort)}
    grid = None
    if isinstance(problem, Regime) and has_grid(problem, effort):
        grid = loaded(store, Grid(problem, effort))
    return Entry(problem, measured, loaded(store, Reference(problem))["d2"], grid)


def loaded(store: Store, cell: Any) -> dict[str, Any]:
    result = store.load(cell)
    assert result is not None, f"{cell.label} was computed but is not in the store"
    return result


def affine_cells(effort: Effort) -> list[Affine]:
    count = 3 if effort is QUICK else 9
    return [Affine(center, out, count) for center in affine.CENTERS for out in affine.OUTLIERS]


def neighbour_cells(
    effort: Effort, options: argparse.Namespace
) -> tuple[list[list[Answer]], list[str]]:
    """Return each neighbour's questions, in order of columns, and who could not be installed."""
    folder, ladder, missing = options.cache / "environments", [], []
    limit = 5 if effort is QUICK else neighbours.LIMIT
    columns = LADDER[:2] if effort is QUICK else LADDER
    regimes = [
        replace(FACTS[0], name=f"2000 × {D}, r=2, isotropic outliers, ε=1", D=D, share=0.7)
        for D in columns
    ]
    for index, neighbour in enumerate(neighbours.NEIGHBOURS):
        print(f"environment of {neighbour.label} …", file=sys.stderr, flush=True)
        reason = neighbours.install(neighbour, folder)
        if reason is not None:
            missing.append(reason)
            continue
        wine = next(t for t in TABLES if t.table.startswith("wine") and not t.planted)
        asked: list[Regime | Table] = [*regimes, *([] if effort is QUICK else [wine, FACTS[0]])]
        ladder.append([Answer(problem, index, str(folder.resolve()), limit) for problem in asked])
    return ladder, missing


def climb(
    ladder: Sequence[Sequence[Answer]], effort: Effort, store: Store, jobs: int
) -> list[dict[str, Any]]:
    """Ask the neighbours with more and more columns, until one has no answer."""
    found: dict[int, list[dict[str, Any]]] = {questions[0].index: [] for questions in ladder}
    asking = [list(questions) for questions in ladder]
    while asking:
        now = [questions.pop(0) for questions in asking]
        ours = [Contest(question.problem, OURS, effort.least_seeds) for question in now]
        run_cells([*now, *ours], store, workers=jobs)
        for question, contest in zip(now, ours, strict=True):
            target = "truth" if isinstance(question.problem, Regime) else "PCA"
            answer = loaded(store, question)
            found[question.index].append(
                {
                    "neighbour": neighbours.NEIGHBOURS[question.index].label,
                    "problem": question.problem.name,
                    "ours": float(np.median(loaded(store, contest)["d2"][target])),
                    **({**answer, "d2": answer["d2"][target]} if "d2" in answer else answer),
                }
            )
        answered = {question.index for question in now if "none" not in loaded(store, question)}
        asking = [questions for questions in asking if questions and questions[0].index in answered]
    return [answer for answers in found.values() for answer in answers]


def _short(d2: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the errors to four digits: the file holds thousands."""
    return {target: [float(f"{x:.4g}") for x in values] for target, values in d2.items()}


def document(results: Results, known: dict[str, Any], *, quick: bool) -> dict[str, Any]:
    return {
        "schema": 1,
        "quick": quick,
        "facts": known,
        "cpu_seconds": round(results.cpu_seconds),
        "figures": [asdict(figure) for figure in results.figures()],
        "problems": [
            {
                "problem": {**asdict(e.problem), "name": e.problem.name},
                "kappa": getattr(e.problem, "kappa", None),
                "d2": {name: _short(result["d2"]) for name, result in e.contests.items()},
                "not_private": e.reference,
                "best_in_hindsight": e.grid and {k: e.grid[k] for k in ("best", "d2")},
                "regret": e.regret() if isinstance(e.problem, Regime) else None,
                "route": e.route,
                **({"before": e.before} if e.before else {}),
            }
            for e in results.entries
        ],
        "affine": results.affine,
        "neighbours": results.answers,
        "not_installed": results.missing,
        **({"others": results.others} if results.others else {}),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
