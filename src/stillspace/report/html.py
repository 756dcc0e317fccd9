"""HTML that is safe by default: every text is escaped unless it was made here."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

_EMPTY = {"input", "meta", "br", "line", "rect", "path", "circle"}
"""Elements without an end tag (in SVG: with nothing inside)."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | Html | None"


def join(children: list[Html] | tuple[Html, ...]) -> Html:
    """Return several pieces of HTML as one."""
    return Html("".join(children))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """Return an element. `class_` and `for_` stand for `class` and `for`, `_` for `-`."""
    words = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        words.append(word if value is True else f'{word}="{escape(text)}"')
    begin = " ".join([name, *words])
    if name in _EMPTY and not children:
        return Html(f"<{begin}/>")
    inner = "".join(c if isinstance(c, Html) else escape(c) for c in children if c is not None)
    return Html(f"<{begin}>{inner}</{name}>")


def rows(head: list[str], body: list[list[Child]], *, caption: str = "") -> Html:
    """Return a table; the first cell of each row is its heading."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    lines = [
        tag("tr", tag("th", line[0], scope="row"), *(tag("td", cell) for cell in line[1:]))
        for line in body
    ]
    name = tag("caption", caption) if caption else None
    table = tag("table", name, tag("thead", top), tag("tbody", *lines))
    return tag("div", table, class_="wide", tabindex="0", role="region", aria_label=caption or None)


def listed(items: list[str] | list[Html]) -> Html:
    """Return a list of sentences."""
    return tag("ul", *(tag("li", item) for item in items))


def paragraph(*children: Child, class_: str | None = None) -> Html:
    """Return a paragraph."""
    return tag("p", *children, class_=class_)


def section(title: str, *children: Child) -> Html:
    """Return a section with its heading."""
    return tag("section", tag("h2", title), *children)
