"""A change of the code that must turn a test red."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = (
        "tests/test_release.py",
        "tests/test_recipes.py",
        "tests/parts/test_queries.py",
        "tests/estimators/test_privacy.py",
    )
    also: tuple[tuple[str, str], ...] = ()
    """Further changes of the same file."""


LEDGER = ("tests/privacy/test_budget.py", "tests/estimators/test_budget.py")

PAIRS = ("tests/test_pair_cut.py",)

EXTENDING = ("tests/test_extending.py",)

LOOK = ("tests/methods/test_outlier_look.py", "tests/methods/test_scatter.py")

CERTIFICATE = ("tests/methods/test_certificate.py",)

QUERIES = ("tests/parts/test_queries.py",)

SOURCE = ("tests/estimators/test_provenance.py",)
"""Where every random word of a fit comes from."""

PTR = ("tests/test_ptr.py",)

SEEDED = "__import__('stillspace.parts.noise', fromlist='_').seeded_generator(7)"
"""A generator whose words everybody knows, in one expression."""

AT_CUT = "[m for m in ask.through if type(m).__name__ == 'LeaveOut']"
"""Whether a pass of an adaptive plan looks at short pairs alone, in one expression."""
