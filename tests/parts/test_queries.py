"""Each query: its term against an independent formula, its two bounds, and its arithmetic."""

import numpy as np
import pytest

from stillspace.parts.queries import (
    PRIVATE_FLOOR,
    AngleCounts,
    CapScatter,
    FourthMoment,
    GeometricMedian,
    Glad,
    GladCost,
    IrlsPower,
    Reaper,
    ReweightedMoment,
    ScoreCounts,
    ScoreMoment,
    SecondMoment,
)
from stillspace.rows import MemoryRows
from tests.conftest import random_basis, random_in_h, unit_rows

D, R = 7, 3


def term(query, x, point):
    out = np.zeros(query.shape)
    query.add_block(np.ascontiguousarray(x.reshape(-1, 1)), point, out)
    return out


def directions(rng, D, m):
    """Unit vectors, some near each other, over their largest singular value."""
    C = rng.standard_normal((D, m))
    C[:, -1] = C[:, 0] + 0.1 * C[:, -1]
    C /= np.linalg.norm(C, axis=0)
    return C / np.linalg.norm(C, 2)


def axes(rng, D, m, k):
    """Units of columns, m axes, a basis of their span, and k directions across it."""
    C = rng.standard_normal((D, m))
    C /= np.linalg.norm(C, axis=0)
    units = rng.uniform(0.1, 1.0, (D, 1))
    return np.hstack([units, C, np.linalg.qr(C, mode="complete")[0][:, : m + k]])


def points(query, rng):
    """A point at which the query can be asked."""
    if isinstance(query, Reaper):
        return random_in_h(rng, query.D, R)
    if isinstance(query, GeometricMedian):
        return rng.standard_normal(query.D) * 0.3
    if isinstance(query, AngleCounts):
        return directions(rng, query.D, query.m)
    if isinstance(query, CapScatter):
        return axes(rng, query.D, query.s, query.k)
    if isinstance(query, ScoreCounts):
        return random_basis(rng, query.D, query.m)
    return random_basis(rng, query.D, R)


BOUNDED = [
    Glad(D, R),
    Reaper(D, R),
    SecondMoment(D),
    ScoreMoment(D, R),
    GladCost(D, R),
    GeometricMedian(D),
    FourthMoment(D, R),
    AngleCounts(D, 4, 36),
    CapScatter(D, (0.3, 0.1), 2, 3),
    ScoreCounts(D, 2, 8),
]


def glad_cost(X, V):
    return np.linalg.norm(X - X @ V @ V.T, axis=1).mean()


def test_glad_is_minus_the_riemannian_gradient(rng):
    """Finite differences along the curve polar(V + tH), H tangent: sign and size."""
    XT, V = unit_rows(rng, 40, D), random_basis(rng, D, R)
    G = MemoryRows(XT).add(Glad(D, R), V, None) / 40
    for _ in range(5):
        H = rng.standard_normal((D, R))
        H -= V @ (V.T @ H)
        t = 1e-6

        def at(s, H=H):
            U, _, Wt = np.linalg.svd(V + s * H, full_matrices=False)
            return glad_cost(XT.T, U @ Wt)

        slope = (at(t) - at(-t)) / (2 * t)
        assert slope == pytest.approx(-np.sum(G * H), rel=1e-6)


def test_reaper_is_minus_the_subgradient(rng):
    XT, P = unit_rows(rng, 40, D), random_in_h(rng, D, R)
    G = MemoryRows(XT).add(Reaper(D, R), P, None) / 40
    assert np.array_equal(G, G.T)
    for _ in range(5):
        H = rng.standard_normal((D, D))
        H = H + H.T
        t = 1e-6

        def at(s, H=H):
            return np.linalg.norm(XT - (P + s * H) @ XT, axis=0).mean()

        slope = (at(t) - at(-t)) / (2 * t)
        assert slope == pytest.approx(-np.sum(G * H), rel=1e-6)


def test_median_term_is_minus_the_gradient_of_the_distance(rng):
    X, m = rng.standard_normal((D, 30)), rng.standard_normal(D)
    G = MemoryRows(X).add(GeometricMedian(D), m, None)
    for d in range(D):
        e = np.eye(D)[d] * 1e-6

        def at(s, e=e):
            return np.linalg.norm(X - (m + s * e)[:, None], axis=0).sum()

        assert (at(1) - at(-1)) / 2e-6 == pytest.approx(-G[d], rel=1e-6, abs=1e-7)


