"""Changes of parts of the rows: which rows they have, and what a ledger charges for them."""

from evidence._mutant import Mutant

_TESTS = ("tests/plans/test_parts.py",)
_LEDGER, _RELEASE, _RUN = "plans/ledger.py", "plans/release.py", "run/__init__.py"
_SAMPLING = "parts/sampling.py"

PARTS = [
    Mutant(
        "releases of a part are not charged",
        _LEDGER,
        "parts = {**self.parts, read: self.parts.get(read, Fraction(0)) + cost}",
        "parts = self.parts",
        tests=_TESTS,
    ),
    Mutant(
        "a part is charged for its last release alone",
        _LEDGER,
        "read: self.parts.get(read, Fraction(0)) + cost",
        "read: cost",
        tests=_TESTS,
    ),
    Mutant(
        "the part that was read least is charged",
        _LEDGER,
        "whole + max(parts.values(), default=Fraction(0)) <= self.limit",
        "whole + min(parts.values(), default=Fraction(0)) <= self.limit",
        tests=_TESTS,
    ),
    Mutant(
        "rounding in the other parts is not charged",
        _LEDGER,
        "return self.whole + moved, parts",
        "return self.whole, parts",
        tests=_TESTS,
    ),
    Mutant(
        "shares of parts leave no room for rounding in the other parts",
        "plans/adaptive.py",
        "safe = _SAFE if isinstance(ask.sampling, All) else 1.0 - PART_MARGIN",
        "safe = 1.0",
        tests=_TESTS,
    ),
    Mutant(
        "rounding counts the jobs of one row alone",
        _RELEASE,
        "        query, rows = self.asked, self.rows_bound\n        bound, chain",
        "        query, rows = self.asked, min(self.rows_bound, 4608)\n        bound, chain",
        tests=("tests/test_release.py", "tests/rows/test_sums.py"),
    ),
    Mutant(
        "parts of two divisions are taken for disjoint ones",
        _LEDGER,
        "if any(part.parts != read.parts for part in self.parts):",
        "if False:",
        tests=_TESTS,
    ),
    Mutant(
        "each pass draws a division of its own",
        _RUN,
        "division = division or Division(",
        "division = Division(",
        tests=_TESTS,
    ),
    Mutant(
        "the same division in every run",
        _RUN,
        "Division(ask.sampling.parts, rows.n_rows, rng)",
        "Division(ask.sampling.parts, rows.n_rows, np.random.default_rng(7))",
        tests=_TESTS,
    ),
    Mutant(
        "parts by the place of a row",
        _SAMPLING,
        "rng.integers(parts, size=n_rows, dtype=np.uint8)",
        "(np.arange(n_rows) // 64 % parts).astype(np.uint8)",
        tests=_TESTS,
    ),
    Mutant(
        "parts overlap",
        _SAMPLING,
        "np.flatnonzero(self._labels == part.number)",
        "np.flatnonzero(self._labels <= part.number)",
        tests=_TESTS,
    ),
    Mutant(
        "parts with several rows per person",
        _LEDGER,
        "if event.rows_per_person != 1:",
        "if False:",
        tests=_TESTS,
    ),
    Mutant(
        "a run with a journal reads parts",
        _RUN,
        "resumable=observers.journal is not None",
        "resumable=False",
        tests=_TESTS,
    ),
    Mutant(
        "the number of rows of a part is shown by the mean",
        _SAMPLING,
        "return size / self.parts",
        "return float(size // self.parts + 1)",
        tests=_TESTS,
    ),
    Mutant(
        "a pass over a part reads all rows",
        _RELEASE,
        "in self.releases), draws[0].selection",
        "in self.releases), None",
        tests=_TESTS,
    ),
    Mutant(
        "large tables in memory are paired by blocks",
        "rows/protocols.py",
        'return None if getattr(rows, "in_memory", False) else rows.n_columns',
        "return rows.n_columns",
        tests=("tests/rows/test_pairs.py",),
    ),
]
