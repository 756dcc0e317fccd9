"""HDF5, AnnData, Zarr, PLINK and Dask: the rows of an array, with its bits."""

import os
import pickle
from pathlib import Path

import bed_reader
import dask.array
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from scipy import sparse
from typer.testing import CliRunner

from stillspace import Budget, PrivateRobustPCA
from stillspace.cli.app import app
from stillspace.exceptions import DataFileError
from stillspace.parts.queries import Glad, SecondMoment
from stillspace.rows import Affine, FileRows, MemoryRows, RowTable, Sphere
from stillspace.rows.reading import WINDOW_SHARE
from stillspace.rows.sources import SUFFIXES, RowSource, open_source
from stillspace.rows.sources.plink import rewritten
from tests.conftest import random_basis

N, D = 403, 30


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_every_format_is_listed(suffix):
    assert f"`{suffix}`" in (DOCS / "scale.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def dense():
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(1)
    return sparse.csr_matrix(rng.poisson(0.3, (N, D)).astype(np.float32))


@pytest.fixture(scope="module")
def calls():
    return np.random.default_rng(2).choice([0.0, 1.0, 2.0, np.nan], (N, D)).astype(np.float32)


def write_csr(group, X):
    group.attrs["encoding-type"] = "csr_matrix"
    group.attrs["shape"] = list(X.shape)
    for name in ("data", "indices", "indptr"):
        create = group.create_dataset if isinstance(group, h5py.Group) else group.create_array
        create(name, data=getattr(X, name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, dense, counts, calls):
    path = tmp_path_factory.mktemp("formats")
    with h5py.File(path / "X.h5", "w") as file:
        file.create_dataset("a/table", data=dense, chunks=(50, D), compression="gzip")
        file.create_dataset("one", data=np.arange(4))
    with h5py.File(path / "X.h5ad", "w") as file:
        write_csr(file.create_group("X"), counts)
        file.create_dataset("layers/dense", data=dense)
        names = [f"gene{j}" for j in range(D)]
        file.create_dataset("var/_index", data=names, dtype=h5py.string_dtype())
        file["var"].attrs["_index"] = "_index"
    array = zarr.create_array(path / "X.zarr", shape=dense.shape, chunks=(64, 16), dtype="f4")
    array[:] = dense
    group = zarr.create_group(path / "csr.zarr")
    write_csr(group.create_group("X"), counts)
    bed_reader.to_bed(path / "people.bed", calls)
    rewritten(path / "people.bed", path / "rows.bed")
    return path


CASES = {
    "X.h5": ("dense", {}),
    "X.h5ad": ("counts", {}),
    "layer": ("dense", {"key": "layers/dense"}),
    "X.zarr": ("dense", {}),
    "csr.zarr": ("counts", {}),
    "rows.bed": ("calls", {}),
    "dask": ("dense", {}),
}


@pytest.fixture(params=CASES)
def opened(request, folder, dense, counts, calls):
    """A source, and the array that it must give."""
    kind, options = CASES[request.param]
    want = {"dense": dense, "counts": counts, "calls": calls}[kind]
    if request.param == "dask":
        return open_source(dask.array.from_array(dense, chunks=(90, 7))), want
    name = "X.h5ad" if request.param == "layer" else request.param
    return open_source(folder / name, **options), want


def array(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


def test_rows_by_their_numbers(opened):
    source, want = opened
    assert isinstance(source, RowSource)
    assert source.shape == (N, D)
    want = array(want)
    for copy in (source, pickle.loads(pickle.dumps(source))):
        for low, high in ((0, 5), (60, 70), (0, N), (N - 1, N), (4, 4)):
            assert np.array_equal(array(copy.read(low, high)), want[low:high], equal_nan=True)
        numbers = np.array([0, 0, 49, 50, 64, 65, 300, 402])
        assert np.array_equal(array(copy.take(numbers)), want[numbers], equal_nan=True)
        assert copy.take(np.empty(0, dtype=np.int64)).shape == (0, D)
    assert str(N) not in source.describe()
    for low, high in ((0, 3), (5, 14), (28, D)):
        found = array(RowTable(source)[:, low:high])
        assert np.array_equal(found, want[:, low:high], equal_nan=True)


@pytest.mark.parametrize("center", [None, np.full(D, 0.3)])
@pytest.mark.parametrize("rows_per_window", [17, 1000])
def test_sums_have_the_bits_of_sums_in_memory(opened, rows_per_window, center):
    source, X = opened
    V = random_basis(np.random.default_rng(3), D, 2)
    numbers = np.random.default_rng(4).integers(0, N, 200)
    rows = FileRows.open(source)
    rows.table.reader.rows = rows_per_window
    view = (Affine.of(center, holes=True), Sphere())
    got, want = (r.through(view[0]).through(view[1]) for r in (rows, MemoryRows.of(X)))
    for chosen in (None, numbers):
        sums = [r.add(Glad(D, 2), V, chosen) for r in (got, want)]
        assert np.array_equal(*sums)


def test_names_of_variables(folder):
    assert open_source(folder / "X.h5ad").names == tuple(f"gene{j}" for j in range(D))


def test_handles(folder, dense, counts):
    with h5py.File(folder / "X.h5", "r") as file:
        for handle in (file, file["a/table"]):
            assert np.array_equal(open_source(handle).read(3, 7), dense[3:7])
    with h5py.File(folder / "X.h5ad", "r") as file:
        assert np.array_equal(open_source(file["X"]).read(3, 7).toarray(), counts[3:7].toarray())
    assert np.array_equal(open_source(zarr.open(folder / "X.zarr")).read(3, 7), dense[3:7])


def test_what_does_not_fit_together_is_refused_by_name(folder, tmp_path, dense):
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = dense, dense
    with pytest.raises(DataFileError, match=r"2 two-dimensional datasets; .*: a, b"):
        open_source(tmp_path / "two.h5")
    with pytest.raises(DataFileError, match="has no 'c'"):
        open_source(tmp_path / "two.h5", key="c")
    with h5py.File(tmp_path / "csc.h5ad", "w") as file:
        file.create_group("X").attrs["encoding-type"] = "csc_matrix"
    with pytest.raises(DataFileError, match=r"holds a csc_matrix; write the matrix as compressed"):
        open_source(tmp_path / "csc.h5ad")
    (tmp_path / "no.h5").write_bytes(b"nothing")
    with pytest.raises(DataFileError, match="not a readable HDF5 file"):
        open_source(tmp_path / "no.h5")
    with pytest.raises(DataFileError, match="not a readable Zarr array"):
        open_source(tmp_path / "none.zarr")
    unknown = dask.array.from_array(dense, chunks=(90, D))
    with pytest.raises(DataFileError, match="compute_chunk_sizes"):
        open_source(unknown[unknown[:, 0] > 0])


def test_a_file_of_hdf5_that_changes(folder, tmp_path):
    path = tmp_path / "X.h5"
    path.write_bytes((folder / "X.h5").read_bytes())
    source = open_source(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataFileError, match=r"X\.h5 changed"):
        source.read(0, 5)


def test_a_damaged_chunk_gives_one_sentence(folder, tmp_path):
    content = bytearray((folder / "X.h5").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4000] = bytes(4000)
    (tmp_path / "X.h5").write_bytes(content)
    with pytest.raises(DataFileError, match=r"A part of HDF5 array.*cannot be decoded"):
        open_source(tmp_path / "X.h5").read(0, N)


def test_a_sparse_matrix_with_columns_outside_of_its_shape(tmp_path, counts):
    with h5py.File(tmp_path / "X.h5ad", "w") as file:
        write_csr(file.create_group("X"), counts)
        file["X/indices"][7] = D
    with pytest.raises(DataFileError, match="outside of its shape; write it again"):
        open_source(tmp_path / "X.h5ad").read(0, N)


def test_convert_writes_what_bed_reader_reads(folder, tmp_path, calls):
    new = rewritten(folder / "people.bed", tmp_path / "small.bed", memory=2**10)
    assert new.read_bytes() == (folder / "rows.bed").read_bytes()
    assert np.array_equal(open_source(new).read(0, N), calls, equal_nan=True)
    assert bed_reader.open_bed(folder / "people.bed").read().shape == (N, D)
    assert new.with_suffix(".fam").read_text() == (folder / "people.fam").read_text()
    with pytest.raises(DataFileError, match=r"small\.bed exists already and is not overwritten"):
        rewritten(folder / "people.bed", new)
    with pytest.raises(DataFileError, match="already in individual-major order"):
        rewritten(folder / "rows.bed", tmp_path / "other.bed")
    with pytest.raises(DataFileError, match=r"rewrite it once: stillspace convert .*people\.bed"):
        open_source(folder / "people.bed")


def test_a_full_disk_leaves_nothing_behind(folder, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataFileError, match=r"cannot be written \(No space left on device\)"):
        rewritten(folder / "people.bed", tmp_path / "new.bed")
    assert not list(tmp_path.iterdir())


def test_files_of_plink_that_do_not_belong_together(folder, tmp_path):
    for end in ("bed", "bim", "fam"):
        (tmp_path / f"X.{end}").write_bytes((folder / f"rows.{end}").read_bytes())
    lines = (tmp_path / "X.fam").read_text().splitlines(keepends=True)
    (tmp_path / "X.fam").write_text("".join(lines[:-1]))
    with pytest.raises(DataFileError, match="do not belong together"):
        open_source(tmp_path / "X.bed")
    (tmp_path / "X.fam").unlink()
    with pytest.raises(DataFileError, match=r"X\.fam cannot be opened"):
        open_source(tmp_path / "X.bed")


def test_the_command_converts(folder, tmp_path):
    run = CliRunner().invoke(app, ["convert", str(folder / "people.bed"), str(tmp_path / "n.bed")])
    assert run.exit_code == 0, run.output
    assert (tmp_path / "n.bed").read_bytes() == (folder / "rows.bed").read_bytes()
    again = CliRunner().invoke(app, ["convert", str(folder / "rows.bed"), str(tmp_path / "n.bed")])
    assert again.exit_code != 0
    assert "already in individual-major order" in again.output


@pytest.mark.parametrize("rows_per_window", [700, 10_000])
def test_sparse_files_have_the_jobs_of_sparse_rows_in_memory(tmp_path, rows_per_window):
    """Several blocks and jobs; chosen rows, too."""
    n, columns = 9001, 300
    X = sparse.random(n, columns, 0.02, format="csr", random_state=1, dtype=np.float32)
    with h5py.File(tmp_path / "X.h5ad", "w") as file:
        write_csr(file.create_group("X"), X)
    rows = FileRows.open(tmp_path / "X.h5ad")
    rows.table.reader.rows = rows_per_window
    V = random_basis(np.random.default_rng(3), columns, 2)
    got, want = (r.through(Sphere()) for r in (rows, MemoryRows.of(X)))
    for chosen in (None, np.random.default_rng(4).integers(0, n, 5000)):
        for query in (Glad(columns, 2), SecondMoment(columns)):
            assert np.array_equal(*(r.add(query, V, chosen) for r in (got, want)))


def test_parts_that_are_sparse_and_parts_that_are_not_make_no_table(tmp_path, dense, counts):
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        write_csr(file.create_group("X"), counts)
    np.save(tmp_path / "b.npy", counts.toarray())
    with pytest.raises(DataFileError, match="have different types"):
        open_source(tmp_path)


def test_a_part_of_a_file_is_named_in_its_path(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["first"], file["deep/second"] = X, -X
    with pytest.raises(DataFileError, match=r"2 two-dimensional datasets; name one .*deep/second"):
        open_source(tmp_path / "X.h5")
    assert np.array_equal(open_source(f"{tmp_path}/X.h5::deep/second").read(0, 4), -X)
    with pytest.raises(DataFileError, match="has no 'third'"):
        open_source(f"{tmp_path}/X.h5::third")
    out = ["-o", str(tmp_path / "m.npz"), "--without-privacy", "-r", "1"]
    done = CliRunner().invoke(app, ["fit", f"{tmp_path}/X.h5::first", *out])
    assert done.exit_code == 0, done.output


def test_pieces_that_are_too_large_are_refused_before_the_charge(tmp_path):
    """A chunk, a row group of many columns, and a record batch must be decoded at once."""
    X = np.zeros((40_000, 120), dtype=np.float32)
    columns = pa.table({f"c{j}": X[:, j] for j in range(120)})
    pq.write_table(columns, tmp_path / "X.parquet", use_dictionary=False)
    with pa.ipc.new_file(tmp_path / "X.arrow", columns.schema) as file:
        file.write_table(columns)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=X.shape)
    zarr.create_array(str(tmp_path / "X.zarr"), data=X, chunks=X.shape)
    budget = Budget(tmp_path / "ledger", epsilon=1.0, delta=1e-5)
    for end in ("parquet", "arrow", "h5", "zarr"):
        private = PrivateRobustPCA(2, epsilon=1.0, delta=1e-6, budget=budget, memory="17MB")
        with pytest.raises(DataFileError, match=rf"X\.{end} is written in pieces that take .* MB"):
            private.fit(tmp_path / f"X.{end}")
        assert RowTable.of(tmp_path / f"X.{end}", "200MB").shape == X.shape
        # Where the number of rows is secret, a refusal would tell of it.
        assert RowTable.of(tmp_path / f"X.{end}", "17MB", hidden=True).shape == X.shape
    assert not budget.entries()


def test_windows_end_where_chunks_end(tmp_path):
    """So that no chunk is decoded twice in a pass, if windows are larger than chunks."""
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_dataset("X", shape=(100_000, 50), chunks=(3000, 50), dtype="f4")
    assert RowTable.of(tmp_path / "X.h5", "32MB").reader.rows == 9000


@pytest.mark.parametrize("name", ["X.h5ad", "X.zarr"])
def test_windows_of_sparse_rows_keep_the_memory_where_few_rows_store_most_cells(tmp_path, name):
    X = sparse.random(9000, 500, 0.002, format="lil", random_state=1, dtype=np.float32)
    X[4000:4500] = np.random.default_rng(2).standard_normal((500, 500))
    if name == "X.zarr":
        write_csr(zarr.create_group(tmp_path / name).create_group("X"), X.tocsr())
    else:
        with h5py.File(tmp_path / name, "w") as file:
            write_csr(file.create_group("X"), X.tocsr())
    table = RowTable.of(tmp_path / name, "17MB")
    bound = int(table.memory * WINDOW_SHARE)
    windows = [table.source.read(a, min(a + table.reader.rows, 9000)) for a in _every(table)]
    sizes = [X.data.nbytes + X.indices.nbytes + X.indptr.nbytes for X in windows]
    assert bound / 8 < max(sizes) <= bound + 8
    assert sum(X.shape[0] for X in windows) == 9000


def _every(table):
    return range(0, table.shape[0], table.reader.rows)


def test_a_damaged_page_of_parquet_is_noticed_where_it_has_a_checksum(tmp_path):
    columns = {f"c{j}": np.arange(5000.0) + j for j in range(3)}
    path = tmp_path / "X.parquet"
    facts = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(pa.table(columns), path, **facts)
    cells = bytearray(path.read_bytes())
    cells[9000] ^= 255
    path.write_bytes(cells)
    with pytest.raises(DataFileError, match=r"X\.parquet cannot be decoded"):
        open_source(path).read(0, 5000)
