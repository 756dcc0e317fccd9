"""Damaged sparse arrays: one sentence, no crash, no record, and nothing is charged."""

from collections import Counter
from itertools import cycle

import numpy as np
import pytest
from scipy import sparse

from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.estimators import _planning
from stillspace.estimators._sparse import check_sparse

SECRET = 918273.645
N, D = 60, 6
CASES = 500


def table() -> np.ndarray:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6)
    X[3, 2] = SECRET
    X[5, 1] = 1.0
    return X


def far(rng, count):
    """An index outside of 0…count − 1: just outside, or far away."""
    return int(rng.choice([-1, count, -(10**9), 10**9, -(2**31), 2**31 - 1, count + 7]))


def outside(name, count):
    def damage(X, rng):
        part = getattr(X, name)
        part[rng.integers(len(part))] = far(rng, count)

    return damage


def shorter(name):
    def damage(X, rng):
        part = getattr(X, name)
        setattr(X, name, part[: rng.integers(len(part))].copy())

    return damage


def longer(name):
    def damage(X, rng):
        part = getattr(X, name)
        setattr(X, name, np.concatenate([part, part[-1:]]))

    return damage


def typed(name, *types):
    def damage(X, rng):
        dtype = types[rng.integers(len(types))]
        setattr(X, name, getattr(X, name).astype(dtype))

    return damage


def wider(name):
    return lambda X, rng: setattr(X, name, getattr(X, name)[None])


def gone(name, *values):
    return lambda X, rng: setattr(X, name, values[rng.integers(len(values))])


def masked(name):
    return lambda X, rng: setattr(X, name, np.ma.masked_invalid(getattr(X, name)))


def falling(X, rng):
    at = rng.integers(1, len(X.indptr) - 1)
    X.indptr[at] = X.indptr[-1] + rng.integers(1, 10)  # more than all that follow it


def begins_late(X, rng):
    X.indptr[0] = rng.choice([-(10**6), -1, 1])


def ends_late(X, rng):
    X.indptr[-1] += rng.choice([1, 1000, 10**8])


def swapped_coords(X, rng):
    X.coords = X.coords[::-1]  # a row number stands where a column number should


def one_coord(X, rng):
    X.coords = X.coords[:1]


def coord(k, change):
    def damage(X, rng):
        parts = [part.copy() for part in X.coords]
        parts[k] = change(parts[k], rng)
        X.coords = tuple(parts)

    return damage


def far_coord(k):
    def change(part, rng):
        part[rng.integers(len(part))] = far(rng, (N, D)[k])
        return part

    return coord(k, change)


def row_index(X, rng):
    row = next(row for row in X.rows if row)
    row[0] = far(rng, D)


def row_length(X, rng):
    X.data[int(rng.integers(N))].append(1.0)


def row_text(X, rng):
    next(row for row in X.rows if row)[0] = "0"


def row_gone(X, rng):
    X.rows[int(rng.integers(N))] = None


def key(*wrong):
    def damage(X, rng):
        X._dict[wrong[rng.integers(len(wrong))]] = 1.0

    return damage


TYPES = (np.float64, np.uint32, np.int16, np.dtype(np.int32).newbyteorder(), object, bool)
VALUES = (object, "S8", "U8", "V8")
NOTHING = (None, [0, 1, 2], 7)
COMPRESSED = [
    *(shorter(name) for name in ("indptr", "indices", "data")),
    *(longer(name) for name in ("indptr", "indices", "data")),
    *(typed(name, *TYPES) for name in ("indptr", "indices")),
    *(wider(name) for name in ("indptr", "indices", "data")),
    *(gone(name, *NOTHING) for name in ("indptr", "indices", "data")),
    *(masked(name) for name in ("indptr", "indices", "data")),
    typed("data", *VALUES),
    falling,
    begins_late,
    ends_late,
]
DAMAGES = {
    "csr": [*COMPRESSED, outside("indices", D)],
    "csc": [*COMPRESSED, outside("indices", N)],
    "bsr": [*COMPRESSED, outside("indices", D)],
    "coo": [
        swapped_coords,
        one_coord,
        *(far_coord(k) for k in (0, 1)),
        *(coord(k, lambda part, rng: part[: rng.integers(len(part))]) for k in (0, 1)),
        *(coord(k, lambda part, rng: part.astype(TYPES[rng.integers(len(TYPES))])) for k in (0, 1)),
        *(change("data") for change in (shorter, longer, wider, masked)),
        typed("data", *VALUES),
        gone("data", *NOTHING),
    ],
    "dia": [
        *(shorter(name) for name in ("offsets", "data")),
        typed("offsets", *TYPES),
        typed("data", *VALUES),
        *(gone(name, *NOTHING) for name in ("offsets", "data")),
        outside("offsets", 10**6),
        lambda X, rng: setattr(X, "offsets", np.full_like(X.offsets, rng.integers(D))),
    ],
    "lil": [row_index, row_length, row_text, row_gone, shorter("rows"), gone("data", *NOTHING)],
    "dok": [key((N, 0), (0, D), (-1, 0), (10**9, 0), (0, -(10**9)), (0,), (0.5, 0), 3, "ab")],
}
FORMATS = {"csr": 200, "csc": 90, "coo": 90, "bsr": 50, "dia": 30, "lil": 25, "dok": 15}
"""How many cases each format has."""


