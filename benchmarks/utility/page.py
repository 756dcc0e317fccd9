"""The page of results for people."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._render import facts_line
from benchmarks.utility.affine import EPSILON, RADIUS, SHARE, D, N, R
from benchmarks.utility.contenders import (
    FIXED,
    FIXED_SHARE,
    FIXED_STEPS,
    GAUSSIAN,
    OURS,
    REAPER_STEPS,
    REAPERS,
)
from benchmarks.utility.effort import WHOLE
from benchmarks.utility.hindsight import FINALISTS, FRESH_SEEDS, SEMI_FINALISTS, grid
from benchmarks.utility.neighbours import LIMIT, NEIGHBOURS
from benchmarks.utility.power import STEPS
from benchmarks.utility.problems import DELTA, LARGEST, LARGEST_MOMENT, LARGEST_WORK, Regime
from benchmarks.utility.results import Entry, Figure, Results, ran_somewhere

PROSE = """\
# Accuracy at the same (ε, δ)

```sh
make utility                                  # everything; writes this page
python -m benchmarks.utility --ours --write   # our default alone, beside the others' last numbers
python -m benchmarks.utility --quick          # a small part, about 3 minutes
python -m benchmarks.utility --regimes tables --json out.json
```

This page, `results.json` and `utility.png` are written by `make utility`; do not edit them by hand.
What has been computed is kept in `.cache/utility` and taken up again after an interruption; a cell
is computed anew when sources that it depends on have changed.

![Our error against that of Gaussian-noise PCA, regret over the best plan in hindsight, real \
tables](utility.png)

## What is compared

Every method sees the same rows, scaled to the unit sphere, and promises the same (ε, δ) for
replaced rows, δ = {delta:g}, with exact Gaussian composition. The error is `d² = Σθ²` over the
principal angles to the truth; shown are medians over seeds of the noise, on one data set a regime:
{least} to {most} seeds for ours and Gaussian-noise PCA ({tables} on the real tables), {others} for
the others, {reaper} for the REAPERs, and one where a REAPER run would take more than {dear:g} s by
estimate.

{methods}

**Regret** is our median d² over that of the best of {plans} fixed plans *in hindsight*: private
PCA, and `dp-ggd` with every start share, number of steps, range of step sizes and cut of a grid,
chosen with the truth at hand. Nobody can choose so under privacy. All plans run once, the {more}
best three times, and the {finalists} best of these {fresh} times with fresh seeds; the lowest of
those medians counts. Below 1 ours is better than each of them. Regimes with n·D·max(r, 3) above
{grid} have no such search (–): it would take minutes each.