def test_moment_and_cost_against_plain_numpy(rng):
    XT, V = unit_rows(rng, 700, D), random_basis(rng, D, R)
    rows = MemoryRows(XT)
    np.testing.assert_allclose(rows.add(SecondMoment(D), V, None), XT @ XT.T, rtol=1e-12)
    assert rows.add(GladCost(D, R), V, None) == pytest.approx(700 * glad_cost(XT.T, V), rel=1e-12)


def test_fourth_moments_tell_how_many_rows_lie_along_a_direction(rng):
    XT, V = unit_rows(rng, 300, D), random_basis(rng, D, R)
    F = MemoryRows(XT).add(FourthMoment(D, R), V, None)
    assert F.shape == (6, 6)
    np.testing.assert_allclose(F, F.T, rtol=1e-12)
    Y = V.T @ XT
    for c in random_basis(rng, R, R):
        products = np.array([c[i] * c[j] for i in range(R) for j in range(R) if i <= j])
        products *= np.array([1.0 if i == j else np.sqrt(2) for i in range(R) for j in range(i, R)])
        want = np.sum((c @ Y) ** 4 / np.sum(Y**2, axis=0))
        assert products @ F @ products == pytest.approx(want, rel=1e-10)


def test_angles_against_plain_numpy(rng):
    """The histogram of the angle in degrees, weighted by the cosine."""
    XT, C = unit_rows(rng, 2000, D), directions(rng, D, 4)
    counts = MemoryRows(XT).add(AngleCounts(D, 4, 36), C, None)
    for c, found in zip(C.T, counts, strict=True):
        angles = np.degrees(np.arccos(c @ XT / np.linalg.norm(c)))
        want, _ = np.histogram(angles, np.arange(37) * 5.0, weights=np.abs(c @ XT))
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)


def test_scatter_against_plain_numpy(rng):
    """A row counts in the first cap that it is in, with what it has across all axes."""
    XT, point = unit_rows(rng, 2000, D), axes(rng, D, 2, 3)
    cosines = (0.4, 0.2)
    found = MemoryRows(XT).add(CapScatter(D, cosines, 2, 3), point, None)
    want, both = np.zeros((2, 2)), 0
    w, axis, A, B = np.split(point, [1, 3, 5], axis=1)
    for x in XT.T:
        z = w[:, 0] * x / np.linalg.norm(w[:, 0] * x)
        inside = [bool(u @ z >= t) for u, t in zip(axis.T, cosines, strict=True)]
        both += all(inside)
        if any(inside):
            j = inside.index(True)
            far, along = np.sum((z - A @ A.T @ z) ** 2), np.sum((B.T @ z) ** 2)
            want[j] += np.array([far - along, along]) / (1.0 - cosines[j] ** 2)
    assert both > 0
    np.testing.assert_allclose(found, want, rtol=1e-10)


def test_scatter_keeps_its_bounds_at_any_point(rng):
    """Axes outside the span, directions that are not orthonormal: the cuts alone must do."""
    query, largest = CapScatter(D, (0.5, 0.3), 2, 3), 0.0
    for _ in range(300):
        point = rng.standard_normal((D, 8)) * 10.0 ** rng.uniform(-1, 1)
        found = term(query, unit_rows(rng, 1, D)[:, 0], point)
        assert found.min() >= 0.0
        largest = max(largest, found.sum())
    assert largest == pytest.approx(1.0)
    outside = np.hstack([np.ones((D, 1)), np.eye(D)[:, [0, 1, 2, 3, 4, 5, 6]]])
    x = 0.6 * np.eye(D)[0] + 0.8 * np.eye(D)[4]
    np.testing.assert_allclose(term(query, x, outside), [[0.11 / 0.75, 0.64 / 0.75], [0.0, 0.0]])


def test_rows_without_cells_that_count_have_no_scatter():
    """A zero row, and a row that the units of the columns make tiny."""
    point = np.hstack([np.r_[1e-300, np.ones(6)][:, None], np.eye(D)[:, [1, 1, 2]]])
    query = CapScatter(D, (0.5,), 1, 1)
    assert not term(query, np.zeros(D), point).any()
    assert np.all(np.isfinite(term(query, np.eye(D)[0], point)))
    np.testing.assert_allclose(term(query, np.r_[0.0, 0.8, 0.6, 0, 0, 0, 0], point), [[0.0, 0.48]])


