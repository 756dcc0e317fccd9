"""Rows of long tables, whose inverse norms are computed in every pass: same bits, less memory."""

import tracemalloc

import numpy as np
import pytest

from stillspace._frozen import FrozenArray
from stillspace.parts.queries import AngleCounts, FourthMoment, Glad, SecondMoment
from stillspace.rows import MemoryRows, memory, stored
from stillspace.rows.maps import Affine, Caps, Clip, LeaveOut, Lengths, Project, Sphere, Without

N, D, R = 1500, 20, 3
NOWHERE = np.empty((D, 0))


def table(rng, dtype):
    """Half of the rows near a plane; some zero, not finite, very long or very short."""
    X = rng.standard_normal((N, D)) * 3.0
    X[::2, R:] *= 1e-4
    X[5] = 0.0
    X[40, 1] = 7.0
    if dtype.startswith("float"):
        X[7, 3], X[8, 2], X[40, 2] = np.inf, np.nan, np.nan
        X[11] *= 1e30
        X[12] *= 1e-30
    if dtype == "float64":
        X[13] *= 1e160
        X[14] *= 1e-190
    kind = dtype.removesuffix(" by columns")
    X = np.rint(X).astype(kind) if kind == "int8" else X.astype(kind)
    return np.asfortranarray(X) if dtype.endswith("columns") else X


def both(monkeypatch, X, maps):
    """Return rows behind maps whose numbers are kept, and rows whose numbers are not."""
    found = []
    for most in (N, 0):
        monkeypatch.setattr(memory, "MOST_NUMBERS", most)
        rows = MemoryRows.of(X)
        for row_map in maps:
            rows = rows.through(row_map)
        found.append(rows)
    return found


@pytest.mark.parametrize("bound", [Sphere(), Clip(2.0)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "float64 by columns"])
def test_numbers_that_are_not_kept_change_no_bit(rng, monkeypatch, dtype, bound):
    V = np.linalg.qr(rng.standard_normal((D, R)))[0]
    caps = Caps(FrozenArray.of(V[:, :1]), FrozenArray.of(np.array([0.6])))
    affine = Affine.of(rng.random(D), 0.5 + rng.random(D), 7.0, holes=True)
    chosen = np.sort(rng.choice(N, N // 3, replace=False))
    asked = [
        (Glad(D, R), V),
        (SecondMoment(D), NOWHERE),
        (FourthMoment(D, R), V),
        (AngleCounts(D, R, 12), V / 2.0),
    ]
    for maps in ((bound,), (affine, bound), (affine, bound, caps), (bound, LeaveOut(9.0), caps)):
        kept, measured = both(monkeypatch, table(rng, dtype), maps)
        assert isinstance(kept._factors, np.ndarray)
        assert isinstance(measured._factors, stored.Norms)
        assert kept.sphered().tobytes() == measured.sphered().tobytes()
        assert kept.lengths(chosen).tobytes() == measured.lengths(chosen).tobytes()
        assert kept.distances(V).tobytes() == measured.distances(V).tobytes()
        for query, point in asked:
            for selection in (None, chosen, chosen[::-1].copy()):
                want = kept.add(query, point, selection)
                assert want.tobytes() == measured.add(query, point, selection).tobytes()
        for row_map in (Lengths(), Project(FrozenArray.of(V))):
            a, b = (rows.through(row_map) for rows in (kept, measured))
            assert a.sphered().tobytes() == b.sphered().tobytes()


def test_rows_that_lost_their_cells_stay_left_out_of_long_tables(rng, monkeypatch):
    V = np.linalg.qr(rng.standard_normal((D, R)))[0]
    caps = Caps(FrozenArray.of(V[:, :1]), FrozenArray.of(np.array([0.2])))
    affine = Affine.of(rng.random(D), 0.5 + rng.random(D))
    X = table(rng, "float64")
    kept, measured = both(monkeypatch, X, (Without(affine, caps), affine, Sphere()))
    assert kept.sphered().tobytes() == measured.sphered().tobytes()
    assert np.count_nonzero(measured.lengths() == 0.0) > N // 10
    for query, point in ((Glad(D, R), V), (SecondMoment(D), NOWHERE)):
        want = kept.add(query, point, None)
        assert want.tobytes() == measured.add(query, point, None).tobytes()


@pytest.mark.parametrize("exponent", [-1074, -1070, -600, -535, -510, -301, 0, 349, 511, 1020])
def test_eight_rows_of_one_size_have_the_bits_of_each_alone(rng, exponent):
    """Eight rows are measured at once only if no square of theirs lost a bit."""
    X = np.ldexp(rng.uniform(0.5, 8.0, (8, 3)), exponent)
    together = MemoryRows.prepare(X).sphered()
    for row, x in zip(together, X, strict=True):
        assert row.tobytes() == MemoryRows.prepare(x[None]).sphered().tobytes()
    assert (np.linalg.norm(together, axis=1) <= 1.0 + 2.0**-50).all()


def test_rows_near_the_largest_number_stay_inside_the_ball(rng):
    """Their inverse norms are denormal numbers, which rounding moves by far more than usual."""
    X = np.ldexp(rng.uniform(0.5, 1.0, (64, 300)), 1024)
    lengths = np.linalg.norm(MemoryRows.prepare(X).sphered().astype(np.longdouble), axis=1)
    assert (lengths <= 1.0).all()
    assert (lengths > 1.0 - 2.0**-39).all()


def test_long_tables_keep_no_number_per_row(rng):
    X = rng.standard_normal((memory.MOST_NUMBERS + 1, 2), dtype=np.float32)
    V = np.eye(2)[:, :1]
    MemoryRows.prepare(X[:1000]).add(Glad(2, 1), V, None)  # what is compiled takes memory, too
    tracemalloc.start()
    try:
        MemoryRows.prepare(X).add(Glad(2, 1), V, None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(X)
