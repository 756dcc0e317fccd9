"""SPEC 4 (a) end to end: a neighbour never changes the bits of another row's term."""

import numpy as np
import pytest

from stillspace.parts.queries import PRIVATE_FLOOR, Glad, Reaper
from stillspace.parts.queries.base import PRIVATE_NEAR
from stillspace.rows import MemoryRows
from tests.conftest import random_basis, unit_rows
from tests.kernels import reference

D, R = 20, 2


def terms(query, XT, point):
    """The term of every row as it is inside a block, by asking for the block with one row kept.

    Zero rows add exactly nothing, so the sum over a block in which only row i is not zero is that
    row's term, computed in place.
    """
    out = []
    for i in range(XT.shape[1]):
        alone = np.zeros_like(XT)
        alone[:, i] = XT[:, i]
        total = np.zeros(query.shape)
        query.add_block(alone, point, total)
        out.append(total)
    return np.array(out)


@pytest.mark.parametrize("query", [Glad(D, R), Reaper(D, R)], ids=lambda q: q.name)
@pytest.mark.parametrize("near", [1.0, 1e-8, 1e-15])
def test_a_term_has_the_same_bits_at_any_place_in_any_block(rng, query, near):
    """Rows close to the subspace, where a residual is all rounding, in blocks of many shapes."""
    V = random_basis(rng, D, R)
    point = V @ V.T if isinstance(query, Reaper) else V
    point = (point + point.T) / 2 if isinstance(query, Reaper) else point
    rows = V @ rng.standard_normal((R, 24)) + near * rng.standard_normal((D, 24))
    rows /= np.linalg.norm(rows, axis=0)
    want = terms(query, rows, point)
    for shift, width in ((1, 25), (7, 40), (13, 129)):
        block = unit_rows(rng, width, D)
        block[:, shift : shift + 24][:, : width - shift] = rows[:, : width - shift]
        count = min(24, width - shift)
        got = terms(query, block, point)[shift : shift + count]
        assert np.array_equal(got, want[:count])


def test_terms_come_from_the_specified_residual(rng):
    """Not from a matrix product, whose fused additions differ in the last bits."""
    V = random_basis(rng, D, R)
    P = (V @ V.T + (V @ V.T).T) / 2
    for x in unit_rows(rng, 20, D).T:
        column = np.ascontiguousarray(x[:, None])
        (term,) = reference.glad_terms(column, V, PRIVATE_NEAR, PRIVATE_FLOOR)
        assert np.array_equal(terms(Glad(D, R), column, V)[0], term)
        residual = reference.residual_to_matrix(column, P)
        norms = reference.column_norms(residual), reference.column_norms(column)
        half = (residual * reference.clip_weights(*norms, PRIVATE_FLOOR)) @ column.T
        assert np.array_equal(terms(Reaper(D, R), column, P)[0], (half + half.T) / 2)


@pytest.mark.parametrize("n", [511, 512, 513, 1024])
def test_sums_differ_by_one_term_across_block_limits_for_rows_on_the_subspace(rng, n):
    """The case in which matrix products moved a sum by hundreds (n → n + 1, ‖Qx‖ at rounding)."""
    V = random_basis(rng, D, R)
    XT = V @ rng.standard_normal((R, n + 1))
    XT /= np.linalg.norm(XT, axis=0)
    whole = MemoryRows(XT).add(Glad(D, R), V, None)
    part = MemoryRows(np.ascontiguousarray(XT[:, :-1])).add(Glad(D, R), V, None)
    assert np.linalg.norm(whole - part) <= 1.0 + 1e-9


@pytest.mark.parametrize("scale", [1.0 + 1e-9, 1.5, 3.0])
def test_the_clip_acts_in_every_lane_whatever_its_neighbours_are(rng, scale):
    """At a basis that is not orthonormal the clip alone keeps the bound of a term.

    It is left out where no row of eight has scores long enough to need it.
    """
    V = scale * random_basis(rng, D, R)
    XT = V @ rng.standard_normal((R, 24)) + 0.3 * rng.standard_normal((D, 24))
    XT[:, ::3] -= V @ np.linalg.lstsq(V, XT[:, ::3], rcond=None)[0]  # these have no scores
    XT /= np.linalg.norm(XT, axis=0)
    query, one = Glad(D, R), []
    for i in range(XT.shape[1]):
        total = np.zeros(query.shape)
        query.add_block(XT[:, i : i + 1], V, total)
        one.append(total)
    assert max(np.linalg.norm(term) for term in one) <= 1.0 + query.term_error
    for shift in range(8):
        order = np.roll(np.arange(24), shift)
        assert np.array_equal(terms(query, XT[:, order], V), np.array(one)[order])
        total = np.zeros(query.shape)
        query.add_block(XT[:, order], V, total)
        np.testing.assert_allclose(total, np.sum(one, axis=0), atol=1e-12)
