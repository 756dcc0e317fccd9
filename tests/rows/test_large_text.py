"""Text files that do not fit into the bound on memory: refused before a charge, or converted."""

import gzip
import resource
import shutil
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

from stillspace import Budget, PrivatePCA, RobustPCA
from stillspace.cli.app import app
from stillspace.exceptions import DataFileError
from stillspace.rows.sources import open_source
from stillspace.rows.sources.text import to_parquet

N, D = 60_000, 20
"""19.2 MB while it is read; the least bound is 16.8 MB."""
LEAST = 2**24


@pytest.fixture(scope="module")
def cells():
    return np.random.default_rng(0).integers(-99, 100, (N, D)) / 10


@pytest.fixture(scope="module")
def path(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("text") / "large.csv"
    names = ",".join(f"sensor {j}" for j in range(D))
    np.savetxt(path, cells, fmt="%.1f", delimiter=",", header=names, comments="")
    (path.parent / "large.csv.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    return path


def private(**facts):
    return PrivatePCA(2, epsilon=1.0, delta=1e-6, center=None, scale=None, **facts)


@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_text_file_beyond_the_memory_is_refused_before_the_charge(path, end, tmp_path):
    budget = Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5)
    large = f"{path}{end}"
    for estimator in (private(budget=budget, memory=LEAST), RobustPCA(2, memory=LEAST)):
        with pytest.raises(DataFileError, match=r"is a text file.*stillspace convert.*memory"):
            estimator.fit(large)
    assert budget.entries() == ()
    private(budget=budget, memory="25MB").fit(large)
    assert len(budget.entries()) == 1


def test_part_files_count_together(path, tmp_path):
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    for k in range(2):
        part = [lines[0], *lines[1 + k * N // 2 : 1 + (k + 1) * N // 2]]
        (tmp_path / f"{k}.csv").write_text("".join(part), encoding="utf-8")
    with pytest.raises(DataFileError, match="is read into memory as a whole"):
        private(memory=LEAST).fit(tmp_path)


def test_a_secret_number_of_rows_is_told_by_no_refusal(path):
    """The public size alone decides."""
    facts = {"neighboring_relation": "add-or-remove-one", "memory": LEAST}
    private(public_size=10_000, **facts).fit(path)
    with pytest.raises(DataFileError, match="too little for 90000 rows"):
        private(public_size=90_000, **facts).fit(path)


def test_a_converted_file_has_the_same_cells_and_keeps_the_memory(path, cells, tmp_path):
    new = tmp_path / "rows.parquet"
    done = CliRunner().invoke(app, ["convert", str(path), str(new)])
    assert not done.exit_code, done.output
    source = open_source(new)
    assert source.names == tuple(f"sensor {j}" for j in range(D))
    assert np.array_equal(source.read(0, N), cells)
    private(memory=LEAST).fit(new)
    again = CliRunner().invoke(app, ["convert", str(path), str(new)])
    assert again.exit_code
    assert "is not overwritten" in again.output


def test_what_cannot_be_converted(path, tmp_path):
    wrong = tmp_path / "words.csv"
    wrong.write_text("a,b\n1,2\n" * 1 + "3,x\n" * 3, encoding="utf-8")
    with pytest.raises(DataFileError, match=r"words\.csv") as error:
        to_parquet(wrong, tmp_path / "n.parquet")
    assert "'x'" not in str(error.value)
    for names in (("x.bed", "x.parquet"), ("x.csv", "x.bed"), ("x.csv", "x.csv")):
        done = CliRunner().invoke(app, ["convert", *(str(tmp_path / n) for n in names)])
        assert "convert takes" in done.output
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "no.csv"), str(tmp_path / "n.pq")])
    assert done.exit_code
    assert sorted(p.name for p in tmp_path.iterdir()) == ["words.csv"]


def test_a_full_disk_leaves_nothing_behind(path, tmp_path):
    """The system refuses files beyond a limit, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    source = tmp_path / "large.csv"
    shutil.copy(path, source)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        with pytest.raises(DataFileError, match=r"n\.parquet cannot be written \(File too large"):
            to_parquet(source, tmp_path / "n.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [p.name for p in tmp_path.iterdir()] == ["large.csv"]
