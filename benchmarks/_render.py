"""The results as plain text, Markdown and JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._rows import QUIET, Row, Spread

HEADER = ("topic", "what", "peer", "target", "measured", "quartiles", "ours", "peer's", "verdict")


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.topic,
        row.what,
        row.peer,
        f"{row.target} {row.unit}" if row.target else "–",
        f"{number(row.measured.median)} {row.unit}" if row.measured else "–",
        quartiles(row.measured),
        seconds(row.ours),
        seconds(row.theirs),
        row.verdict,
    )


def number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def quartiles(spread: Spread | None) -> str:
    if spread is None or spread.low == spread.high:
        return "–"
    return f"{number(spread.low)} … {number(spread.high)}"


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    for limit, unit, factor in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"


def text(rows: Sequence[Row]) -> str:
    """Return a table in columns, each note on a line of its own below its row."""
    table = [HEADER, *(cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADER))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in table]
    out = [lines[0].rstrip(), "  ".join("-" * w for w in widths)]
    for row, line in zip(rows, lines[1:], strict=True):
        out.append(line.rstrip())
        if row.note:
            out.append(f"    {row.note}")
    return "\n".join(out)


def progress(row: Row) -> str:
    """Return one line for a run under way."""
    _, what, peer, _, measured, *_, verdict = cells(row)
    return f"{row.topic}: {what} | {peer} | {measured} | {verdict}"


def markdown(rows: Sequence[Row]) -> str:
    """Return one Markdown table a topic, the topic as a heading."""
    parts = []
    for topic in dict.fromkeys(row.topic for row in rows):
        header = (*HEADER[1:], "note")
        lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        for row in rows:
            if row.topic == topic:
                shown = (cell.replace("|", "\\|") for cell in (*cells(row)[1:], row.note))
                lines.append("| " + " | ".join(shown) + " |")
        parts.append(f"### {topic}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def summary(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row.target]
    met = sum(row.verdict == "pass" for row in judged)
    text = f"{met} of {len(judged)} targets met"
    for verdict in ("busy", "not run", "error"):
        count = sum(row.verdict == verdict for row in rows)
        text += f", {count} {verdict}" if count else ""
    return text


def caution(rows: Sequence[Row]) -> str:
    """Return a warning if others used the machine, else nothing."""
    busy = [row.others for row in rows if row.others is not None and row.others > QUIET]
    if not busy:
        return ""
    return (
        f"Others used up to {max(busy):.0%} of the machine during {len(busy)} of {len(rows)} rows. "
        "These are not judged: load can slow BLAS threads far more than our code. Run again idle."
    )


def document(rows: Sequence[Row], facts: dict[str, Any], *, quick: bool) -> dict[str, Any]:
    return {
        "schema": 1,
        "quick": quick,
        "facts": facts,
        "caution": caution(rows) or None,
        "rows": [row.to_dict() for row in rows],
    }


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def facts_line(facts: dict[str, Any]) -> str:
    packages = ", ".join(f"{k} {v}" for k, v in facts["packages"].items() if v)
    pools = "; ".join(
        f"{p['internal_api']} {p.get('version', '')}: {p['num_threads']} threads"
        for p in facts["pools"]
    )
    return (
        f"{facts['date']}, {facts['system']}, {facts['cores']} cores, {facts['memory_gib']} GiB, "
        f"load {facts['load_at_start']} at the start; {facts['python']}; {packages}; {pools}."
    )
