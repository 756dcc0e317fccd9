"""Row maps: each row by itself, bounded at the end, printable, and the same by any way."""

import numpy as np
import pytest
from scipy import sparse

from stillspace._frozen import FrozenArray
from stillspace.parts.queries import ColumnCounts, Glad, IncompleteRows, SecondMoment
from stillspace.rows import (
    Affine,
    Caps,
    ChosenRows,
    Clip,
    Fill,
    LeaveOut,
    Lengths,
    MemoryRows,
    Pairs,
    Project,
    Sketch,
    Sphere,
    Without,
    through_view,
)
from stillspace.rows.maps import (
    bounded,
    checked_view,
    paired,
    view_text,
    width,
    with_bound,
    with_center,
)

NOWHERE = np.empty((0, 0))


def basis(rng, D, m):
    return FrozenArray.of(np.linalg.qr(rng.standard_normal((D, m)))[0])


def views(rng, D):
    center, scale = rng.standard_normal(D), np.exp(rng.standard_normal(D))
    affine = Affine.of(center, scale, 9.0)
    return [
        (Sphere(),),
        (affine, Sphere()),
        (affine, Clip(1.5)),
        (affine, Pairs(), Sphere()),
        (affine, Sketch(D, 4, nonzeros=2), Sphere()),
        (affine, Pairs(), Sphere(), LeaveOut(1.3)),
        (affine, Sphere(), LeaveOut(2.0), Project(basis(rng, D, 3)), Sphere()),
        (affine, Pairs(), Sphere(), Lengths()),
        (Without(Affine.of(-center, missing=9.0), halfspace(D)), affine, Sphere()),
        (affine, Sphere(), Caps(basis(rng, D, 2), FrozenArray.of([0.3, 0.2]))),
        (affine, Fill(basis(rng, D, 2)), Sphere()),
        (affine, Fill(basis(rng, D, 3)), Clip(1.5)),
        (Without(affine, halfspace(D)), affine, Fill(basis(rng, D, 2)), Sphere()),
        (affine, Fill(basis(rng, D, 2), weighed=True), Sphere()),
        (Without(affine, halfspace(D)), affine, Fill(basis(rng, D, 3), weighed=True), Clip(1.5)),
    ]


def halfspace(D):
    """Rows whose first cell is the largest part of them."""
    return Caps(FrozenArray.of(np.eye(D)[:, :1]), FrozenArray.of([0.5]))


@pytest.mark.parametrize("k", range(15))
@pytest.mark.parametrize("kind", ["f64", "f32", "csr"])
def test_a_replaced_row_replaces_one_mapped_row(rng, k, kind):
    """The lemma of docs/privacy.md: all other mapped rows keep their bits."""
    D, n = 6, 40
    view = views(rng, D)[k]
    X = rng.standard_normal((n, D))
    X[rng.random(X.shape) < 0.1] = 9.0
    pairs = rng.permutation(n).reshape(-1, 2)
    make = {"f64": np.asarray, "f32": np.float32, "csr": sparse.csr_matrix}[kind]
    where = int(np.argmax((pairs == 7).any(axis=1))) if paired(view) else 7
    before = through_view(MemoryRows.of(make(X)), view, pairs).sphered()
    for _ in range(8):
        Y = X.copy()
        Y[7] = rng.standard_normal(D) * 100
        after = through_view(MemoryRows.of(make(Y)), view, pairs).sphered()
        changed = np.any(before != after, axis=1)
        assert not changed[np.arange(len(changed)) != where].any()
        assert (np.linalg.norm(after, axis=1) <= 1 + 1e-12).all()
        assert after.shape[1] == width(view, D)