def test_a_row_at_the_edge_of_a_cap_counts_alike_wherever_it_stands(rng):
    """Rows whose cosine is t but for some bits, in blocks of several widths."""
    point = axes(rng, D, 1, 2)
    point[:, 0] = 1.0
    query, c = CapScatter(D, (0.5,), 1, 2), point[:, 1]
    for _ in range(30):
        away = rng.standard_normal(D)
        away -= (away @ c) * c
        x = 0.5 * c + np.sqrt(0.75) * away / np.linalg.norm(away)
        x *= 1.0 + rng.integers(-4, 5) * 2.0**-52
        want = term(query, x, point)
        for width, at in ((2, 1), (9, 3), (257, 200)):
            block = np.zeros((D, width))
            block[:, at] = x
            found = np.zeros(query.shape)
            query.add_block(block, point, found)
            assert np.array_equal(found, want)


@pytest.mark.parametrize("query", [FourthMoment(D, R), AngleCounts(D, R, 36)], ids=lambda q: q.name)
def test_a_point_that_is_too_large_makes_no_term_too_large(query):
    e = np.eye(D)
    for x in (e[0], (e[0] + e[1]) / np.sqrt(2)):
        assert np.linalg.norm(term(query, x, 3.0 * e[:, :R])) == pytest.approx(1.0, rel=1e-12)


def test_a_row_at_the_edge_of_a_bin_falls_on_one_side_wherever_it_stands(rng):
    """Rows whose angle to a direction is an edge but for some bits, in blocks of many widths."""
    D, m = 20, 3
    C = directions(rng, D, m)
    query, rows = AngleCounts(D, m, 36), []
    for k in range(1, 36):
        c = C[:, k % m] / np.linalg.norm(C[:, k % m])
        away = rng.standard_normal(D)
        away -= (away @ c) * c
        x = np.cos(np.pi * k / 36) * c + np.sin(np.pi * k / 36) * away / np.linalg.norm(away)
        rows.append(x * (1.0 + rng.integers(-4, 5) * 2.0**-52))
    for x in rows:
        want = term(query, x, C)
        for width, at in ((2, 1), (9, 3), (64, 63), (257, 200)):
            block = np.zeros((D, width))
            block[:, at] = x
            found = np.zeros(query.shape)
            query.add_block(block, C, found)
            assert np.array_equal(found, want)


def test_classic_queries_against_plain_numpy(rng):
    XT, V, P = unit_rows(rng, 60, D), random_basis(rng, D, R), random_in_h(rng, D, R)
    rows = MemoryRows(XT)
    w = 1 / np.linalg.norm(XT - V @ V.T @ XT, axis=0)
    cases = [(IrlsPower(D, R), V, w, (XT * w) @ XT.T @ V)]
    cases.append((ReweightedMoment(D), V, w, (XT * w) @ XT.T))
    w = 1 / np.linalg.norm(XT - P @ XT, axis=0)
    cases.append((ReweightedMoment(D), P, w, (XT * w) @ XT.T))
    for query, point, weight, want in cases:
        G, cost = query.unpack(rows.add(query, point, None))
        np.testing.assert_allclose(G, want, rtol=1e-10)
        assert cost == pytest.approx(np.sum(1 / weight), rel=1e-12)


@pytest.mark.parametrize("query", [IrlsPower(D, R), ReweightedMoment(D)])
def test_classic_queries_have_no_bound(query):
    assert np.isinf(query.norm_bound)
    assert np.isinf(query.difference_bound)
    assert np.isinf(query.term_error)


@pytest.mark.parametrize("query", BOUNDED, ids=lambda q: q.name)
def test_terms_keep_their_bounds(rng, query):
    """Random rows and points, and the hard ones: on the subspace, near it, tiny, V off by 1e-3."""
    slack = 1 + 1e-12
    largest = 0.0
    for trial in range(300):
        point = points(query, rng)
        if trial % 3 == 1 and not isinstance(query, GeometricMedian):
            point = point * (1 + 1e-3)  # no longer quite in the set
        x, y = unit_rows(rng, 2, D).T
        if trial % 3 == 2 and point.ndim == 2:
            near = point @ rng.standard_normal(point.shape[1])
            x = near / np.linalg.norm(near) + 10.0 ** rng.uniform(-20, -2) * x
            x /= np.linalg.norm(x)
            y = -x + 10.0 ** rng.uniform(-20, -2) * y
            y /= np.linalg.norm(y)
            if trial % 2:
                point = point * (1 + 1e-3)
        tx, ty = term(query, x, point), term(query, y, point)
        assert np.linalg.norm(tx) <= query.norm_bound * slack
        gap = np.linalg.norm(tx - ty)
        largest = max(largest, gap)
        assert gap <= query.difference_bound * slack + 2 * query.term_error
    assert largest > 0.5 * query.difference_bound or isinstance(query, GladCost)


