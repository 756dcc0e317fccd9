"""One row never changes how another row is read: lists, tuples and frames of mixed cells."""

from collections import UserList, deque
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.estimators._tables import as_array, checked_array
from stillspace.rows import MemoryRows

RNG = np.random.default_rng(5)
CELLS = RNG.standard_normal((40, 3))
AT = 7


def read(X, **facts):
    """The bits of all rows, as a fit reads them, but for the row that is replaced."""
    checked = checked_array(PrivatePCA(center=None), X, reset=True, min_samples=2, finite=False)
    rows = MemoryRows.prepare(checked, **facts).sphered()
    return np.delete(rows, AT, axis=0).tobytes()


TYPES = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "longdouble": np.longdouble,
    "Python": float,
    "int64": lambda x: np.int64(x * 2.0**60) + 1,
    "uint8": lambda x: np.uint8(abs(x) * 50),
    "large": lambda x: int(x * 2.0**70) + 1,
    "decimal": lambda x: Decimal(repr(float(x))),
    "bool": lambda x: bool(x > 0),
    "text": lambda x: repr(float(x)),
    "bytes": lambda x: repr(float(x)).encode(),
}
OTHERS = {
    "text": ["1", "0", "0"],
    "long text": ["0." + "1" * 60, " 2 ", "1e-3"],
    "bytes": [b"1", b"0", b"0"],
    "None": [None, 1.0, 2.0],
    "NA": [pd.NA, pd.NA, pd.NA],
    "float64": [0.1, 0.2, 0.3],
    "longdouble": list(np.ones(3, dtype=np.longdouble) / 3),
    "huge": [10**400, 2**64, -(2**63)],
    "decimal": [Decimal("0.1"), Decimal("NaN"), 1],
    "array": np.array([1.0, 2.0, 3.0], dtype=np.float16),
    "array of text": np.array(["1", "2", "3"]),
    "mixed": ["1", np.float32(0.1), None],
}
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "UserList": UserList,
    "deque": deque,
}


def table(kind):
    make = TYPES[kind]
    return [[make(x) for x in row] for row in CELLS]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("missing", [None, 0.1])
def test_a_replaced_row_of_a_list_leaves_all_other_bits(kind, missing):
    X = table(kind)
    X[3][1] = TYPES[kind](0.1)
    before = read(X, missing=missing)
    for other in OTHERS.values():
        changed = [*X[:AT], other, *X[AT + 1 :]]
        for container in CONTAINERS.values():
            assert read(container(changed), missing=missing) == before


@pytest.mark.parametrize("kind", TYPES)
def test_a_row_in_text_reads_as_the_row_itself(kind):
    X = table(kind)
    spelled = [*X[:AT], [str(float(x)) for x in X[AT]], *X[AT + 1 :]]
    assert np.array_equal(as_array(spelled), as_array(X))
    assert as_array(X).dtype == np.float64


def test_cells_are_converted_as_python_does():
    X = [[np.float32(0.1), "0.1", 2**53 + 1], [Decimal("0.3"), b"1e5", None]]
    assert np.array_equal(
        as_array(X), [[float(np.float32(0.1)), 0.1, 2.0**53], [0.3, 1e5, np.nan]], equal_nan=True
    )


def test_the_published_sum_moves_by_no_more_than_its_bound(monkeypatch):
    """What a hostile review found: float32 cells were read again from their decimals."""
    from stillspace.plans.release import Release

    rows = [[np.float32(0.1), np.float32(0.2), np.float32(0.3)] for _ in range(300)]
    totals = []
    real = Release.noisy_mean

    def noisy_mean(release, total, draw):
        totals.append(np.array(total))
        return real(release, total, draw)

    monkeypatch.setattr(Release, "noisy_mean", noisy_mean)
    for X in (rows, [["1", "0", "0"], *rows[1:]]):
        PrivatePCA(1, center=[float(x) for x in rows[-1]]).fit(X)
    assert np.linalg.norm(totals[0] - totals[1]) <= np.sqrt(2.0)


def frames(cells):
    """Frames whose dtype, as NumPy would see it, depends on a single cell."""
    yield pd.DataFrame({j: pd.Series(list(c), dtype=object) for j, c in enumerate(cells.T)})
    floats = cells.astype(np.float32)
    for dtype in ("Float32", "Float64", "float32", "float64"):
        yield pd.DataFrame({str(j): pd.Series(c, dtype=dtype) for j, c in enumerate(floats.T)})
    mixed = pd.DataFrame({str(j): pd.Series(c, dtype="Float32") for j, c in enumerate(floats.T)})
    mixed["1"] = pd.Series((cells[:, 1] * 2.0**60).astype(np.int64) + 1, dtype="Int64")
    yield mixed
    mixed = mixed.copy()
    mixed["1"] = pd.Series([str(x) for x in cells[:, 1]], dtype="string")
    yield mixed


