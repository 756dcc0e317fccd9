"""Distances from `‖x‖² − ‖Vᵀx‖²`, and the projection of a job's sum (docs/privacy.md)."""

import numpy as np
import pytest

from stillspace.kernels.jobs import ORTHONORMAL, near_of
from stillspace.kernels.measuring import measured
from stillspace.parts.queries import PRIVATE_NEAR, Curvature, Glad
from stillspace.plans.release import Draw, JointRelease, Release
from stillspace.rows import STANDARD, MemoryRows
from tests.conftest import random_basis
from tests.kernels.reference import projected

D, R = 40, 4


def rows_at(rng, V, distance, n):
    """Unit rows (D, n) at this distance from the span of V, or so; scores of norm √(1 − d²)."""
    D, r = V.shape
    away = rng.standard_normal((D, n))
    away -= V @ (V.T @ away)
    along = V @ rng.standard_normal((r, n))
    XT = distance * away / np.linalg.norm(away, axis=0)
    XT += np.sqrt(1.0 - distance**2) * along / np.linalg.norm(along, axis=0)
    return XT / np.linalg.norm(XT, axis=0)


def nearly_orthonormal(rng, D, r):
    """A basis whose inner products are off by almost as much as is allowed."""
    V = random_basis(rng, D, r)
    return V * (1.0 + 0.45 * ORTHONORMAL * rng.choice([-1.0, 1.0], size=r))


def exact_terms(XT, V):
    """GLAD's terms (n, D, r) for Q = I − V Vᵀ, in 80-bit arithmetic."""
    XT, V = np.asarray(XT, dtype=np.longdouble), np.asarray(V, dtype=np.longdouble)
    Y = np.sum(V[:, :, None] * XT[:, None, :], axis=0)
    residual = XT - np.sum(V[:, :, None] * Y[None], axis=1)
    distance = np.sqrt(np.sum(residual**2, axis=0))
    return np.einsum("di,ji->idj", residual, Y / distance)


@pytest.mark.parametrize("factor", [0.5, 1 - 1e-9, 1 + 1e-9, 2.0, 30.0])
def test_a_term_keeps_its_norm_on_both_sides_of_the_limit(rng, factor):
    V, query = nearly_orthonormal(rng, D, R), Glad(D, R)
    XT = rows_at(rng, V, factor * np.sqrt(PRIVATE_NEAR), 40)
    for x, want in zip(XT.T, exact_terms(XT, V), strict=True):
        term = np.zeros((D, R))
        query.add_block(np.ascontiguousarray(x[:, None]), V, term)
        rounding = query.summand_bound * (query.job_error + 4 * 2.0**-53)
        assert np.linalg.norm(term) <= 1.0 + query.term_error + rounding
        assert np.linalg.norm(term - want) <= query.term_error + rounding + 1e-10


def test_what_is_charged_for_a_term_is_small():
    assert Glad(256, 10).term_error < 1e-7
    assert Glad(256, 10).summand_bound < 257.0


def test_a_basis_that_is_not_orthonormal_has_every_residual_computed(rng):
    """Then nothing is projected, and a term's norm is at most 1 by its clip, whatever V is."""
    V = random_basis(rng, D, R)
    assert near_of(V, PRIVATE_NEAR) == PRIVATE_NEAR
    bent = V + 1e-9 * rng.standard_normal(V.shape)
    skew, long = V @ (np.eye(R) + 0.1 * rng.standard_normal((R, R))), 50.0 * V
    for W in (bent, skew, long, np.zeros_like(V)):
        assert near_of(W, PRIVATE_NEAR) == np.inf
        for x in rows_at(rng, V, 0.2, 5).T:
            term = np.zeros((D, R))
            Glad(D, R).add_block(np.ascontiguousarray(x[:, None]), W, term)
            assert np.linalg.norm(term) <= 1.0 + 2.0 * (D + 8) * 2.0**-53


