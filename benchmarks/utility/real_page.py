"""The section about real tables on the page of results."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._render import facts_line
from benchmarks.utility.page import figures_table, markdown, number, text_of
from benchmarks.utility.planted import CLEAN, KINDS
from benchmarks.utility.real_results import CAPTURED, CURVE, LARGE_TABLE, RealResults, nominal
from benchmarks.utility.results import Figure
from benchmarks.utility.table_fits import ADAPTIVE, DEFAULT, KENDALL, PCA, UNITS

MARKS = ("<!-- real tables: begin -->", "<!-- real tables: end -->")
CURVE_MARKS = ("<!-- curve: begin -->", "<!-- curve: end -->")
CLASSES = ((0, 25), (25, 40), (40, 120), (120, 250), (250, 500), (500, np.inf))
"""Of κ."""

PROSE = """\
## Real tables with units, and with bad rows

```sh
python -m benchmarks.utility.real --write        # also a part of `make utility`
python -m benchmarks.utility.real --quick        # two tables
python -m benchmarks.utility.real --folder DIR   # the same figures for CSV files of your own
```

![Captured share against κ, and d² with bad rows](real.png)

**Tables.** The 24 *development* tables were used to choose constants of the library. The tables
*set aside* and *unseen* were chosen by rules that look at shapes only (`tables_real.py`). They were
set aside at first, and were used for development since: `docs/newton-history.md` has figures of 76
tables that were fitted only when everything was chosen. A table keeps its numeric columns with more
than two values, without identifiers and
years, and its complete rows, at most 60 000 of them. n is the number of rows, D that of columns.

**Measures.** The *frame* of a table has each column of the clean rows at median 0 and MAD 1, and
rows scaled to length 1. Its *optimum* is the subspace of least mean distance with r = 2. The
*captured share* is the variance of the frame's rows in the fitted subspace over that in the
optimum; it can be slightly above 1. d² is the sum of the squared principal angles to the optimum.
κ = μn/√D, where μ is the parameter of the Gaussian mechanism for (ε, δ). δ = 10⁻⁶; neighbouring
tables differ in one replaced row.

**Bad rows** replace a share of the rows (`planted.py`). The optimum is that of the clean table.

- "tight": one cluster as far away as the typical row, a twentieth as wide;
- "two opposite": two such clusters on both sides, a tenth of the rows each;
- "three clusters": three of them in random directions, 7 % each;
- "loose": one cluster that is half as wide as it is far;
- "far": one cluster at least 20 MAD away;
- "line": rows along one direction on both sides, up to at least 20 MAD;
- "column × 1000": one column times 1000, as with a wrong unit.

A fit *succeeds* if its d² is at most twice that of the same method on the clean table, plus .02.
Success is counted over tables with n ≥ {large}.

**Methods.** "{default}" is `PrivateRobustPCA(2, epsilon=ε, delta=δ)`: nothing is known of the
table. "{units}" gets the frame's centre and scale, which nobody can know. The methods of others
get them, too, because they have no way to find units. Private units differ a little from those of
the frame, and so does the best subspace: d² of "{default}" contains that difference. Shown are
medians over seeds of the noise: {unknown} on clean tables for "{default}" and {clean} for the
others, {planted} with bad rows. With ε = 2 and bad rows only "{units}" was run.

{methods}