@pytest.mark.parametrize("which", range(7))
@pytest.mark.parametrize("missing", [None, 0.1])
def test_a_missing_cell_of_a_frame_leaves_all_other_bits(which, missing):
    cells = CELLS.copy()
    cells[3, 1] = 0.1
    X = list(frames(cells))[which]
    before = read(X, missing=missing)
    for value in (None, np.nan, pd.NA):
        other = X.copy()
        for j in range(3):
            column = other.columns[j]
            gap = np.nan if isinstance(other.dtypes.iloc[j], np.dtype) else value
            other.loc[AT, column] = gap
        assert list(other.dtypes) == list(X.dtypes)
        assert read(other, missing=missing) == before


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Int8, pl.Int16, pl.Int64, pl.Float64])
@pytest.mark.parametrize("missing", [None, 0.1, 1.00000001])
def test_a_null_of_a_polars_frame_leaves_all_other_bits(dtype, missing):
    cells = CELLS * 40 if dtype.is_integer() else CELLS
    X = {
        str(j): [x.item() for x in c.astype(int if dtype.is_integer() else float)]
        for j, c in enumerate(cells.T)
    }
    X["1"][3] = 1
    other = {name: [*cells[:AT], None, *cells[AT + 1 :]] for name, cells in X.items()}
    schema = dict.fromkeys(X, dtype)
    with_null = read(pl.DataFrame(other, schema=schema), missing=missing)
    assert with_null == read(pl.DataFrame(X, schema=schema), missing=missing)


class Chosen:
    """A table that is float32 if all its cells are, as a container of another library may be."""

    def __init__(self, cells):
        small = cells.astype(np.float32)
        self.array = small if np.array_equal(small, cells) else cells
        self.shape, self.dtype = cells.shape, self.array.dtype

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)


def test_a_type_that_depends_on_a_cell_leaves_all_other_bits():
    cells = CELLS.astype(np.float32).astype(np.float64)
    cells[3, 1] = np.float32(0.1)
    other = cells.copy()
    other[AT] = 0.1
    assert np.asarray(Chosen(cells)).dtype != np.asarray(Chosen(other)).dtype
    for missing in (None, 0.1):
        assert read(Chosen(cells), missing=missing) == read(Chosen(other), missing=missing)


@pytest.mark.parametrize("make", [RobustPCA, PrivatePCA, PrivateRobustPCA])
@pytest.mark.parametrize(
    "row",
    [
        [1.0, 2.0],
        [[1.0], [2.0], [3.0]],
        [1.0, [2.0], 3.0],
        [1.0, 1j, 2.0],
        [1.0, np.complex128(1), "2"],
        [1.0, "918273 Elm Street", 2.0],
        [1.0, np.datetime64("2020-01-01"), 2.0],
        [np.timedelta64(918273, "s")] * 3,
        "abc",
        None,
        918273.0,
        {"a": 1, "b": 2, "c": 3},
    ],
    ids=repr,
)
def test_rows_that_are_no_numbers_are_refused_in_one_sentence(make, row):
    X = table("Python")
    X[AT] = row
    with pytest.raises((ValueError, TypeError), match=r"table|does not convert") as caught:
        make(1).fit(X)
    assert "918273" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("make", [PrivatePCA, PrivateRobustPCA])
@pytest.mark.parametrize("X", [[], [[1.0, 2.0, 3.0]], table("Python"), (), UserList()])
def test_lists_do_not_tell_their_columns_where_the_number_of_rows_is_secret(make, X):
    """An empty list has no columns, and a list with one row has: both are refused alike."""
    hidden = make(1, neighboring_relation="add-or-remove-one", public_size=100)
    with pytest.raises(ValueError, match="pass a NumPy array or a data frame") as caught:
        hidden.fit(X)
    assert str(len(X)) not in str(caught.value)
    hidden.fit(np.reshape(np.array([], dtype=float), (0, 3)))
    hidden.fit(np.ones((1, 3)))


@pytest.mark.parametrize("dtype", ["float64", "Float64", "object"])
def test_the_cells_of_a_frame_are_converted_once(monkeypatch, dtype):
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc")).astype(dtype)
    read, convert = [], pd.DataFrame.__array__
    monkeypatch.setattr(
        pd.DataFrame, "__array__", lambda *args, **more: read.append(1) or convert(*args, **more)
    )
    fit = RobustPCA()
    found = checked_array(fit, frame, reset=True, min_samples=2, finite=True)
    assert read == [1]
    assert list(fit.feature_names_in_) == list("abc")
    np.testing.assert_array_equal(found, np.arange(12.0).reshape(4, 3))
