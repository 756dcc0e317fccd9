"""Rows in files: the bits of rows in memory, and one sentence for a file that is not right."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillspace._checks import checked_bytes
from stillspace._frozen import FrozenArray
from stillspace.exceptions import DataFileError
from stillspace.parts.queries import Glad, GladCost, SecondMoment
from stillspace.rows import Affine, FileRows, Fill, MemoryRows, Project, RowTable, Sketch, Sphere
from stillspace.rows.file import LEAST_MEMORY
from stillspace.rows.sources import RowSource, open_source
from tests.conftest import random_basis

N, D = 3001, 23


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, D)).astype(np.float32)
    X[rng.random(X.shape) < 0.02] = np.nan
    X[17] = np.inf
    return X


@pytest.fixture(scope="module")
def folder(tmp_path_factory, cells):
    """The same cells in every format."""
    path = tmp_path_factory.mktemp("files")
    np.save(path / "rows.npy", cells)
    np.save(path / "columns.npy", np.asfortranarray(cells))
    np.save(path / "big-endian.npy", cells.astype(">f4"))
    cells.tofile(path / "cells.raw")
    names = [f"c{j}" for j in range(D)]
    table = pa.table({n: pa.array(cells[:, j], from_pandas=True) for j, n in enumerate(names)})
    assert table.column(0).null_count > 0
    pq.write_table(table, path / "rows.parquet", row_group_size=700)
    for end, compression in (("arrow", None), ("feather", "zstd")):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_file(path / f"rows.{end}", table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=450)
    parts = path / "parts"
    parts.mkdir()
    for k, (low, high) in enumerate([(0, 1000), (1000, 1000), (1000, 1004), (1004, N)]):
        pq.write_table(table.slice(low, high - low), parts / f"part-{k}.parquet")
    (parts / "_SUCCESS").touch()
    return path


FORMATS = {
    "rows.npy": {},
    "columns.npy": {},
    "big-endian.npy": {},
    "cells.raw": {"dtype": "float32", "columns": D},
    "rows.parquet": {},
    "rows.arrow": {},
    "rows.feather": {},
    "parts": {},
}


def sums(rows, seed=1):
    """Sums of several kinds, over all rows and over chosen ones, behind several maps."""
    rng = np.random.default_rng(seed)
    V, chosen = random_basis(rng, D, 2), rng.integers(0, N, 900)
    bounded = rows.through(Affine.of(np.full(D, 0.1), holes=True)).through(Sphere())
    narrow = bounded.through(Project(FrozenArray.of(random_basis(rng, D, 6)))).through(Sphere())
    pairs = rows.through(Affine.of(holes=True)).paired(rng.permutation(N)[:1000].reshape(500, 2))
    sketched = rows.through(Affine.of(holes=True)).through(Sketch(D, 12)).through(Sphere())
    filled = rows.through(Affine.of(np.full(D, 0.1), holes=True))
    filled = filled.through(Fill(FrozenArray.of(V))).through(Sphere())
    return [
        filled.add(Glad(D, 2), V, None),
        filled.add(SecondMoment(D), np.empty((0, 0)), chosen),
        bounded.add(Glad(D, 2), V, None),
        bounded.add(Glad(D, 2), V, chosen),
        bounded.add(GladCost(D, 2), V, None),
        bounded.add(SecondMoment(D), np.empty((0, 0)), None),
        narrow.add(Glad(6, 2), random_basis(rng, 6, 2), None),
        narrow.add(SecondMoment(6), np.empty((0, 0)), chosen),
        pairs.through(Sphere()).add(Glad(D, 2), V, None),
        sketched.add(Glad(12, 2), random_basis(rng, 12, 2), None),
        bounded.distances(V),
    ]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("limit", ["little", "usual"])
def test_sums_over_a_file_have_the_bits_of_sums_in_memory(folder, cells, name, limit, monkeypatch):
    rows = FileRows.open(folder / name, memory=LEAST_MEMORY, **FORMATS[name])
    if limit == "little":  # windows of 97 rows, and no narrow rows in memory
        rows.table.reader.rows = 97
        monkeypatch.setattr("stillspace.rows.file.KEPT_SHARE", 0.0)
    for got, want in zip(sums(rows), sums(MemoryRows.of(cells)), strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("limit", ["little", "usual"])
def test_a_scattered_part_of_the_rows_is_read_in_one_sweep(
    folder, cells, name, limit, monkeypatch, job_cells
):
    """Every eighth row at random, in several jobs: no row is read twice, and no row by itself."""
    job_cells(512 * D)
    monkeypatch.setattr("stillspace.rows.sums.allowed_threads", lambda: 1)
    rows = FileRows.open(folder / name, memory=LEAST_MEMORY, **FORMATS[name])
    if limit == "little":
        rows.table.reader.rows = 97
    rng = np.random.default_rng(2)
    V, chosen = random_basis(rng, D, 2), np.flatnonzero(rng.integers(8, size=N) == 3)
    want = MemoryRows.of(cells).through(Sphere()).add(Glad(D, 2), V, chosen)
    bounded, reads = rows.through(Sphere()), []
    read = type(rows.table.source).read

    def counted(source, start, stop):
        reads.append(stop - start)
        return read(source, start, stop)

    monkeypatch.setattr(type(rows.table.source), "read", counted)
    assert np.array_equal(bounded.add(Glad(D, 2), V, chosen), want)
    assert sum(reads) <= N
    assert len(reads) <= 2 * (N // 97 + 1)


@pytest.mark.parametrize("name", FORMATS)
def test_a_source_gives_its_rows_in_any_order(folder, cells, name):
    source = open_source(folder / name, **FORMATS[name])
    assert isinstance(source, RowSource)
    assert source.shape == (N, D)
    named = name not in ("rows.npy", "columns.npy", "big-endian.npy", "cells.raw")
    assert source.names == (tuple(f"c{j}" for j in range(D)) if named else None)
    assert source.dtype == np.float32
    for low, high in ((0, 5), (2990, N), (999, 1005), (0, N), (7, 7)):
        assert np.array_equal(source.read(low, high), cells[low:high], equal_nan=True)
    numbers = np.array([0, 0, 3, 690, 1003, 1003, 3000])
    assert np.array_equal(source.take(numbers), cells[numbers], equal_nan=True)
    again = pickle.loads(pickle.dumps(source))
    assert np.array_equal(again.read(698, 702), cells[698:702], equal_nan=True)
    assert str(N) not in source.describe()
    assert str(folder) in source.describe()
    table = RowTable(source)
    numbers = np.array([2900, 1, 1, 700])
    assert np.array_equal(table[numbers], cells[numbers], equal_nan=True)
    for low, high in ((0, 3), (7, 8), (20, D)):
        assert np.array_equal(table[:, low:high], cells[:, low:high], equal_nan=True)


def test_a_memory_map_is_read_by_position(folder, cells):
    mapped = np.load(folder / "rows.npy", mmap_mode="r")
    for view, want in ((mapped, cells), (mapped[100:200], cells[100:200])):
        assert np.array_equal(open_source(view).read(3, 60), want[3:60], equal_nan=True)


def test_a_file_that_changes_gives_one_sentence(tmp_path, cells):
    path = tmp_path / "X.npy"
    np.save(path, cells)
    table = RowTable.of(path)
    with path.open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(DataFileError, match=r"X\.npy changed while it was in use"):
        table[0:5]
    with pytest.raises(DataFileError, match=r"X\.npy is truncated: .* write the file again"):
        open_source(path)


def test_a_parquet_file_that_changes_or_is_damaged_gives_one_sentence(folder, tmp_path):
    content = bytearray((folder / "rows.parquet").read_bytes())
    path = tmp_path / "X.parquet"
    path.write_bytes(content)
    source = open_source(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataFileError, match=r"X\.parquet changed"):
        source.read(0, 5)
    content[200:20000] = bytes(len(content[200:20000]))
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"part of .*X\.parquet cannot be decoded"):
        open_source(path).read(0, N)
    path.write_bytes(content[:-100])
    with pytest.raises(DataFileError, match="not a readable Parquet file"):
        open_source(path)


def test_what_is_no_table_of_numbers_is_refused_by_name(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "who": ["x"]}), tmp_path / "X.parquet")
    with pytest.raises(DataFileError, match=r"Column 'who' of .*X\.parquet must hold numbers"):
        open_source(tmp_path / "X.parquet")
    assert open_source(tmp_path / "X.parquet", columns=["a"]).shape == (1, 1)
    with pytest.raises(DataFileError, match="no column 'b'"):
        open_source(tmp_path / "X.parquet", columns=["b"])
    np.save(tmp_path / "one.npy", np.arange(3.0))
    with pytest.raises(DataFileError, match=r"two dimensions .rows and columns., got 1"):
        open_source(tmp_path / "one.npy")
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    with pytest.raises(DataFileError, match="must be real numbers"):
        open_source(tmp_path / "words.npy")
    (tmp_path / "X.xyz").touch()
    with pytest.raises(DataFileError, match=r"no known format.*\.npy"):
        open_source(tmp_path / "X.xyz")
    with pytest.raises(DataFileError, match="cannot be opened"):
        open_source(tmp_path / "none.npy")
    (tmp_path / "X.raw").touch()
    with pytest.raises(DataFileError, match="states neither the type nor the shape"):
        open_source(tmp_path / "X.raw", dtype="f4")


def test_part_files_must_have_the_same_columns_and_types(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "b": [2.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [1.0], "c": [2.0]}), tmp_path / "2.parquet")
    with pytest.raises(DataFileError, match="have different columns"):
        open_source(tmp_path)
    single = pa.array([1.0], type=pa.float32())
    pq.write_table(pa.table({"a": single, "b": single}), tmp_path / "2.parquet")
    with pytest.raises(DataFileError, match="have different types"):
        open_source(tmp_path)


def test_integers_with_nulls_become_numbers_with_missing_cells(tmp_path):
    columns = {
        "small": pa.array([1, None, -3], type=pa.int8()),
        "large": pa.array([2**53, None, -7], type=pa.int64()),
        "truth": pa.array([True, None, False]),
        "price": pa.array(["1.25", None, "-2.50"]).cast(pa.decimal128(8, 2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "X.parquet")
    got = open_source(tmp_path / "X.parquet").read(0, 3)
    gone = [np.nan] * 4
    want = np.array([[1.0, 2.0**53, 1.0, 1.25], gone, [-3.0, -7.0, 0.0, -2.5]])
    assert np.array_equal(got, want, equal_nan=True)


def test_sizes_in_words():
    assert checked_bytes("memory", "1.5GB") == 1_500_000_000
    assert checked_bytes("memory", "2 GiB") == 2**31
    for wrong in ("much", -1, 0, True, "1 XB", None):
        with pytest.raises(ValueError, match="such as '512MB'"):
            checked_bytes("memory", wrong)