All of them but MCD are our implementations, written from descriptions of the papers and
calibrated by us to the same (ε, δ). Where a constant had to be chosen, the file says which and
how. They were made for other tasks than tables with bad rows, and their authors might choose
otherwise.
"""

METHODS = (
    (KENDALL, "Kim and Jung 2025: the directions of the R package dppca 0.1.0 (`kendall.py`)"),
    (
        ADAPTIVE,
        "Düngler and Sanyal 2025 (arXiv 2508.10879); for r = 1 it is DP-PCA of Liu, Kong, Jain and "
        "Oh 2022 (`oja.py`)",
    ),
    (
        "ROBPCA, MCD",
        "not private: Hubert, Rousseeuw and Vanden Branden 2005; scikit-learn's `MinCovDet` "
        "(`robpca.py`)",
    ),
)


def text(results: RealResults) -> str:
    """Return the figures for a terminal."""
    return text_of(results.figures())


def write(document: dict[str, Any], path: Path) -> None:
    """Replace the section in the page; put it before the first other one if there is none."""
    page = path.read_text(encoding="utf-8")
    path.write_text(with_section(page, section(document), MARKS), encoding="utf-8")


def write_curve(document: dict[str, Any], path: Path) -> None:
    """Replace the table of the curve in docs/table-size.md."""
    page = path.read_text(encoding="utf-8")
    made = curve_table(document["fits"]["curve"])
    path.write_text(with_section(page, made, CURVE_MARKS), encoding="utf-8")


def with_section(page: str, made: str, marks: tuple[str, str]) -> str:
    """Return the page with what is between two marks replaced, or added before its first part."""
    begin, end = marks
    if begin in page:
        before, rest = page.split(begin, 1)
        after = rest.split(end, 1)[1]
    else:
        at = min(i for i in (page.find("\n## "), page.find("\n<!-- "), len(page)) if i >= 0)
        before, after = page[:at], page[at:]
    return f"{before.rstrip()}\n\n{begin}\n\n{made}\n\n{end}\n\n{after.lstrip()}"


def curve_table(fits: Sequence[dict[str, Any]]) -> str:
    """Return, per κ, the median over tables of the captured share, and the worst of the default."""
    lines = []
    for kappa in CURVE:
        near = [f for f in fits if nominal(f["kappa"]) == kappa]
        if not near:
            continue
        units, default, plain = (
            _medians(chosen(near, method=method), "captured")
            for method in (UNITS, DEFAULT, "as it is")
        )
        shares = (f"{x:.2f}" for x in (np.median(units), np.median(default), min(default)))
        lines.append((str(kappa), *shares, f"{np.median(plain):.2f}", str(len(default))))
    header = ("κ", "units given", "default", "default, worst table", "taken as it is", "tables")
    return markdown(header, lines)


def section(document: dict[str, Any]) -> str:
    prose = PROSE.format(
        large=LARGE_TABLE, default=DEFAULT, units=UNITS, clean=document["seeds"]["units"],
        unknown=document["seeds"]["default"], planted=document["seeds"]["planted"],
        methods=markdown(("name", "what was run"), METHODS),
    )  # fmt: skip
    taken = (
        f"Taken {facts_line(document['facts'])} All cells together took "
        f"{document['cpu_seconds'] / 60:.0f} minutes of one core.\n"
    )
    if document["cells"] < document["planned"]:
        taken += (
            f"\n**Not everything was run**: {document['cells']} of {document['planned']} planned "
            "cells (a method on a table, with bad rows or without). The counts of tables below say "
            "how many were. `python -m benchmarks.utility.real --write` computes the rest.\n"
        )
    taken += "".join(f"\n{note}\n" for note in document.get("notes", ()))
    figures = [Figure(**figure) for figure in document["figures"]]
    return "\n".join(
        (
            prose,
            taken,
            "### Figures on tables\n",
            figures_table(figures),
            "\n### Captured share by κ, clean tables\n",
            markdown(
                ("tables", "method", "κ", "median", "quartiles", "worst", "fits"),
                list(classes(document["fits"])),
            ),
            "\n### Bad rows: tables on which the fit succeeds, and geometric-mean d²\n",
            planted_table(document),
            "\n### Methods of others, development tables\n",
            "Geometric-mean d² over the tables on which all methods were run, with units given. "
            "For r = 1 k-DP-PCA is DP-PCA.\n",
            others_table(document["fits"].get("others", []), document["fits"]["development"]),
            "\n### Without privacy\n",
            f"Tables captured by the bad rows (d² > {CAPTURED:g} to the fit of the same method on "
            "the clean rows), and geometric-mean d². At most 2000 rows, columns at median 0 and "
            "MAD 1.\n",
            robust_table(document["robust"]),
            "\n### Every table\n",
            every_table(document["fits"]),
        )
    )


def _medians(fits: Sequence[dict[str, Any]], what: str) -> list[float]:
    return [float(np.median(f[what])) for f in fits]


def _gm(values: Sequence[float]) -> float:
    return float(np.exp(np.log(np.maximum(values, 1e-12)).mean()))


def chosen(fits: Sequence[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
    return [f for f in fits if all(f[name] == value for name, value in fields.items())]


def classes(fits: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, ...]]:
    for part in ("development", "set aside"):
        for method in (DEFAULT, UNITS, "as it is"):
            clean = chosen(fits.get(part, []), kind=CLEAN, method=method, r=2)
            for low, high in CLASSES:
                values = _medians([f for f in clean if low <= f["kappa"] < high], "captured")
                if not values:
                    continue
                q1, middle, q3 = np.quantile(values, [0.25, 0.5, 0.75])
                where = f"{low} to {high}" if np.isfinite(high) else f"above {low}"
                shown = (f"{middle:.3f}", f"{q1:.2f} … {q3:.2f}", f"{min(values):.2f}")
                yield (part, method, where, *shown, str(len(values)))


def planted_table(document: dict[str, Any]) -> str:
    columns = [(p, m) for p in ("development", "set aside") for m in (UNITS, DEFAULT)]
    lines = []
    for kind in (CLEAN, *KINDS):
        for epsilon in (1.0, 2.0, 4.0):
            line = [kind, f"{epsilon:g}"]
            for part, method in columns:
                won = [
                    s for s in document["successes"]
                    if (s["part"], s["method"], s["kind"], s["epsilon"])
                    == (part, method, kind, epsilon)
                ]  # fmt: skip
                fits = chosen(
                    document["fits"].get(part, []), kind=kind, method=method, epsilon=epsilon, r=2
                )
                mean = number(_gm(_medians(fits, "d2"))) if fits else "–"
                line.append(f"{won[0]['won']} of {won[0]['of']}; {mean}" if won else mean)
            lines.append(line)
    return markdown(("bad rows", "ε", *(f"{p}, {m}" for p, m in columns)), lines)


def others_table(others: Sequence[dict[str, Any]], ours: Sequence[dict[str, Any]]) -> str:
    """Return geometric-mean d² over the tables on which all methods of a block were run."""
    kinds = list(dict.fromkeys(f["kind"] for f in others))
    columns = [(kind, epsilon) for kind in kinds for epsilon in (1.0, 4.0)]
    blocks = {1: (UNITS, PCA, ADAPTIVE), 2: (UNITS, PCA, ADAPTIVE, KENDALL)}
    lines = []
    for r, methods in blocks.items():
        found = {method: [str(r), "ours" if method == UNITS else method] for method in methods}
        counts = [str(r), "tables"]
        for kind, epsilon in columns:
            d2 = {}
            for method in methods:
                source = ours if (r, method) == (2, UNITS) else others
                fits = chosen(source, kind=kind, method=method, epsilon=epsilon, r=r)
                d2[method] = {f["table"]: float(np.median(f["d2"])) for f in fits}
            common = set.intersection(*(set(tables) for tables in d2.values()))
            counts.append(str(len(common)))
            for method, line in found.items():
                line.append(number(_gm([d2[method][t] for t in common])) if common else "–")
        lines += [*found.values(), counts]
    return markdown(("r", "method", *(f"{kind}, ε = {e:g}" for kind, e in columns)), lines)


def robust_table(robust: dict[str, dict[str, dict[str, dict[str, float]]]]) -> str:
    lines = []
    for part, methods in robust.items():
        where = "development" if part == "robust" else "set aside"
        for method, kinds in methods.items():
            line = [where, method]
            for d2 in kinds.values():
                lost = sum(v > CAPTURED for v in d2.values())
                line.append(f"{lost} of {len(d2)}; {number(_gm(list(d2.values())))}")
            lines.append(line)
    if not lines:
        return "Not run.\n"
    kinds = next(iter(next(iter(robust.values())).values()))
    return markdown(("tables", "method", *kinds), lines)


def every_table(fits: dict[str, list[dict[str, Any]]]) -> str:
    lines = []
    for part in ("development", "set aside"):
        for fit in chosen(fits.get(part, []), kind=CLEAN, method=DEFAULT, epsilon=1.0, r=2):
            line = [part, fit["table"], str(fit["n"]), str(fit["D"]), f"{fit['kappa']:.0f}"]
            for method, epsilon in ((DEFAULT, 1.0), (DEFAULT, 4.0), (UNITS, 1.0)):
                same = {"table": fit["table"], "kind": CLEAN, "r": 2}
                found = chosen(fits[part], method=method, epsilon=epsilon, **same)
                line.append(f"{_medians(found, 'captured')[0]:.3f}" if found else "–")
            line.append(f"{np.median(fit['dropped']):.0f}")
            lines.append(line)
    header = (
        "set", "table", "n", "D", "κ at ε = 1", "captured, default, ε = 1", "ε = 4",
        "units given, ε = 1", "columns dropped, ε = 1",
    )  # fmt: skip
    return markdown(header, lines)