def damaged(name: str) -> list:
    """Sparse arrays and matrices of a format, each damaged in one way."""
    rng = np.random.default_rng(7)
    found = []
    damages = cycle(DAMAGES[name])
    while len(found) < FORMATS[name]:
        make = getattr(sparse, f"{name}_{('array', 'matrix')[len(found) % 2]}")
        made = make(table())
        if name in ("csr", "csc") and len(found) % 3 == 0:
            made.indptr, made.indices = made.indptr.astype(np.int64), made.indices.astype(np.int64)
        next(damages)(made, rng)
        found.append(made)
    return found


def test_there_are_500_cases():
    assert sum(FORMATS.values()) == CASES
    assert FORMATS.keys() == DAMAGES.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_sparse_arrays_get_one_sentence_and_nothing_is_charged(name, tmp_path, monkeypatch):
    def never(*_args, **_kwargs):
        pytest.fail("a plan was made for a damaged array")

    X = table()
    fitted = [RobustPCA(2, algorithm="pca").fit(X), PrivatePCA(2, center=None).fit(X)]
    monkeypatch.setattr(_planning, "plan_fit", never)  # the charge follows the plan
    budget = Budget(tmp_path / "ledger", 3.0, 1e-5)
    hidden = {"neighboring_relation": "add-or-remove-one", "public_size": 50}
    told = Counter()
    for bad in damaged(name):
        calls = [RobustPCA(2).fit, *(fit.transform for fit in fitted), fitted[0].score]
        calls += [make(2, budget=budget).fit for make in (PrivateRobustPCA, PrivatePCA)]
        calls += [PrivateRobustPCA(2, **hidden).fit]
        for call in calls:
            with pytest.raises(ValueError, match="X is a damaged sparse array") as caught:
                call(bad)
            text = str(caught.value)
            assert f"({name})" in text
            assert text.count(". ") == 0
            assert not {"918273", "10000000", str(N)} & set(text.replace(",", " ").split())
            assert caught.value.__cause__ is None
            told[text] += 1
    assert budget.entries() == ()
    assert sum(told.values()) == 7 * FORMATS[name]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_whole_sparse_arrays_pass(name, kind):
    X = table()
    made = getattr(sparse, f"{name}_{kind}")(X)
    check_sparse(made)
    dense = RobustPCA(2, algorithm="pca").fit(X)
    thin = RobustPCA(2, algorithm="pca").fit(made)
    np.testing.assert_allclose(thin.components_, dense.components_, atol=1e-12)
    np.testing.assert_allclose(thin.transform(made), dense.transform(X), atol=1e-7)


def test_unsorted_repeated_and_unused_entries_are_no_damage():
    made = sparse.csr_array(
        (
            np.array([1.0, 2.0, 3.0, 4.0, 9.0, 9.0]),
            np.array([2, 0, 1, 1, 77, 77]),
            np.array([0, 2, 4, 4, 4]),
        ),
        shape=(4, 3),
    )
    check_sparse(made)
    dense = np.array([[2.0, 0, 1], [0, 7, 0], [0, 0, 0], [0, 0, 0]])
    fit = PrivatePCA(1, center=None).fit(made)
    np.testing.assert_allclose(fit.transform(made), dense @ fit.components_.T, atol=1e-12)


@pytest.mark.parametrize("make", [RobustPCA, PrivateRobustPCA, PrivatePCA])
@pytest.mark.parametrize("name", ["lil", "dok"])
def test_a_text_among_sparse_values_is_not_shown(make, name):
    made = getattr(sparse, f"{name}_array")(table())
    if name == "lil":
        made.data[5][0] = "918273.645 Elm Street"
    else:
        made._dict[5, 1] = "918273.645 Elm Street"
    with pytest.raises(TypeError, match="not a real number") as caught:
        make(2).fit(made)
    assert "918273" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
