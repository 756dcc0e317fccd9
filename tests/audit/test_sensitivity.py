"""The search finds nothing in the library, and the known blow-ups where they are."""

import numpy as np
import pytest

from stillspace.audit import Subject, search_sensitivity
from stillspace.audit.hard_rows import KINDS, STORAGES, random_basis
from stillspace.audit.sensitivity import _ways, subjects
from stillspace.parts.queries import ColumnCounts, Glad
from stillspace.parts.queries.base import Blockwise

SIZES = (1, 64, 512)
"""A row alone, some rows, and a whole block; `python -m evidence sensitivity` tries more."""


@pytest.mark.parametrize("subject", subjects(6, 2), ids=lambda s: s.name)
def test_nothing_is_found_in_ours(subject):
    """Every kernel and storage type; the bounds are nearly reached, so the search looks well."""
    found = search_sensitivity(subject, sizes=SIZES, points=1)
    assert {finding.storage for finding in found} == set(STORAGES)
    assert all(finding.ok for finding in found), found
    reached = 0.3 if subject.name == "mean distance" else 0.99  # 1 for a centre far outside
    assert max(finding.term for finding in found) > reached
    assert max(finding.difference for finding in found) > 0.9 * reached
    assert max(finding.added for finding in found) > reached


def kinds_of(base):
    """All queries of the library below a class."""
    below = [kind for kind in base.__subclasses__() if kind.__module__.startswith("stillspace.")]
    return {*below, *(kind for other in below for kind in kinds_of(other))}


def test_every_bounded_query_is_searched():
    """A query that is added later must be entered in the list, wherever its bounds come from."""
    named = {kind for kind in kinds_of(Blockwise) if hasattr(kind, "name")}
    # By name: a class with slots was made from one without.
    bounded = {kind.__qualname__ for kind in named if kind.norm_bound != np.inf}
    assert {type(subject.query).__qualname__ for subject in subjects(6, 2)} == bounded
    assert ColumnCounts.__qualname__ in bounded
    assert len(KINDS) == 8


def test_the_ways_of_a_fit_are_searched():
    """Rows in memory are measured or counted as they are stored; both are ways of their own."""
    ways = {subject.name: set(_ways(subject)) for subject in subjects(6, 2)}
    for name in ("counts of the cells of each column", "fourth moment of the scores"):
        assert ways[name] == {"blocks", "passes"}
    assert ways["angles to directions"] == ways["GLAD cost"] == {"blocks", "passes"}
    step = {"blocks", "filled rows", "joint passes"}
    assert ways["GLAD gradient"] == {*step, "passes", "loop"}
    assert ways["curvature"] == ways["curvature matrix"] == step
    assert ways["second moment"] == {"blocks", "passes", "filled rows"}


def naive(X, V):
    """SPEC 9.10: x xᵀV/‖Qx‖ with ‖Qx‖ from the norms, then Q."""
    Y = X @ V
    distance = np.sqrt(np.abs(np.sum(X * X, axis=1) - np.sum(Y * Y, axis=1)))
    G = (X / np.maximum(distance, 1e-30)[:, None]).T @ Y
    return G - V @ (V.T @ G)


def hard_floor(X, V):
    """Unit residuals, and none below rounding level; products whose order depends on n.

    BLAS libraries change their order of summation when n crosses a limit, each machine at another
    one; here an odd number of rows stands for that.
    """
    order = slice(None) if len(X) % 2 == 0 else slice(None, None, -1)
    Y = sum((np.outer(X[:, d], V[d]) for d in np.arange(X.shape[1])[order]), np.zeros((len(X), 2)))
    R = X - Y @ V.T
    distance = np.linalg.norm(R, axis=1)
    unit = np.where(distance[:, None] > 1e-16, R / np.maximum(distance, 1e-300)[:, None], 0.0)
    return unit.T @ Y


def test_the_naive_formula_blows_up():
    (found,) = search_sensitivity(Subject(Glad(6, 2), random_basis, 2, naive), sizes=(8,), points=1)
    assert found.term > 1e10
    assert not found.ok


def test_a_hard_floor_at_rounding_level_blows_up():
    """One row more, and a matrix product changes the low bits of the others."""
    sizes = range(1000, 1008)
    subject = Subject(Glad(20, 2), random_basis, 2, hard_floor)
    (found,) = search_sensitivity(subject, sizes=sizes, points=1)
    assert found.added > 10
    assert found.term < 1 + 1e-9


def test_without_its_clip_a_term_is_found():
    class Unclipped(Glad):
        def add_block(self, XT, point, out):
            out += (XT - point @ (point.T @ XT)) @ (XT.T @ point) * 1.01

        def terms(self, point, out):
            return None

    found = search_sensitivity(Subject(Unclipped(6, 2), lambda *_: 1.5 * np.eye(6)[:, :2], 2),
                               storages=["float64"], sizes=(8,), points=1)  # fmt: skip
    assert not all(finding.ok for finding in found)


AT_BASES = [s for s in subjects(6, 2) if s.points(np.random.default_rng(0), 6, 2).shape[0] == 6]


@pytest.mark.parametrize("subject", AT_BASES, ids=lambda s: s.name)
def test_terms_are_clipped_at_points_that_are_too_long(subject):
    """Bounds hold at every point, not only at a basis: the last step of a term is a clip."""

    def too_long(*facts):
        return 1.2 * subject.points(*facts)  # rows along it are still near

    longer = Subject(subject.query, too_long, subject.r)
    found = search_sensitivity(longer, storages=["float64"], sizes=(8,), points=1)
    assert all(finding.ok for finding in found), found


def test_an_unknown_storage_is_named():
    with pytest.raises(ValueError, match=r"storages must be one of .* got 'floats'"):
        search_sensitivity(storages=["floats"])
