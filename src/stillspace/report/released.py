"""The sections about what was published: directions, numbers and pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from stillspace.estimators._summary import column_names, released_words
from stillspace.methods.pictures import ScoreMap
from stillspace.report import pictures
from stillspace.report.html import Child, Html, join, listed, paragraph, rows, section, tag

MOST_LOADINGS = 14
"""Columns that the table of loadings shows: those with the largest loadings."""


def loadings(model: Any) -> Html | None:
    """Show the published directions."""
    if model.sketch_ is not None:
        text = (
            "The rows were first reduced by a public random projection. The directions refer to "
            "the projected columns, so they have no value for each original column."
        )
        return section("The published directions", paragraph(text))
    V = np.asarray(model.components_)
    names = column_names(model)
    order = np.argsort(-np.abs(V).max(axis=0), kind="stable")[:MOST_LOADINGS]
    largest = float(np.abs(V).max())
    components = V[:4]
    body: list[list[Child]] = [
        [names[j], *(_loading(value, largest) for value in components[:, j])] for j in order
    ]
    head = ["Column", *(f"Component {i + 1}" for i in range(len(components)))]
    more = V.shape[1] - len(order)
    caption = "Loadings: the weight of each column in each direction" + (
        f"; {more} columns with smaller loadings are not shown" if more else ""
    )
    hint = None
    if getattr(model, "feature_names_in_", None) is None:
        hint = paragraph("The model file holds no names of columns. They are numbered from 1.")
    return section("The published directions", rows(head, body, caption=caption), hint)


def _loading(value: float, largest: float) -> Html:
    return join([pictures.bar(value, largest), tag("span", f" {value:+.2f}")])


def released(model: Any) -> Html | None:
    """Show what else was released."""
    facts = [f"{name.capitalize()}: {words}" for name, words in released_words(model)]
    drawn = _pictures(model)
    if not facts and not drawn:
        return None
    return section("What else was released", listed(facts) if facts else None, *drawn)


def _pictures(model: Any) -> list[Html]:
    """Return the released pictures, each with what it shows."""
    drawn: list[Html] = []
    score_map, scree = getattr(model, "score_map_", None), getattr(model, "scree_", None)
    if score_map is not None:
        text = (
            "Where the rows lie along the first components. Darker cells hold more rows. The noise "
            f"on the share of a cell is {100 * score_map.sd:.2g} % of the rows; cells below twice "
            "the noise are white. Rows further out are drawn at the rim."
        )
        if score_map.labels:
            text += " Each label has a map of its own; all other labels are counted together."
        drawn.append(_score_maps(score_map, text))
    if scree is not None:
        text = (
            "Variance of the rows along the leading directions, after every row was scaled to "
            "length 1. The orange line is what noise alone can add."
        )
        picture = pictures.scree(scree.values[:20], scree.noise)
        drawn.append(tag("figure", picture, tag("figcaption", text)))
    return [tag("div", *drawn, class_="pictures")] if drawn else []


def _score_maps(found: ScoreMap, text: str) -> Html:
    """Return the map of the scores, or one map per label beside one another."""
    maps = [
        tag("div", paragraph(title, class_="label") if title else None, picture)
        for title, picture in (
            (title, pictures.score_map(found, title, cells)) for title, cells in found.maps
        )
    ]
    if not found.labels:
        return tag("figure", *maps, tag("figcaption", text))
    return tag("figure", tag("div", *maps, class_="maps"), tag("figcaption", text), class_="across")