def test_rounding_of_a_job_of_heavy_rows_is_charged(rng):
    """All rows just above the limit: the largest weights, and sums that the projection cancels."""
    n, V = 4000, random_basis(rng, D, R)
    XT = rows_at(rng, V, 1.001 * np.sqrt(PRIVATE_NEAR), n)
    XT[:, : n // 2] *= np.sign(V[:, 0] @ XT[:, : n // 2])  # one direction dominates the sum
    release = Release(Glad(D, R), n, 1.0)
    got = MemoryRows(XT).add(release.asked, V, None)
    want = np.sum(exact_terms(XT, V), axis=0)
    assert np.linalg.norm(got - want) <= release._summation_error() + n * release.asked.term_error


@pytest.mark.parametrize(("relation", "n"), [("add-or-remove-one", 10**8), ("replace-one", 10**9)])
def test_more_rows_are_added_with_smaller_weights(relation, n):
    """The sum's rounding stays small: the limit rises with the number of rows that may move."""
    release = Release(Glad(20, 2), n, 1.0, relation=relation)
    assert 2.0 * release._summation_error() < 5e-3
    assert (release.asked.near > PRIVATE_NEAR) == (release.rows_bound > 2**26)
    assert release.query == Glad(20, 2)


def test_replacing_a_row_leaves_other_jobs_alone(rng):
    """Jobs of heavy rows cancel to the last bit: a sum moves by one term, and by no rounding."""
    n, V = 60_000, random_basis(rng, D, 2)
    XT = rows_at(rng, V, 1.01 * np.sqrt(PRIVATE_NEAR), n)
    other = XT.copy()
    other[:, 7] = rows_at(rng, V, 0.5, 1)[:, 0]
    sums = [MemoryRows(A).add(Glad(D, 2), V, None) for A in (XT, other)]
    one, two = (exact_terms(A[:, 7:8], V)[0] for A in (XT, other))
    release = Release(Glad(D, 2), n, 1.0)
    assert np.linalg.norm(sums[1] - sums[0] - (two - one)) <= 2 * release._summation_error()


@pytest.mark.parametrize("near", [PRIVATE_NEAR, np.inf])
def test_the_distance_of_a_tiny_row_is_its_own(rng, near):
    """Rows in the ball may be so short that their squares vanish; rows beside them may be near."""
    V = random_basis(rng, D, R)
    close = V @ rng.standard_normal(R)
    close /= np.linalg.norm(close)
    for size in (1e-150, 1e-165, 1e-200, 5e-324):
        tiny = size * np.abs(V[:, 0])
        alone = measured(tiny[:, None], V, near)
        for place in range(3):
            XT = np.tile(close[:, None], (1, 3))
            XT[:, place] = tiny
            Y, distances = measured(XT, V, near)
            assert np.array_equal(Y[:, place], alone[0][:, 0])
            assert distances[place] == alone[1][0]


class Asked:
    """Rows that only remember what they were asked."""

    def add(self, query, point, selection):
        self.query = query
        return np.zeros(query.shape)


def test_rows_are_asked_the_query_whose_rounding_is_charged(rng):
    """With very many rows the slack counts on smaller weights, so the sum must be made of them."""
    many = {"size": 10**9, "z": 1.0, "relation": "add-or-remove-one"}
    release, other = Release(Glad(D, R), **many), Release(Curvature(D, R, 0.5), **many)
    assert release.asked.near > PRIVATE_NEAR
    rows, V = Asked(), random_basis(rng, D, R)
    zeros = np.zeros((D, R), dtype=np.int64)
    release.apply(rows, V, Draw(None, zeros, release.sigma(0)))
    assert rows.query == release.asked
    both = JointRelease((release, other))
    draws = (Draw(None, zeros, release.sigma(0)), Draw(None, zeros[0, 0], other.sigma(0)))
    both.apply(rows, V, draws)
    assert rows.query.queries == (release.asked, other.asked)


@pytest.mark.parametrize(("D", "r"), [(40, 4), (4096, 30)])
def test_rounding_of_the_projection_is_charged(rng, D, r):
    """Against 80-bit arithmetic, and as a part of the slack by a formula of its own."""
    V = random_basis(rng, D, r)
    S = V @ rng.standard_normal((r, r)) + 1e-9 * rng.standard_normal((D, r))
    wide, V80 = np.asarray(S, dtype=np.longdouble), np.asarray(V, dtype=np.longdouble)
    exact = wide - V80 @ (V80.T @ wide)
    off = np.linalg.norm(np.asarray(projected(S, V) - exact, dtype=np.float64))
    u = 2.0**-53
    projection = u * (np.sqrt(r) * (D / 8 + 5) + (r + 2) * (1 + np.sqrt(r))) * np.linalg.norm(S)
    assert 0.0 < off <= projection
    release = Release(Glad(D, r), 10**6)
    J = STANDARD.job_rows(D)
    relative = STANDARD.chain * u + projection / np.linalg.norm(S)
    assert release._summation_error() >= J * relative / np.sqrt(PRIVATE_NEAR)
    assert release.rounding >= 2 * release._summation_error()
