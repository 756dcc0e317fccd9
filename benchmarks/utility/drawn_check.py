"""`python -m benchmarks.utility.drawn_check`: drawn regimes with today's default.

The whole run of drawn regimes takes most of an hour. This runs our default alone, on every third
regime of each group, and compares it with the numbers in `results.json`: with the default's own
error then, with that of Gaussian-noise PCA and with that of the best plan in hindsight.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from reproduction.store import Store
from reproduction.workers import run_cells

from benchmarks._facts import facts
from benchmarks._render import facts_line, write_json
from benchmarks.utility.cells import Contest
from benchmarks.utility.contenders import GAUSSIAN, OURS
from benchmarks.utility.page import markdown, number
from benchmarks.utility.problems import (
    DRAWN,
    FACTS,
    FEW,
    FRESH,
    HELD_OUT,
    LARGE,
    NOISELESS,
    Regime,
)
from benchmarks.utility.real import Enough, Progress
from benchmarks.utility.real_page import with_section
from benchmarks.utility.results import EXACT, RECOVERS, STRONG, resampled

HERE = Path(__file__).parent
GROUPS = (FACTS, DRAWN, HELD_OUT, FRESH, LARGE, NOISELESS, FEW)
EVERY = 3
SEEDS = 5
MARKS = ("<!-- drawn check: begin -->", "<!-- drawn check: end -->")


@dataclass(frozen=True, slots=True)
class Compared:
    """One regime: what was published, and d² of the default today."""

    regime: Regime
    published: dict[str, Any]
    now: list[float]

    @property
    def middle(self) -> float:
        return max(float(np.median(self.now)), EXACT)

    def then(self, contender: str = OURS) -> float:
        return max(float(np.median(self.published["d2"][contender]["truth"])), EXACT)

    @property
    def ratio(self) -> float:
        return self.middle / self.then()

    @property
    def lowest_ratio(self) -> float:
        """The 5 % quantile of the ratio by bootstrap over seeds: chance makes larger ones."""
        rng = np.random.default_rng(0)
        then = resampled(self.published["d2"][OURS]["truth"], rng)
        return float(np.quantile(resampled(self.now, rng) / then, 0.05))

    @property
    def right(self) -> bool:
        """Whether the optimum of GLAD on these rows is near the truth."""
        return bool(self.published["not_private"]["GLAD"]["truth"] < RECOVERS)

    @property
    def regret(self) -> float | None:
        best = self.published["best_in_hindsight"]
        return None if best is None else self.middle / max(best["d2"], EXACT)


def chosen() -> list[Regime]:
    return [regime for group in GROUPS for regime in group[::EVERY]]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.utility.drawn_check")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--stop-after", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--write", action="store_true", help="write the page's section")
    parser.add_argument("--cache", type=Path, default=Path(".cache/utility"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    store = Store(options.cache / "cells")
    cells = [Contest(regime, OURS, SEEDS) for regime in chosen()]
    progress = Progress(len(cells), monotonic() + options.stop_after)
    try:
        run_cells(cells, store, workers=options.jobs, done=progress)
    except Enough:
        print(f"{progress.count} of {len(cells)} cells; call again for the rest.")
        return
    found = compared(cells, store, json.loads((HERE / "results.json").read_text("utf-8")))
    made = section(found, facts())
    print(made)
    if options.write:
        page = HERE / "README.md"
        page.write_text(with_section(page.read_text("utf-8"), made, MARKS), encoding="utf-8")
        write_json(
            HERE / "drawn_check.json",
            {"facts": facts(), "d2": {c.regime.name: c.now for c in found}},
        )


def compared(cells: Sequence[Contest], store: Store, known: dict[str, Any]) -> list[Compared]:
    published = {entry["problem"]["name"]: entry for entry in known["problems"]}
    found = []
    for cell in cells:
        result = store.load(cell)
        assert result is not None
        now = list(result["d2"]["truth"])
        found.append(Compared(cell.problem, published[cell.problem.name], now))  # type: ignore[arg-type]
    return found


def section(found: Sequence[Compared], known: dict[str, Any]) -> str:
    ratios = np.array([c.ratio for c in found])
    worse = sorted((c for c in found if c.lowest_ratio > 1.2), key=lambda c: -c.ratio)
    strong = [c for c in found if c.regime.kappa >= STRONG and c.right and c.regime.noise > 0]
    regrets = np.array([c.regret for c in strong if c.regret is not None])
    quiet = [c for c in found if c.regime.noise <= 0.2 and c.right]
    gaussian = np.array([c.middle / c.then(GAUSSIAN) for c in quiet])
    lines = [
        ("regimes, seeds each", f"{len(found)}, {SEEDS}"),
        (
            "d² now over d² as published: median, quartiles, largest",
            f"{np.median(ratios):.2f}, {np.quantile(ratios, 0.25):.2f} … "
            f"{np.quantile(ratios, 0.75):.2f}, {ratios.max():.2f}",
        ),
        ("regimes that are 1.2 times worse beyond chance (5 % level each)", str(len(worse))),
        (
            "regret, κ ≥ 10, noisy inliers, GLAD optimum right: median, 90 %, worst",
            f"{np.median(regrets):.2f}, {np.quantile(regrets, 0.9):.2f}, {regrets.max():.2f} "
            f"({len(regrets)})",
        ),
        (
            "d² over that of Gaussian-noise PCA, noise ≤ .2, GLAD optimum right: median, worst",
            f"{number(float(np.median(gaussian)))}, {gaussian.max():.2f} ({len(gaussian)})",
        ),
    ]
    text = (
        "## Drawn regimes with today's default\n\n"
        "The tables of drawn regimes on this page were made before the default looked for groups "
        "of outliers and before its steps were shortened. "
        "`python -m benchmarks.utility.drawn_check` runs today's default on "
        f"every third regime of each group. Taken {facts_line(known)}\n\n"
        + markdown(("what", "measured"), lines)
    )
    if worse:
        names = [
            (c.regime.name, number(c.then()), number(c.middle), f"{c.ratio:.2f}") for c in worse
        ]
        text += "\n\n" + markdown(("worse regime", "published d²", "d² now", "ratio"), names)
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