def test_maps_do_what_they_say(rng):
    D = 5
    X, center, scale = rng.standard_normal((30, D)) * 3, rng.standard_normal(D), np.arange(1.0, 6.0)
    X[2, 1] = 9.0
    want = (X - center) / scale
    want[2, 1] = 0.0
    affine = Affine.of(center, scale, 9.0)
    np.testing.assert_allclose(np.concatenate(list(affine.blocks(X))), want, rtol=1e-15)
    rows = MemoryRows.of(X).through(affine)
    np.testing.assert_allclose(rows.sphered(), want, rtol=1e-14)
    lengths = np.linalg.norm(want, axis=1)
    sphered = rows.through(Sphere())
    np.testing.assert_allclose(sphered.sphered(), want / lengths[:, None], rtol=1e-14)
    middle = float(np.median(lengths))
    cut = sphered.through(LeaveOut(middle))
    assert np.array_equal(cut.sphered().any(axis=1), lengths < middle)
    clipped = rows.through(Clip(middle)).sphered()
    np.testing.assert_allclose(clipped, want / np.maximum(lengths, middle)[:, None], rtol=1e-14)
    V = basis(rng, D, 2)
    np.testing.assert_allclose(
        sphered.through(Project(V)).sphered(), sphered.sphered() @ V.array, atol=1e-15
    )


def test_rows_without_a_bound_are_not_added_up(rng):
    rows = MemoryRows.of(rng.standard_normal((10, 3)))
    assert not rows.bounded
    with pytest.raises(ValueError, match="length at most 1"):
        rows.add(SecondMoment(3), NOWHERE, None)
    assert rows.through(Sphere()).bounded
    projected = rows.through(Sphere()).through(Project(basis(rng, 3, 2)))
    assert not projected.bounded
    for left in (rows.through(LeaveOut(2.0)), projected.through(LeaveOut(2.0))):
        assert not left.bounded  # a zero row here and there bounds no other row
        with pytest.raises(ValueError, match="length at most 1"):
            left.add(SecondMoment(left.n_columns), NOWHERE, None)


def test_views_that_break_bounds_are_refused(rng):
    V = Project(basis(rng, 3, 2))
    for view in [
        (),
        (Affine(),),
        (Sphere(), Affine()),
        (Sphere(), Pairs()),
        (Sphere(), V),
        (Sphere(), Sketch(3, 2, nonzeros=1)),
        (Fill(V.basis), Sphere()),
        (Affine(), Sphere(), Fill(V.basis)),
        (Affine(), Fill(V.basis), Fill(V.basis), Sphere()),
        (Affine(), Fill(V.basis)),
        (Sphere(), Sphere()),
        (Clip(2.0), Sphere()),
        (Sphere(), LeaveOut(1.0), Clip(2.0)),
        (LeaveOut(1.0), Sphere()),
        (Sphere(), V, LeaveOut(1.0), Sphere()),
        (Lengths(), Sphere()),
        (Affine(), Without(Affine(), halfspace(3)), Sphere()),
        (Sphere(), Without(Affine(), halfspace(3))),
        (Without(Affine(), halfspace(3)), Affine()),
    ]:
        with pytest.raises(ValueError, match=r"must bound|followed by Sphere|has no place"):
            checked_view(view)
    for view in [(Sphere(),), (Clip(2.0), LeaveOut(1.0)), (Sphere(), V, Sphere())]:
        assert checked_view(view) is view


@pytest.mark.parametrize("kind", ["f64", "f32", "Fortran", "csr"])
def test_rows_without_cells_are_zero_rows_and_missing_in_counts(rng, kind):
    """Left out in one centre and scale, and so in any other; a missing cell changes nothing."""
    D, code = 4, 9.0
    X = np.round(rng.standard_normal((300, D)) * 3, 2)
    X[rng.random(X.shape) < 0.2] = code
    X[rng.random(X.shape) < 0.2] = 0.0
    make = {
        "f64": np.asarray, "f32": np.float32, "Fortran": np.asfortranarray,
        "csr": sparse.csr_matrix,
    }[kind]  # fmt: skip
    first = Affine.of(np.ones(D), np.full(D, 2.0), code)
    without = Without(first, halfspace(D))
    rows = MemoryRows.of(make(X))
    Z = np.where(code == X, 0.0, (X - 1.0) / 2.0)
    norms = np.linalg.norm(Z, axis=1)
    gone = Z[:, 0] >= 0.5 * norms
    gone[norms == 0.0] = False
    assert 30 < gone.sum() < 270
    edges = np.tile([-1.0, 0.0, 0.5], (D, 1))
    query = ColumnCounts.of(D, edges, missing=code)
    counts = rows.through(without).add(query, NOWHERE, None)
    alone = MemoryRows.of(make(X[~gone])).add(query, NOWHERE, None)
    alone[:, -1] += gone.sum()
    assert np.array_equal(counts, alone)
    second = Affine.of(np.full(D, -2.0), np.ones(D), code)
    found = rows.through(without).through(second).through(Sphere()).sphered()
    want = rows.through(second).through(Sphere()).sphered()
    assert np.array_equal(found, np.where(gone[:, None], 0.0, want))
    for mapped in (rows.through(second), rows.through(Sphere())):
        with pytest.raises(ValueError, match="before these are"):
            mapped.through(without)


