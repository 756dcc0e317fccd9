"""Pictures as SVG text, drawn from released numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.pictures import ScoreMap
from stillspace.report.html import Html, tag

BLUE, ORANGE, INK, GREY, LINE = "#0b5d8f", "#b34700", "#1a1a1a", "#4d4d4d", "#b8b8b8"
WIDTH, HEIGHT = 420.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 12.0, 12.0, 40.0


def _svg(label: str, *children: Html, height: float = HEIGHT) -> Html:
    """Return a picture that scales with the page and says what it shows to a screen reader."""
    box = f"0 0 {WIDTH:g} {height:g}"
    return tag("svg", tag("title", label), *children, viewBox=box, role="img", aria_label=label)


def _text(x: float, y: float, text: str, anchor: str = "middle", fill: str = INK) -> Html:
    return tag("text", text, x=x, y=y, text_anchor=anchor, fill=fill)


def _line(
    x1: float, y1: float, x2: float, y2: float, color: str = LINE, width: float = 1.0
) -> Html:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, stroke_width=width)


def epsilon_delta(
    epsilons: Sequence[float], deltas: Sequence[float], stated: tuple[float, float]
) -> Html:
    """Return the curve of all (ε, δ) that hold at once, with the pair that is stated."""
    known = [(e, d) for e, d in zip(epsilons, deltas, strict=True) if d > 0.0]
    low = floor(min(log10(stated[1]), *(log10(max(d, 1e-15)) for _, d in known))) - 0
    low, right = max(low, -15), max(epsilons)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / right

    def y(value: float) -> float:
        part = log10(max(value, 10.0**low)) / low
        return TOP + (HEIGHT - TOP - BOTTOM) * part

    drawn: list[Html] = []
    for power in range(0, low - 1, -max(1, ceil(-low / 5))):
        at = y(10.0**power)
        drawn += [
            _line(LEFT, at, WIDTH - RIGHT, at),
            _text(LEFT - 6, at + 4, f"1e{power}" if power else "1", "end"),
        ]
    for step in range(5):
        value = right * step / 4
        drawn.append(_text(x(value), HEIGHT - BOTTOM + 16, f"{value:.3g}"))
    points = " L".join(f"{x(e):.2f} {y(d):.2f}" for e, d in known)
    drawn += [
        tag("path", d=f"M{points}", fill="none", stroke=BLUE, stroke_width=2.5),
        tag("circle", cx=x(stated[0]), cy=y(stated[1]), r=5.0, fill=ORANGE),
        _text(x(stated[0]) + 9, y(stated[1]) - 7, "stated", "start", ORANGE),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "ε (privacy loss)", fill=GREY),
        _text(8, TOP + 4, "δ", "start", GREY),
    ]
    label = f"Curve of delta over epsilon; the stated pair is {stated[0]:.4g} and {stated[1]:.2g}."
    return _svg(label, *drawn)


def bar(value: float, largest: float) -> Html:
    """Return a small bar from the middle, to the right for positive numbers."""
    half = 46.0
    length = half * abs(value) / largest if largest > 0.0 else 0.0
    begin = half if value >= 0.0 else half - length
    color = BLUE if value >= 0.0 else ORANGE
    return tag(
        "svg",
        _line(half, 0.0, half, 12.0, GREY),
        tag("rect", x=begin, y=2.0, width=length, height=8.0, fill=color),
        viewBox=f"0 0 {2 * half:g} 12",
        class_="bar",
        aria_hidden="true",
    )


def score_map(found: ScoreMap, title: str, cells: FloatArray) -> Html:
    """Return one map of scores: darker cells hold more rows; cells within the noise stay white."""
    shares = np.atleast_2d(cells.T)[::-1]
    top = max(float(found.shares.max()), 1e-12)
    across, down = shares.shape[1], shares.shape[0]
    side = 300.0 / across
    height = TOP + side * down + BOTTOM
    drawn: list[Html] = []
    for i in range(down):
        for j in range(across):
            part = shares[i, j] / top if shares[i, j] > 2.0 * found.sd else 0.0
            fill = _shade(part)
            drawn.append(
                tag("rect", x=LEFT + j * side, y=TOP + i * side, width=side, height=side, fill=fill)
            )
    box = {"x": LEFT, "y": TOP, "width": 300.0, "height": side * down}
    drawn.append(tag("rect", **box, fill="none", stroke=GREY))
    for part in (-1.0, 0.0, 1.0):
        x, low = LEFT + 150.0 * (1.0 + part), TOP + side * down
        drawn.append(_text(x, low + 16, f"{part * found.length:.3g}"))
        if down > 1:
            y = TOP + 150.0 * (1.0 - part)
            drawn.append(_text(LEFT - 6, y + 4, f"{part * found.length:.3g}", "end"))
    drawn.append(_text(LEFT + 150.0, height - 6, "score on component 1", fill=GREY))
    if down > 1:
        middle, turned = TOP + 150.0, {"text_anchor": "middle", "fill": GREY}
        turned["transform"] = f"rotate(-90 14 {middle:g})"
        drawn.append(tag("text", "score on component 2", x=14.0, y=middle, **turned))
    label = "Map of the scores: where rows are many, with noise."
    return _svg(f"{title}: {label}" if title else label, *drawn, height=height)


def _shade(part: float) -> str:
    """Return a colour from white to dark blue."""
    mixed = (round(255 + (end - 255) * part**0.6) for end in (8, 48, 107))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def scree(values: FloatArray, noise: float) -> Html:
    """Return released variances along ordered directions, with the noise's level."""
    top = max(float(values.max()), noise, 1e-12)
    span = (WIDTH - LEFT - RIGHT) / len(values)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - max(value, 0.0) / top)

    drawn: list[Html] = []
    for step in range(5):
        value = top * step / 4
        drawn += [
            _line(LEFT, y(value), WIDTH - RIGHT, y(value)),
            _text(LEFT - 6, y(value) + 4, f"{value:.2g}", "end"),
        ]
    for j, value in enumerate(values.tolist()):
        x = LEFT + span * (j + 0.15)
        drawn.append(
            tag("rect", x=x, y=y(value), width=0.7 * span, height=y(0.0) - y(value), fill=BLUE)
        )
        if len(values) <= 20 or j % 5 == 0:
            drawn.append(_text(x + 0.35 * span, HEIGHT - BOTTOM + 16, str(j + 1)))
    drawn += [
        _line(LEFT, y(noise), WIDTH - RIGHT, y(noise), ORANGE, 2.0),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "component", fill=GREY),
    ]
    return _svg("Released variance along each component, with the level of the noise.", *drawn)
