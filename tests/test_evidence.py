"""The changes that `evidence` makes still fit the code; running them is `make evidence`."""

import ast

import pytest
from evidence.defences import CHANGES
from evidence.mutants import MUTANTS, ROOT, mutated


def test_the_text_of_each_mutant_stands_once():
    for mutant in MUTANTS:
        text = (ROOT / "src" / "stillspace" / mutant.file).read_text(encoding="utf-8")
        for old, _ in ((mutant.old, mutant.new), *mutant.also):
            assert text.count(old) == 1, mutant.name
        assert ast.parse(mutated(mutant, text)), mutant.name


def test_a_mutant_that_does_not_fit_is_named():
    with pytest.raises(RuntimeError, match=r"does not fit [a-z_/]+\.py any more"):
        mutated(MUTANTS[0], "")


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.name)
def test_the_text_of_each_change_stands_once(change):
    for file, old, new in change.edits:
        text = (ROOT / "src" / "stillspace" / file).read_text(encoding="utf-8")
        assert text.count(old) == 1
        assert old != new
        assert ast.parse(text.replace(old, new))
