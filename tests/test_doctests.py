"""Every example in a docstring of the package does what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

import stillspace

SOURCES = Path(stillspace.__file__).parent
WITH_EXAMPLES = [p for p in sorted(SOURCES.rglob("*.py")) if ">>> " in p.read_text("utf-8")]
MODULES = [
    ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in WITH_EXAMPLES
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_modules_with_examples_are_found():
    assert {"stillspace.estimators.robust", "stillspace.prediction"} <= set(MODULES)
