"""Small HTML for notebooks: a heading, a table of facts, and sentences. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_STYLE = (
    "border:1px solid #c8c8c8;border-radius:4px;padding:.6em .9em;margin:.3em 0;"
    "max-width:60em;font-size:90%"
)
_CELL = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0"


def facts_in_html(
    title: str,
    facts: Iterable[tuple[str, str]],
    sentences: Iterable[str] = (),
    *,
    folded: str = "What it rests on",
    warning: str = "",
) -> str:
    """Return a box: a title, a table of names and values, sentences that can be folded out."""
    rows = "".join(
        f'<tr><th style="{_CELL};font-weight:normal;color:#5f5f5f">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in facts
    )
    items = "".join(f"<li>{escape(line)}</li>" for line in sentences)
    fold = f"<details><summary>{escape(folded)}</summary><ul>{items}</ul></details>"
    more = fold if items else ""
    alarm = f'<p style="color:#a33b00;margin:.3em 0">{escape(warning)}</p>' if warning else ""
    return (
        f'<div style="{_STYLE}"><strong>{escape(title)}</strong>{alarm}'
        f'<table style="border-collapse:collapse;margin:.4em 0">{rows}</table>{more}</div>'
    )


def facts_in_text(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return a title and one line for each fact, the values below one another."""
    pairs = list(facts)
    wide = max((len(name) for name, _ in pairs), default=0)
    return "\n".join([title, *(f"  {name:<{wide}}  {value}" for name, value in pairs)])