@pytest.mark.parametrize("query", BOUNDED, ids=lambda q: q.name)
def test_the_bounds_are_reached(query):
    """A bound twice as large as needed would waste half of the budget."""
    e = np.eye(D)
    if isinstance(query, Glad):
        V = e[:, :R]
        c, s = np.cos(1e-3), np.sin(1e-3)
        x, y, point = c * e[0] + s * e[5], c * e[0] - s * e[5], V
    elif isinstance(query, GladCost):
        x, y, point = e[5], e[0], e[:, :R]
    elif isinstance(query, GeometricMedian):
        x, y, point = e[0], -e[0], np.zeros(D)
    elif isinstance(query, Reaper):
        x, y, point = e[0], e[1], np.zeros((D, D))
    elif isinstance(query, AngleCounts | ScoreCounts):
        x, y, point = e[0], e[1], e[:, : query.m]
    elif isinstance(query, CapScatter):  # at the edges of two caps, across both axes
        t, point = query.cosines, np.hstack([np.ones((D, 1)), e[:, [0, 1, 0, 1, 4, 5, 6]]])
        x, y = (t[i] * e[i] + np.sqrt(1.0 - t[i] ** 2) * e[5 - i] for i in (0, 1))
        x, y = (1.0 + 2.0**-50) * x, (1.0 + 2.0**-50) * y
    else:
        x, y, point = e[0], e[1], e[:, :R]
    tx, ty = term(query, x, point), term(query, y, point)
    assert np.linalg.norm(tx) == pytest.approx(query.norm_bound, rel=1e-5)
    assert np.linalg.norm(tx - ty) == pytest.approx(query.difference_bound, rel=1e-5)


def test_the_naive_formula_breaks_the_bound_and_ours_does_not():
    """SPEC 9.10: x xᵀV / ‖Qx‖, then Q, reaches 1e10 and more when ‖Qx‖ is tiny."""
    rng = np.random.default_rng(3)
    worst_naive = worst_ours = 0.0
    for _ in range(200):
        V = random_basis(rng, D, R)
        x = V @ rng.standard_normal(R)
        x /= np.linalg.norm(x)
        Q = np.eye(D) - V @ V.T
        distance = np.sqrt(abs(1 - np.sum((x @ V) ** 2)))
        naive = Q @ (np.outer(x, x @ V) / max(distance, 1e-30))
        worst_naive = max(worst_naive, np.linalg.norm(naive))
        worst_ours = max(worst_ours, np.linalg.norm(term(Glad(D, R), x, V)))
    assert worst_naive > 1e10
    assert worst_ours <= 1.0


def test_the_floor_is_continuous(rng):
    """Just below and just above φ the terms agree: no jump that one row could trigger in others."""
    V = np.eye(D)[:, :R]
    for factor in (1 - 1e-9, 1 + 1e-9):
        x = np.zeros(D)
        x[0], x[5] = 1.0, PRIVATE_FLOOR * factor
        assert np.linalg.norm(term(Glad(D, R), x, V)) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("query", BOUNDED, ids=lambda q: q.name)
def test_a_non_finite_point_or_zero_row_gives_zero_not_an_error(query, rng):
    zero = term(query, np.zeros(D), points(query, rng) * (0 if query.shape == (D,) else 1))
    assert not np.any(zero)


@pytest.mark.parametrize("query", BOUNDED, ids=lambda q: q.name)
def test_removing_a_row_moves_the_sum_by_its_term_alone(rng, query):
    """Neighbours n → n − 1 across block limits: other rows' terms keep their bits."""
    XT, point = unit_rows(rng, 1537, D), points(query, rng)
    whole = MemoryRows(XT).add(query, point, None)
    for gone in (0, 511, 512, 1536):
        rest = MemoryRows(np.delete(XT, gone, axis=1)).add(query, point, None)
        moved = np.linalg.norm(whole - rest - term(query, XT[:, gone], point))
        assert moved < 1e-10