def test_a_view_tells_whether_its_rows_are_bounded(rng):
    """As the rows themselves do, after each of its maps."""
    X = rng.standard_normal((20, 6))
    for view in views(rng, 6):
        for end in range(1, len(view) + 1):
            rows = through_view(MemoryRows.of(X), view[:end], np.array([[0, 1], [2, 3]]))
            assert bounded(view[:end]) == rows.bounded


def test_a_row_is_bounded_once(rng):
    """The factors of scaled rows would be taken for those of the cells, and bound nothing."""
    rows = MemoryRows.of(100.0 * rng.standard_normal((10, 3)))
    for bound in (Sphere(), Clip(2.0)):
        for again in (Sphere(), Clip(3.0)):
            with pytest.raises(ValueError, match="bound already"):
                rows.through(bound).through(again)
            with pytest.raises(ValueError, match="bound already"):
                rows.through(bound).through(LeaveOut(50.0)).through(again)


def test_a_row_is_centred_once(rng):
    rows = MemoryRows.of(rng.standard_normal((10, 3))).through(Affine.of(np.ones(3)))
    with pytest.raises(ValueError, match="once"):
        rows.through(Affine.of(np.ones(3)))


def test_views_are_values_and_can_be_read(rng):
    one, two = (Affine.of(np.ones(3), np.full(3, 2.0)) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != Affine.of(np.ones(3), np.full(3, 2.5))
    assert repr(one) != repr(Affine.of(np.full(3, 1.5), np.full(3, 2.0)))
    text = view_text((one, Pairs(), Sphere(), LeaveOut(2.5)))
    assert "differences of random pairs" in text
    assert "length 2.5" in text


def test_a_found_centre_is_in_the_units_of_the_cells():
    view = (Affine.of(None, np.array([2.0, 4.0])), Sphere(), LeaveOut(1.0))
    moved = with_center(view, np.array([1.0, 1.0]))
    assert moved[0].center.array.tolist() == [2.0, 4.0]
    assert moved[1:] == view[1:]
    assert with_bound(view, Clip(3.0)) == (view[0], Clip(3.0))
    first = Without(Affine(), halfspace(2))
    assert with_center((first, *view), np.ones(2)) == (first, *moved)
    assert with_bound((first, *view), Clip(3.0)) == (view[0], Clip(3.0))
    with pytest.raises(ValueError, match="no Affine"):
        with_center((Sphere(),), np.ones(2))


def test_frozen_arrays_cannot_be_changed():
    kept = np.ones(3)
    frozen = FrozenArray.of(kept)
    kept[0] = 5.0
    assert frozen.array.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        frozen.array[0] = 2.0


def test_chosen_rows_are_rows(rng):
    X = rng.standard_normal((20, 4))
    numbers = np.array([3, 1, 17])
    rows = MemoryRows.prepare(X)
    chosen = ChosenRows(rows, numbers)
    want = MemoryRows.prepare(X[numbers]).add(SecondMoment(4), NOWHERE, None)
    assert np.array_equal(chosen.add(SecondMoment(4), NOWHERE, None), want)
    one = chosen.add(SecondMoment(4), NOWHERE, np.array([2]))
    assert np.array_equal(one, MemoryRows.prepare(X[17:18]).add(SecondMoment(4), NOWHERE, None))
    assert (chosen.n_rows, chosen.n_columns, chosen.bounded) == (3, 4, True)


@pytest.mark.parametrize("kind", ["f64", "f32", "columns"])
def test_missing_cells_are_filled_by_least_squares(rng, kind):
    """Against NumPy's least squares. Rows whose cells tell little keep missing ones at the centre.

    If rows are weighed, all of them are filled, and behind the bound their lengths are the weights.
    """
    D, n, r = 7, 60, 2
    V, center, scale = basis(rng, D, r), rng.standard_normal(D), np.exp(rng.standard_normal(D))
    X = rng.standard_normal((n, D)).astype(np.float32).astype(np.float64)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[rng.random(X.shape) < 0.1] = 9.0
    X[3], X[4] = np.nan, [np.inf, np.nan, *X[4, 2:]]
    X[6:9, :4] = np.nan
    make = {"f64": np.asarray, "f32": np.float32, "columns": np.asfortranarray}[kind]
    affine = Affine.of(center, scale, 9.0, holes=True)
    plain, weighed = (
        MemoryRows.of(make(X)).through(affine).through(Fill(V, weighed=w)) for w in (False, True)
    )
    want, weights = (X - center) / scale, np.ones(n)
    for i, (z, x) in enumerate(zip(want, X, strict=True)):
        there = np.isfinite(x) & (x != 9.0)
        known = V.array[there]
        z[~there] = V.array[~there] @ np.linalg.lstsq(known, z[there], rcond=None)[0]
        if not there.all():
            told = len(known) >= r and i not in (3, 4)  # no cell, and an infinite one
            weights[i] = r / np.sum(1.0 / np.linalg.eigvalsh(known.T @ known)) if told else 0.0
    told, usual = np.flatnonzero(weights > 0.0), np.delete(np.arange(n), [3, 4])
    np.testing.assert_allclose(weighed.sphered()[told], want[told], rtol=1e-9, atol=1e-9)
    few = np.flatnonzero(weights < 0.5)
    assert 5 < len(few) < n - 5
    missing = ~np.isfinite(X) | (X == 9.0)
    want[few] = np.where(missing[few], 0.0, want[few])
    np.testing.assert_allclose(plain.sphered()[usual], want[usual], rtol=1e-9, atol=1e-9)
    for rows, lengths in ((plain, np.isin(np.arange(n), usual)), (weighed, weights)):
        sphered = rows.through(Sphere()).sphered()
        np.testing.assert_allclose(np.linalg.norm(sphered, axis=1), lengths, atol=1e-12)


@pytest.mark.parametrize("kind", ["f64", "f32", "f64 by columns", "int8", "csr"])
def test_rows_with_a_missing_cell_are_counted(rng, kind):
    """Of all rows and of chosen ones; a row counts once, however many of its cells are missing."""
    X = rng.integers(-3, 4, (3000, 5)).astype(float)
    if kind != "int8":
        X[rng.random(X.shape) < 0.1] = np.nan
        X[rng.random(X.shape) < 0.1] = 0.1
        X[7] = [np.inf, 1.0, 1.0, 1.0, -np.inf]
    make = {
        "f64": np.asarray, "f32": np.float32, "f64 by columns": np.asfortranarray,
        "int8": np.int8, "csr": sparse.csr_matrix,
    }[kind]  # fmt: skip
    code = 3.0 if kind == "int8" else 0.1
    rows, chosen = MemoryRows.of(make(X)), np.sort(rng.permutation(3000)[:900])
    for query, empty in (
        (IncompleteRows(5), np.isnan(X)),
        (IncompleteRows(5, code, holes=False), code == X),
        (IncompleteRows(5, code), np.isnan(X) | (code == X)),
    ):
        found = empty.any(axis=1)
        assert float(rows.add(query, NOWHERE, None)) == found.sum()
        assert float(rows.add(query, NOWHERE, chosen)) == found[chosen].sum()


def test_filling_is_total_and_leaves_complete_rows_their_bits(rng):
    D, V = 5, basis(rng, 5, 2)
    affine = Affine.of(np.full(D, 0.1), np.full(D, 3.0), holes=True)
    X = rng.standard_normal((500, D))
    complete = MemoryRows.of(X).through(affine).through(Sphere())
    Y = np.vstack([X, [[1e308, -1e308, np.nan, 1e308, 1e308]], [[1e-320, np.nan, 0.0, 0.0, 0.0]]])
    filled = MemoryRows.of(Y).through(affine).through(Fill(V)).through(Sphere())
    assert np.array_equal(filled.sphered()[:500], complete.sphered())
    assert np.isfinite(filled.sphered()).all()
    assert filled.sphered()[500, 2] == 0.0  # scores near the largest number fill nothing
    assert (np.linalg.norm(filled.sphered(), axis=1) <= 1.0 + 1e-12).all()
    weighed = MemoryRows.of(Y).through(affine).through(Fill(V, weighed=True)).through(Sphere())
    assert np.array_equal(weighed.sphered()[:500], complete.sphered())
    assert not weighed.sphered()[500].any()  # and then the row does not count
    # sums over the complete rows alone, too: the same terms in the same order
    first, point = np.arange(500), V.array
    for query, at in ((SecondMoment(D), NOWHERE), (Glad(D, 2), point)):
        assert np.array_equal(filled.add(query, at, first), complete.add(query, at, first))
    # a table without missing cells is not copied or read in another way
    rows = MemoryRows.of(X).through(affine)
    assert rows.through(Fill(V)) is rows
    coded = MemoryRows.of(X).through(Affine.of(missing=X[7, 2]))
    assert coded.through(Fill(V)) is not coded


def test_a_fill_of_rows_that_lost_their_cells(rng):
    D = 4
    X = rng.standard_normal((50, D))
    X[::3, 2] = np.nan
    affine = Affine.of(holes=True)
    left = through_view(MemoryRows.of(X), (affine, Sphere(), halfspace(D))).sphered()
    view = (Without(affine, halfspace(D)), affine, Fill(basis(rng, D, 2)), Sphere())
    filled = through_view(MemoryRows.of(X), view).sphered()
    assert np.array_equal(left.any(axis=1), filled.any(axis=1))
    assert 0 < np.count_nonzero(left.any(axis=1)) < 50
    assert view_text(view).count("fill missing cells from 2 released directions") == 1


@pytest.mark.parametrize("hole", [False, True])
def test_sparse_rows_are_not_filled(rng, hole):
    """Their jobs are those of their storage, in memory, in files and on workers alike."""
    X = np.where(rng.random((60, 6)) < 0.5, 0.0, rng.standard_normal((60, 6)))
    X[4, 2] = np.nan if hole else 1.0
    rows = MemoryRows.of(sparse.csr_matrix(X)).through(Affine.of(holes=True))
    assert rows.through(Fill(basis(rng, 6, 2))) is rows


@pytest.mark.parametrize("hole", [False, True])
def test_what_a_fill_refuses_does_not_depend_on_the_rows(rng, hole):
    X = rng.standard_normal((30, 6))
    X[4, 2] = np.nan if hole else 1.0
    rows, affine = MemoryRows.of(X), Affine.of(holes=True)
    for height in (4, 12):
        with pytest.raises(ValueError, match=f"{height} rows for 6 columns"):
            rows.through(affine).through(Fill(basis(rng, height, 2)))
    with pytest.raises(ValueError, match="before rows are bounded"):
        rows.through(affine).through(Sphere()).through(Fill(basis(rng, 6, 2)))
    fill = Fill(basis(rng, 6, 2))
    for view in (
        (affine, fill, affine, fill, Sphere()),
        (affine, fill, affine, Sphere()),
        (affine, affine, Sphere()),
        (affine, fill, fill, Sphere()),
        (affine, fill, Pairs(), Sphere()),
        (affine, fill),
        (fill, Sphere()),
    ):
        with pytest.raises(ValueError, match=r"no place here|must bound"):
            checked_view(view)
    checked_view((affine, fill, Sphere()))


def test_a_basis_that_is_not_orthonormal_fills_nothing_or_finite_cells(rng):
    X = rng.standard_normal((40, 6))
    X[::2, 1] = np.nan
    wild = [3.0 * np.eye(6)[:, :2], np.full((6, 2), np.nan), 1e200 * np.eye(6)[:, 1:3]]
    for V in (np.eye(6)[:, 1:3], np.ones((6, 2)), *wild):
        view = Affine.of(holes=True), Fill(FrozenArray.of(V)), Sphere()
        lengths = np.linalg.norm(through_view(MemoryRows.of(X), view).sphered(), axis=1)
        assert (lengths <= 1.0 + 1e-12).all()