**κ** = nμλ_r/√D says how far the signal stands above the noise of a private second moment.
**Fresh**, **large** and **noiseless** regimes (fresh in the figures) come from seeds that were not
used while the default was made: n from 10³ to 10⁵, D from 10 to 500, r from 1 to 10, κ ≥ 1; fresh
ones have n·D·max(r, 3) up to {work} and n·D² up to {moment}, large ones more, with n·D·max(r, 3) up
to {largest}; noiseless ones are like fresh ones but for the noise. **Drawn** ones are like fresh
ones, from a seed that was looked at; so are **held-out** ones, which were set aside for the first
version of the default and whose results then led to its longer second phase and to its look at
the mean; **named** ones are those by which it was first judged. (The fresh regimes were run twice:
between the runs the default's start and its test of the curvature were changed by what other data
showed. No number of the first run was used.) In the **few** regimes inliers are in the
minority; they are in no figure but their own. d² below 1e-13 counts as 1e-13 in ratios. The optimum
of GLAD, the mean distance, is called right where its d² to the truth is below .1. Intervals
are by bootstrap over the seeds; a median is called at most equal where its interval reaches 1.
"""

METHODS = (
    (OURS, "`PrivateRobustPCA(r, epsilon=ε, delta=δ, center=None)` with its defaults"),
    (GAUSSIAN, "one release of the second moment, `dp-pca`"),
    (
        FIXED,
        f"{FIXED_SHARE:.0%} of the budget on a private PCA start, then `dp-ggd`, {FIXED_STEPS} "
        "steps that fall from 1 to .01",
    ),
    (
        "noisy power method",
        f"Hardt and Price, NeurIPS 2014; {STEPS} steps from a random start (`power.py`)",
    ),
    (
        "CoinPress",
        "Biswas, Dong, Kamath and Ullman, NeurIPS 2020: private covariance in two steps, as in the "
        "authors' demo, then PCA; our implementation (`coinpress.py`). It is made for covariances "
        "of Gaussian rows; with one step it would be Gaussian-noise PCA",
    ),
    (
        ", ".join(REAPERS),
        "the paper's first-order methods on the convex relaxation, with noise from our accountant, "
        f"{REAPER_STEPS} steps and a private PCA start with {FIXED_SHARE:.0%} of the budget; – "
        f"where a run would take more than {WHOLE.longest_reaper:g} s by estimate",
    ),
    ("PCA, GLAD", "not private: the optima on these rows; GLAD's is searched from the truth too"),
    (
        ", ".join(neighbour.label for neighbour in NEIGHBOURS),
        f"pure ε, each in an environment of its own, {LIMIT} s of CPU for an answer",
    ),
)


def page(results: Results, facts: dict[str, Any]) -> str:
    return "\n".join(
        (
            PROSE.format(
                delta=DELTA,
                methods=markdown(("name", "what it is"), METHODS),
                plans=len(grid()),
                more=SEMI_FINALISTS,
                finalists=FINALISTS,
                fresh=FRESH_SEEDS,
                least=WHOLE.least_seeds,
                most=WHOLE.most_seeds,
                tables=WHOLE.table_seeds,
                others=WHOLE.other_seeds,
                reaper=WHOLE.reaper_seeds,
                dear=WHOLE.reaper_seconds,
                work=number(LARGEST_WORK),
                moment=number(LARGEST_MOMENT),
                largest=number(LARGEST),
                grid=number(WHOLE.largest_grid),
            ),
            f"Taken {facts_line(facts)} All cells together took {results.cpu_seconds / 60:.0f} "
            f"minutes of one core.{earlier(results)}\n",
            "## Figures\n",
            figures_table(results.figures()),
            "\n## d² over that of the best plan in hindsight\n",
            "All regimes, whatever their κ and their optima.\n",
            markdown(("contender", "median", "90 %", "worst", "regimes"), summary(results)),
            "\n## Named regimes\n",
            regimes_table(results.regimes("facts")),
            "\n## Fresh regimes\n",
            regimes_table(results.regimes("fresh")),
            "\n## Large regimes\n",
            regimes_table(results.regimes("large")),
            "\n## Noiseless regimes\n",
            regimes_table(results.regimes("noiseless")),
            "\n## Drawn regimes\n",
            regimes_table(results.regimes("drawn")),
            "\n## Held-out regimes\n",
            regimes_table(results.regimes("held-out")),
            "\n## Few inliers\n",
            regimes_table(results.regimes("few")),
            "\n## Real tables\n",
            TABLES_PROSE,
            tables_table(results.tables()),
            "\n## diffprivlib and OpenDP\n",
            answers_text(results),
            "\n## Affine data\n",
            f"n = {N}, D = {D}, r = {R}, {SHARE:.0%} inliers with noise .05, ε = {EPSILON:g}; the "
            f'centre has length 2, `center="median"` is given the radius {RADIUS:g}. See the '
            "figures above.\n",
        )
    )


def earlier(results: Results) -> str:
    """Return when the other methods were measured, if it was not in this run."""
    if results.others is None:
        return ""
    return f" Numbers of all other methods were taken {facts_line(results.others)}"


TABLES_PROSE = """\
Tables of scikit-learn, their columns centred, and scaled to variance 1 where it says so, by vectors
that are taken as public. "20 % planted" adds rows in one tight cluster in a random direction, until
they are a fifth of all. Distances are to the optima of the *clean* table; the columns "not private"
say how far PCA's and GLAD's optima on the same rows are from them. Where GLAD's is large, robust
and ordinary PCA are different questions on this table, or the planted cluster has won: a fifth of
all rows in one direction can outweigh what the rows of a noisy table share.
"""


def figures_table(figures: Sequence[Figure]) -> str:
    verdicts = {True: "yes", False: "**no**", None: "–"}
    lines = [
        (f.what, f.asked, f.measured + (f"; {f.note}" if f.note else ""), verdicts[f.met])
        for f in figures
    ]
    return markdown(("what", "asked", "measured", "met"), lines)


def regimes_table(entries: Sequence[Entry]) -> str:
    if not entries:
        return "Not run.\n"
    contenders = ran_somewhere(entries)
    header = (
        "", "n", "D", "r", "inliers", "noise", "outliers", "ε", "κ", *contenders,
        "PCA", "GLAD", "best in hindsight", "regret",
    )  # fmt: skip
    lines = []
    for entry in entries:
        g = entry.problem
        assert isinstance(g, Regime)
        aniso = f", {g.anisotropy:g}:1" if g.anisotropy > 1.0 and g.r > 1 else ""
        facts = (
            g.name, str(g.n), str(g.D), str(g.r), f"{g.share:g}{aniso}", f"{g.noise:g}", g.outliers,
            f"{g.epsilon:g}", f"{g.kappa:.0f}",
        )  # fmt: skip
        grid, regret = entry.grid, entry.regret()
        lines.append(
            (
                *facts,
                *best_marked([entry.d2(name) for name in contenders]),
                number(entry.reference["PCA"]["truth"]),
                number(entry.reference["GLAD"]["truth"]),
                number(grid["d2"]) if grid else "–",
                f"{regret:.2f}" if regret is not None else "–",
            )
        )
    return markdown(header, lines)


def tables_table(entries: Sequence[Entry]) -> str:
    if not entries:
        return "Not run.\n"
    parts = []
    for target in ("PCA", "GLAD"):
        contenders = ran_somewhere(entries)
        header = (
            f"d² to the {target} optimum", *contenders, "ours / Gaussian-noise PCA",
            "not private: PCA", "GLAD", "route of ours",
        )  # fmt: skip
        lines = [
            (
                entry.problem.name,
                *best_marked([entry.d2(name, target) for name in contenders]),
                f"{entry.against_gaussian(target):.2f}",
                number(entry.reference["PCA"][target]),
                number(entry.reference["GLAD"][target]),
                entry.route,
            )
            for entry in entries
        ]
        parts.append(markdown(header, lines))
    return "\n\n".join(parts)


def answers_text(results: Results) -> str:
    lines = []
    for answer in results.answers:
        shown = answer.get("none") or f"{number(answer['d2'])} in {answer['seconds']:.2g} s"
        ours = number(answer["ours"]) if answer.get("ours") is not None else "–"
        lines.append((answer["neighbour"], answer["problem"], shown, ours))
    text = (
        "One answer each, by the command in `neighbours.py`: rows of norm 1, the origin as public "
        f"centre, the same ε, no δ. Seconds are of CPU; after {LIMIT} the process is ended. "
        "Each is asked with more and more columns until there is no answer; problems with more "
        "columns than that are not tried.\n\n"
    )
    if results.missing:
        text += "; ".join(results.missing) + ": its rows are missing.\n\n"
    if not lines:
        return text + "Not run.\n"
    return text + markdown(("who", "problem", "d²", "stillspace auto, median"), lines)


def best_marked(values: Sequence[float | None]) -> list[str]:
    """Return numbers for people, the lowest in bold."""
    known = [value for value in values if value is not None]
    low = min(known) if known else None
    return [
        "–" if v is None else f"**{number(v)}**" if v == low else number(v) for v in values
    ]  # fmt: skip


def number(value: float) -> str:
    """Return two digits, in the shortest of the usual forms."""
    if value == 0.0:
        return "0"
    if 1e-2 <= abs(value) < 100:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in rows)


def text_of(figures: Sequence[Figure]) -> str:
    """Return the figures for a terminal."""
    marks = {True: "met   ", False: "NOT   ", None: "      "}
    lines = []
    for f in figures:
        lines.append(f"{marks[f.met]}{f.what}")
        lines.append(f"        asked {f.asked}; measured {f.measured}")
        if f.note:
            lines.append(f"        {f.note}")
    return "\n".join(lines)


def summary(results: Results) -> list[tuple[str, ...]]:
    """Return how far each contender is from the best in hindsight: median, 90 %, worst, regimes."""
    entries = [e for e in results.regimes() if e.grid is not None]
    lines = []
    for name in ran_somewhere(entries):
        values = [v for e in entries if (v := e.regret(name)) is not None]
        shown = (number(float(q)) for q in np.quantile(values, [0.5, 0.9, 1.0]))
        lines.append((name, *shown, str(len(values))))
    return lines


def overview(results: Results) -> str:
    """Return the summary for a terminal."""
    return "\n".join(
        f"{name}: median {middle}, 90 % {high}, worst {worst} ({count} regimes)"
        for name, middle, high, worst, count in summary(results)
    )
