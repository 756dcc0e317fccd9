"""Changes of parts of the rows: which rows they have, and what a ledger charges for them."""

from evidence._mutant import Mutant

_TESTS = ("tests/plans/test_parts.py",)
_LEDGER, _RELEASE = "plans/ledger.py", "plans/release.py"
_SAMPLING = "parts/sampling.py"

PARTS = [
    Mutant(
        "releases of a part are not charged",
        _LEDGER,
        "return self.whole, {**self.parts, read: self.parts.get(read, Fraction(0)) + cost}",
        "return self.whole, self.parts",
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
        "parts of two divisions are taken for disjoint ones",
        _LEDGER,
        "if any(part.division != read.division for part in self.parts):",
        "if False:",
        tests=_TESTS,
    ),
    Mutant(
        "parts overlap",
        _SAMPLING,
        "+ np.uint64(part.number)) % parts",
        "+ np.uint64(part.number // 2)) % parts",
        tests=_TESTS,
    ),
    Mutant(
        "parts with several rows per person",
        _LEDGER,
        'if self.relation != "replace-one" or event.rows_per_person != 1:',
        'if self.relation != "replace-one":',
        tests=_TESTS,
    ),
    Mutant(
        "parts where rows are added or removed",
        _RELEASE,
        'if isinstance(self.sampling, RowPart) and self.relation != "replace-one":',
        "if False:",
        tests=_TESTS,
    ),
    Mutant(
        "a journal takes what one part paid for paid by all rows",
        "run/journal.py",
        'if "part" in release:',
        "if False:",
        tests=_TESTS,
    ),
    Mutant(
        "the same division in every fit",
        "methods/division.py",
        'int.from_bytes(sha256(moment.value.tobytes()).digest()[:8], "big")',
        "7",
        tests=_TESTS,
    ),
    Mutant(
        "the generator decides which rows are read",
        _SAMPLING,
        "        numbers = self.numbers(n_rows)\n        every",
        "        numbers = np.sort(rng.permutation(n_rows))[: len(self.numbers(n_rows))]\n"
        "        rng.shuffle(numbers)\n        every",
        tests=_TESTS,
    ),
    Mutant(
        "a pass over a part reads all rows",
        _RELEASE,
        "in self.releases), draws[0].selection",
        "in self.releases), None",
        tests=_TESTS,
    ),
]
