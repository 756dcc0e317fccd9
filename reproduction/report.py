"""The report: every claim of the paper beside what was measured, written from the tables alone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from reproduction import EXPERIMENTS
from reproduction.experiment import FEWER_RUNS_NOTE, Experiment, Tables, Verdict
from reproduction.tables import Table, read_csv
from stillspace._files import write_atomically

REPORT = "reproduction.md"
FACTS = "facts.json"

_HEAD = """# The paper, reproduced and judged

Every experiment of "Stochastic and Private Nonconvex Outlier-Robust PCA" (Maunu, Yu and Lerman), \
each in three columns:

- **as printed**: the paper's algorithm with the noise that it prints, and the ε that this noise \
really gives (at the same δ, start included, replace-one). The start is PCA with Gaussian noise: \
the Wishart mechanism that the paper cites is not private (SPEC 9.6);
- **honest**: the same algorithm, sampling and number of iterations, with the noise that the \
accountant asks for at the claimed ε;
- **ours**: the library's default at the claimed budget.

One command makes it all: `stillspace reproduce all --size paper --out reproduction` (`--size \
quick` for a look in minutes). The text below is written from the tables beside the figures; "SPEC \
n" is section n of [spec.md](spec.md). Noise in these runs is seeded, so none of them is private: \
ε is what the noise would give if nobody knew the seed. An ε of 0 means that δ alone \
covers it. δ = 1/√n is the paper's; it allows publishing √n rows in clear (SPEC 9.8).
"""

_RUNS = f"""
**Runs.** At size `paper` as many a cell as the paper has: 100 for convergence, 50 for the phase \
transitions; a few at size `quick`. {FEWER_RUNS_NOTE} The map of Europe: 3 of a cheap \
method, 1 of a dear one. Each table has the number in its column `runs`.
"""

_CHOICES = """
**Choices that were made after a look at results**, and that a sceptical reader should know: the \
rates in iterations leave out errors below φ² = 2⁻⁵², where the curves level off; the rates in n \
are taken at D = 5, because at D = 20 dp-(S)GGD fails at the smaller sizes, and leave out sizes \
whose median error is above 1e-2; the bounds F₂ and F₃ use the most favourable minibatch stability \
that was found where the certified one is negative; the map of Europe has 500 iterations instead \
of n (the step is halved ten times by then; one run each as printed with T = n = 2387, on the \
published people, gave a correlation of 0.48 for dp-SGGD and 0.22 for dp-GGD, no better), and \
dp-SGD-REAP sees a sketch of 200 columns, chosen among 100 to 800 on these very data; the width of \
our sketch follows from n, ε and δ by a factor that was measured on genotypes of this kind \
([wide.md](wide.md)); the step that stays 1 was tried because dp-SGGD with halved steps did not \
draw the paper's map. Verdicts of size `quick` rest on 3 to 5 runs a cell.
"""


def write_facts(folder: Path, experiment: Experiment, facts: dict[str, object]) -> None:
    """Keep what the tables of an experiment were made with."""
    _write(folder, {**_facts(folder), experiment.id: facts})


def _write(folder: Path, facts: dict[str, dict[str, object]]) -> None:
    write_atomically(folder / FACTS, (json.dumps(facts, indent=1) + "\n").encode())


def _facts(folder: Path) -> dict[str, dict[str, object]]:
    try:
        found: dict[str, dict[str, object]] = json.loads((folder / FACTS).read_text())
    except FileNotFoundError:
        return {}
    return found


def report(folder: Path, prefix: str = "") -> str:
    """Return the report of all experiments whose tables are in the folder, as Markdown."""
    facts = _facts(folder)
    made = [EXPERIMENTS[name] for name in EXPERIMENTS if name in facts]
    tables = {e.id: _tables(folder, facts[e.id]) for e in made}
    verdicts = {e.id: e.verdict(tables[e.id]) for e in made}
    parts = [_HEAD, _overview(made, verdicts), _RUNS, _CHOICES]
    for e in made:
        runs = _runs_text(tables[e.id][e.id])
        parts.append(_section(e, verdicts[e.id], facts[e.id], runs, prefix))
    return "\n".join(parts)


def _tables(folder: Path, facts: dict[str, object]) -> Tables:
    names = facts["tables"]
    assert isinstance(names, list)
    return {name: read_csv(folder / f"{name}.csv") for name in names}


def _overview(made: Sequence[Experiment], verdicts: dict[str, Verdict]) -> str:
    lines = ["| experiment | the paper's claim | at the honest budget |", "|---|---|---|"]
    for experiment in made:
        verdict = verdicts[experiment.id]
        lines.append(
            f"| [{experiment.id}](#{experiment.id.lower()}) | {verdict.claim} | {verdict.label} |"
        )
    return "\n".join(lines) + "\n"


def _runs_text(table: Table) -> str:
    """Return how many runs the rows of a table rest on, the fewest first."""
    rows = Counter(int(row["runs"]) for row in table)
    if len(rows) == 1:
        return f"Runs per cell: {min(rows)}"
    parts = [f"{runs} in {rows[runs]}" for runs in sorted(rows)]
    return f"Runs per cell: {', '.join(parts)} of {len(table)} rows"


def _section(
    experiment: Experiment, verdict: Verdict, facts: dict[str, object], runs: str, prefix: str
) -> str:
    figures, names = facts["figures"], facts["tables"]
    assert isinstance(figures, list)
    assert isinstance(names, list)
    links = ", ".join(f"[{name}.csv]({prefix}{name}.csv)" for name in names)
    lines = [
        f"## {experiment.id}",
        "",
        f"{experiment.title}. Size `{facts['size']}`, seed {facts['seed']}, stillspace "
        f"{facts['version']}{_source(facts)}. {runs}. Tables: {links}.",
        "",
        *(f"![{experiment.title}]({prefix}{name}.png)\n" for name in figures),
        f"**The claim.** {verdict.claim}",
        "",
        f"**As printed.** {verdict.printed}",
        "",
        f"**Honest.** {verdict.honest}",
        "",
        f"**Ours.** {verdict.ours}",
        "",
        *([f"**Theorems.** {verdict.theory}", ""] if verdict.theory else []),
        f"**Verdict: {verdict.label}.** {verdict.judgement}",
        "",
    ]
    return "\n".join(lines)


def _source(facts: dict[str, object]) -> str:
    return f", data: {facts['source']}" if "source" in facts else ""


def write_report(folder: Path) -> Path:
    """Write the report beside its tables and figures."""
    path = folder / REPORT
    write_atomically(path, report(folder).encode())
    return path


def publish(folder: Path, docs: Path) -> Path:
    """Copy tables and PNG figures to `docs/reproduction` and write `docs/reproduction.md`.

    Experiments that were published before and are not in the folder stay.
    """
    target = docs / "reproduction"
    target.mkdir(parents=True, exist_ok=True)
    for kept in _facts(folder).values():
        tables, figures = kept["tables"], kept["figures"]
        assert isinstance(tables, list)
        assert isinstance(figures, list)
        for name in [*(f"{t}.csv" for t in tables), *(f"{f}.png" for f in figures)]:
            shutil.copyfile(folder / name, target / name)
    _write(target, {**_facts(target), **_facts(folder)})
    path = docs / REPORT
    write_atomically(path, report(target, "reproduction/").encode())
    return path
