"""The sensitivity search at full length, and what it finds in formulas that are known to break."""

from tests.audit.test_sensitivity import hard_floor, naive

from evidence._table import markdown
from stillspace.audit import Subject, search_sensitivity
from stillspace.audit.hard_rows import random_basis
from stillspace.audit.sensitivity import SIZES
from stillspace.parts.queries import Glad


def table() -> str:
    ours = search_sensitivity(sizes=(*SIZES, 25_000), points=4)
    if not all(finding.ok for finding in ours):
        msg = f"A bound is broken: {[f for f in ours if not f.ok]}"
        raise RuntimeError(msg)
    worst: dict[tuple[str, str], list] = {}
    for finding in ours:
        worst.setdefault((finding.query, finding.kernel), []).append(finding)
    rows = [
        (query, kernel, *_largest(found), sum(f.tried for f in found))
        for (query, kernel), found in worst.items()
    ]
    for name, add in (("naive formula (SPEC 9.10)", naive), ("hard floor of 1e-16", hard_floor)):
        subject = Subject(Glad(20, 2), random_basis, 2, add)
        found = search_sensitivity(subject, sizes=(*range(1000, 1008), 25_000), points=2)
        rows.append((f"GLAD, {name}", "NumPy", *_largest(found), found[0].tried))
    return markdown(
        "Sensitivity search",
        "The worst found over what the accountant is told, for all storage types together (float64 "
        "by rows and by columns, float32, int8, uint8, sparse) and two shapes: the longest "
        "term, the largest difference of two terms, sums of data sets with one row more, with one "
        "replaced. "
        "At most 1 in the library; the last rows are known to break.",
        ["query", "kernel", "term", "difference", "one row more", "one replaced", "cases"],
        rows,
    )


def _largest(found: list) -> tuple[str, ...]:
    names = ("term", "difference", "added", "replaced")
    return tuple(f"{max(getattr(f, name) for f in found):.7g}" for name in names)
