"""Markdown tables."""

from collections.abc import Iterable, Sequence


def markdown(title: str, note: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"# {title}", "", note, "", _line(header), _line(["---"] * len(header))]
    return "\n".join(lines + [_line(row) for row in rows])


def _line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
