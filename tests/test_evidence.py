"""The mutants of `evidence` still fit the code; running them is `make evidence`."""

import pytest
from evidence.mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_text_of_each_mutant_stands_once(mutant):
    text = (ROOT / "src" / "stillspace" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
