"""Differences of pairs of rows: what they hold, in every storage type, bit by bit."""

import numpy as np
import pytest

from stillspace import PrivatePCA
from stillspace import run as run_module
from stillspace.parts.queries import Glad, IrlsPower, SecondMoment
from stillspace.rows import FileRows, LabelledRows, MemoryRows, Sphere, block_columns, draw_pairs
from stillspace.rows import pairs as module
from tests.conftest import random_basis
from tests.rows.test_storage import D, R, genotypes, stored


def plain_differences(X, pairs, scale=1.0, missing=None):
    """The definition, in plain NumPy."""
    A, B = X[pairs[:, 0]].astype(float), X[pairs[:, 1]].astype(float)
    out = (A - B) / scale
    if missing is not None:
        out[(missing == A) | (missing == B)] = 0.0
    norms = np.linalg.norm(out, axis=1, keepdims=True)
    return out / np.where(norms > 0.0, norms, 1.0)


@pytest.mark.parametrize("n", [2, 3, 10, 101])
def test_pairs_are_disjoint_and_leave_at_most_one_row_out(rng, n):
    pairs = draw_pairs(n, rng)
    assert pairs.shape == (n // 2, 2)
    assert len(np.unique(pairs)) == 2 * (n // 2)
    assert pairs.min() >= 0
    assert pairs.max() < n


def test_every_pairing_is_as_likely_as_another(rng):
    # Row 0's partner among 6 rows: chi-square of 4 degrees of freedom, false alarm 1e-7
    partners = np.zeros(6)
    for _ in range(5000):
        pairs = draw_pairs(6, rng)
        mine = pairs[(pairs == 0).any(axis=1)][0]
        partners[mine.sum()] += 1
    chi2 = ((partners[1:] - 1000) ** 2 / 1000).sum()
    assert chi2 < 38.0


@pytest.mark.parametrize("missing", [None, 2, 0])
def test_every_storage_type_gives_the_same_bits(rng, missing):
    X, scale = genotypes(rng, 301), 0.5 + rng.random(D)
    pairs, V = draw_pairs(301, rng), random_basis(rng, D, R)
    want = None
    for A in stored(X).values():
        rows = MemoryRows.prepare(A, scale=scale, missing=missing, pairs=pairs)
        got = [rows.sphered(), *(rows.add(q(D, R), V, None) for q in (Glad, IrlsPower))]
        got.append(rows.add(SecondMoment(D), V, None))
        want = want or got
        assert all(map(np.array_equal, got, want))
    assert rows.n_rows == 150
    assert rows.n_columns == D
    expected = plain_differences(X, pairs, scale, missing)
    np.testing.assert_allclose(want[0], expected, atol=1e-15)
    np.testing.assert_allclose(want[3], expected.T @ expected, atol=1e-12)


def test_a_common_shift_cancels(rng):
    X, pairs = rng.integers(-9, 9, (60, D)).astype(float), draw_pairs(60, rng)
    shifted = MemoryRows.prepare(X + 1024.0, pairs=pairs).sphered()
    assert np.array_equal(MemoryRows.prepare(X, pairs=pairs).sphered(), shifted)
    centred = MemoryRows.prepare(X, center=np.full(D, 3.0), pairs=pairs).sphered()
    assert np.array_equal(centred, shifted)


@pytest.mark.parametrize("query", [Glad(D, R), IrlsPower(D, R), SecondMoment(D)])
def test_selected_pairs(rng, query):
    X, pairs = rng.standard_normal((901, D)), draw_pairs(901, rng)
    rows, V = MemoryRows.prepare(X, pairs=pairs), random_basis(rng, D, R)
    chosen = rng.integers(0, 450, 333)
    plain = MemoryRows(np.ascontiguousarray(rows.sphered()[chosen].T))
    np.testing.assert_allclose(rows.add(query, V, chosen), plain.add(query, V, None), atol=1e-11)
    assert not rows.add(query, V, np.empty(0, dtype=np.int64)).any()


class OneRowAtATime(Glad):
    """The same terms without a compiled run of blocks."""

    __slots__ = ()


def test_compiled_runs_equal_blocks(rng):
    X, V = rng.standard_normal((5001, D)), random_basis(rng, D, R)
    rows = MemoryRows.prepare(X, pairs=draw_pairs(5001, rng))
    got, want = rows.add(Glad(D, R), V, None), rows.add(OneRowAtATime(D, R), V, None)
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_a_pair_has_the_same_bits_among_any_others(rng):
    X = rng.standard_normal((25_003, 7))
    pairs = draw_pairs(25_003, rng)
    all_rows = MemoryRows.prepare(X, pairs=pairs).sphered()
    X[pairs[100:].ravel()] = 7.5  # other neighbours
    few = MemoryRows.prepare(X, pairs=pairs[:37]).sphered()
    assert np.array_equal(all_rows[:37], few)
    other = MemoryRows.prepare(X, pairs=np.concatenate([pairs[900:905], pairs[:37]])).sphered()
    assert np.array_equal(other[5:], few)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_pair_with_a_broken_row_is_a_zero_row(rng, bad):
    X, pairs = rng.standard_normal((20, D)), np.arange(20).reshape(10, 2)
    X[4, 3] = bad
    X[6] = X[7]
    with np.errstate(all="ignore"):
        rows = MemoryRows.prepare(X, pairs=pairs).sphered()
    assert np.flatnonzero(~rows.any(axis=1)).tolist() == [2, 3]
    np.testing.assert_allclose(np.linalg.norm(np.delete(rows, [2, 3], axis=0), axis=1), 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_missing_cell_does_not_hide_a_broken_row(rng, bad):
    """On either side; where both rows are numbers a missing cell is only unknown."""
    X = rng.standard_normal((6, D))
    X[[0, 3], 2], X[[1, 2, 4], 2] = bad, 9.0
    with np.errstate(all="ignore"):
        rows = MemoryRows.prepare(X, missing=9.0, pairs=np.arange(6).reshape(3, 2)).sphered()
    assert not rows[:2].any()
    assert rows[2].any()
    assert rows[2, 2] == 0.0


def test_tiny_and_huge_differences(rng):
    X = rng.standard_normal((4, D))
    X[:2] *= 1e-200
    X[2:] *= 1e200
    rows = MemoryRows.prepare(X, pairs=np.array([[0, 1], [2, 3]])).sphered()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("pairs", [[[0, 3]], [[-1, 0]], [0, 1], [[0, 1, 2]]])
def test_wrong_pairs_are_refused(rng, pairs):
    with pytest.raises(ValueError, match="pairs must"):
        MemoryRows.prepare(rng.standard_normal((3, D)), pairs=np.array(pairs))


@pytest.mark.parametrize(("n", "columns"), [(1000, 7), (1003, 7), (61, 50), (17, 200)])
def test_long_tables_are_paired_block_by_block(rng, monkeypatch, n, columns):
    monkeypatch.setattr(module, "PAIR_CELLS", 350)
    pairs = draw_pairs(n, rng, columns)
    assert pairs.shape == (n // 2, 2)
    assert len(np.unique(pairs)) == 2 * (n // 2)
    assert (pairs.min(), pairs.max()) >= (0, n - 2)
    assert pairs.max() < n
    length = module.pair_block(n, columns)
    assert length * columns <= 350 or length == 1
    blocks = n // length // 2 * 2
    inside = pairs[: blocks // 2 * length] // length
    assert (inside < blocks).all()
    partner = {}
    for a, b in inside.tolist():
        assert a != b
        assert partner.setdefault(a, b) == b
    assert len(partner) == len(set(partner.values())) == blocks // 2
    assert not np.array_equal(pairs, draw_pairs(n, rng, columns))


def test_partners_of_blocks_and_of_rows_are_uniform(rng, monkeypatch):
    # Row 0 of 12 rows in 4 blocks of 3: nine partners. Chi-square, 8 degrees, false alarm 1e-7
    monkeypatch.setattr(module, "PAIR_CELLS", 3)
    counts = np.zeros(12)
    for _ in range(4500):
        pairs = draw_pairs(12, rng, 1)
        mine = pairs[(pairs == 0).any(axis=1)][0]
        counts[mine.sum()] += 1
    assert (counts[:3] == 0).all()
    assert ((counts[3:] - 500) ** 2 / 500).sum() < 49.0


def test_rows_in_memory_are_paired_with_any_other_row(rng, monkeypatch):
    """So the law of the pairing does not depend on the order of the rows, in tables of any size."""
    monkeypatch.setattr(module, "PAIR_CELLS", 60)
    X = rng.standard_normal((400, D))
    memory, file = MemoryRows.of(X), FileRows.open(Counting(X))
    labelled = LabelledRows(memory, np.zeros(400, dtype=np.int64))
    assert [block_columns(rows) for rows in (memory, labelled, file)] == [None, None, D]
    length, drawn = module.pair_block(*X.shape), []
    real = run_module.draw_pairs
    monkeypatch.setattr(run_module, "draw_pairs", lambda *a: drawn.append(real(*a)) or drawn[-1])
    for rows in (memory, file):
        PrivatePCA(R, center="pairs", epsilon=5.0).fit(rows)
    blocks = [set(map(tuple, np.sort(pairs // length, axis=1).tolist())) for pairs in drawn]
    assert len(blocks[0]) > 100  # of 200 pairs, hardly two lie in the same two blocks
    assert len(blocks[1]) <= 400 // length


class Counting:
    """A source that counts how many rows are read, and how often."""

    def __init__(self, X):
        self.X, self.shape, self.dtype, self.names = X, X.shape, X.dtype, None
        self.rows = self.reads = 0

    def read(self, start, stop):
        self.rows, self.reads = self.rows + stop - start, self.reads + 1
        return self.X[start:stop].copy()

    def take(self, numbers):
        self.rows, self.reads = self.rows + len(numbers), self.reads + len(numbers)
        return self.X[numbers]

    def describe(self):
        return "rows that are counted"


def test_a_pass_over_pairs_reads_each_block_of_a_file_once(rng, monkeypatch):
    monkeypatch.setattr(module, "PAIR_CELLS", 600 * D)
    X = rng.standard_normal((5003, D)).astype(np.float32)
    pairs, V = draw_pairs(len(X), rng, D), random_basis(rng, D, R)
    source = Counting(X)
    rows = FileRows.open(source).paired(pairs).through(Sphere())
    assert len(X) - 1 <= source.rows <= len(X)
    want = MemoryRows.of(X).paired(pairs).through(Sphere()).add(Glad(D, R), V, None)
    source.rows = source.reads = 0
    assert np.array_equal(rows.add(Glad(D, R), V, None), want)
    assert source.rows <= len(X)
    assert source.reads <= len(X) // module.pair_block(*X.shape) + 1
