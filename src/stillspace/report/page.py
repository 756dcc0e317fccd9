"""The page: sections, one after another, in a file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stillspace._files import write_atomically
from stillspace.models import Model, ModelFile
from stillspace.privacy import Budget
from stillspace.report import released, sections
from stillspace.report.html import Html, join, tag

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page may load nothing, from anywhere, and runs no script."""
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.45 system-ui, "DejaVu Sans", sans-serif; color: #1a1a1a; background: #fff;
  max-width: 52rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6em; margin: 0 0 .5rem; }
h2 { font-size: 1.15em; margin: 1.4rem 0 .4rem; border-bottom: 2px solid #0b5d8f; }
p, ul, figure { margin: .4rem 0; }
figure { max-width: 30rem; }
figcaption, caption { color: #4d4d4d; font-size: .9em; text-align: left; }
.quiet { color: #4d4d4d; }
svg { width: 100%; height: auto; font: 14px system-ui, "DejaVu Sans", sans-serif; }
svg.bar { width: 5.75rem; height: .75rem; }
.beside { display: flex; flex-wrap: wrap; gap: 0 1.5rem; align-items: flex-start; }
.beside > div { flex: 1 1 20rem; }
.beside > figure { flex: 1 1 18rem; max-width: 24rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
.pictures figure { flex: 1 1 16rem; max-width: 24rem; }
.pictures figure.across { flex: 1 1 100%; max-width: none; }
.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: .5rem; }
.label { margin: 0; text-align: center; font-weight: 600; }
.wide { overflow-x: auto; }
:focus-visible { outline: 3px solid #0b5d8f; outline-offset: 2px; }
table { border-collapse: collapse; }
th, td { padding: .15rem .7rem .15rem 0; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid #4d4d4d; }
tbody th { font-weight: 600; }
.facts th { white-space: nowrap; }
.warning { border: 3px solid #a4001d; padding: .6rem; color: #7d0016; background: #fff4f4; }
.boxes { list-style: none; padding-left: 0; }
.boxes label { display: flex; gap: .5rem; margin: .2rem 0; }
input[type=checkbox] { flex: none; width: 1.05rem; height: 1.05rem; margin: .2rem 0 0; }
.signature { display: flex; flex-wrap: wrap; gap: 1.5rem; margin-top: 2.6rem; }
.line { border-top: 1px solid #1a1a1a; flex: 1 1 11rem; color: #4d4d4d; }
td code { overflow-wrap: anywhere; }
code { font-family: "DejaVu Sans Mono", monospace; font-size: .85em; }
@media (max-width: 30rem) { svg.bar { display: none; } th, td { padding-right: .4rem; } }
@page { size: A4; margin: 12mm; }
@media print {
  body { font-size: 8.6pt; line-height: 1.28; max-width: none; padding: 0; }
  h1 { font-size: 13pt; } h2 { font-size: 10pt; margin: 2.2mm 0 .8mm; break-after: avoid; }
  p, ul, figure { margin: .6mm 0; } figure { max-width: 78mm; }
  .pictures figure { max-width: 70mm; flex: 0 0 70mm; }
  .maps { grid-template-columns: repeat(auto-fill, 58mm); gap: 1mm; }
  th, td { padding: 0 3mm 0 0; } li, tr, figure { break-inside: avoid; }
  .signature { margin-top: 9mm; break-inside: avoid; break-before: avoid; }
  .boxes label { margin: 0; gap: 1.5mm; } .wide { overflow: visible; }
  .beside { flex-wrap: nowrap; } .beside > figure { flex: 0 0 74mm; }
  svg.bar { height: 2.4mm; width: 18mm; } code { font-size: 7pt; }
  input[type=checkbox] { width: 2.6mm; height: 2.6mm; margin: .4mm 0 0; }
}
"""


def render_report(
    model: Model,
    *,
    audit: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> str:
    """Return the report of a model as one HTML page that loads nothing and runs no script.

    The page is a function of the model file: of released numbers and public facts. It does not
    hold the date on which it was made, so that the same file gives the same page.

    Parameters
    ----------
    model : estimator
        From `stillspace.models.load_model`.
    audit : mapping, default=None
        What `AuditReport.to_dict` gives for an audit of the model's plan.
    budget : Budget, default=None
        The ledger that the fit was charged to; its entries are then listed.
    """
    if not isinstance(getattr(model, "file_", None), ModelFile):
        msg = "A report is made of a model file: save the model, and pass load_model(path)."
        raise ValueError(msg)
    body = [
        sections.heading(model),
        sections.what_was_done(model),
        sections.guarantee(model),
        sections.for_one_person(model),
        sections.checklist(model),
        sections.ledger(model, budget),
        released.loadings(model),
        released.released(model),
        sections.audit(audit, model),
        sections.reproduction(model),
    ]
    return "<!DOCTYPE html>\n" + _page([part for part in body if part is not None])


def _page(body: list[Html]) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", "Privacy report"),
        tag("style", Html(STYLE)),
    )
    return tag("html", head, tag("body", tag("main", join(body))), lang="en") + "\n"


def write_report(
    model: Model,
    path: str | os.PathLike[str],
    *,
    audit: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> None:
    """Write the report of a model to a file, in one step (see `render_report`)."""
    write_atomically(path, render_report(model, audit=audit, budget=budget).encode())
