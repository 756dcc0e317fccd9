"""The public random projection."""

import json

import numpy as np
import pytest
from scipy import sparse

from stillspace import Budget, PrivateRobustPCA
from stillspace.estimators._planning import widest
from stillspace.exceptions import BudgetExceededError
from stillspace.rows import Sketch


def test_it_is_the_matrix_and_columns_have_unit_norm(rng):
    sketch = Sketch(50, 16, seed=3)
    X, S = rng.standard_normal((7, 50)), Sketch(50, 16, seed=3).matrix()
    np.testing.assert_allclose(sketch.apply(X), X @ S.T, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(S, axis=0), 1.0)
    assert ((S != 0).sum(axis=0) == 8).all()
    assert not np.array_equal(S, Sketch(50, 16, seed=4).matrix())


def test_public_facts_are_applied_before_it(rng):
    X = rng.integers(0, 3, (70, 40)).astype(np.int8)
    X[3, 5] = 9
    center, scale = np.ones(40), rng.uniform(1, 2, 40)
    cells = np.where(X == 9, 0.0, (X - center) / scale)
    sketch = Sketch(40, 10)
    made = sketch.apply(X, center=center, scale=scale, missing=9)
    np.testing.assert_allclose(made, cells @ sketch.matrix().T, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.int8, sparse.csr_array])
def test_storage_types_agree(rng, kind):
    X = rng.integers(-2, 3, (30, 64)).astype(np.float64)
    stored = kind(X) if kind is sparse.csr_array else X.astype(kind)
    sketch = Sketch(64, 12)
    np.testing.assert_array_equal(sketch.apply(stored), sketch.apply(X))


def test_a_row_has_the_same_bits_wherever_it_stands(rng):
    """Under add-or-remove-one nobody's projection may depend on the presence of others."""
    X = rng.standard_normal((200, 90))
    whole = Sketch(90, 24).apply(X)
    for first, last in ((0, 1), (1, 200), (63, 66), (17, 130)):
        np.testing.assert_array_equal(Sketch(90, 24).apply(X[first:last]), whole[first:last])


def test_a_broken_row_stays_alone(rng):
    X = rng.standard_normal((100, 30))
    good = Sketch(30, 9).apply(X)
    X[40, 3] = np.nan
    made = Sketch(30, 9).apply(X)
    assert not np.isfinite(made[40]).all()
    np.testing.assert_array_equal(np.delete(made, 40, 0), np.delete(good, 40, 0))


def test_lengths_are_kept_on_average():
    """E‖Sx‖² = ‖x‖²: the mean of 400 seeds within 6 standard errors (false alarm below 1e-8)."""
    x = np.random.default_rng(0).standard_normal((1, 300))
    found = [np.sum(Sketch(300, 20, seed).apply(x) ** 2) for seed in range(400)]
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - np.sum(x**2)) < 6 * error


def test_it_is_kept_as_seed_and_sizes():
    sketch = Sketch(100, 20, 7, 4)
    assert Sketch.from_dict(json.loads(json.dumps(sketch.to_dict()))) == sketch
    with pytest.raises(ValueError, match="format 9"):
        Sketch.from_dict({**sketch.to_dict(), "format": 9})


def test_the_entries_never_change():
    """A stored seed must give the same projection in every version: the first entries by hand."""
    words = np.random.Philox(key=0).random_raw(2)
    S = Sketch(2, 5, 0, 1).matrix()
    for column, word in enumerate(int(w) for w in words):
        (row,) = np.flatnonzero(S[:, column])
        assert row == (word >> 1) % 5
        assert S[row, column] == (1.0 if word & 1 else -1.0)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ((0, 5), "n_features of a sketch"),
        ((10, 2.5), "n_components of a sketch"),
        ((10, 5, -1), "seed of a sketch"),
        ((10, 5, 0, 6), "nonzeros=6 is above n_components=5"),
        ((10, True), "n_components of a sketch"),
    ],
)
def test_wrong_facts(facts, sentence):
    with pytest.raises(ValueError, match=sentence):
        Sketch(*facts)


def test_wrong_number_of_columns(rng):
    with pytest.raises(ValueError, match="made for 10 columns; the rows have 9"):
        Sketch(10, 8).apply(rng.standard_normal((3, 9)))


def test_memory_limits_the_sketch_before_the_charge(tmp_path):
    """What the limit costs is told, from public facts alone."""
    assert widest(10**9) == 3227
    X = np.random.default_rng(0).standard_normal((900, 4000)).astype(np.float32)
    budget = Budget(tmp_path / "ledger", epsilon=1.0, delta=1e-5)
    fit = PrivateRobustPCA(2, epsilon=4.0, delta=1e-6, memory="20MB", budget=budget)
    told = r"takes 456 columns instead of \d+.*\d\.\d times as much"
    with pytest.warns(UserWarning, match=told), pytest.raises(BudgetExceededError):
        fit.fit(X)
    assert not budget.entries()
