"""Write the tables of constants into the pages of this folder, from the rules themselves.

A table begins with a line "| constant (`NameOfRule`) | value | unit and reason |". The reasons are
the docstrings of the fields.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from stillspace.estimators._planning import SketchRule
from stillspace.methods.certificate.method import CertificateRule
from stillspace.methods.division import DivisionRule
from stillspace.methods.median import MedianRule
from stillspace.methods.newton import NewtonRule
from stillspace.methods.outlier_look import LookRule
from stillspace.methods.pair_lengths import PairLengthRule
from stillspace.methods.pictures import MapRule
from stillspace.methods.standardiser import StandardiserRule
from stillspace.recipes.fits import Shares

HERE = Path(__file__).parent
RULES: dict[type, str] = {
    StandardiserRule: "standardiser.md",
    LookRule: "newton.md",
    DivisionRule: "newton.md",
    NewtonRule: "newton.md",
    Shares: "newton.md",
    MedianRule: "newton.md",
    PairLengthRule: "newton.md",
    MapRule: "newton.md",
    CertificateRule: "newton.md",
    SketchRule: "wide.md",
}
"""All constants that were chosen for the private default and its stages, and their pages."""


def reasons(rule: type) -> dict[str, str]:
    """Return the docstring of every field, in one line."""
    body = ast.parse(inspect.getsource(rule)).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def number(value: Any) -> str:
    """Return a value as people write it; powers of two as such."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    bits = value.hex() if isinstance(value, float) else float(value).hex()
    exponent = int(bits.partition("p")[2])
    if bits.startswith("0x1.0000000000000p") and abs(exponent) >= 10:
        return f"2^{exponent}"
    return f"{value:g}"


def lines(rule: type) -> Iterator[str]:
    """Yield the lines of a rule's table."""
    why = reasons(rule)
    yield f"| constant (`{rule.__name__}`) | value | unit and reason |"
    yield "|---|---|---|"
    for field in fields(rule):
        yield f"| `{field.name}` | {number(field.default)} | {why[field.name]} |"


def written(page: str, rule: type) -> str:
    """Return the text of a page with the table of this rule as it should be."""
    begin = re.escape(f"| constant (`{rule.__name__}`) |")
    pattern = re.compile(rf"^{begin}.*\n(\|.*\n)*", flags=re.MULTILINE)
    assert len(pattern.findall(page)) == 1, rule.__name__
    return pattern.sub(lambda _: "\n".join(lines(rule)) + "\n", page)


if __name__ == "__main__":
    for rule, name in RULES.items():
        page = HERE / name
        page.write_text(written(page.read_text(encoding="utf-8"), rule), encoding="utf-8")
